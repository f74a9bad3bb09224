"""Token rows to the examples that the model sees; each a pure function of (seed, epoch, row), whoever makes it."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.training import DataConfig
from data_schemas.guesses import Guesses
from kame_model.data.augment import answer_span, lead_of, spoken, stalled, substituted, swapped, told, waiting
from kame_model.data.augment_timing import FedDialogue, corrected, delayed
from kame_model.data.copying import Pieces
from kame_model.data.oracle_feed import Fed, feed, shifted, slowed
from kame_model.data.plan import Planned, Speaker, Unit, longest_joined, longest_told
from kame_model.data.speech_rows import SpeechRows
from kame_model.data.splicing import Clip, Sides
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Example
from kame_model.frames.oracle_stream import OracleTokenEvent, lay_oracle
from kame_model.frames.sequence import Chunk, chunks, lay_sequence, select_events

N_PARTNERS = 4
"""Dialogues tried, at most, until one's answer makes a joined dialogue of a length that was planned for."""

FILLER_SHARE = 0.5
"""How often something is said while the oracle is not there: a lead before a late answer or a stall, and a stall."""

TOLD_FRAMES = ((0, 4), (4, 12))
"""Of a speech row in training: at which frame its oracle comes, and how long after that the row begins."""

JUDGED_TOLD_FRAMES = (0, 6)
"""The same in validation."""


class Judged(NamedTuple):
    """A validation example, and the stream that another item's oracle would make of it: int32[S], idle where the split
    holds no other item."""

    example: Example
    wrong_oracle: NDArray[np.int32]


class Changes(NamedTuple):
    """What was made of a dialogue: it has another one's answer, an answer in other words, none but a stall, one that
    waits for its oracle, or two."""

    swapped: bool
    substituted: bool
    stalled: bool
    delayed: bool
    corrected: bool


@dataclass(slots=True)
class _Draft:
    """A dialogue on its way to an example.

    Attributes:
        sides: what it has become.
        n_most: frames that are planned for.
        n_chunks: as many it must have, so that every chunk of it is met.
        max_columns: of a chunk.
        fed: the oracle as it comes.
        changes: by which augmentations it became so.
    """

    sides: Sides
    n_most: int
    n_chunks: int
    max_columns: int
    fed: list[Fed] = field(default_factory=list)
    changes: set[str] = field(default_factory=set)

    @property
    def n_spare(self) -> int:
        """Frames by which it may grow."""
        return self.n_most - self.sides.n_frames

    def take(self, name: str, candidates: Iterable[Sides | FedDialogue | None]) -> bool:
        """Becomes the first candidate that is one and fits; whether there was any."""
        for each in candidates:
            if each is None:
                continue
            sides, fed = each if isinstance(each, FedDialogue) else (each, self.fed)
            n_frames = sides.n_frames
            if n_frames <= self.n_most and len(chunks(n_frames + 2, self.max_columns)) == self.n_chunks:
                self.sides, self.fed = sides, fed
                self.changes.add(name)
                return True
        return False


class ExampleMaker:
    """Makes examples of a mixture of datasets.

    Args:
        datasets: of one vocabulary and codec, as `open_datasets` gives them.
        config: whose words are learnt, and what befalls dialogues and oracles.
        seed: of everything drawn.
        pieces: of the vocabulary; needed where answers get other words and there are no speech rows.
    """

    def __init__(
        self, datasets: Sequence[TokenDataset], config: DataConfig, seed: int, pieces: Pieces | None = None
    ) -> None:
        self._datasets, self._config, self._seed, self._pieces = datasets, config, seed, pieces
        self._speech = SpeechRows(datasets)
        self._begins_word = None
        if pieces is not None:
            self._begins_word = np.zeros(pieces.text_card + 1, np.bool_)
            self._begins_word[np.asarray(pieces.first)] = True
        self._same_split = [
            {split: np.flatnonzero(np.asarray(each.splits) == split) for split in set(each.splits)} for each in datasets
        ]

    def train(self, planned: Planned, step: int) -> tuple[Example, Changes | None]:
        """A training example, and what became of its dialogue; None: it is of a speech row.

        `step` is the run's, at which the curriculum looks.
        """
        unit, is_speech = planned.unit, self._datasets[planned.unit.dataset].is_speech[planned.unit.row]
        draft, sides = self._draft(planned, step)
        columns, chunk = self._columns(sides, unit)
        events: list[OracleTokenEvent] = [(each.frame, each.tokens) for each in draft.fed]
        changes = None if is_speech else Changes(*(name in draft.changes for name in Changes._fields))
        return self._example(sides, columns, chunk, self._stream(events, chunk)), changes

    def measure(self, planned: Planned) -> int:
        """Input positions of a training example, as it is once the curriculum is at its end.

        While hints are fed in the place of predictions, which may make an answer wait otherwise, the example itself may
        be a little shorter or longer, never longer than planned for.
        """
        _, sides = self._draft(planned, self._config.feed.predictions_from_step)
        chunk = chunks(sides.n_frames + 2, self._config.max_columns)[planned.unit.chunk]
        return chunk.stop - chunk.start - 1

    def _draft(self, planned: Planned, step: int) -> tuple[_Draft, Sides]:
        """What becomes of a row in training, and the same with the silence behind it."""
        unit, epoch, n_behind = planned
        dataset, config = self._datasets[unit.dataset], self._config
        row, is_speech = dataset[unit.row], bool(dataset.is_speech[unit.row])
        draw = random.Random(ids.seed_for("example", self._seed, epoch, row.dialogue_id, unit.speaker, unit.chunk))
        n_most = (longest_told if is_speech else longest_joined)(row.n_frames, config.max_columns)
        n_chunks = len(chunks(row.n_frames + 2, config.max_columns))
        draft = _Draft(sides_of(row, unit.speaker), n_most, n_chunks, config.max_columns)
        if config.feed.is_silent:
            pass  # dialogues and speech as they are
        elif is_speech:
            self._tell(draft, draw)
        else:
            self._augment(draft, unit, step, draw)
        return draft, (waiting(draft.sides, n_behind) if n_behind else None) or draft.sides

    def judge(self, unit: Unit) -> Judged:
        """A validation example as it is, beside the oracle of the next item in the same split with another answer.

        A speech row has an oracle right before it that tells it, beside that of the next one.
        """
        sides = self._as_judged(unit, unit.row)
        stranger = self._stranger(unit)
        guesses = self._config.feed.guesses
        wrong = [] if stranger is None else aligned(self._as_judged(unit, stranger).own, sides.own, guesses)
        columns, chunk = self._columns(sides, unit)
        right = sides.own.oracle.events(guesses=guesses, turn_end_frames=0)
        example = self._example(sides, columns, chunk, self._stream(right, chunk))
        return Judged(example, self._stream(wrong, chunk))

    def _augment(self, draft: _Draft, unit: Unit, step: int, draw: random.Random) -> None:
        """What befalls a dialogue, in this order, each in the share that is configured."""
        config = self._config
        if draw.random() < config.swap_share:
            draft.take("swapped", (swapped(draft.sides, each) for each in self._partners(unit, draw)))
        if draw.random() < config.substitute_share:
            draft.take("substituted", self._in_other_words(draft.sides, draft.n_spare, draw))
        if draw.random() < config.feed.drop_share and draft.take("stalled", self._stalled(draft, unit, draw)):
            return
        draft.fed = feed(draft.sides.own.oracle, config.feed, step, draw)
        self._wait_for_oracle(draft, self._leads(unit, draw), draw)
        if draw.random() < config.correct_share:
            seconds = (self._with_new_words(each, draft.n_spare, draw) for each in self._partners(unit, draw))
            change = partial(corrected, begins_word=self._begins_word, guesses=config.feed.guesses)
            draft.take("corrected", (change(draft.sides, draft.fed, each, draw) for each in seconds))

    def _tell(self, draft: _Draft, draw: random.Random) -> None:
        """What befalls an utterance of the speech rows: an oracle tells it, maybe with gaps."""
        (first, last), lag = TOLD_FRAMES[0], draw.randint(*TOLD_FRAMES[1])
        frame = draw.randint(first, last)
        if not draft.take("told", [told(draft.sides, frame, frame + lag)]):
            return
        fed = [Fed(0, frame, draft.sides.own.oracle.said(0).tolist())]
        draft.fed = slowed(fed, draw) if draw.random() < self._config.feed.slow_share else fed
        self._wait_for_oracle(draft, (), draw)

    def _wait_for_oracle(self, draft: _Draft, leads: Iterable[Clip], draw: random.Random) -> None:
        late = delayed(draft.sides, draft.fed, draft.n_spare, draw, fillers=leads, begins_word=self._begins_word)
        if late.sides is not draft.sides:
            draft.changes.add("delayed")
        draft.sides, draft.fed = late  # which keeps within what was spare

    def _in_other_words(self, sides: Sides, n_spare: int, draw: random.Random) -> Iterator[Sides | None]:
        if self._speech.has_answers:
            yield self._with_an_utterance(sides, n_spare, draw)
        elif self._pieces is not None:
            yield substituted(sides, self._pieces, draw)

    def _with_new_words(self, sides: Sides, n_spare: int, draw: random.Random) -> Sides:
        """The dialogue, or for a share of them the same with an utterance for its answer."""
        if self._speech.has_answers and draw.random() < self._config.substitute_share:
            return self._with_an_utterance(sides, n_spare, draw) or sides
        return sides

    def _with_an_utterance(self, sides: Sides, n_spare: int, draw: random.Random) -> Sides | None:
        span = answer_span(sides)
        if span is None:
            return None
        utterance = self._speech.draw_answer(n_spare + span.stop - span.start, draw)
        return None if utterance is None else spoken(sides, span, utterance)

    def _stalled(self, draft: _Draft, unit: Unit, draw: random.Random) -> Iterator[Sides | None]:
        fillers = list(self._leads(unit, draw))
        stall = self._speech.draw_stall(draft.n_most, draw) if draw.random() < FILLER_SHARE else None
        yield stalled(draft.sides, fillers if stall is None else [*fillers, stall], draw)

    def _leads(self, unit: Unit, draw: random.Random) -> Iterator[Clip]:
        """For a share of examples what another dialogue's assistant says before its answer."""
        lead = lead_of(next(self._partners(unit, draw))) if draw.random() < FILLER_SHARE else None
        if lead is not None:
            yield lead

    def _stranger(self, unit: Unit) -> int | None:
        """The next row of another item, with another answer and an oracle; dialogues of one item lie side by side."""
        dataset, rows = self._datasets[unit.dataset], self._rows_like(unit)
        row = dataset[unit.row]
        first = int(np.searchsorted(rows, unit.row)) + 1
        for at in map(int, np.roll(rows, -first)[:-1]):
            if dataset.is_speech[at]:
                return at
            if dataset.n_events_of[unit.speaker][at]:
                other = dataset[at]
                if other.item_id != row.item_id and other.answer != row.answer:
                    return at
        return None

    def _as_judged(self, unit: Unit, row: int) -> Sides:
        """A row of the unit's dataset as validation has it."""
        dataset = self._datasets[unit.dataset]
        sides = sides_of(dataset[row], unit.speaker)
        if self._config.feed.is_silent or not dataset.is_speech[row]:
            return sides
        return told(sides, *JUDGED_TOLD_FRAMES) or sides

    def _partners(self, unit: Unit, draw: random.Random) -> Iterator[Sides]:
        """Any dialogues of the same dataset and split."""
        rows = self._rows_like(unit)
        for _ in range(N_PARTNERS):
            yield sides_of(self._datasets[unit.dataset][int(rows[draw.randrange(len(rows))])], unit.speaker)

    def _rows_like(self, unit: Unit) -> NDArray[np.int64]:
        return self._same_split[unit.dataset][self._datasets[unit.dataset].splits[unit.row]]

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


def aligned(wrong: SpeakerTokens, right: SpeakerTokens, guesses: Guesses) -> list[OracleTokenEvent]:
    """Another dialogue's oracle as it would come to this one: the question's end of one at that of the other."""
    events, ends = (
        wrong.oracle.events(guesses=guesses, turn_end_frames=0),
        (wrong.answering_event(), right.answering_event()),
    )
    if ends[0] is None or ends[1] is None:
        return events
    return shifted(events, int(right.oracle.frame[ends[1]]) - int(wrong.oracle.frame[ends[0]]))
