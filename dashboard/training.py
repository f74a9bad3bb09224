"""Training runs: folders in which `kame train` writes its metrics, what each is told and what it has come to."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from dashboard.catalog import MissingError
from dashboard.folders import find_folders

METRICS, CONFIG = "metrics.jsonl", "config.json"
_LOCK, _DONE = ".lock", "DONE"
_LOCKS = Path("/proc/locks")
_RECENT_S: Final = 60.0
_BLOCK_BYTES: Final = 1 << 18
_MOST_TAIL_BYTES: Final = 1 << 23

MOST_RUNS: Final = 8
"""On one page; it has as many colours."""
Line = dict[str, Any]
"""A line of metrics: `kind`, `step` and figures."""
State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A run's folder."""

    key: str
    folder: Path

    @property
    def metrics(self) -> Path:
        """Its file of metrics, which may not be there yet."""
        return self.folder / METRICS

    def state(self) -> State:
        """Whether it trains.

        A run holds a lock on its folder, which ends with its process however that ends. Of a run on another machine
        the lock is not seen: it runs for as long as it has written within the last minute.
        """
        if _is_locked(self.folder / _LOCK):
            return "running"
        if (self.folder / _DONE).exists():
            return "finished"
        age_s = self.age_s()
        return "running" if age_s is not None and age_s < _RECENT_S else "stopped"

    def age_s(self) -> float | None:
        """Seconds since its last line of metrics; None: there is none."""
        try:
            return max(0.0, time.time() - self.metrics.stat().st_mtime)
        except OSError:
            return None

    def config(self) -> dict[str, Any]:
        """What it was told, as its `config.json` says; empty where that is missing or damaged."""
        try:
            told = json.loads((self.folder / CONFIG).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return told if isinstance(told, dict) else {}


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """A run in one line. `trained` and `judged` are its newest lines of training and of validation."""

    run: TrainingRun
    state: State
    age_s: float | None
    preset: str
    stage: str
    max_steps: int | None
    trained: Line
    judged: Line

    def right(self, name: str) -> float | None:
        """A figure of the newest look at validation, with the right oracle; None: it was not taken."""
        figures = self.judged.get("right")
        return figures.get(name) if isinstance(figures, dict) else None


def list_runs(roots: Sequence[Path]) -> list[TrainingRun]:
    """All runs below the roots, in order of their keys."""
    return [TrainingRun(key, folder) for key, folder in sorted(find_folders(roots, _is_run))]


def open_runs(roots: Sequence[Path], keys: Sequence[str]) -> list[TrainingRun]:
    """The runs of some keys, in their order.

    Raises:
        MissingError: there is none of a key.
    """
    known = {run.key: run for run in list_runs(roots)}
    for key in keys:
        if key not in known:
            raise MissingError(f"There is no training run {key!r}.", "Choose one from the list of training runs.")
    return [known[key] for key in dict.fromkeys(keys)]


def summarise(run: TrainingRun) -> TrainingSummary:
    """A run's state and newest lines; only the end of its metrics is read."""
    newest = _read_newest(run.metrics, {"train", "evaluation"})
    told = run.config().get("config")
    config = told if isinstance(told, dict) else {}
    model, max_steps = config.get("model"), config.get("max_steps")
    return TrainingSummary(
        run,
        run.state(),
        run.age_s(),
        str(model.get("preset") or "") if isinstance(model, dict) else "",
        str(config.get("stage") or ""),
        max_steps if isinstance(max_steps, int) else None,
        newest.get("train", {}),
        newest.get("evaluation", {}),
    )


def compare_configs(runs: Sequence[TrainingRun]) -> list[tuple[str, list[str | None]]]:
    """Settings in which runs differ: the dotted name, and each run's value as JSON; None where it has none.

    Of one run they are all of its settings.
    """
    return compare_settings([run.config() for run in runs])


def compare_settings(told: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str | None]]]:
    """Values in which nested settings differ: the dotted name, and each one's value as JSON; of one all of its."""
    flat = [dict(_flatten(each)) for each in told]
    names = list(dict.fromkeys(name for each in flat for name in each))
    rows = [(name, [each.get(name) for each in flat]) for name in names]
    return [row for row in rows if len(told) == 1 or len(set(row[1])) > 1]


def parse_line(text: bytes) -> Line | None:
    """A line of metrics; None where it is damaged."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_line = isinstance(line, dict) and isinstance(line.get("kind"), str) and isinstance(line.get("step"), int)
    return line if is_line else None


def _is_run(folder: Path) -> bool:
    """Whether training has begun there; a lock alone is a run that has not written a line yet."""
    return (folder / METRICS).is_file() or ((folder / _LOCK).is_file() and (folder / CONFIG).is_file())


def _is_locked(path: Path) -> bool:
    """Whether a process of this machine holds a file's lock; looked up, for trying would keep a run from starting."""
    try:
        found, locks = path.stat(), _LOCKS.read_text()
    except OSError:
        return False
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(line.split()[1:2] == ["FLOCK"] and name in line.split() for line in locks.splitlines())


def _read_newest(path: Path, kinds: set[str]) -> dict[str, Line]:
    """The last whole line of each kind, read from the end, at most 8 MB of it."""
    newest: dict[str, Line] = {}
    try:
        with path.open("rb") as file:
            at = end = file.seek(0, os.SEEK_END)
            rest = b""
            while at > 0 and end - at < _MOST_TAIL_BYTES and kinds - newest.keys():
                at -= (n_bytes := min(_BLOCK_BYTES, at))
                file.seek(at)
                lines = (file.read(n_bytes) + rest).split(b"\n")
                if at + n_bytes == end:
                    lines.pop()  # a line that is being written, or nothing
                rest = lines.pop(0) if at and lines else b""
                for line in filter(None, map(parse_line, reversed(lines))):
                    if line["kind"] in kinds:
                        newest.setdefault(line["kind"], line)
    except OSError:  # there is none yet, or the folder was removed meanwhile
        return newest
    return newest


def _flatten(told: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, "" if name == "config" and not prefix else f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value, ensure_ascii=False)
