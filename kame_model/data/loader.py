"""Micro-batches of a run's steps, made here or in worker processes, gone on with at any step."""

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

from backends.processes import interrupts_held, leave_with_parent
from data_schemas import ids
from data_schemas.config.training import KINDS, DataConfig, Kind, SharesConfig
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import what_matters
from kame_model.data.copying import Pieces
from kame_model.data.example import ExampleMaker
from kame_model.data.plan import BatchPlan, Planned, Pool, RowKind
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Batch, collate


class Share(NamedTuple):
    """Which of a step's micro-batches are this process's: those whose number leaves `rank` when divided by `world`."""

    rank: int = 0
    world: int = 1


ALONE = Share()
"""The share of the only process."""

ONLY_DIALOGUES = SharesConfig(dialogues=1)
"""The steps of a run without any other kind."""


class Counts(NamedTuple):
    """Examples made of dialogues, and how many of them `Changes` tells of."""

    examples: int = 0
    swapped: int = 0
    substituted: int = 0
    stalled: int = 0
    delayed: int = 0
    corrected: int = 0


class MicroBatch(NamedTuple):
    """One micro-batch.

    Attributes:
        number: since the run began, over all processes and all kinds of steps.
        batch: what the model sees.
        dialogue_ids: whose examples they are; of made-up words there are none.
        kind: of the step; that of copying has no sound. All micro-batches of a step say the same, on every process.
        counts: what was made of the dialogues.
        with_guesses: where the model's own past is to be trained on: the batch that it becomes by what the model would
            say at each position, [B, S].
    """

    number: int
    batch: Batch
    dialogue_ids: list[str]
    kind: Kind = "dialogues"
    counts: Counts = Counts()
    with_guesses: Callable[[NDArray[np.integer]], Batch] | None = None


class Source(Protocol):
    """Where a run's micro-batches of one kind come from."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be learnt here, before the last step."""

    def batches_of(self, step: int) -> list[MicroBatch]:
        """This process's micro-batches of a step of the run, asked for in the order of the steps of this kind."""

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Told of the share of text tokens that a step foresaw, None of a step of another kind; what it shows of its
        own state, by name."""

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on with the next step, as JSON has it."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where one with that state was."""


def get_kind_at(step: int, shares: SharesConfig) -> Kind:
    """Of which kind the run's step after so many is; each kind is spread evenly, and no rarer one comes first."""
    kinds = list(KINDS)
    while len(kinds) > 1:
        weights = [float(getattr(shares, kind)) for kind in kinds]
        share, kind = weights[-1] / (sum(weights) or 1.0), kinds.pop()
        before = math.floor(step * share)
        if math.floor((step + 1) * share) > before:
            return kind
        step -= before  # of those that are left
    return kinds[0]


class Loader:
    """A run's micro-batches: each step has those of one kind, by the run's shares.

    Its state is the number of the next step, and those of its sources.

    Args:
        sources: of each kind with a share above 0.
        shares: of the steps.
    """

    def __init__(self, sources: Mapping[Kind, Source], shares: SharesConfig) -> None:
        self._sources, self._shares, self._step = sources, shares, 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be learnt of the run's main kind, before the last step."""
        return self._sources[self._shares.main].is_finished

    def load_next_step(self) -> list[MicroBatch]:
        """This process's micro-batches of the next optimiser step."""
        self._step += 1
        return self._sources[get_kind_at(self._step - 1, self._shares)].batches_of(self._step - 1)

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Told of the share of text tokens that the last step foresaw; what the main kind shows, by name."""
        is_main = get_kind_at(self._step - 1, self._shares) == self._shares.main
        return self._sources[self._shares.main].observe(share_right if is_main else None)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on with the next step, as JSON has it."""
        return {"step": self._step, **{kind: each.state_dict() for kind, each in self._sources.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a loader with that state was.

        Raises:
            ConfigError: the state is of other data or other settings of the data.
        """
        self._step = state["step"]
        for kind, each in self._sources.items():
            each.load_state_dict(state[kind])


@dataclass(frozen=True, slots=True)
class _Place:
    """A micro-batch yet to be made: its number, the step of the run that it is for, its pool and its place in that."""

    number: int
    step: int
    pool: Pool
    index: int


class RowSource:
    """Dialogues, or speech rows, mixed, shuffled, batched by length and shared out over processes.

    Its state is the place of the next micro-batch in the plan. A step takes `accumulation` micro-batches over all
    processes, so that the number of processes, or of workers, changes no example and no step; a run may even be gone
    on with by another number of processes.

    Args:
        datasets: of one vocabulary and codec; those without rows of the kind may have what examples are made with.
        config: mixture, batches, oracles.
        seed: of order and examples.
        accumulation: micro-batches of a step, over all processes.
        share: this process's part of them; their number divides `accumulation`.
        pieces: of the vocabulary, where examples need them.
        kind: which rows are met.
        shares: of the run's steps, by which those of this kind are known.
    """

    is_finished = False

    def __init__(
        self,
        datasets: Sequence[TokenDataset],
        config: DataConfig,
        seed: int,
        accumulation: int,
        share: Share = ALONE,
        pieces: Pieces | None = None,
        kind: RowKind = "dialogues",
        shares: SharesConfig = ONLY_DIALOGUES,
    ) -> None:
        self._plan = BatchPlan(datasets, config, seed, kind)
        self._made = _Made(datasets, ExampleMaker(datasets, config, seed, pieces), kind)
        self._accumulation, self._share, self._workers = accumulation, share, config.workers
        self._kind: Kind = kind
        self._shares = shares
        matters = what_matters(config)
        matters["datasets"] = [
            (each.fingerprint, mixed.weight) for each, mixed in zip(datasets, config.datasets, strict=True)
        ]
        self._identity = ids.digest("loader by true lengths", matters, seed, accumulation)
        self._round, self._index = 0, 0
        self._coming: Iterator[MicroBatch] | None = None

    def batches_of(self, step: int) -> list[MicroBatch]:
        """See `Source`."""
        if self._coming is None:
            self._coming = self._begin(step)
        batches = [next(self._coming) for _ in range(self._accumulation // self._share.world)]
        self._index += self._accumulation
        while self._index >= self._plan.count_batches(self._round):
            self._index -= self._plan.count_batches(self._round)
            self._round += 1
        return batches

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Shows the round, and how many rows have no oracle and are left out; nothing follows from what is foreseen."""
        return {"round": float(self._round), "rows_left_out": float(self._plan.n_left_out)}

    def state_dict(self) -> dict[str, Any]:
        """See `Source`."""
        return {"identity": self._identity, "round": self._round, "index": self._index}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Source`.

        Raises:
            ConfigError: the state is of other data or other settings of the data.
        """
        if state.get("identity") != self._identity:
            raise ConfigError(
                "The run was begun with other data, other settings of it, or by a version with another order.",
                "Go on with the same, or begin a new run from its weights: another --out with --init-from.",
            )
        self._round, self._index = state["round"], state["index"]
        self._coming = None

    def _begin(self, first: int) -> Iterator[MicroBatch]:
        """The micro-batches of a step and of all those of this kind after it."""
        steps = _iterate_steps(self._kind, self._shares, first)
        # batch_size None: an item of the data set is a whole micro-batch.
        loading: DataLoader[MicroBatch] = DataLoader(
            self._made,
            sampler=_iterate_places(self._plan, self._share, steps, self._accumulation, (self._round, self._index)),
            batch_size=None,
            num_workers=self._workers,
            prefetch_factor=2 if self._workers else None,
            multiprocessing_context="forkserver" if self._workers else None,
            worker_init_fn=_begin_worker if self._workers else None,
        )
        with interrupts_held():  # Ctrl-C goes to all processes, those that are only beginning too
            return iter(loading)


def _iterate_steps(kind: Kind, shares: SharesConfig, first: int) -> Iterator[int]:
    """The run's steps of a kind from one on, without end."""
    return (step for step in itertools.count(first) if get_kind_at(step, shares) == kind)


def _iterate_places(
    plan: BatchPlan, share: Share, steps: Iterator[int], accumulation: int, start: tuple[int, int]
) -> Iterator[_Place]:
    """A process's micro-batches of the steps, without end.

    No method: what runs in it holds what it was given, and a loader that held itself would keep its workers after its
    last use.

    Args:
        start: round of the plan and place in it.
    """
    planned = _iterate_plan_from(plan, *start)
    for step in steps:
        for number in range(step * accumulation, (step + 1) * accumulation):
            place = _Place(number, step, *next(planned))
            if number % share.world == share.rank:
                yield place


def _iterate_plan_from(plan: BatchPlan, number: int, index: int) -> Iterator[tuple[Pool, int]]:
    """The plan's micro-batches from one of a round on, without end: each one's pool and place in that."""
    while True:
        places = ((pool, at) for pool in plan.pools(number) for at in range(len(pool.sizes)))
        yield from itertools.islice(places, index, None)
        number, index = number + 1, 0


def _begin_worker(number: int) -> None:
    """A worker leaves when its parent does, and not when both are asked to stop: the parent saves first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave_with_parent()


class _Made(Dataset[MicroBatch]):
    """Micro-batches by their places, as PyTorch's workers ask for them; pickled without the pools that were measured.

    A pool is measured by each process that makes one of its micro-batches, all of it each time: that takes about two
    thirds of the time in which examples are made.
    """

    def __init__(self, datasets: Sequence[TokenDataset], maker: ExampleMaker, kind: RowKind) -> None:
        self._datasets, self._maker, self._kind = datasets, maker, kind
        self._cut = lru_cache(maxsize=2)(self._cut_pool)

    def __reduce__(self) -> tuple[type["_Made"], tuple[Sequence[TokenDataset], ExampleMaker, RowKind]]:
        return type(self), (self._datasets, self._maker, self._kind)

    def __getitem__(self, place: _Place) -> MicroBatch:
        batch = self._cut(place.pool)[place.index]
        examples, made = zip(*(self._maker.train(planned, place.step) for planned in batch), strict=True)
        changes = [each for each in made if each is not None]
        names = [self._datasets[unit.dataset].dialogue_ids[unit.row] for unit, *_ in batch]
        counts = Counts(len(changes), *map(sum, zip(*changes, strict=True)))
        return MicroBatch(place.number, collate(examples), names, self._kind, counts)

    def _cut_pool(self, pool: Pool) -> list[list[Planned]]:
        return pool.cut(self._maker.measure)
