"""Training runs: folders with metrics of `kame train`, their configurations and figures."""

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
"""Maximum number of runs on one page, because it has as many colours."""
MetricsLine = dict[str, Any]
"""A line of metrics: `kind`, `step` and figures."""
State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The folder of a training run."""

    key: str
    folder: Path

    @property
    def metrics(self) -> Path:
        """Its metrics file, which may not exist yet."""
        return self.folder / METRICS

    def read_state(self) -> State:
        """Returns whether it is training, has finished, or has stopped before its end.

        A run holds a lock on its folder, which is released when its process ends in any way. The lock of a run on
        another machine cannot be seen: it counts as running if it has written within the last minute.
        """
        if _is_locked(self.folder / _LOCK):
            return "running"
        if (self.folder / _DONE).exists():
            return "finished"
        age_s = self.compute_age_s()
        return "running" if age_s is not None and age_s < _RECENT_S else "stopped"

    def compute_age_s(self) -> float | None:
        """Returns the seconds since its metrics file was last written; None if it has none."""
        try:
            return max(0.0, time.time() - self.metrics.stat().st_mtime)
        except OSError:
            return None

    def read_config(self) -> dict[str, Any]:
        """Returns the content of its `config.json`; empty if that is missing or damaged."""
        try:
            config = json.loads((self.folder / CONFIG).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """Summary of a run. `trained` and `judged` are its newest lines of training and of validation."""

    run: TrainingRun
    state: State
    age_s: float | None
    preset: str
    stage: str
    max_steps: int | None
    trained: MetricsLine
    judged: MetricsLine

    def get_right_figure(self, name: str) -> float | None:
        """Returns a figure of the newest validation with the right oracle; None if there is none."""
        figures = self.judged.get("right")
        return figures.get(name) if isinstance(figures, dict) else None


def list_runs(roots: Sequence[Path]) -> list[TrainingRun]:
    """Returns all runs below the roots, sorted by key."""
    return [TrainingRun(key, folder) for key, folder in sorted(find_folders(roots, _is_run))]


def open_runs(roots: Sequence[Path], keys: Sequence[str]) -> list[TrainingRun]:
    """Returns the runs of some keys, each once, in the order of the keys.

    Raises:
        MissingError: a key has none.
    """
    known = {run.key: run for run in list_runs(roots)}
    for key in keys:
        if key not in known:
            raise MissingError(f"There is no training run {key!r}.", "Choose one from the list of training runs.")
    return [known[key] for key in dict.fromkeys(keys)]


def summarise(run: TrainingRun) -> TrainingSummary:
    """Returns the summary of a run: its state, newest lines of metrics, and main settings."""
    newest = _read_newest(run.metrics, {"train", "evaluation"})
    section = run.read_config().get("config")
    config = section if isinstance(section, dict) else {}
    model, max_steps = config.get("model"), config.get("max_steps")
    return TrainingSummary(
        run,
        run.read_state(),
        run.compute_age_s(),
        str(model.get("preset") or "") if isinstance(model, dict) else "",
        str(config.get("stage") or ""),
        max_steps if isinstance(max_steps, int) else None,
        newest.get("train", {}),
        newest.get("evaluation", {}),
    )


def compare_configs(runs: Sequence[TrainingRun]) -> list[tuple[str, list[str | None]]]:
    """Returns the settings in which runs differ, as pairs of a dotted name and the values of all runs.

    Values are JSON, or None if a run has no such setting. For one run, all of its settings are returned.
    """
    return compare_settings([run.read_config() for run in runs])


def compare_settings(settings: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str | None]]]:
    """Returns the nested settings that differ, as pairs of a dotted name and all values.

    Values are JSON, or None where there is no such setting. If only one is given, all of its settings are returned.
    """
    flat = [dict(_flatten(each)) for each in settings]
    names = list(dict.fromkeys(name for each in flat for name in each))
    rows = [(name, [each.get(name) for each in flat]) for name in names]
    return [row for row in rows if len(settings) == 1 or len(set(row[1])) > 1]


def parse_line(text: bytes) -> MetricsLine | None:
    """Parses a line of metrics; None if it is damaged or has no kind or step."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_line = isinstance(line, dict) and isinstance(line.get("kind"), str) and isinstance(line.get("step"), int)
    return line if is_line else None


def _is_run(folder: Path) -> bool:
    """Returns whether a folder has metrics, or the lock and configuration of a run that has written no line yet."""
    return (folder / METRICS).is_file() or ((folder / _LOCK).is_file() and (folder / CONFIG).is_file())


def _is_locked(path: Path) -> bool:
    """Returns whether a process of this machine holds a file's lock, without trying to lock it."""
    try:
        found, locks = path.stat(), _LOCKS.read_text()
    except OSError:
        return False
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(line.split()[1:2] == ["FLOCK"] and name in line.split() for line in locks.splitlines())


def _read_newest(path: Path, kinds: set[str]) -> dict[str, MetricsLine]:
    """Returns the last complete line of each kind, by kind; kinds without a line in the last 8 MiB are missing."""
    newest: dict[str, MetricsLine] = {}
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
    except OSError:  # there is none yet, or the folder has just been removed
        return newest
    return newest


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields dotted name and JSON value of each setting; what is inside the outermost `config` gets no prefix."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, "" if name == "config" and not prefix else f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value, ensure_ascii=False)
