"""Pool of worker processes, started on first use; Ctrl-C or a killed parent leaves no process behind."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Self


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Blocks SIGINT in this thread until the end of the block, and permanently in processes started in the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_with_parent() -> None:
    """Starts a thread that ends this worker process when its parent has ended, even by SIGKILL; call it first."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class WorkerPool:
    """A process pool that is started on first use and stopped at the end of the `with` block.

    At the end of the block, running work is awaited and waiting work is cancelled. If the block raises, running work is
    lost too: the processes of the pool are terminated.

    Args:
        n_workers: number of processes.
        begin: called first in each process; must call `leave_with_parent`.
        begin_with: its arguments.
    """

    def __init__(self, n_workers: int, begin: Callable[..., None], *begin_with: object) -> None:
        self.n_workers = n_workers
        self._begin, self._begin_with = begin, begin_with
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if error is not None:  # whoever stops a run does not want to wait: unfinished work is lost and redone
            for process in list((self._pool._processes or {}).values()):  # terminate_workers, from Python 3.14 on
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def replace_processes(self) -> None:
        """Waits until a pool that lost a process has ended with all its work; the next use starts a new pool."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def get_started(self) -> ProcessPoolExecutor:
        """Returns the process pool, after starting it if necessary."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # fork is unsafe beside threads
            self._pool = ProcessPoolExecutor(self.n_workers, context, self._begin, self._begin_with)
        return self._pool
