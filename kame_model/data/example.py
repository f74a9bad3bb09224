"""Token rows to the examples that the model sees; each a pure function of (seed, epoch, row), whoever makes it."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.training import DataConfig
from kame_model.data.copying import Pieces
from kame_model.data.oracle_feed import feed, is_dropped, shifted
from kame_model.data.plan import Planned, Speaker, Unit, longest_joined
from kame_model.data.substitution import substituted
from kame_model.data.swap import Corrected, Sides, corrected, swapped
from kame_model.data.waiting import waiting
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Example
from kame_model.frames.oracle_stream import OracleTokenEvent, lay_oracle
from kame_model.frames.sequence import Chunk, chunks, lay_sequence, select_events

N_PARTNERS = 4
"""Dialogues tried, at most, until one's answer makes a joined dialogue of a length that was planned for."""


class Judged(NamedTuple):
    """A validation example, and the stream that another item's oracle would make of it: int32[S], idle where the split
    holds no other item."""

    example: Example
    wrong_oracle: NDArray[np.int32]


class Changes(NamedTuple):
    """What was made of a training example: it has another answer, two answers, or one in other words."""

    swapped: bool
    corrected: bool
    substituted: bool


class ExampleMaker:
    """Makes examples of a mixture of datasets.

    Args:
        datasets: of one vocabulary and codec, as `open_datasets` gives them.
        config: whose words are learnt, and what befalls oracles.
        seed: of everything drawn.
        pieces: of the vocabulary; needed where answers get other words.
    """

    def __init__(
        self, datasets: Sequence[TokenDataset], config: DataConfig, seed: int, pieces: Pieces | None = None
    ) -> None:
        self._datasets, self._config, self._seed, self._pieces = datasets, config, seed, pieces
        self._same_split = [
            {split: np.flatnonzero(np.asarray(each.splits) == split) for split in set(each.splits)} for each in datasets
        ]

    def train(self, planned: Planned, step: int) -> tuple[Example, Changes]:
        """A training example, and what became of it; `step` is the run's, at which the curriculum looks."""
        unit, epoch = planned
        row = self._datasets[unit.dataset][unit.row]
        draw = random.Random(ids.seed_for("example", self._seed, epoch, row.dialogue_id, unit.speaker, unit.chunk))
        n_most = longest_joined(row.n_frames, self._config.max_columns)
        asked = sides_of(row, unit.speaker)
        joined = said = answered = self._swapped(unit, asked, n_most, draw)
        events: list[OracleTokenEvent] = []
        if not is_dropped(self._config.feed, draw):  # else nothing tells of a second answer, nor of other words
            joined, said, events = self._told(unit, answered, n_most, step, draw)
        changes = Changes(answered is not asked, joined is not answered, said is not joined)
        if draw.random() < self._config.wait_share:
            said = waiting(said, draw.randint(0, max(0, n_most - len(said.own.text))))
        columns, chunk = self._columns(said, unit)
        return self._example(said, columns, chunk, self._stream(events, chunk)), changes

    def judge(self, unit: Unit) -> Judged:
        """A validation example as it is, beside the oracle of the next item in the same split with another answer."""
        row = self._datasets[unit.dataset][unit.row]
        sides = sides_of(row, unit.speaker)
        stranger = self._stranger(unit, row)
        wrong = [] if stranger is None else aligned(sides_of(stranger, unit.speaker).own, sides.own)
        columns, chunk = self._columns(sides, unit)
        example = self._example(sides, columns, chunk, self._stream(sides.own.oracle.events(), chunk))
        return Judged(example, self._stream(wrong, chunk))

    def _told(
        self, unit: Unit, answered: Sides, n_most: int, step: int, draw: random.Random
    ) -> tuple[Sides, Sides, list[OracleTokenEvent]]:
        """The dialogue, maybe with a second answer; the same, maybe in other words; and the oracle that tells it."""
        joined, news = self._corrected(unit, answered, n_most, draw)
        # A second answer has a lead of its own, which no oracle tells.
        said = joined if news else self._in_other_words(joined, draw)
        events = feed(said.own.oracle, self._config.feed, step, draw)
        if news:
            events = [each for each in events if each[0] < news[0][0]] + news
        return joined, said, events

    def _stranger(self, unit: Unit, row: TokenRow) -> TokenRow | None:
        """The next row of another item, with another answer and an oracle; dialogues of one item lie side by side."""
        dataset = self._datasets[unit.dataset]
        rows = self._rows_like(unit)
        first = int(np.searchsorted(rows, unit.row)) + 1
        for at in np.roll(rows, -first)[:-1].tolist():
            if dataset.n_events_of[unit.speaker][at]:
                other = dataset[at]
                if other.item_id != row.item_id and other.answer != row.answer:
                    return other
        return None

    def _swapped(self, unit: Unit, sides: Sides, n_most: int, draw: random.Random) -> Sides:
        """The dialogue, or for a share of examples its question with another's answer."""
        if draw.random() < self._config.swap_share:
            for partner in self._partners(unit, draw):
                joined = swapped(sides, partner)
                if joined is not None and self._fits(joined, sides, n_most):
                    return joined
        return sides

    def _corrected(self, unit: Unit, sides: Sides, n_most: int, draw: random.Random) -> Corrected:
        """The dialogue, or for a share of examples one whose answer changes to another's."""
        if draw.random() < self._config.correct_share:
            for partner in self._partners(unit, draw):
                change = corrected(sides, partner, draw)
                if change is not None and self._fits(change.sides, sides, n_most):
                    return change
        return Corrected(sides, [])

    def _in_other_words(self, sides: Sides, draw: random.Random) -> Sides:
        if self._pieces is None or not draw.random() < self._config.substitute_share:
            return sides
        own = substituted(sides.own, self._pieces, draw)
        return sides if own is None else sides._replace(own=own)

    def _partners(self, unit: Unit, draw: random.Random) -> Iterator[Sides]:
        """Any dialogues of the same dataset and split."""
        rows = self._rows_like(unit)
        for _ in range(N_PARTNERS):
            yield sides_of(self._datasets[unit.dataset][int(rows[draw.randrange(len(rows))])], unit.speaker)

    def _rows_like(self, unit: Unit) -> NDArray[np.int64]:
        return self._same_split[unit.dataset][self._datasets[unit.dataset].splits[unit.row]]

    def _fits(self, joined: Sides, sides: Sides, n_most: int) -> bool:
        """Whether what was joined is no longer than planned and has as many chunks, so that every chunk is met."""
        n_frames, n_before = (len(each.own.text) for each in (joined, sides))
        n_chunks, n_planned = (len(chunks(each + 2, self._config.max_columns)) for each in (n_frames, n_before))
        return n_frames <= n_most and n_chunks == n_planned

    def _columns(self, sides: Sides, unit: Unit) -> tuple[NDArray[np.int32], Chunk]:
        """All columns of a dialogue, and the unit's chunk of them."""
        dataset = self._datasets[unit.dataset]
        own, other = sides
        columns = lay_sequence(own.text, own.codes, other.codes, dataset.text_card, dataset.layout)
        return columns, chunks(columns.shape[1], self._config.max_columns)[unit.chunk]

    def _stream(self, events: list[OracleTokenEvent], chunk: Chunk) -> NDArray[np.int32]:
        """The oracle ids at a chunk's S input positions."""
        return lay_oracle(select_events(events, chunk), chunk.stop - chunk.start - 1, self._datasets[0].text_card)

    def _example(self, sides: Sides, columns: NDArray[np.int32], chunk: Chunk, oracle: NDArray[np.int32]) -> Example:
        answers = np.append(sides.own.answer_mask, False)[chunk.start : chunk.stop - 1]  # False: the tail
        dataset = self._datasets[0]
        return Example.of(columns[:, chunk.start : chunk.stop], oracle, answers, dataset.text_card, dataset.layout.card)


def sides_of(row: TokenRow, speaker: Speaker) -> Sides:
    """A row from the side of the speaker that is learnt."""
    return Sides(row.a, row.b) if speaker == "a" else Sides(row.b, row.a)


def aligned(wrong: SpeakerTokens, right: SpeakerTokens) -> list[OracleTokenEvent]:
    """Another dialogue's oracle as it would come to this one: the question's end of one at that of the other."""
    events, ends = wrong.oracle.events(), (wrong.answering_event(), right.answering_event())
    if ends[0] is None or ends[1] is None:
        return events
    return shifted(events, int(right.oracle.frame[ends[1]]) - int(wrong.oracle.frame[ends[0]]))
