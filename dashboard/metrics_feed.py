"""Follows a run's metrics file: existing metrics, downsampled, and then new lines."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dashboard.training import MetricsLine, parse_line

N_POINTS: Final = 1000
"""Minimum number of points of a long curve; neighbours of a longer one are averaged, up to twice as many."""
N_NOTES: Final = 100
"""Maximum number of text lines that are kept, such as reports of loss spikes; the newest ones."""
_N_READ_BYTES: Final = 1 << 20
_LARGEST: Final = 1e300

Columns = dict[str, list[float | None]]
"""Values of each point by name, including `step`; None if a line does not have the figure."""


@dataclass(frozen=True, slots=True)
class MetricsUpdate:
    """New content since the last read.

    Attributes:
        is_anew: whether this is all content: the first read, or the file was replaced (a resumed run removes lines
            after its checkpoint).
        curves: columns of each kind of line; names of nested figures are joined by a dot.
        notes: text lines.
        n_damaged: number of lines that cannot be parsed.
    """

    is_anew: bool
    curves: dict[str, Columns]
    notes: list[MetricsLine]
    n_damaged: int

    def to_json(self) -> dict[str, Any]:
        """Converts it to JSON for the page."""
        return {
            "is_anew": self.is_anew,
            "curves": self.curves,
            "notes": [_replace_non_numbers(each) for each in self.notes],
            "n_damaged": self.n_damaged,
        }


class MetricsFeed:
    """Follows a metrics file with constant memory, for any length of the file.

    Args:
        path: path of `metrics.jsonl`, which may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._offset = -1, 0

    def read(self) -> MetricsUpdate | None:
        """Reads the content since the last call; None if there is none or the file cannot be read.

        An incomplete last line is left for later.
        """
        try:
            with self._path.open("rb") as file:
                found = file.seek(0, 2)
                inode = self._path.stat().st_ino
                is_anew = inode != self._inode or found < self._offset
                if not is_anew and found == self._offset:
                    return None
                self._inode, self._offset = inode, 0 if is_anew else self._offset
                update = self._collect(file, is_anew)
        except OSError:
            return None
        return update if update.is_anew or update.curves or update.notes or update.n_damaged else None

    def _collect(self, file: Any, is_anew: bool) -> MetricsUpdate:
        """Parses the new lines: their numbers become points of curves; the newest lines with a list are the notes."""
        curves: dict[str, _Curves] = {}
        notes: list[MetricsLine] = []
        n_damaged = 0
        for text in self._read_lines(file):
            line = parse_line(text)
            if line is None:
                n_damaged += 1
                continue
            figures = dict(_list_numbers(line))
            if len(figures) > 1:
                curves.setdefault(line["kind"], _Curves()).add(figures)
            if any(isinstance(each, list) for each in line.values()):
                notes = [*notes[1 - N_NOTES :], line]
        return MetricsUpdate(is_anew, {kind: each.make_columns() for kind, each in curves.items()}, notes, n_damaged)

    def _read_lines(self, file: Any) -> Iterator[bytes]:
        """Yields the complete lines since the last read, and advances the position of the feed past each."""
        file.seek(self._offset)
        rest = b""
        while read := file.read(_N_READ_BYTES):
            *lines, rest = (rest + read).split(b"\n")
            for each in lines:
                self._offset += len(each) + 1
                yield each


@dataclass(slots=True)
class _Curves:
    """Points that are averaged in pairs when there are too many."""

    points: list[dict[str, tuple[float, int]]] = field(default_factory=list)
    n_a_point: int = 1
    n_in_last: int = 0

    def add(self, figures: Mapping[str, float]) -> None:
        """Adds the figures of a line to the last point, or as a new one; too many points are averaged in pairs."""
        if self.n_in_last % self.n_a_point == 0:
            self.points.append({})
            self.n_in_last = 0
        self.n_in_last += 1
        last = self.points[-1]
        for name, value in figures.items():
            total, n = last.get(name, (0.0, 0))
            last[name] = (total + value, n + 1)
        if len(self.points) == 2 * N_POINTS and self.n_in_last == self.n_a_point:
            self.points = [_merge(*self.points[at : at + 2]) for at in range(0, len(self.points), 2)]
            self.n_a_point *= 2
            self.n_in_last = self.n_a_point

    def make_columns(self) -> Columns:
        """Returns the means of all points by name of the figure; None for points without it."""
        names = dict.fromkeys(name for point in self.points for name in point)
        return {name: [_compute_mean(point.get(name)) for point in self.points] for name in names}


def _merge(one: dict[str, tuple[float, int]], other: dict[str, tuple[float, int]]) -> dict[str, tuple[float, int]]:
    """Returns the sum of two points, each with a sum and a count by name of the figure."""
    both = dict(one)
    for name, (total, n) in other.items():
        before, n_before = both.get(name, (0.0, 0))
        both[name] = (before + total, n_before + n)
    return both


def _compute_mean(summed: tuple[float, int] | None) -> float | None:
    """Returns the mean of a sum and its count, to nine significant digits; None for None."""
    return None if summed is None else float(f"{summed[0] / summed[1]:.9g}")


def _list_numbers(line: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields name and value of each number below 1e300, without NaN; names of nested ones are joined by a dot."""
    for name, value in line.items():
        if isinstance(value, Mapping):
            yield from _list_numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
            yield f"{prefix}{name}", float(value)


def _replace_non_numbers(line: MetricsLine) -> MetricsLine:
    """Returns a line with None in place of NaN and infinity, which JSON in browsers does not support."""
    clean: MetricsLine = json.loads(json.dumps(line), parse_constant=lambda _: None)
    return clean
