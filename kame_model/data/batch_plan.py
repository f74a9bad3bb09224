"""Sampling order, dataset mixture and micro-batches as pure functions of seeds, so that nothing must be stored.

A round has as many examples as all datasets together; each dataset gets its share of them by weight and goes through
its own epochs, each in a new random order. With one dataset, a round is an epoch. A round's examples are shuffled and
cut into pools. The number of micro-batches of a pool and their sizes follow from the maximum lengths of its examples;
which example goes into which micro-batch follows from the actual lengths, which are measured when a micro-batch is
made. All processes compute the same plan, and each takes its share of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.training import DataConfig
from data_schemas.errors import ConfigError
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import round_length
from kame_model.frames.sequence import MAX_COLUMNS, cut_chunks

Speaker = Literal["a", "b"]
_SPEAKERS: Final[dict[str, tuple[Speaker, ...]]] = {"a": ("a",), "b": ("b",), "both": ("a", "b")}
"""The speakers to learn, by the setting `learn`."""
RowKind = Literal["dialogues", "speech"]

HEADROOM = 1.25
"""Maximum length of a dialogue joined from two, or with a delayed answer, relative to that of its question."""

PREPENDED_ORACLE_FRAMES = 24
"""Maximum frames added to a speech row: silence and its oracle before it, and waiting for the oracle's tokens."""

BEHIND_FRAMES = 125
"""Maximum silence after a dialogue's last word, in frames: ten seconds."""


class RowChunk(NamedTuple):
    """The origin of an example: a chunk of a row of a dataset, for one speaker."""

    dataset: int
    row: int
    speaker: Speaker
    chunk: int


class PlannedExample(NamedTuple):
    """A planned training example: a unit in one epoch, with `n_behind` frames of silence after its dialogue."""

    unit: RowChunk
    epoch: int
    n_behind: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """Examples that are sorted by length together and cut into micro-batches.

    Attributes:
        seed: identifies the pool, and determines the order of its micro-batches.
        planned: the examples.
        sizes: number of examples of each micro-batch, from the shortest examples to the longest.
    """

    seed: int
    planned: list[PlannedExample] = field(compare=False)
    sizes: list[int] = field(compare=False)

    def cut(self, measure: Callable[[PlannedExample], int]) -> list[list[PlannedExample]]:
        """Returns its micro-batches in the order of training.

        Examples sorted by their actual lengths never take more frames than sorted by their maximum lengths: the i-th
        actual length is never above the i-th maximum length.

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
        n_positions: int32, maximum input positions of each, without silence after its dialogue.
        n_spare: int32, frames of silence that can be added to its dialogue without another chunk.
        n_chunks: int32, number of chunks of its dialogue.
        n_left_out: number of rows of the split, counted per speaker, that are skipped because they have no oracle for
            that speaker.
    """

    units: list[RowChunk]
    n_positions: NDArray[np.int32]
    n_spare: NDArray[np.int32]
    n_chunks: NDArray[np.int32]
    n_left_out: int


def compute_longest_joined(n_frames: int, max_columns: int = MAX_COLUMNS) -> int:
    """Returns the maximum length of a dialogue of `n_frames` frames after it was joined or extended, in frames.

    It never needs more chunks than before.
    """
    return min(int(HEADROOM * n_frames), _compute_most_frames(n_frames, max_columns))


def compute_longest_speech(n_frames: int, max_columns: int = MAX_COLUMNS) -> int:
    """Returns the maximum length of a speech row of `n_frames` frames after an oracle was put before it, in frames.

    It never needs more chunks than before.
    """
    return min(n_frames + PREPENDED_ORACLE_FRAMES, _compute_most_frames(n_frames, max_columns))


def _compute_most_frames(n_frames: int, max_columns: int) -> int:
    """Returns the maximum length in frames of a dialogue that needs as many chunks as one of `n_frames` frames."""
    return len(cut_chunks(n_frames + 2, max_columns)) * max_columns - 2


def make_units(
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
    """Returns the units of a dataset's rows of a split and kind, for each speaker learnt; for speech only A.

    Args:
        number: the dataset's place in the mixture.
        learn: "a", "b" or "both".
        joins: whether dialogues may be joined or extended, so that maximum lengths are planned.
        without_oracle: whether speakers without an oracle, or whose events all failed, are included.
        max_columns: maximum number of columns of a chunk.
    """
    is_speech = kind == "speech"
    speakers = _SPEAKERS["a" if is_speech else learn]
    units: list[RowChunk] = []
    lengths, spares, counts = [], [], []
    in_split = (np.asarray(dataset.splits) == split) & (dataset.is_speech == is_speech)
    met = {each: in_split & (is_speech | (dataset.n_events_of[each] > 0) | without_oracle) for each in speakers}
    for row in np.flatnonzero(in_split).tolist():
        longest = n_frames = int(dataset.lengths[row])
        if joins:
            longest = (compute_longest_speech if is_speech else compute_longest_joined)(n_frames, max_columns)
        n_spare = _compute_most_frames(n_frames, max_columns) - longest
        cut = cut_chunks(longest + 2, max_columns)
        for chunk, (start, stop) in enumerate(cut):
            for speaker in speakers:
                if met[speaker][row]:
                    units.append(RowChunk(number, row, speaker, chunk))
                    lengths.append(stop - start - 1)
                    spares.append(n_spare)
                    counts.append(len(cut))
    n_left_out = sum(int((in_split & ~each).sum()) for each in met.values())
    sizes = [np.asarray(each, np.int32) for each in (lengths, spares, counts)]
    return Units(units, sizes[0], sizes[1], sizes[2], n_left_out)


def has_rows_of(dataset: TokenDataset, kind: RowKind) -> bool:
    """Returns whether a dataset has rows of a kind; an empty dataset counts as one of dialogues."""
    return bool(dataset.is_speech.any()) if kind == "speech" else len(dataset) == 0 or not dataset.is_speech.all()


class BatchPlan:
    """Micro-batches of all rounds, by pools.

    Args:
        datasets: datasets of the mixture.
        config: weights, speaker to learn, sizes of micro-batches and pools.
        seed: seed of the order.
        kind: kind of the rows; datasets without such rows are skipped.

    Attributes:
        get_pools: returns the pools of a round, by the round's number, in the order of training; the last two rounds
            are cached.
        n_left_out: number of rows without an oracle that are skipped, of all datasets (`Units`).

    Raises:
        ConfigError: if a dataset has rows of the kind, but none to train on.
    """

    def __init__(
        self, datasets: Sequence[TokenDataset], config: DataConfig, seed: int, kind: RowKind = "dialogues"
    ) -> None:
        self._units = [
            make_units(
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
        holds = [has_rows_of(each, kind) for each in datasets]
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
        self.get_pools = lru_cache(maxsize=2)(self._make_pools)
        self._n_rows = [len(each) for each in datasets]
        self._order = lru_cache(maxsize=2 * len(datasets))(self._draw_permutation)
        self._behind = lru_cache(maxsize=2 * len(datasets))(self._draw_silence_behind)

    def _make_pools(self, number: int) -> list[Pool]:
        """Returns the pools of a round in the order of training."""
        planned, lengths = self._make_examples(number)
        order = np.random.default_rng(ids.derive_seed("round", self._seed, number)).permutation(len(planned))
        n_frames = self._config.batch_frames
        pools = []
        for place, pool in enumerate(_cut_pools(order, lengths, n_frames * self._config.pool_batches)):
            by_length = pool[np.argsort(lengths[pool], kind="stable")]
            sizes = [len(each) for each in cut_by_frames(by_length, lengths, self._config)]
            seed = ids.derive_seed("pool", self._seed, *self._fingerprints, number, place)
            pools.append(Pool(seed, [planned[at] for at in pool.tolist()], sizes))
        return pools

    def count_batches(self, number: int) -> int:
        """Returns the number of micro-batches of a round."""
        return sum(len(each.sizes) for each in self.get_pools(number))

    def _make_examples(self, number: int) -> tuple[list[PlannedExample], NDArray[np.int32]]:
        """Returns a round's examples, not shuffled yet, and the maximum length of each in input positions."""
        planned: list[PlannedExample] = []
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
                PlannedExample(units.units[place], int(epoch), n_behind)
                for place, epoch, n_behind in zip(at, epochs, behind.tolist(), strict=True)
            ]
            lengths.append(units.n_positions[at] - -behind // units.n_chunks[at])
        return planned, np.concatenate(lengths)

    def _draw_permutation(self, dataset: int, epoch: int) -> NDArray[np.int64]:
        """Returns the order of a dataset's units in an epoch."""
        seed = ids.derive_seed("epoch", self._seed, self._fingerprints[dataset], int(epoch))
        return np.random.default_rng(seed).permutation(len(self._units[dataset].units))

    def _draw_silence_behind(self, dataset: int, epoch: int) -> NDArray[np.int32]:
        """Draws int32[rows], the frames of silence after each row of a dataset in an epoch."""
        draw = np.random.default_rng(ids.derive_seed("behind", self._seed, self._fingerprints[dataset], int(epoch)))
        waits = draw.random(self._n_rows[dataset]) < self._config.wait_share
        return np.where(waits, draw.integers(1, BEHIND_FRAMES, self._n_rows[dataset], endpoint=True), 0).astype(
            np.int32
        )


def _cut_pools(order: NDArray[np.int64], lengths: NDArray[np.int32], n_frames: int) -> list[NDArray[np.int64]]:
    """Cuts an order of examples into pools of about `n_frames` frames each; `lengths` are by example."""
    ends = np.cumsum(lengths[order]) // n_frames
    return np.split(order, np.flatnonzero(np.diff(ends)) + 1)


def cut_by_frames(by_length: NDArray[np.int64], lengths: NDArray[np.int32], config: DataConfig) -> list[list[int]]:
    """Cuts examples, sorted by length, into micro-batches of at most `batch_frames` frames, padding included.

    An example that is longer forms a micro-batch of its own. Returns the indices of each one's examples, as given in
    `by_length`; without examples, a single empty micro-batch.
    """
    batches: list[list[int]] = [[]]
    for place in by_length.tolist():
        padded = round_length(int(lengths[place]), config.length_multiple)
        if batches[-1] and (len(batches[-1]) + 1) * padded > config.batch_frames:
            batches.append([])
        batches[-1].append(place)
    return batches
