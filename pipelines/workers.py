"""Parts spread over processes: the model loaded once a process, one thread each, no worker left behind."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Self

from backends.processes import interrupts_held, leave_with_parent
from data_schemas.config import RefreshConfig
from data_schemas.errors import BackendError
from data_schemas.store import Store
from pipelines.runner import Part, PartRecord, Runner
from pipelines.stations import cpu_stages

OnPart = Callable[[Part, PartRecord], None]


class Workers:
    """Processes that run the processor stages on parts; started when first needed, kept for all stages of a run.

    The outcome is the same for any number of workers: a part's output depends on the part alone.
    """

    def __init__(self, config: RefreshConfig) -> None:
        self.config = config
        self.n_workers = config.workers or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None

    def run(self, stage: str, parts: Sequence[Part], on_part: OnPart) -> None:
        """Runs one stage on parts; a lone part, or any with one worker, in this process.

        Raises:
            KameError: the first error of any part; what is recorded stays.
            BackendError: a worker process was killed.
        """
        if min(self.n_workers, len(parts)) <= 1:
            for part in parts:
                on_part(part, run_here(self.config, stage, part))
            return
        pool = self._started()
        futures: dict[Future[PartRecord], Part] = {}
        try:
            with interrupts_held():  # for good in the workers this starts: Ctrl-C goes to all, and we end them
                for part in parts:
                    futures[pool.submit(run_here, self.config, stage, part)] = part  # fails where a worker died
            for future in as_completed(futures):
                on_part(futures[future], future.result())
        except BrokenProcessPool as error:
            raise BackendError(
                f"A worker process died in the stage {stage}.",
                "Most often memory ran out: run again with fewer --workers; finished parts are kept.",
            ) from error
        finally:
            for future in futures:
                future.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if error is not None:  # parts under way are lost and made again: nobody who stops a run wants to wait for them
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # fork is unsafe beside threads
            self._pool = ProcessPoolExecutor(self.n_workers, mp_context=context, initializer=leave_with_parent)
        return self._pool


def run_here(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Runs one stage on one part in this process."""
    return Runner(Store(config.out)).run(part, cpu_stages(config)[stage])
