"""Loads the micro-batches of a run's steps, in this process or in workers, and resumes at any step."""

import itertools
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from backends.processes import block_interrupts, leave_with_parent
from data_schemas import ids
from data_schemas.config.training import KINDS, LENGTH_MULTIPLE, DataConfig, Kind, SharesConfig
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import dump_relevant_fields
from kame_model.data.batch_plan import BatchPlan, PlannedExample, Pool, RowKind
from kame_model.data.copying import WordPieces
from kame_model.data.example import ExampleMaker
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Batch, collate


class Share(NamedTuple):
    """The micro-batches of a step that a process gets: those whose number modulo `world` is `rank`."""

    rank: int = 0
    world: int = 1


ALONE = Share()
"""The share of a single process."""

ONLY_DIALOGUES = SharesConfig(dialogues=1)
"""Shares of a run that only has steps of dialogues."""


class AugmentationCounts(NamedTuple):
    """Number of examples made of dialogues, and to how many of them each augmentation of `Changes` was applied."""

    examples: int = 0
    swapped: int = 0
    substituted: int = 0
    reframed: int = 0
    stalled: int = 0
    delayed: int = 0
    corrected: int = 0


class MicroBatch(NamedTuple):
    """One micro-batch.

    Attributes:
        number: its number since the start of the run, over all processes and kinds of steps.
        batch: model inputs and labels.
        dialogue_ids: dialogues of its examples; empty for random words.
        kind: kind of the step, the same for all micro-batches of a step on all processes; copying has no audio.
        counts: augmentations of the dialogues.
        with_guesses: if the model is trained on its own past: makes the batch from what the model would say at each
            position, [B, S].
    """

    number: int
    batch: Batch
    dialogue_ids: list[str]
    kind: Kind = "dialogues"
    counts: AugmentationCounts = AugmentationCounts()
    with_guesses: Callable[[NDArray[np.integer]], Batch] | None = None


class Source(Protocol):
    """Protocol of a source of a run's micro-batches of one kind."""

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to learn from it, even if the last step is not reached."""

    def load_batches(self, step: int) -> list[MicroBatch]:
        """Returns this process's micro-batches of a step of the run; called in the order of the steps of this kind."""

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Updates the source after a step, and returns figures of the source's state by name, for the log.

        Args:
            share_right: share of text tokens that the step predicted correctly; None for a step of another kind.
        """

    def state_dict(self) -> dict[str, Any]:
        """Returns the state needed to resume with the next step, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `state_dict`."""


def get_kind_at(step: int, shares: SharesConfig) -> Kind:
    """Returns the kind of a step: each is spread evenly over the steps; step 0 has the first of `KINDS` in use."""
    kinds = list(KINDS)
    while len(kinds) > 1:
        weights = [float(getattr(shares, kind)) for kind in kinds]
        share, kind = weights[-1] / (sum(weights) or 1.0), kinds.pop()
        before = math.floor(step * share)
        if math.floor((step + 1) * share) > before:
            return kind
        step -= before  # the number of steps of the remaining kinds
    return kinds[0]


class Loader:
    """Loads a run's micro-batches; all micro-batches of a step have one kind, by the run's shares.

    Its state is the number of the next step, and the states of its sources.

    Args:
        sources: one for each kind with a share above 0.
        shares: shares of the kinds in the steps.
    """

    def __init__(self, sources: Mapping[Kind, Source], shares: SharesConfig) -> None:
        self._sources, self._shares, self._step = sources, shares, 0

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to learn of the run's main kind, even if the last step is not reached."""
        return self._sources[self._shares.main].is_finished

    def load_next_step(self) -> list[MicroBatch]:
        """Returns this process's micro-batches of the next optimiser step."""
        self._step += 1
        return self._sources[get_kind_at(self._step - 1, self._shares)].load_batches(self._step - 1)

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Updates the source of the main kind after a step, and returns its figures by name, for the log.

        Args:
            share_right: share of text tokens that the last step predicted correctly; None: unknown. It is ignored if
                that step was of another kind.
        """
        is_main = get_kind_at(self._step - 1, self._shares) == self._shares.main
        return self._sources[self._shares.main].observe(share_right if is_main else None)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state needed to resume with the next step, as JSON values."""
        return {"step": self._step, **{kind: each.state_dict() for kind, each in self._sources.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `state_dict`.

        Raises:
            ConfigError: the state is of other data or other data settings.
        """
        self._step = state["step"]
        for kind, each in self._sources.items():
            each.load_state_dict(state[kind])


@dataclass(frozen=True, slots=True)
class _Place:
    """A micro-batch to be made: its number, the step of the run, its pool and its index in the pool."""

    number: int
    step: int
    pool: Pool
    index: int


class RowSource:
    """Loads dialogues or speech rows: mixed, shuffled, batched by length and distributed over processes.

    Its state is the place of the next micro-batch in the plan. A step takes `accumulation` micro-batches over all
    processes, so the number of processes or workers changes no example and no step; a run may even be resumed with
    another number of processes.

    Args:
        datasets: datasets of one vocabulary and codec; those without rows of the kind are still used to make examples.
        config: mixture, batches, oracles.
        seed: seed of order and examples.
        accumulation: micro-batches of a step, over all processes.
        share: the part of them that this process gets; the number of processes divides `accumulation`.
        pieces: pieces of the vocabulary, if examples need them.
        kind: kind of the rows.
        shares: shares of the kinds in the run's steps.

    Raises:
        ConfigError: if a dataset with rows of the kind has none to train on.
    """

    is_finished = False

    def __init__(
        self,
        datasets: Sequence[TokenDataset],
        config: DataConfig,
        seed: int,
        accumulation: int,
        share: Share = ALONE,
        pieces: WordPieces | None = None,
        kind: RowKind = "dialogues",
        shares: SharesConfig = ONLY_DIALOGUES,
    ) -> None:
        self._plan = BatchPlan(datasets, config, seed, kind)
        maker = ExampleMaker(datasets, config, seed, pieces)
        self._made = _MicroBatchDataset(datasets, maker, kind, config.length_multiple)
        self._accumulation, self._share, self._workers = accumulation, share, config.workers
        self._kind: Kind = kind
        self._shares = shares
        matters = dump_relevant_fields(config)
        matters["datasets"] = [
            (each.fingerprint, mixed.weight) for each, mixed in zip(datasets, config.datasets, strict=True)
        ]
        if config.length_multiple == LENGTH_MULTIPLE:
            del matters["length_multiple"]  # runs that began before it was a setting can be resumed
        self._identity = ids.digest("loader by rounded lengths", matters, seed, accumulation)
        self._round, self._index = 0, 0
        self._coming: Iterator[MicroBatch] | None = None

    def load_batches(self, step: int) -> list[MicroBatch]:
        """See `Source`; the first call, and that after a state was restored, uses `step` and starts the workers.

        Later calls ignore `step`.
        """
        if self._coming is None:
            self._coming = self._start_loading(step)
        batches = [next(self._coming) for _ in range(self._accumulation // self._share.world)]
        self._index += self._accumulation
        while self._index >= self._plan.count_batches(self._round):
            self._index -= self._plan.count_batches(self._round)
            self._round += 1
        return batches

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Returns the round, and the number of rows skipped because they have no oracle; the share is ignored."""
        return {"round": float(self._round), "rows_left_out": float(self._plan.n_left_out)}

    def state_dict(self) -> dict[str, Any]:
        """Returns the round and place in the rows, and a digest of the data and their settings."""
        return {"identity": self._identity, "round": self._round, "index": self._index}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the round and place in the rows from `state_dict`.

        Raises:
            ConfigError: the state is of other data or other data settings.
        """
        if state.get("identity") != self._identity:
            raise ConfigError(
                "The run was started with other data or data settings, or by a version with another sampling order.",
                "Resume it with the same ones, or start a new run from its weights: another --out with --init-from.",
            )
        self._round, self._index = state["round"], state["index"]
        self._coming = None

    def _start_loading(self, first: int) -> Iterator[MicroBatch]:
        """Starts loading, and returns an iterator over the micro-batches of a step and all later ones of this kind."""
        steps = _iterate_steps(self._kind, self._shares, first)
        # batch_size=None: an item of the dataset is a whole micro-batch.
        loading: DataLoader[MicroBatch] = DataLoader(
            self._made,
            sampler=_iterate_places(self._plan, self._share, steps, self._accumulation, (self._round, self._index)),
            batch_size=None,
            num_workers=self._workers,
            prefetch_factor=2 if self._workers else None,
            multiprocessing_context="forkserver" if self._workers else None,
            worker_init_fn=_init_worker if self._workers else None,
        )
        with block_interrupts():  # Ctrl-C is sent to all processes, also to workers that are starting
            return iter(loading)


def _iterate_steps(kind: Kind, shares: SharesConfig, first: int) -> Iterator[int]:
    """Yields the run's steps of a kind from one on, without end."""
    return (step for step in itertools.count(first) if get_kind_at(step, shares) == kind)


def _iterate_places(
    plan: BatchPlan, share: Share, steps: Iterator[int], accumulation: int, start: tuple[int, int]
) -> Iterator[_Place]:
    """Yields the places of this process's micro-batches of the steps, without end.

    It is not a method, because a running generator keeps its arguments alive: a loader that was one of them would never
    be collected, and its workers never stopped.

    Args:
        plan: the plan of the batches.
        share: the share of this process.
        steps: the steps of the run.
        accumulation: micro-batches of a step, over all processes.
        start: round of the plan, and place in it.
    """
    planned = _iterate_plan_from(plan, *start)
    for step in steps:
        for number in range(step * accumulation, (step + 1) * accumulation):
            place = _Place(number, step, *next(planned))
            if number % share.world == share.rank:
                yield place


def _iterate_plan_from(plan: BatchPlan, number: int, index: int) -> Iterator[tuple[Pool, int]]:
    """Yields pool and index in the pool of each of the plan's micro-batches, without end.

    Args:
        plan: the plan.
        number: number of the first round.
        index: number of the first micro-batch in that round.
    """
    while True:
        places = ((pool, at) for pool in plan.get_pools(number) for at in range(len(pool.sizes)))
        yield from itertools.islice(places, index, None)
        number, index = number + 1, 0


def _init_worker(number: int) -> None:
    """Makes a worker exit with its parent, and ignore SIGINT and SIGTERM, because the parent saves first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave_with_parent()


class _MicroBatchDataset(Dataset[MicroBatch]):
    """PyTorch dataset of micro-batches by place, for data loader workers; measured pools are not pickled.

    Each process that makes a micro-batch of a pool measures the whole pool, which takes about two thirds of the time of
    making examples.
    """

    def __init__(self, datasets: Sequence[TokenDataset], maker: ExampleMaker, kind: RowKind, multiple: int) -> None:
        self._datasets, self._maker, self._kind, self._multiple = datasets, maker, kind, multiple
        self._cut = lru_cache(maxsize=2)(self._cut_pool)

    def __reduce__(
        self,
    ) -> tuple[type["_MicroBatchDataset"], tuple[Sequence[TokenDataset], ExampleMaker, RowKind, int]]:
        return type(self), (self._datasets, self._maker, self._kind, self._multiple)

    def __getitem__(self, place: _Place) -> MicroBatch:
        batch = self._cut(place.pool)[place.index]
        examples, made = zip(*(self._maker.make_example(planned, place.step) for planned in batch), strict=True)
        changes = [each for each in made if each is not None]
        names = [self._datasets[unit.dataset].dialogue_ids[unit.row] for unit, *_ in batch]
        counts = AugmentationCounts(len(changes), *map(sum, zip(*changes, strict=True)))
        return MicroBatch(place.number, collate(examples, self._multiple), names, self._kind, counts)

    def _cut_pool(self, pool: Pool) -> list[list[PlannedExample]]:
        """Measures the examples of a pool, and cuts it into micro-batches."""
        return pool.cut(self._maker.measure)
