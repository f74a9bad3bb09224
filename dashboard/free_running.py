"""Texts of free running: what a model in training said in validation dialogues, newest first."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from data_schemas.free_running import FREE_RUNNING, FreeLine, read_lines

MOST_STEPS: Final = 50
"""Number of evaluations that a page shows, the newest ones."""
_MOST_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class FreeRunningUpdate:
    """The dialogues of a run's newest evaluations.

    Attributes:
        steps: step and dialogues of each evaluation, newest first.
        n_left_out: number of older evaluations in the file.
        n_damaged: number of lines that cannot be parsed.
    """

    steps: list[tuple[int, list[FreeLine]]]
    n_left_out: int
    n_damaged: int

    def to_json(self) -> dict[str, Any]:
        """Converts it to JSON for the page."""
        return {
            "steps": [
                {"step": step, "dialogues": [each.model_dump(exclude={"step"}) for each in lines]}
                for step, lines in self.steps
            ],
            "n_left_out": self.n_left_out,
            "n_damaged": self.n_damaged,
        }


class FreeRunningFeed:
    """Follows a run's `free_running.jsonl`, which the training replaces as a whole.

    Args:
        folder: folder of the run; the file may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FREE_RUNNING
        self._seen: tuple[int, int, int] | None = None

    def read(self) -> FreeRunningUpdate | None:
        """Returns the newest evaluations; None if the file is as at the last call, or there is none.

        If the file was removed since the last call, an empty update is returned once.
        """
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                seen = (found.st_ino, found.st_size, found.st_mtime_ns)
                if seen == self._seen:
                    return None
                file.seek(max(0, found.st_size - _MOST_BYTES))
                content = file.read(_MOST_BYTES)
        except OSError:
            is_gone, self._seen = self._seen is not None, None
            return FreeRunningUpdate([], 0, 0) if is_gone else None
        self._seen = seen
        if found.st_size > _MOST_BYTES:
            content = content.partition(b"\n")[2]  # without the line that it begins in
        lines, n_damaged = read_lines(content)
        steps: dict[int, list[FreeLine]] = {}
        for each in lines:
            steps.setdefault(each.step, []).append(each)
        newest = sorted(steps.items(), reverse=True)
        return FreeRunningUpdate(newest[:MOST_STEPS], len(newest[MOST_STEPS:]), n_damaged)
