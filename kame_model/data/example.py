"""Makes training and validation examples from token rows; each is a pure function of seed, epoch and row."""

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
from kame_model.data.augment import (
    append_silence,
    cut_lead,
    cut_tail,
    exchange_lead,
    exchange_tail,
    find_answer_span,
    prepend_oracle,
    replace_answer,
    stall_answer,
    substitute_answer,
    swap_answer,
)
from kame_model.data.augment_timing import FedDialogue, correct_answer, delay_answers
from kame_model.data.batch_plan import PlannedExample, RowChunk, Speaker, compute_longest_joined, compute_longest_speech
from kame_model.data.copying import WordPieces
from kame_model.data.oracle_feed import FedEvent, add_slow_gaps, draw_fed_events, shift_events
from kame_model.data.speech_rows import SpeechRows
from kame_model.data.splicing import DialogueSides, TokenClip
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Example
from kame_model.frames.oracle_stream import OracleTokenEvent, make_oracle_stream
from kame_model.frames.sequence import Chunk, cut_chunks, make_columns, select_events

N_PARTNERS = 4
"""Maximum number of dialogues that are tried until joining one of them gives a planned length."""

FILLER_SHARE = 0.5
"""Share in which something is said while there is no oracle: a lead before a late answer or a stall, and a stall
itself."""

ORACLE_LEAD_FRAMES = ((0, 4), (4, 12))
"""Ranges for a speech row in training: the frame at which its oracle arrives, and the frames from there to its
start."""

VALIDATION_ORACLE_LEAD_FRAMES = (0, 6)
"""The frame of the oracle of a speech row in validation, and that of the row's start."""


class ValidationExample(NamedTuple):
    """A validation example, and the oracle stream with another item's answer: int32[S], only padding if none exists."""

    example: Example
    wrong_oracle: NDArray[np.int32]


class Changes(NamedTuple):
    """Which augmentations were applied to a dialogue.

    Attributes:
        swapped: it has another dialogue's answer.
        substituted: its answer has other words.
        reframed: it has another dialogue's lead or tail.
        stalled: it has a stall instead of an answer.
        delayed: its answer waits for the oracle.
        corrected: its answer is replaced by another one while it is said.
    """

    swapped: bool
    substituted: bool
    reframed: bool
    stalled: bool
    delayed: bool
    corrected: bool


@dataclass(slots=True)
class _Draft:
    """A dialogue while it is being made into an example.

    Attributes:
        sides: the dialogue, as augmented so far.
        n_most: maximum number of frames, as planned.
        n_chunks: number of chunks that it must have, so that each of its chunks is used.
        max_columns: maximum number of columns of a chunk.
        fed: the oracle events that are fed.
        changes: names of the augmentations that were applied.
    """

    sides: DialogueSides
    n_most: int
    n_chunks: int
    max_columns: int
    fed: list[FedEvent] = field(default_factory=list)
    changes: set[str] = field(default_factory=set)

    @property
    def n_spare(self) -> int:
        """Number of frames by which it may grow."""
        return self.n_most - self.sides.n_frames

    def take(self, name: str, candidates: Iterable[DialogueSides | FedDialogue | None]) -> bool:
        """Replaces the dialogue by the first candidate that is not None and has an allowed length.

        Args:
            name: name of the augmentation, which is then recorded in `changes`.
            candidates: augmented dialogues.

        Returns:
            Whether there was such a candidate.
        """
        for each in candidates:
            if each is None:
                continue
            sides, fed = each if isinstance(each, FedDialogue) else (each, self.fed)
            n_frames = sides.n_frames
            if n_frames <= self.n_most and len(cut_chunks(n_frames + 2, self.max_columns)) == self.n_chunks:
                self.sides, self.fed = sides, fed
                self.changes.add(name)
                return True
        return False


class ExampleMaker:
    """Makes examples of a mixture of datasets.

    Args:
        datasets: datasets of one vocabulary and codec, from `open_datasets`.
        config: the speaker to learn, and the augmentations of dialogues and oracles.
        seed: seed of everything that is drawn.
        pieces: pieces of the vocabulary; required if answers get other words and there are no speech rows.
    """

    def __init__(
        self, datasets: Sequence[TokenDataset], config: DataConfig, seed: int, pieces: WordPieces | None = None
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

    def make_example(self, planned: PlannedExample, step: int) -> tuple[Example, Changes | None]:
        """Makes a training example and returns the changes of its dialogue, or None for a speech row.

        `step` is that of the run; the curriculum depends on it.
        """
        unit, is_speech = planned.unit, self._datasets[planned.unit.dataset].is_speech[planned.unit.row]
        draft, sides = self._make_draft(planned, step)
        columns, chunk = self._make_columns(sides, unit)
        events: list[OracleTokenEvent] = [(each.frame, each.tokens) for each in draft.fed]
        changes = None if is_speech else Changes(*(name in draft.changes for name in Changes._fields))
        return self._make_example(sides, columns, chunk, self._make_stream(events, chunk)), changes

    def measure(self, planned: PlannedExample) -> int:
        """Returns the number of input positions of a training example after the end of the curriculum.

        While hints are fed instead of predictions, an answer may wait differently, so the example itself may be a
        little shorter or longer, but never longer than planned.
        """
        _, sides = self._make_draft(planned, self._config.feed.predictions_from_step)
        chunk = cut_chunks(sides.n_frames + 2, self._config.max_columns)[planned.unit.chunk]
        return chunk.stop - chunk.start - 1

    def _make_draft(self, planned: PlannedExample, step: int) -> tuple[_Draft, DialogueSides]:
        """Returns the draft of an example as augmented for training, and its dialogue with the planned silence."""
        unit, epoch, n_behind = planned
        dataset, config = self._datasets[unit.dataset], self._config
        row, is_speech = dataset[unit.row], bool(dataset.is_speech[unit.row])
        draw = random.Random(ids.derive_seed("example", self._seed, epoch, row.dialogue_id, unit.speaker, unit.chunk))
        n_most = (compute_longest_speech if is_speech else compute_longest_joined)(row.n_frames, config.max_columns)
        n_chunks = len(cut_chunks(row.n_frames + 2, config.max_columns))
        draft = _Draft(get_sides(row, unit.speaker), n_most, n_chunks, config.max_columns)
        if config.feed.is_silent:
            pass  # no augmentation
        elif is_speech:
            self._add_oracle(draft, draw)
        else:
            self._augment(draft, unit, step, draw)
        return draft, (append_silence(draft.sides, n_behind) if n_behind else None) or draft.sides

    def make_validation_example(self, unit: RowChunk) -> ValidationExample:
        """Makes a validation example, unaugmented; its wrong oracle is that of another row of the split.

        `_find_other_item` chooses that row. The oracle of a speech row is its own words, and comes right before it.
        """
        sides = self._make_validation_sides(unit, unit.row)
        stranger = self._find_other_item(unit)
        guesses = self._config.feed.guesses
        wrong = (
            []
            if stranger is None
            else align_oracle(self._make_validation_sides(unit, stranger).own, sides.own, guesses)
        )
        columns, chunk = self._make_columns(sides, unit)
        right = sides.own.oracle.list_events(guesses=guesses, turn_end_frames=0)
        example = self._make_example(sides, columns, chunk, self._make_stream(right, chunk))
        return ValidationExample(example, self._make_stream(wrong, chunk))

    def _augment(self, draft: _Draft, unit: RowChunk, step: int, draw: random.Random) -> None:
        """Applies the augmentations in order, each to the configured share of dialogues, and sets the fed events.

        A dialogue with a stall gets no events, and no later augmentation.
        """
        config = self._config
        if draw.random() < config.swap_share:
            draft.take("swapped", (swap_answer(draft.sides, each) for each in self._draw_partners(unit, draw)))
        if draw.random() < config.substitute_share:
            draft.take("substituted", self._draw_substituted(draft.sides, draft.n_spare, draw))
        if config.reframe_share and draw.random() < config.reframe_share:
            for cut, exchange in ((cut_lead, exchange_lead), (cut_tail, exchange_tail)):
                clips = filter(None, map(cut, self._draw_partners(unit, draw)))
                draft.take("reframed", (exchange(draft.sides, each) for each in clips))
        if draw.random() < config.feed.drop_share and draft.take("stalled", self._draw_stalled(draft, unit, draw)):
            return
        draft.fed = draw_fed_events(draft.sides.own.oracle, config.feed, step, draw)
        self._wait_for_oracle(draft, self._draw_leads(unit, draw), draw)
        if draw.random() < config.correct_share:
            seconds = (self._draw_new_words(each, draft.n_spare, draw) for each in self._draw_partners(unit, draw))
            change = partial(correct_answer, begins_word=self._begins_word, guesses=config.feed.guesses)
            draft.take("corrected", (change(draft.sides, draft.fed, each, draw) for each in seconds))

    def _add_oracle(self, draft: _Draft, draw: random.Random) -> None:
        """Puts an oracle with its words before a speech row; its tokens may come with gaps.

        Nothing is changed if the row has no words or no silence, or would become too long.
        """
        (first, last), lag = ORACLE_LEAD_FRAMES[0], draw.randint(*ORACLE_LEAD_FRAMES[1])
        frame = draw.randint(first, last)
        if not draft.take("told", [prepend_oracle(draft.sides, frame, frame + lag)]):
            return
        fed = [FedEvent(0, frame, draft.sides.own.oracle.get_fed(0).tolist())]
        draft.fed = add_slow_gaps(fed, draw) if draw.random() < self._config.feed.slow_share else fed
        self._wait_for_oracle(draft, (), draw)

    def _wait_for_oracle(self, draft: _Draft, leads: Iterable[TokenClip], draw: random.Random) -> None:
        """Delays answers until their oracle has arrived (`delay_answers`), and records that as a change."""
        late = delay_answers(draft.sides, draft.fed, draft.n_spare, draw, fillers=leads, begins_word=self._begins_word)
        if late.sides is not draft.sides:
            draft.changes.add("delayed")
        draft.sides, draft.fed = late  # never longer than planned

    def _draw_substituted(
        self, sides: DialogueSides, n_spare: int, draw: random.Random
    ) -> Iterator[DialogueSides | None]:
        """Yields at most one candidate: the dialogue with its answer in other words.

        The words are those of a speech row, by which the dialogue may become up to `n_spare` frames longer, or, if no
        dataset has such rows, random pieces. Yields nothing if there are no `pieces` either. The candidate is None if
        the dialogue is not suitable or no row is short enough.
        """
        if self._speech.has_answers:
            yield self._draw_utterance(sides, n_spare, draw)
        elif self._pieces is not None:
            yield substitute_answer(sides, self._pieces, draw)

    def _draw_new_words(self, sides: DialogueSides, n_spare: int, draw: random.Random) -> DialogueSides:
        """Returns the dialogue; in a share of cases (`substitute_share`) with a drawn utterance as its answer."""
        if self._speech.has_answers and draw.random() < self._config.substitute_share:
            return self._draw_utterance(sides, n_spare, draw) or sides
        return sides

    def _draw_utterance(self, sides: DialogueSides, n_spare: int, draw: random.Random) -> DialogueSides | None:
        """Replaces the answer by a drawn speech row of at most `n_spare` more frames; None if that is not possible."""
        span = find_answer_span(sides)
        if span is None:
            return None
        utterance = self._speech.draw_answer(n_spare + span.stop - span.start, draw)
        return None if utterance is None else replace_answer(sides, span, utterance)

    def _draw_stalled(self, draft: _Draft, unit: RowChunk, draw: random.Random) -> Iterator[DialogueSides | None]:
        """Yields one candidate: the dialogue with a stall instead of its answer, or None if it is not suitable.

        For a share of examples (`FILLER_SHARE`), the words of a speech row are said in the stall.
        """
        fillers = list(self._draw_leads(unit, draw))
        stall = self._speech.draw_stall(draft.n_most, draw) if draw.random() < FILLER_SHARE else None
        yield stall_answer(draft.sides, fillers if stall is None else [*fillers, stall], draw)

    def _draw_leads(self, unit: RowChunk, draw: random.Random) -> Iterator[TokenClip]:
        """Yields at most one lead: what another dialogue's assistant says before its answer.

        Yields nothing for a share of examples (1 - `FILLER_SHARE`), and if nothing is said there.
        """
        lead = cut_lead(next(self._draw_partners(unit, draw))) if draw.random() < FILLER_SHARE else None
        if lead is not None:
            yield lead

    def _find_other_item(self, unit: RowChunk) -> int | None:
        """Returns the next suitable row of the unit's split after the unit's own, cyclically; None if there is none.

        A row is suitable if it is a speech row, or has an oracle and is of another item with another answer.
        """
        dataset, rows = self._datasets[unit.dataset], self._get_rows_of_split(unit)
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

    def _make_validation_sides(self, unit: RowChunk, row: int) -> DialogueSides:
        """Returns a row of the unit's dataset as it is in validation: a speech row gets an oracle before it.

        Dialogues are not changed, and neither are speech rows if no oracle is fed.
        """
        dataset = self._datasets[unit.dataset]
        sides = get_sides(dataset[row], unit.speaker)
        if self._config.feed.is_silent or not dataset.is_speech[row]:
            return sides
        return prepend_oracle(sides, *VALIDATION_ORACLE_LEAD_FRAMES) or sides

    def _draw_partners(self, unit: RowChunk, draw: random.Random) -> Iterator[DialogueSides]:
        """Yields `N_PARTNERS` random dialogues of the unit's dataset and split; they may repeat, or be its own."""
        rows = self._get_rows_of_split(unit)
        for _ in range(N_PARTNERS):
            yield get_sides(self._datasets[unit.dataset][int(rows[draw.randrange(len(rows))])], unit.speaker)

    def _get_rows_of_split(self, unit: RowChunk) -> NDArray[np.int64]:
        """Returns the numbers of all rows of the unit's dataset that are in the same split as its own, in order."""
        return self._same_split[unit.dataset][self._datasets[unit.dataset].splits[unit.row]]

    def _make_columns(self, sides: DialogueSides, unit: RowChunk) -> tuple[NDArray[np.int32], Chunk]:
        """Returns all columns of a dialogue, and the unit's chunk of them."""
        dataset = self._datasets[unit.dataset]
        own, other = sides
        columns = make_columns(own.text, own.codes, other.codes, dataset.text_card, dataset.layout)
        return columns, cut_chunks(columns.shape[1], self._config.max_columns)[unit.chunk]

    def _make_stream(self, events: list[OracleTokenEvent], chunk: Chunk) -> NDArray[np.int32]:
        """Returns the oracle ids at the S input positions of a chunk."""
        return make_oracle_stream(
            select_events(events, chunk), chunk.stop - chunk.start - 1, self._datasets[0].text_card
        )

    def _make_example(
        self, sides: DialogueSides, columns: NDArray[np.int32], chunk: Chunk, oracle: NDArray[np.int32]
    ) -> Example:
        """Makes the example of a chunk from all columns of a dialogue."""
        answers = np.append(sides.own.answer_mask, False)[chunk.start : chunk.stop - 1]  # False: the tail
        dataset = self._datasets[0]
        return Example.from_columns(
            columns[:, chunk.start : chunk.stop], oracle, answers, dataset.text_card, dataset.layout.card
        )


def get_sides(row: TokenRow, speaker: Speaker) -> DialogueSides:
    """Returns both speakers of a row, with `speaker` as the one to learn."""
    return DialogueSides(row.a, row.b) if speaker == "a" else DialogueSides(row.b, row.a)


def align_oracle(wrong: SpeakerTokens, right: SpeakerTokens, guesses: Guesses) -> list[OracleTokenEvent]:
    """Returns another dialogue's oracle events for this one, shifted so that both questions end at the same time.

    They are not shifted if the end of one of the questions is unknown.
    """
    events, ends = (
        wrong.oracle.list_events(guesses=guesses, turn_end_frames=0),
        (wrong.find_answering_event(), right.find_answering_event()),
    )
    if ends[0] is None or ends[1] is None:
        return events
    return shift_events(events, int(right.oracle.frame[ends[1]]) - int(wrong.oracle.frame[ends[0]]))
