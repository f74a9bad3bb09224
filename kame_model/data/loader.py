"""Micro-batches in the order of the plan, made here or in worker processes, gone on with at any step."""

import itertools
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from backends.processes import interrupts_held, leave_with_parent
from data_schemas import ids
from data_schemas.config.training import DataConfig
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import what_matters
from kame_model.data.copying import Pieces
from kame_model.data.example import ExampleMaker
from kame_model.data.plan import BatchPlan, Planned
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Batch, collate


class Share(NamedTuple):
    """Which of a step's micro-batches are this process's: those whose number leaves `rank` when divided by `world`."""

    rank: int = 0
    world: int = 1


ALONE = Share()
"""The share of the only process."""


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
        is_rehearsal: whether words are copied again among dialogues, without any sound: all micro-batches of a step
            say the same, on every process.
        counts: what was made of the dialogues.
        with_guesses: where the model's own past is to be trained on: the batch that it becomes by what the model would
            say at each position, [B, S].
    """

    number: int
    batch: Batch
    dialogue_ids: list[str]
    is_rehearsal: bool = False
    counts: Counts = Counts()
    with_guesses: Callable[[NDArray[np.integer]], Batch] | None = None


class Loader(Protocol):
    """Where a trainer gets its micro-batches from."""

    def next_step(self) -> list[MicroBatch]:
        """This process's micro-batches of the next optimiser step."""

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Told of the share of text tokens that a step foresaw; what it shows of its own state, by name."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be learnt here, before the last step."""

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on with the next step, as JSON has it."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a loader with that state was."""


def rehearses(step: int, copy_share: float) -> bool:
    """Whether the run's step after so many copies words again: a share of them, spread evenly, never the first."""
    return math.floor((step + 1) * copy_share) > math.floor(step * copy_share)


def dialogue_steps(first: int, copy_share: float) -> Iterator[int]:
    """The run's steps from one on that are of dialogues."""
    return itertools.filterfalse(lambda step: rehearses(step, copy_share), itertools.count(first))


@dataclass(frozen=True, slots=True)
class _Place:
    """A micro-batch yet to be made: its number, and the step of the run that it is for."""

    number: int
    step: int
    planned: list[Planned]


class DialogueLoader:
    """Dialogues, mixed, shuffled, batched by length and shared out over processes.

    Its state is the place of the next micro-batch in the plan, and the run's step. A step takes `accumulation`
    micro-batches over all processes, so that the number of processes, or of workers, changes no example and no step; a
    run may even be gone on with by another number of processes. Steps that rehearse (`config.copy_share`) are not for
    this loader, and it numbers its own as the run does.

    Args:
        datasets: of one vocabulary and codec.
        config: mixture, batches, oracles.
        seed: of order and examples.
        accumulation: micro-batches of a step, over all processes.
        share: this process's part of them; their number divides `accumulation`.
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
    ) -> None:
        self._plan = BatchPlan(datasets, config, seed)
        self._made = _Made(datasets, ExampleMaker(datasets, config, seed, pieces))
        self._accumulation, self._share, self._workers = accumulation, share, config.workers
        self._copy_share = config.copy_share
        matters = what_matters(config)
        matters["datasets"] = [
            (each.fingerprint, mixed.weight) for each, mixed in zip(datasets, config.datasets, strict=True)
        ]
        self._identity = ids.digest("loader", matters, seed, accumulation)
        self._round, self._index, self._step = 0, 0, 0
        self._coming: Iterator[MicroBatch] | None = None

    def next_step(self) -> list[MicroBatch]:
        """See `Loader`."""
        if self._coming is None:
            self._coming = self._begin()
        batches = [next(self._coming) for _ in range(self._accumulation // self._share.world)]
        self._step = next(dialogue_steps(self._step, self._copy_share)) + 1
        self._index += self._accumulation
        while self._index >= len(self._plan.round(self._round)):
            self._index -= len(self._plan.round(self._round))
            self._round += 1
        return batches

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Shows the round, and how many rows have no oracle and are left out; nothing follows from what is foreseen."""
        return {"round": float(self._round), "rows_left_out": float(self._plan.n_left_out)}

    def state_dict(self) -> dict[str, Any]:
        """See `Loader`."""
        return {"identity": self._identity, "round": self._round, "index": self._index, "step": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Loader`.

        Raises:
            ConfigError: the state is of other data or other settings of the data.
        """
        if state.get("identity") != self._identity:
            raise ConfigError(
                "The run was begun with other data, or other settings of it.",
                "Go on with the same, or begin a new run from its weights: another --out with --init-from.",
            )
        self._round, self._index, self._step = state["round"], state["index"], state["step"]
        self._coming = None

    def _begin(self) -> Iterator[MicroBatch]:
        steps = dialogue_steps(self._step, self._copy_share)
        # batch_size None: an item of the data set is a whole micro-batch.
        loading: DataLoader[MicroBatch] = DataLoader(
            self._made,
            sampler=_places(self._plan, self._share, steps, self._accumulation, (self._round, self._index)),
            batch_size=None,
            num_workers=self._workers,
            prefetch_factor=2 if self._workers else None,
            multiprocessing_context="forkserver" if self._workers else None,
            worker_init_fn=_begin_worker if self._workers else None,
        )
        with interrupts_held():  # Ctrl-C goes to all processes, those that are only beginning too
            return iter(loading)


def _places(
    plan: BatchPlan, share: Share, steps: Iterator[int], accumulation: int, start: tuple[int, int]
) -> Iterator[_Place]:
    """A process's micro-batches of the steps, without end.

    No method: what runs in it holds what it was given, and a loader that held itself would keep its workers after its
    last use.

    Args:
        start: round of the plan and place in it.
    """
    planned = _from(plan, *start)
    for step in steps:
        for number in range(step * accumulation, (step + 1) * accumulation):
            place = _Place(number, step, next(planned))
            if number % share.world == share.rank:
                yield place


def _from(plan: BatchPlan, number: int, index: int) -> Iterator[list[Planned]]:
    """The plan's micro-batches from one of a round on, without end."""
    while True:
        yield from plan.round(number)[index:]
        number, index = number + 1, 0


def _begin_worker(number: int) -> None:
    """A worker leaves when its parent does, and not when both are asked to stop: the parent saves first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave_with_parent()


class _Made(Dataset[MicroBatch]):
    """Micro-batches by their places, as PyTorch's workers ask for them."""

    def __init__(self, datasets: Sequence[TokenDataset], maker: ExampleMaker) -> None:
        self._datasets, self._maker = datasets, maker

    def __getitem__(self, place: _Place) -> MicroBatch:
        examples, made = zip(*(self._maker.train(planned, place.step) for planned in place.planned), strict=True)
        changes = [each for each in made if each is not None]
        names = [self._datasets[unit.dataset].dialogue_ids[unit.row] for unit, *_ in place.planned]
        counts = Counts(len(changes), *map(sum, zip(*changes, strict=True)))
        return MicroBatch(place.number, collate(examples), names, counts=counts)
