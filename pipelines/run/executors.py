"""Where parts are run: each place gives a `concurrent.futures.Executor`, and tells how much it bears and how it is.

A task is one stage on one part. What is sent is the configuration, the stage's name, and the part's names and
fingerprints; what comes back is the part's record. Everything else stands in the store, which all workers see.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Protocol, Self

from backends.processes import WorkerPool, interrupts_held, leave_with_parent
from data_schemas.config import StageResources
from data_schemas.errors import BackendError

GIGABYTE = 10**9
AGAIN = "Run the same command again; finished parts are kept."
"""What helps against whatever a cluster has lost."""


class Place(Protocol):
    """Where parts are run, for the time of a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def executor(self, needs: StageResources, n_tasks: int) -> Executor:
        """What runs `n_tasks` tasks that need so much each; the place closes it."""

    def n_slots(self, needs: StageResources) -> int:
        """How many such tasks can run at once now; 0 where no worker has what one needs.

        Raises:
            BackendError: the place is lost.
        """

    def fault(self, error: BaseException, stage: str) -> BackendError | None:
        """What an error of a stage's task tells of the place; None: it is the task's own."""


class LocalProcesses(WorkerPool):
    """Processes of this machine, started when first needed; with one, this process itself.

    Each runs any stage; what a stage needs is not looked at, for `workers` says how many there are.
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__(n_workers, leave_with_parent)

    def executor(self, needs: StageResources, n_tasks: int) -> Executor:
        """The processes; this one, where there is to be but one, or but one task."""
        return InThisProcess() if min(self.n_workers, n_tasks) <= 1 else _Processes(self.get_started())

    def n_slots(self, needs: StageResources) -> int:
        """As many as there are processes."""
        return self.n_workers

    def fault(self, error: BaseException, stage: str) -> BackendError | None:
        """A process that was killed."""
        if not isinstance(error, BrokenProcessPool):
            return None
        return BackendError(
            f"A worker process died in the stage {stage}.",
            "Most often memory ran out: run again with fewer --workers; finished parts are kept.",
        )


class _Processes(Executor):
    """A pool whose processes never hear Ctrl-C: it goes to all of a terminal, and we end them."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with interrupts_held():  # for good in the processes that this starts
            return self._pool.submit(fn, *args, **kwargs)


class InThisProcess(Executor):
    """Runs each task when it is submitted, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The task's outcome, which is there already."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as executors do; Ctrl-C is raised
            future.set_exception(error)
        return future
