"""Texts of dialogues that a front-end runs freely during training, in `free_running.jsonl` of the run's folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from data_schemas.free_running import FREE_RUNNING, FreeDialogue, FreeLine, read_lines
from data_schemas.store import Store

N_KEPT: Final = 4
"""Number of dialogues of an evaluation whose texts are kept."""

MOST_LINES: Final = 1000
"""Maximum number of lines of the file, about 1 MB; the oldest ones are removed."""


class FreeResult(NamedTuple):
    """What was measured by free running.

    Attributes:
        figures: numbers by name.
        dialogues: the first dialogues with their texts; empty if the measure is not about dialogues.
    """

    figures: dict[str, float]
    dialogues: Sequence[FreeDialogue] = ()


class FreeRunningLog:
    """A run's `free_running.jsonl`, which is replaced as a whole, so that it is always complete.

    Lines that cannot be read are removed, and temporary files of killed runs anywhere in the folder.

    Args:
        folder: folder of the run.
        step: number of steps done; lines of later steps, which a killed run wrote, are removed.

    Raises:
        StoreError: the file cannot be read, or the disk is full.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._store = Store(str(folder))
        self._store.sweep()
        self._lines: list[FreeLine] = []
        if self._store.exists(FREE_RUNNING):
            found, _ = read_lines(self._store.read_bytes(FREE_RUNNING))
            self._replace([each for each in found if each.step <= step])

    def write(self, step: int, dialogues: Sequence[FreeDialogue]) -> None:
        """Adds the dialogues of the evaluation at a step; without dialogues nothing is written.

        Raises:
            StoreError: the disk is full.
        """
        if dialogues:
            self._replace([*self._lines, *(FreeLine(step=step, **dict(each)) for each in dialogues)])

    def _replace(self, lines: list[FreeLine]) -> None:
        """Replaces the file by the last `MOST_LINES` of these lines."""
        self._lines = lines[-MOST_LINES:]
        self._store.write_bytes(FREE_RUNNING, "".join(f"{each.model_dump_json()}\n" for each in self._lines).encode())
