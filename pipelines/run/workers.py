"""Runs stages limited by the processor on parts, in local processes or on a cluster (`open_executor_provider`).

Only a window of parts is submitted at a time, so that the queue of a large corpus is kept here and not in a scheduler.
"""

import logging
import os
import platform
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from data_schemas.config import RefreshConfig, StageResources
from data_schemas.config.execution import LOCAL
from data_schemas.errors import BackendError
from data_schemas.store import TEMPORARY, Store
from pipelines.run.execute import OnPart, Runner, RunOne, run_on_part
from pipelines.run.executors import ExecutorProvider, LocalProcesses
from pipelines.run.mirror import SPOOL
from pipelines.run.parts import Part, PartRecord

PARTS_A_SLOT: Final = 3
"""Parts submitted for each that can run at once: enough that no worker waits for the next one."""

MOST_PARTS: Final = 4096
"""Maximum number of parts submitted at once, however large a cluster is: schedulers stall on tens of thousands."""

LOOK_EVERY_S: Final = 5.0
"""Seconds between queries of a place for its capacity and whether it is still reachable."""

MOST_LOSSES: Final = 2
"""How often a part whose worker process died is made again. The last time it runs alone: that frees memory, and shows
whether this part or another one is the cause, since a process that dies takes the parts of all others with it."""

_log = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


def open_executor_provider(config: RefreshConfig) -> ExecutorProvider:
    """Returns the place to run parts that a configuration names: local processes, or a cluster (it connects to it).

    Raises:
        BackendError: its package is not installed, or nothing answers at its address.
    """
    scheme, _, address = config.executor.partition("://")
    if scheme == LOCAL:
        return LocalProcesses(config.workers or os.cpu_count() or 1)
    if scheme == "dask":
        from pipelines.run.dask_cluster import DaskCluster

        return DaskCluster(address)
    from pipelines.run.ray_cluster import RayCluster

    return RayCluster(address)


class Workers:
    """Runs stages on parts in the place that the configuration names, which is kept for all stages of a run.

    The output does not depend on the place and the number of workers, only on the part.

    Args:
        run_one: runs one stage on one part.
    """

    def __init__(self, config: RefreshConfig, run_one: RunOne = run_on_part) -> None:
        self.config = config
        self._run_one = run_one
        self._sent = config if config.executor == LOCAL else _make_paths_absolute(config)
        self._marker = f".store/shared-{os.urandom(8).hex()}{TEMPORARY}"  # workers of a cluster must see it
        self.provider: ExecutorProvider

    def __enter__(self) -> Self:
        """Connects to the cluster before any work is done; local processes are started when first needed.

        For a cluster, it writes a marker file to the dataset, by which workers check that they share its folder.

        Raises:
            BackendError: as `open_executor_provider`.
            StoreError: the marker cannot be written.
        """
        with ExitStack() as opened:
            self.provider = opened.enter_context(open_executor_provider(self.config))
            if self.config.executor != LOCAL:
                Store(self.config.out).write_bytes(self._marker, b"")
            opened.pop_all()  # from here on, `__exit__` leaves the place
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the place, and deletes the marker; after a run on a cluster without an error also temporary files."""
        self.provider.__exit__(kind, error, trace)
        Path(self.config.out, self._marker).unlink(missing_ok=True)
        if error is None and self.config.executor != LOCAL:
            Store(self.config.out).sweep()  # temporary files of workers that died

    def run(self, stage: str, parts: Sequence[Part], on_part: OnPart) -> None:
        """Runs one stage on the parts that lack its output; `on_part` is called once for every part.

        Raises:
            KameError: as `StageRun.finish`.
        """
        with self.begin(stage, [parts], on_part) as run:
            run.finish(parts)

    @contextmanager
    def begin(self, stage: str, groups: Sequence[Sequence[Part]], on_part: OnPart) -> Iterator["StageRun"]:
        """Yields a run of one stage on those parts of all groups that lack its output.

        Groups are begun in their order. Within a group the largest parts come first: started last, one of them would
        keep one core busy while the others wait. Inside a part nothing is sorted: utterances are synthesised one by
        one, so none waits for a longer one. At the end of the block, tasks that have not started are cancelled.

        Args:
            on_part: called once for every part: at once for those that are finished, for the others when they are made.
        """
        runner = Runner(Store(self.config.out))
        pending = [
            part
            for group in groups
            for part in sorted(
                runner.list_to_make(stage, group, on_part), key=partial(_count_bytes_made, runner), reverse=True
            )
        ]
        run = StageRun(self, stage, pending, on_part)
        try:
            yield run
        finally:
            run.cancel()

    def make_task(self, stage: str, part: Part) -> "partial[PartRecord]":
        """Returns a function without arguments that runs a stage on a part, for submission to an executor."""
        if self.config.executor == LOCAL:
            return partial(self._run_one, self._sent, stage, part)
        return partial(_run_on_cluster, self._run_one, self._marker, self._sent, stage, part)


class StageRun:
    """One stage on the parts that lack its output; made by `Workers.begin`.

    Args:
        pending: the parts in the order in which they are started.
    """

    def __init__(self, workers: Workers, stage: str, pending: Sequence[Part], on_part: OnPart) -> None:
        self._workers, self._stage, self._on_part = workers, stage, on_part
        self._waiting = deque(pending)
        self._n_tasks, self._left = len(pending), {part.part_id for part in pending}
        self._running: dict[Future[PartRecord], Part] = {}
        self._failed: dict[str, BaseException] = {}
        self._n_losses = Counter[str]()
        self._executor: Executor | None = None
        self._n_ahead = 0
        self._looked_s = self._able_s = time.monotonic()

    @property
    def _needs(self) -> StageResources:
        """The resources that a part of this stage needs."""
        return self._workers.config.resources.get_stage_resources(self._stage)

    def finish(self, parts: Sequence[Part]) -> None:
        """Waits until these parts are made; parts of later groups are started and made at the same time.

        Raises:
            KameError: the first error of any of these parts; what is recorded is kept.
            BackendError: the place was lost, has no worker that can run a part, or a part killed its worker each time.
        """
        wanted = {part.part_id for part in parts}
        while True:
            for error in (error for part_id, error in self._failed.items() if part_id in wanted):
                raise error
            if not self._left & wanted:
                return
            self._query_capacity()
            self._submit_waiting()
            ended: Iterable[Future[PartRecord]]
            ended, _ = wait(self._running, LOOK_EVERY_S, FIRST_COMPLETED)
            if any(map(_is_lost, ended)):
                ended = self._replace_workers()
            for future in ended:
                self._collect(future)

    def cancel(self) -> None:
        """Cancels the tasks that have not started."""
        for future in self._running:
            future.cancel()

    def _query_capacity(self) -> None:
        """Queries the capacity of the place, at most every `LOOK_EVERY_S`, and sets how many parts may be submitted.

        Raises:
            BackendError: it is lost, or for too long no worker has had the resources that a part needs.
        """
        now_s = time.monotonic()
        if self._executor is not None and now_s < self._looked_s + LOOK_EVERY_S:
            return
        place, wait_s = self._workers.provider, self._workers.config.resources.wait_s
        n_slots = place.count_slots(self._needs)
        self._looked_s = now_s
        if n_slots:
            self._able_s = now_s
        elif now_s > self._able_s + wait_s:
            raise BackendError(
                f"For {wait_s:.0f} s no worker of {self._workers.config.executor} has had what a part of "
                f"{self._stage} takes: {self._needs}.",
                f"Start workers that have it, or ask for less: --set resources.{self._stage}.memory_gb=…",
            )
        self._n_ahead = max(1, min(MOST_PARTS, PARTS_A_SLOT * n_slots))
        self._executor = place.get_executor(self._needs, self._n_tasks)

    def _submit_waiting(self) -> None:
        """Submits waiting parts until enough are in progress, or one was run at once in this process.

        Raises:
            BackendError: the place is lost.
        """
        assert self._executor is not None
        while self._may_submit():
            part = self._waiting.popleft()
            try:
                future = self._submit(self._executor, part)
            except BrokenExecutor:  # a worker died while it was idle, or just now
                self._waiting.appendleft(part)
                for future in self._replace_workers():
                    self._collect(future)
                return
            self._running[future] = part
            if future.done():  # an executor in this process has run it: report it first
                return

    def _submit(self, executor: Executor, part: Part) -> "Future[PartRecord]":
        """Submits a part.

        Raises:
            BackendError: the place is lost.
            BrokenExecutor: the executor has lost its workers.
        """
        try:
            return executor.submit(self._workers.make_task(self._stage, part))
        except Exception as error:
            if fault := self._workers.provider.find_fault(error, self._name_task(part)):
                raise fault from error
            raise

    def _may_submit(self) -> bool:
        """Returns whether the next part may be submitted now; one that was lost `MOST_LOSSES` times runs alone."""
        if not self._waiting or len(self._running) >= self._n_ahead:
            return False
        if not self._n_losses:
            return True
        at_once = [*self._running.values(), self._waiting[0]]
        return len(at_once) == 1 or all(self._n_losses[part.part_id] < MOST_LOSSES for part in at_once)

    def _replace_workers(self) -> "list[Future[PartRecord]]":
        """Closes an executor of which a worker has died, and puts the parts that were lost first in the queue.

        Waits until its workers have ended, deletes their temporary files in the dataset, and logs a warning. A new
        executor is made at the next query of the place. Returns the tasks that had ended before.

        Raises:
            BackendError: a part was lost while it ran alone.
        """
        assert self._executor is not None
        self._executor.shutdown()  # afterwards all tasks have ended
        self._executor = None
        Store(self._workers.config.out).sweep()  # temporary files of the worker that died
        lost = {future: part for future, part in self._running.items() if _is_lost(future)}
        for future, part in lost.items():
            del self._running[future]
            self._n_losses[part.part_id] += 1
            if self._n_losses[part.part_id] > MOST_LOSSES:
                raise BackendError(
                    f"The worker process of {self._name_task(part)} died {MOST_LOSSES + 1} times, the last time while "
                    "no other part ran.",
                    "Most often memory ran out: free some, or use a machine with more, and run again; finished parts "
                    "are kept.",
                )
        self._waiting.extendleft(reversed(lost.values()))
        _log.warning(
            "A worker process died in the stage %s; %d unfinished parts are made again. Most often memory ran out: "
            "fewer --workers need less.",
            self._stage,
            len(lost),
        )
        return list(self._running)

    def _name_task(self, part: Part) -> str:
        """Returns the name of a part and the stage for messages."""
        return f"part {part.part_id} of {self._stage}"

    def _collect(self, future: "Future[PartRecord]") -> None:
        """Reports a finished part to `on_part`, or stores its error, which `finish` raises.

        Raises:
            BackendError: the place caused the error.
        """
        part = self._running.pop(future)
        error = CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self._on_part(self._stage, part, future.result())
        elif fault := self._workers.provider.find_fault(error, self._name_task(part)):
            raise fault from error
        else:
            self._failed[part.part_id] = error  # raised by `finish` for its group
        self._left.discard(part.part_id)


def _is_lost(future: "Future[PartRecord]") -> bool:
    """Returns whether a task has ended because a worker died, its own or another one."""
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)


def _run_on_cluster(run_one: RunOne, marker: str, config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Calls `run_one` in a worker of a cluster, where only one thread at a time does: engines are not thread-safe.

    Raises:
        BackendError: the worker does not see the file `marker` of the run in the dataset's folder.
    """
    with _one_at_a_time:
        if not Path(config.out, marker).exists():
            raise BackendError(
                f"The worker {platform.node()} does not see the files of this run in {config.out}.",
                "All workers must share it at the same path: choose a shared folder for --out or, if --out is in a "
                f"bucket, set {SPOOL} to one (docs/clusters.md).",
            )
        return run_one(config, stage, part)


def _make_paths_absolute(config: RefreshConfig) -> RefreshConfig:
    """Returns the configuration with absolute paths of the dataset, the sources' files and the lexicon; others stay."""

    def make_full(path: str | None) -> str | None:
        return str(Path(path).absolute()) if path else None

    sources = [each.model_copy(update={"path": make_full(each.path)}) for each in config.sources]
    script = config.script.model_copy(update={"lexicon": make_full(config.script.lexicon)})
    return config.model_copy(update={"out": make_full(config.out), "sources": sources, "script": script})


def _count_bytes_made(runner: Runner, part: Part) -> int:
    """Returns the size in bytes of all outputs that a part has so far, which predicts the time of later stages."""
    records = (runner.read_record(part, stage) for stage in part.fingerprints)
    return sum(record.n_bytes for record in records if record is not None)
