"""Progress bars on standard error, with the remaining time: for stages, training steps, and counts."""

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
    """Shows a progress bar during a `with` block, unless `quiet`; yields a function that advances it by a number."""
    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda n: progress.advance(task, n)


@contextmanager
def show_hours(hours: float, quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[float], None]]]:
    """Shows a progress bar of hours during a `with` block, unless `quiet`.

    Yields functions that set its description, and that advance it by seconds.
    """
    amount = TextColumn("{task.completed:.2f} of {task.total:g} h")
    columns = (TextColumn("{task.description:<10}"), BarColumn(), amount, TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task("", total=hours)
        yield (
            lambda name: progress.update(task, description=name),
            lambda seconds: progress.advance(task, seconds / 3600),
        )


class RefreshBars:
    """Progress bars of stages, in items; a context manager. Shows nothing if `quiet`."""

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
        """Adds the bar of a stage."""
        self._bars[name] = self._progress.add_task(name, total=n_items)

    def on_part(self, stage: str, part: "Part", record: "PartRecord") -> None:
        """Advances the bar of a stage by a part."""
        self._progress.advance(self._bars[stage], part.n_items)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class TrainingBar:
    """Progress bar of training steps with the losses; a context manager. Shows nothing if `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        left = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn(), *left, TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._task = self._progress.add_task("", total=None)

    def begin(self, step: int, max_steps: int) -> None:
        """Sets the bar to the step at which the run begins (0, or where it is resumed) and to its number of steps."""
        self._progress.update(self._task, total=max_steps, completed=step)

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Updates the bar after a step."""
        losses = " ".join(f"{name} {figures[name]:.3f}" for name in ("loss", "text", "accuracy") if name in figures)
        lesson = f" lesson {figures['lesson'] + 1:.0f}/{figures['lessons']:.0f}" if "lesson" in figures else ""
        self._progress.update(self._task, completed=step, description=losses + lesson)

    def on_evaluation(self, step: int, evaluation: Mapping[str, Mapping[str, float]]) -> None:
        """Prints the validation loss of the answer (or without one, of everything) with each kind of oracle."""
        if self._progress.disable:
            return
        text = ", ".join(
            f"{column} {figures.get('answer', figures['loss']):.3f}" for column, figures in evaluation.items()
        )
        self._progress.console.print(f"step {step}: validation loss of the answer by oracle, in nats per token: {text}")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
