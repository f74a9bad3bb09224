"""Which examples are met when: order, mixture and micro-batches as pure functions of seeds, so that nothing is stored.

A round meets as many examples as all datasets together have; each dataset has its share of them by weight and goes
through its own epochs, whose order is a permutation drawn anew. With one dataset a round is an epoch. A round's
examples are shuffled and cut into pools, one after the other. How many micro-batches a pool has, and of how many
examples each, is known from the lengths that its examples may have at most; which example goes into which, from those
that they come to have: whoever makes a micro-batch measures its pool. All processes compute the same plan, and each
takes its share of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.training import DataConfig
from data_schemas.errors import ConfigError
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.sequence import MAX_COLUMNS, chunks

Speaker = Literal["a", "b"]
RowKind = Literal["dialogues", "speech"]

HEADROOM = 1.25
"""A dialogue joined of two, or whose answer waits, may be so much longer than the one whose question it has."""

TOLD_FRAMES = 24
"""A speech row may be so much longer: silence and its oracle come before it, and it may wait for tokens of that."""

BEHIND_FRAMES = 125
"""Silence behind a dialogue's last word, at most: ten seconds, longer than anybody waits for an answer to go on."""


class Unit(NamedTuple):
    """What one example is made of: a chunk of a row of a dataset, from one speaker's side."""

    dataset: int
    row: int
    speaker: Speaker
    chunk: int


class Planned(NamedTuple):
    """A unit in the course of training: met for the `epoch`-th time, with so many frames of silence behind it."""

    unit: Unit
    epoch: int
    n_behind: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """Examples that are sorted by length together and cut into micro-batches; one pool is met after the other.

    Attributes:
        seed: stands for the pool, and gives the order of its micro-batches.
        planned: the examples.
        sizes: of its micro-batches, from that with the shortest examples to that with the longest: how many each has.
    """

    seed: int
    planned: list[Planned] = field(compare=False)
    sizes: list[int] = field(compare=False)

    def cut(self, measure: Callable[[Planned], int]) -> list[list[Planned]]:
        """Its micro-batches, in the order in which they are trained on.

        Sorted by the lengths that they come to have, examples take no more frames than sorted by the greater ones that
        they may have: the i-th of the shorter lengths is never above the i-th of the longer ones.

        Args:
            measure: input positions of an example, at most as many as were planned for.
        """
        lengths = np.asarray([measure(each) for each in self.planned], np.int32)
        batches = np.split(np.argsort(lengths, kind="stable"), np.cumsum(self.sizes)[:-1])
        order = np.random.default_rng(self.seed).permutation(len(batches))
        return [[self.planned[at] for at in batches[number].tolist()] for number in order]


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """All units of a dataset's rows of one split.

    Attributes:
        units: in the order of the rows.
        n_positions: int32, input positions that each takes at most, without silence behind its dialogue.
        n_spare: int32, frames of silence that its dialogue can have behind it in as many chunks.
        n_chunks: int32, of its dialogue.
        n_left_out: rows of the split, from a speaker's side, that are not met: they have no oracle for what that one
            says.
    """

    units: list[Unit]
    n_positions: NDArray[np.int32]
    n_spare: NDArray[np.int32]
    n_chunks: NDArray[np.int32]
    n_left_out: int


def longest_joined(n_frames: int, max_columns: int = MAX_COLUMNS) -> int:
    """Most frames of a dialogue joined of two, of which the one with the question has so many; in as many chunks."""
    return min(int(HEADROOM * n_frames), _most_frames(n_frames, max_columns))


def longest_told(n_frames: int, max_columns: int = MAX_COLUMNS) -> int:
    """Most frames of a speech row of so many that its oracle comes before; in as many chunks."""
    return min(n_frames + TOLD_FRAMES, _most_frames(n_frames, max_columns))


def _most_frames(n_frames: int, max_columns: int) -> int:
    """Of a dialogue in as many chunks as one of so many frames."""
    return len(chunks(n_frames + 2, max_columns)) * max_columns - 2


def units_of(
    number: int,
    dataset: TokenDataset,
    split: str,
    learn: str,
    kind: RowKind = "dialogues",
    *,
    joins: bool = False,
    without_oracle: bool = True,
    max_columns: int = MAX_COLUMNS,
) -> Units:
    """Units of a dataset's rows of a split and kind, each from the sides of those who are learnt: of speech from A's.

    Args:
        number: the dataset's place in the mixture.
        learn: "a", "b" or "both".
        joins: whether dialogues may be joined or lengthened, so that one is planned as long as it may become.
        without_oracle: whether dialogues' sides without an oracle, or all of whose events failed, are met.
        max_columns: of a chunk.
    """
    is_speech = kind == "speech"
    speakers: tuple[Speaker, ...] = ("a",) if learn == "a" or is_speech else ("b",) if learn == "b" else ("a", "b")
    units: list[Unit] = []
    lengths, spares, counts = [], [], []
    in_split = (np.asarray(dataset.splits) == split) & (dataset.is_speech == is_speech)
    met = {each: in_split & (is_speech | (dataset.n_events_of[each] > 0) | without_oracle) for each in speakers}
    for row in np.flatnonzero(in_split).tolist():
        longest = n_frames = int(dataset.lengths[row])
        if joins:
            longest = (longest_told if is_speech else longest_joined)(n_frames, max_columns)
        n_spare = _most_frames(n_frames, max_columns) - longest
        cut = chunks(longest + 2, max_columns)
        for chunk, (start, stop) in enumerate(cut):
            for speaker in speakers:
                if met[speaker][row]:
                    units.append(Unit(number, row, speaker, chunk))
                    lengths.append(stop - start - 1)
                    spares.append(n_spare)
                    counts.append(len(cut))
    n_left_out = sum(int((in_split & ~each).sum()) for each in met.values())
    sizes = [np.asarray(each, np.int32) for each in (lengths, spares, counts)]
    return Units(units, sizes[0], sizes[1], sizes[2], n_left_out)


def holds_rows(dataset: TokenDataset, kind: RowKind) -> bool:
    """Whether a dataset has rows of a kind; one without any row counts as one of dialogues."""
    return bool(dataset.is_speech.any()) if kind == "speech" else len(dataset) == 0 or not dataset.is_speech.all()


class BatchPlan:
    """Micro-batches of all rounds, by pools.

    Args:
        datasets: the mixture's, each with its fingerprint.
        config: weights, whom to learn, sizes of micro-batches and pools.
        seed: seed of the order.
        kind: of the rows that are met; datasets without such rows are passed over.

    Raises:
        ConfigError: a dataset has nothing to train on.
    """

    def __init__(
        self, datasets: Sequence[TokenDataset], config: DataConfig, seed: int, kind: RowKind = "dialogues"
    ) -> None:
        self._units = [
            units_of(
                number,
                each,
                "train",
                config.learn,
                kind,
                joins=config.lengthens if kind == "dialogues" else not config.feed.is_silent,
                without_oracle=config.feed.is_silent,
                max_columns=config.max_columns,
            )
            for number, each in enumerate(datasets)
        ]
        holds = [holds_rows(each, kind) for each in datasets]
        for dataset, each, has_rows in zip(datasets, self._units, holds, strict=True):
            if has_rows and not each.units:
                wanted = "dialogue with an oracle" if kind == "dialogues" else "speech"
                raise ConfigError(
                    f"{dataset.folder} has no {wanted} in the split 'train' (learn: {config.learn}).",
                    "Encode a dataset that has some, or another version of its oracles; those for what B says come "
                    "with oracle.both_directions.",
                )
        self.n_left_out = sum(each.n_left_out for each in self._units)
        self._fingerprints = [each.fingerprint for each in datasets]
        self._config, self._seed = config, seed
        n_units = sum(len(each.units) for each in self._units)
        weights = np.asarray([each.weight for each in config.datasets]) * holds
        self._shares: list[float] = (n_units * (weights / weights.sum())).tolist()
        self.pools = lru_cache(maxsize=2)(self._pools)
        self._n_rows = [len(each) for each in datasets]
        self._order = lru_cache(maxsize=2 * len(datasets))(self._permutation)
        self._behind = lru_cache(maxsize=2 * len(datasets))(self._silence_behind)

    def _pools(self, number: int) -> list[Pool]:
        """The pools of a round, in the order in which they are met."""
        planned, lengths = self._examples(number)
        order = np.random.default_rng(ids.seed_for("round", self._seed, number)).permutation(len(planned))
        n_frames = self._config.batch_frames
        pools = []
        for place, pool in enumerate(_cut_pools(order, lengths, n_frames * self._config.pool_batches)):
            by_length = pool[np.argsort(lengths[pool], kind="stable")]
            sizes = [len(each) for each in cut_by_frames(by_length, lengths, n_frames)]
            seed = ids.seed_for("pool", self._seed, *self._fingerprints, number, place)
            pools.append(Pool(seed, [planned[at] for at in pool.tolist()], sizes))
        return pools

    def n_batches(self, number: int) -> int:
        """Micro-batches of a round."""
        return sum(len(each.sizes) for each in self.pools(number))

    def _examples(self, number: int) -> tuple[list[Planned], NDArray[np.int32]]:
        """A round's examples in no particular order, and their lengths."""
        planned: list[Planned] = []
        lengths: list[NDArray[np.int32]] = []
        for dataset, (units, share) in enumerate(zip(self._units, self._shares, strict=True)):
            if not units.units:
                continue
            first, stop = (math.floor(each * share + 1e-6) for each in (number, number + 1))  # floats may fall short
            places = np.arange(first, stop)
            epochs, within = np.divmod(places, len(units.units))
            at = np.asarray(
                [self._order(dataset, epoch)[place] for epoch, place in zip(epochs, within, strict=True)], int
            )
            behind = np.asarray(
                [self._behind(dataset, epoch)[units.units[place].row] for epoch, place in zip(epochs, at, strict=True)],
                np.int32,
            )
            behind = np.minimum(behind, units.n_spare[at])
            planned += [
                Planned(units.units[place], int(epoch), n_behind)
                for place, epoch, n_behind in zip(at, epochs, behind.tolist(), strict=True)
            ]
            lengths.append(units.n_positions[at] - -behind // units.n_chunks[at])
        return planned, np.concatenate(lengths)

    def _permutation(self, dataset: int, epoch: int) -> NDArray[np.int64]:
        seed = ids.seed_for("epoch", self._seed, self._fingerprints[dataset], int(epoch))
        return np.random.default_rng(seed).permutation(len(self._units[dataset].units))

    def _silence_behind(self, dataset: int, epoch: int) -> NDArray[np.int32]:
        """int32[rows], frames of silence behind each row of a dataset in an epoch, where there is room for them."""
        draw = np.random.default_rng(ids.seed_for("behind", self._seed, self._fingerprints[dataset], int(epoch)))
        waits = draw.random(self._n_rows[dataset]) < self._config.wait_share
        return np.where(waits, draw.integers(1, BEHIND_FRAMES, self._n_rows[dataset], endpoint=True), 0).astype(
            np.int32
        )


def _cut_pools(order: NDArray[np.int64], lengths: NDArray[np.int32], n_frames: int) -> list[NDArray[np.int64]]:
    """An order cut into runs of about so many frames."""
    ends = np.cumsum(lengths[order]) // n_frames
    return np.split(order, np.flatnonzero(np.diff(ends)) + 1)


def cut_by_frames(by_length: NDArray[np.int64], lengths: NDArray[np.int32], n_frames: int) -> list[list[int]]:
    """Examples, shortest first, cut into micro-batches that take at most so many frames once padded.

    One that is longer alone is a micro-batch of its own.
    """
    batches: list[list[int]] = [[]]
    for place in by_length.tolist():
        if batches[-1] and (len(batches[-1]) + 1) * int(lengths[place]) > n_frames:
            batches.append([])
        batches[-1].append(place)
    return batches
