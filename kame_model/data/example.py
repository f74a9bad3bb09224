"""Token rows to the examples that the model sees; each a pure function of (seed, epoch, row), whoever makes it."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.training import DataConfig
from kame_model.data.oracle_feed import feed, shifted
from kame_model.data.plan import Planned, Speaker, Unit
from kame_model.data.swap import Sides, corrected, handover, swapped
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Example
from kame_model.frames.oracle_stream import OracleTokenEvent, lay_oracle
from kame_model.frames.sequence import Chunk, chunks, events_in, lay_sequence


class Judged(NamedTuple):
    """A validation example, and the stream that another dialogue's oracle would make of it: int32[S]."""

    example: Example
    wrong_oracle: NDArray[np.int32]


class ExampleMaker:
    """Makes examples of a mixture of datasets.

    Args:
        datasets: of one vocabulary and codec, as `open_datasets` gives them.
        config: whose words are learnt, and what befalls oracles.
        seed: of everything drawn.
    """

    def __init__(self, datasets: Sequence[TokenDataset], config: DataConfig, seed: int) -> None:
        self._datasets, self._config, self._seed = datasets, config, seed
        self._same_split = [
            {split: np.flatnonzero(np.asarray(each.splits) == split) for split in set(each.splits)} for each in datasets
        ]

    def train(self, planned: Planned, step: int) -> Example:
        """A training example; `step` is the optimiser step it is made for, at which the curriculum looks."""
        unit, epoch = planned
        row = self._datasets[unit.dataset][unit.row]
        draw = random.Random(ids.seed_for("example", self._seed, epoch, row.dialogue_id, unit.speaker, unit.chunk))
        sides = self._joined(unit, sides_of(row, unit.speaker), draw)
        events = feed(sides.own.oracle, self._config.feed, step, draw)
        columns, chunk = self._columns(sides, unit)
        return self._example(sides, columns, chunk, self._stream(events, chunk))

    def judge(self, unit: Unit) -> Judged:
        """A validation example as it is, beside the oracle of the dialogue that follows it in the same split."""
        rows = self._same_split[unit.dataset][self._datasets[unit.dataset].splits[unit.row]]
        follower = int(rows[(int(np.searchsorted(rows, unit.row)) + 1) % len(rows)])
        sides = sides_of(self._datasets[unit.dataset][unit.row], unit.speaker)
        wrong = sides_of(self._datasets[unit.dataset][follower], unit.speaker).own
        columns, chunk = self._columns(sides, unit)
        example = self._example(sides, columns, chunk, self._stream(sides.own.oracle.events(), chunk))
        return Judged(example, self._stream(aligned(wrong, sides.own), chunk))

    def _joined(self, unit: Unit, sides: Sides, draw: random.Random) -> Sides:
        """The dialogue, or for a share of examples its question with another's answer, or its answer corrected."""
        if draw.random() < self._config.swap_share:
            sides = self._if_as_long(sides, swapped(sides, self._partner(unit, draw)))
        if draw.random() < self._config.correct_share:
            sides = self._if_as_long(sides, corrected(sides, self._partner(unit, draw), draw))
        return sides

    def _partner(self, unit: Unit, draw: random.Random) -> Sides:
        """Any dialogue of the same dataset and split."""
        dataset = self._datasets[unit.dataset]
        rows = self._same_split[unit.dataset][dataset.splits[unit.row]]
        return sides_of(dataset[int(rows[draw.randrange(len(rows))])], unit.speaker)

    @staticmethod
    def _if_as_long(sides: Sides, joined: Sides | None) -> Sides:
        """What was joined, where that could be and has as many chunks, so that every chunk is met as planned."""
        return sides if joined is None or _n_chunks(joined) != _n_chunks(sides) else joined

    def _columns(self, sides: Sides, unit: Unit) -> tuple[NDArray[np.int32], Chunk]:
        """All columns of a dialogue, and the unit's chunk of them."""
        dataset = self._datasets[unit.dataset]
        own, other = sides
        columns = lay_sequence(own.text, own.codes, other.codes, dataset.text_card, dataset.card)
        return columns, chunks(columns.shape[1])[unit.chunk]

    def _stream(self, events: list[OracleTokenEvent], chunk: Chunk) -> NDArray[np.int32]:
        """The oracle ids at a chunk's S input positions."""
        return lay_oracle(events_in(events, chunk), chunk.stop - chunk.start - 1, self._datasets[0].text_card)

    def _example(self, sides: Sides, columns: NDArray[np.int32], chunk: Chunk, oracle: NDArray[np.int32]) -> Example:
        answers = np.append(sides.own.answer_mask, False)[chunk.start : chunk.stop - 1]  # False: the tail
        dataset = self._datasets[0]
        return Example.of(columns[:, chunk.start : chunk.stop], oracle, answers, dataset.text_card, dataset.card)


def sides_of(row: TokenRow, speaker: Speaker) -> Sides:
    """A row from the side of the speaker that is learnt."""
    return Sides(row.a, row.b) if speaker == "a" else Sides(row.b, row.a)


def aligned(wrong: SpeakerTokens, right: SpeakerTokens) -> list[OracleTokenEvent]:
    """Another dialogue's oracle as it would come to this one: the question's end of one at that of the other."""
    ends = handover(wrong), handover(right)
    events = wrong.oracle.events()
    return events if ends[0] is None or ends[1] is None else shifted(events, ends[1] - ends[0])


def _n_chunks(sides: Sides) -> int:
    return len(chunks(len(sides.own.text) + 2))
