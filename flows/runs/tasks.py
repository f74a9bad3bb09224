"""Tasks: the units of a run, which a plain loop executes and Prefect wraps."""

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Generic, TypeVar

Output = TypeVar("Output")
Result = TypeVar("Result")


class Task(Generic[Output]):
    """A unit of work of a run; its result is in `made` after it has run.

    Args:
        name: step of the run, such as `speech`.
        of: shard, dataset or training stage that it belongs to; empty: the whole run.
        call: function that does the work.
    """

    def __init__(self, name: str, of: str, call: Callable[[], Output]) -> None:
        self.name, self.of = name, of
        self._call = call
        self.made: Output

    @property
    def title(self) -> str:
        """Title in lists of tasks, such as `speech gsm8k-train-s0000`."""
        return f"{self.name} {self.of}".rstrip()

    def run(self) -> None:
        """Calls the function, and stores its result in `made`."""
        self.made = self._call()


Tasks = Generator[list[Task[Any]], None, Result]
"""A run as lists of independent tasks; each list depends on the results of the one before. Returns the result."""


def run_tasks(tasks: Tasks[Result], run_task: Callable[[Task[Any]], None] = Task.run) -> Result:
    """Runs all tasks in sequence, and returns the result of the run.

    Args:
        run_task: runs one task, and raises what it raises.
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
