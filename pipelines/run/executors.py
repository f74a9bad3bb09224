"""Places where parts are run: each provides a `concurrent.futures.Executor` and reports its capacity and its faults.

A task is one stage on one part. It is sent as the configuration, the stage's name, and the part's names and
fingerprints; it returns the part's record. All other data is in the store, which all workers can access.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, Protocol, Self

from backends.processes import WorkerPool, block_interrupts, leave_with_parent
from data_schemas.config import StageResources
from data_schemas.errors import BackendError

GIGABYTE = 10**9
AGAIN = "Run the same command again; finished parts are kept."
"""The remedy for whatever a cluster has lost."""


class ExecutorProvider(Protocol):
    """Runs parts for the time of a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def get_executor(self, needs: StageResources, n_tasks: int) -> Executor:
        """Returns an executor for `n_tasks` tasks that need these resources each.

        The caller must not close it, unless a worker died and took all tasks with it (`BrokenExecutor`): then it closes
        it, and gets a new one here. Clusters do not raise that; they submit the task of a dead worker again themselves.
        """

    def count_slots(self, needs: StageResources) -> int:
        """Returns how many tasks with these needs all present workers can run at once when idle; 0 if none can run one.

        Processes on this machine ignore the needs.

        Raises:
            BackendError: the place is lost.
        """

    def find_fault(self, error: BaseException, task: str) -> BackendError | None:
        """Returns the error to raise if the place caused a task's error; None if that is the task's own.

        Args:
            task: the part and the stage, for the message.
        """


class LocalProcesses(WorkerPool):
    """Processes on this machine, started when first needed; a single one is this process itself.

    The needs of a stage are ignored, since the option `workers` sets the number of processes.
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__(n_workers, leave_with_parent)

    def get_executor(self, needs: StageResources, n_tasks: int) -> Executor:
        """Returns the pool of processes, or this process as an executor if there is one task or one worker."""
        return InThisProcess() if min(self.n_workers, n_tasks) <= 1 else _Processes(self)

    def count_slots(self, needs: StageResources) -> int:
        """Returns the number of processes."""
        return self.n_workers

    def find_fault(self, error: BaseException, task: str) -> BackendError | None:
        """Returns None, since a process that died is reported as `BrokenExecutor`."""
        return None


class _Processes(Executor):
    """A pool whose processes ignore Ctrl-C: a terminal sends it to all of them, and this process shuts them down."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a task to the pool, which is started if necessary."""
        with block_interrupts():  # permanently in the processes that this starts
            return self._pool.get_started().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits until all work and the processes have ended, whatever the arguments; the next use starts new ones."""
        self._pool.replace_processes()


class InThisProcess(Executor):
    """Runs each task in this process when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs a task at once and returns its future, which is finished and has the result or the error."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as executors do; Ctrl-C is raised
            future.set_exception(error)
        return future
