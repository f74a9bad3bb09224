"""Parts spread over processes: the model loaded once a process, one thread each, no worker left behind."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool

from backends.processes import WorkerPool, interrupts_held, leave_with_parent
from data_schemas.config import RefreshConfig
from data_schemas.errors import BackendError
from data_schemas.store import Store
from pipelines.run.execute import Part, PartRecord, Runner
from pipelines.run.stages import cpu_stages

OnPart = Callable[[Part, PartRecord], None]
RunOne = Callable[[RefreshConfig, str, Part], PartRecord]


class Workers(WorkerPool):
    """Processes that run the processor stages on parts; started when first needed, kept for all stages of a run.

    The outcome is the same for any number of workers: a part's output depends on the part alone.

    Args:
        run_one: a module's function that runs one stage on one part, by default `run_here`.
    """

    def __init__(self, config: RefreshConfig, run_one: RunOne | None = None) -> None:
        super().__init__(config.workers or os.cpu_count() or 1, leave_with_parent)
        self.config = config
        self._run_one = run_one or run_here

    def run(self, stage: str, parts: Sequence[Part], on_part: OnPart) -> None:
        """Runs one stage on parts; a lone part, or any with one worker, in this process.

        The parts with most to do come first: begun last, one of them would keep one core busy while the others wait.
        Inside a part there is nothing to sort: utterances are said one by one, so none waits for a longer one.

        Raises:
            KameError: the first error of any part; what is recorded stays.
            BackendError: a worker process was killed.
        """
        ordered = sorted(parts, key=self._n_bytes_made, reverse=True)
        if min(self.n_workers, len(parts)) <= 1:
            for part in ordered:
                on_part(part, self._run_one(self.config, stage, part))
            return
        pool = self.started()
        futures: dict[Future[PartRecord], Part] = {}
        try:
            with interrupts_held():  # for good in the workers this starts: Ctrl-C goes to all, and we end them
                for part in ordered:
                    futures[pool.submit(self._run_one, self.config, stage, part)] = part  # fails where a worker died
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

    def _n_bytes_made(self, part: Part) -> int:
        """Size of all that earlier stages made of a part: text, then sound, which later stages take time by."""
        runner = Runner(Store(self.config.out))
        records = (runner.record(part, stage) for stage in part.fingerprints)
        return sum(record.n_bytes for record in records if record is not None)


def run_here(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Runs one stage on one part in this process."""
    return Runner(Store(config.out)).run(part, cpu_stages(config)[stage])
