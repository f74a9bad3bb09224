"""Progress on the terminal's error stream, with the time that is left: of stages, of training steps, of any count."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

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

if TYPE_CHECKING:
    from pipelines.run.parts import Part, PartRecord


@contextmanager
def show_count(what: str, total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar that is gone when the block ends; gives what moves it by a number."""
    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda n: progress.advance(task, n)


@contextmanager
def show_hours(hours: float, quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[float], None]]]:
    """A bar of hours that stays; gives what names what is being done, and what moves the bar by seconds."""
    amount = TextColumn("{task.completed:.2f} of {task.total:g} h")
    columns = (TextColumn("{task.description:<10}"), BarColumn(), amount, TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task("", total=hours)
        yield (
            lambda name: progress.update(task, description=name),
            lambda seconds: progress.advance(task, seconds / 3600),
        )


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

    def begin_stage(self, name: str, n_items: int) -> None:
        """Begins a stage's bar."""
        self._bars[name] = self._progress.add_task(name, total=n_items)

    def on_part(self, stage: str, part: "Part", record: "PartRecord") -> None:
        """Moves a stage's bar by a part."""
        self._progress.advance(self._bars[stage], part.n_items)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class TrainingBar:
    """A progress bar of steps on the error stream, with the losses and the time that is left; use as `with`."""

    def __init__(self, quiet: bool = False) -> None:
        left = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn(), *left, TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._task = self._progress.add_task("", total=None)

    def begin(self, step: int, max_steps: int) -> None:
        """The run begins, or goes on, after so many steps."""
        self._progress.update(self._task, total=max_steps, completed=step)

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """So many steps are done."""
        told = " ".join(f"{name} {figures[name]:.3f}" for name in ("loss", "text", "accuracy") if name in figures)
        lesson = f" lesson {figures['lesson'] + 1:.0f}/{figures['lessons']:.0f}" if "lesson" in figures else ""
        self._progress.update(self._task, completed=step, description=told + lesson)

    def on_evaluation(self, step: int, evaluation: Mapping[str, Mapping[str, float]]) -> None:
        """One line of the answer's loss with each oracle."""
        if self._progress.disable:
            return
        told = ", ".join(
            f"{column} {figures.get('answer', figures['loss']):.3f}" for column, figures in evaluation.items()
        )
        self._progress.console.print(f"step {step}: nats a word of the answer by oracle: {told}")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
