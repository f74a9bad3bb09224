"""Tasks: the pieces of a run, which a plain loop calls and Prefect wraps."""

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")
Result = TypeVar("Result")


class Task(Generic[Made]):
    """A piece of a run's work; what it made stands in `made` once it has run.

    Args:
        name: the step of the run, such as `speech`.
        of: the shard, dataset or stage of training that it is done for; empty: the whole run.
        call: does it.
    """

    def __init__(self, name: str, of: str, call: Callable[[], Made]) -> None:
        self.name, self.of = name, of
        self._call = call
        self.made: Made

    @property
    def title(self) -> str:
        """What it is called where tasks are listed, such as `speech gsm8k-train-s0000`."""
        return f"{self.name} {self.of}".rstrip()

    def run(self) -> None:
        """Does the work."""
        self.made = self._call()


Tasks = Generator[list[Task[Any]], None, Result]
"""A run, in its order: tasks of one list need nothing of each other, and run one after the other; the next list is
made of what they have made. What it returns is what came of the run."""


def run_tasks(tasks: Tasks[Result], run_task: Callable[[Task[Any]], None] = Task.run) -> Result:
    """Runs all tasks, one after the other, and returns what came of the run.

    Args:
        run_task: how one is run; it raises what the task raises.
    """
    with closing(tasks):  # what the run holds open for its tasks is closed before their error goes on
        while True:
            try:
                at_once = next(tasks)
            except StopIteration as end:
                result: Result = end.value
                return result
            for task in at_once:
                run_task(task)
