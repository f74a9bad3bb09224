"""Micro-batches in the order of the plan, made here or in worker processes, gone on with at any step."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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


class MicroBatch(NamedTuple):
    """One micro-batch: its number since the training began, over all processes, and what it holds."""

    number: int
    batch: Batch
    dialogue_ids: list[str]


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


@dataclass(frozen=True, slots=True)
class _Place:
    """A micro-batch yet to be made."""

    number: int
    step: int
    planned: list[Planned]


class DialogueLoader:
    """Dialogues, mixed, shuffled, batched by length and shared out over processes.

    Its state is the place of the next micro-batch in the plan. A step takes `accumulation` micro-batches over all
    processes, so that the number of processes, or of workers, changes no example and no step; a run may even be gone
    on with by another number of processes.

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
        self._step += 1
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
        # batch_size None: an item of the data set is a whole micro-batch.
        loading: DataLoader[MicroBatch] = DataLoader(
            self._made,
            sampler=self._places(),
            batch_size=None,
            num_workers=self._workers,
            prefetch_factor=2 if self._workers else None,
            multiprocessing_context="forkserver" if self._workers else None,
            worker_init_fn=_begin_worker if self._workers else None,
        )
        with interrupts_held():  # Ctrl-C goes to all processes, those that are only beginning too
            return iter(loading)

    def _places(self) -> "_Places":
        return _Places(self._plan, self._share, self._accumulation, (self._round, self._index, self._step))


class _Places:
    """This process's micro-batches from a place of the plan on, without end."""

    def __init__(self, plan: BatchPlan, share: Share, accumulation: int, start: tuple[int, int, int]) -> None:
        self._plan, self._share, self._accumulation, self._start = plan, share, accumulation, start

    def __iter__(self) -> Iterator[_Place]:
        number_of_round, index, step = self._start
        number = step * self._accumulation
        while True:
            for planned in self._plan.round(number_of_round)[index:]:
                if number % self._share.world == self._share.rank:
                    yield _Place(number, number // self._accumulation, planned)
                number += 1
            number_of_round, index = number_of_round + 1, 0


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
        batch = collate([self._maker.train(planned, place.step) for planned in place.planned])
        names = [self._datasets[unit.dataset].dialogue_ids[unit.row] for unit, _ in place.planned]
        return MicroBatch(place.number, batch, names)
