"""Progress bars of a run on the terminal's error stream, one a stage, with the time that is left."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipelines.runner import Part, PartRecord


class Bars:
    """One bar a stage, counting items; use as `with`. Shows nothing when `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._bars: dict[str, TaskID] = {}

    def stage(self, name: str, n_items: int) -> None:
        """Begins a stage's bar."""
        self._bars[name] = self._progress.add_task(name, total=n_items)

    def part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Moves a stage's bar by a part."""
        self._progress.advance(self._bars[stage], part.n_items)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
