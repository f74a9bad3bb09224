"""Does the model say what its oracle tells it? Held-out dialogues, run freely under each condition, item by item."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from data_schemas import ids
from data_schemas.config.evaluation import EvaluationConfig
from data_schemas.units import FRAMES_PER_S
from kame_model.encode.rows import TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.conditions import (
    OF_STRANGERS,
    Condition,
    next_turn_frame,
    question_end_frame,
    script_for,
)
from kame_model.evaluate.free_running import FreeRun, run_freely
from kame_model.evaluate.said import ends_of, key_words, times_said
from kame_model.frames.inner_monologue import read_words
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import Tokenizer

INTERRUPTION = "interruption"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one dialogue under one condition.

    Attributes:
        answer: the words that tell the true answer, stranger_answer those of the dialogue whose oracle a wrong one is.
        in_question: whether the question itself holds the answer's words; such items tell little and are counted apart.
        said: what the model said once the question was heard; said_in_turn what of it before the user's next turn.
        recorded: what the recording's speaker says in that turn: the answer with its lead and its tail.
        told: what its last oracle told it; empty where there was none.
        n_said, n_stranger: how often either answer was said.
        n_told: how often the oracle itself says the true answer.
        n_said_at_last: how often the true answer was said once a correction had come and the other's was said no more;
            null where none came.
        delay_s: from the end of the question to the answer's first word; null where nothing was said.
        heard: what a recogniser heard of the decoded sound once the question was heard, n_heard how often that holds
            the true answer; null where nobody listened.
    """

    dialogue_id: str
    source: str
    form: str
    condition: Condition
    answer: str
    stranger_answer: str
    in_question: bool
    said: str
    said_in_turn: str
    recorded: str
    told: str
    n_said: int
    n_stranger: int
    n_told: int
    n_said_at_last: int | None
    delay_s: float | None
    heard: str | None = None
    n_heard: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """An outcome with the row and the run that it was read from."""

    outcome: Outcome
    row: TokenRow
    run: FreeRun


def held_out(dataset: TokenDataset, config: EvaluationConfig) -> list[TokenRow]:
    """Rows of the configured splits that can be judged: with an answer, and an oracle that knows it; in their order.

    One dialogue an item, so that what comes of one says nothing of another; drawn by seed, the sources in turn. Not
    those in which the user interrupts: the recording interrupts an answer that the model may not be giving.
    """
    by_source: dict[str, list[int]] = {}
    for number, (split, source) in enumerate(zip(dataset.splits, dataset.sources, strict=True)):
        if split in config.splits and dataset.n_events_of["a"][number]:
            by_source.setdefault(source, []).append(number)
    turns = zip_longest(*(_one_an_item(dataset, source, rows, config) for source, rows in sorted(by_source.items())))
    drawn = islice((each for turn in turns for each in turn if each is not None), config.n_items)
    return [row for _, row in sorted(drawn, key=lambda each: each[0])]


def _one_an_item(
    dataset: TokenDataset, source: str, numbers: list[int], config: EvaluationConfig
) -> Iterator[tuple[int, TokenRow]]:
    """A source's rows that can be judged, each with its number, in the order in which they are drawn."""
    seen: set[str] = set()
    random.Random(ids.seed_for("held out", config.items_seed, source)).shuffle(numbers)
    for number in numbers:
        row = dataset[number]
        can_be_judged = row.form != INTERRUPTION and row.answer and row.a.answering_event() is not None
        if can_be_judged and row.item_id not in seen:
            seen.add(row.item_id)
            yield number, row


def run_condition(
    front_end: FrontEnd,
    tokenizer: Tokenizer,
    rows: Sequence[TokenRow],
    condition: Condition,
    config: EvaluationConfig,
    on_batch: Callable[[int], None] = lambda n_rows: None,
) -> list[Ran]:
    """Runs every row under a condition. A row's stranger is another one of its source, the same in all conditions.

    Where all rows have one answer there is no stranger, and nothing is run under the conditions that need one.
    """
    delay_frames = round(config.delay_s * FRAMES_PER_S)
    pairs = [
        (row, stranger)
        for row, stranger in zip(rows, strangers_of(rows), strict=True)
        if stranger is not None or condition not in OF_STRANGERS
    ]
    scripts = [script_for(row, stranger, condition, delay_frames) for row, stranger in pairs]
    runs = run_freely(front_end, scripts, config.sampling, config.seed, config.batch_size, on_batch)
    return [
        Ran(judged(row, stranger, condition, run, tokenizer), row, run)
        for (row, stranger), run in zip(pairs, runs, strict=True)
    ]


def strangers_of(rows: Sequence[TokenRow]) -> list[TokenRow | None]:
    """For each row the next one of its source with another answer; of another source where its own has none."""
    found = []
    for at, row in enumerate(rows):
        later = [*rows[at + 1 :], *rows[:at]]
        others = [each for each in later if _key(each) != _key(row)]
        found.append(next((each for each in others if each.source == row.source), others[0] if others else None))
    return found


def judged(
    row: TokenRow, stranger: TokenRow | None, condition: Condition, run: FreeRun, tokenizer: Tokenizer
) -> Outcome:
    """What a run comes to."""
    answer, other = _key(row), [] if stranger is None else _key(stranger)
    asked_frame, next_frame = question_end_frame(row), next_turn_frame(row)
    words = read_words(run.text, tokenizer)
    said = _said(words, asked_frame)
    corrected = run.correction_frame
    at_last = [] if corrected is None else _said(words, corrected + 1)
    at_last = at_last[max(ends_of(other, at_last), default=0) :]
    told = _told(row, stranger, condition, tokenizer)
    return Outcome(
        dialogue_id=row.dialogue_id,
        source=row.source,
        form=row.form,
        condition=condition,
        answer=" ".join(answer),
        stranger_answer=" ".join(other),
        in_question=times_said(answer, _words(row.question)) > 0,
        said=" ".join(said),
        said_in_turn=" ".join(_said(words, asked_frame, next_frame)),
        recorded=" ".join(_said(read_words(row.a.text, tokenizer), asked_frame, next_frame)),
        told=told,
        n_said=times_said(answer, said),
        n_stranger=times_said(other, said),
        n_told=times_said(answer, _words(told)),
        n_said_at_last=None if corrected is None else times_said(answer, at_last),
        delay_s=None if run.answer_frame is None else round((run.answer_frame - asked_frame) / FRAMES_PER_S, 2),
    )


def _told(row: TokenRow, stranger: TokenRow | None, condition: Condition, tokenizer: Tokenizer) -> str:
    """The text of the last oracle that the model is to follow."""
    teller = {"none": None, "wrong": stranger}.get(condition, row)
    event = None if teller is None else teller.a.answering_event()
    return "" if teller is None or event is None else tokenizer.decode(teller.a.oracle.said(event).tolist())


def _said(words: Sequence[tuple[int, str]], start: int, end: int | None = None) -> list[str]:
    """The words that begin at frames from `start` on, and before `end` where there is one."""
    return _words(" ".join(word for frame, word in words if frame >= start and (end is None or frame < end)))


def _key(row: TokenRow) -> list[str]:
    return key_words(_words(row.answer))


def _words(text: str) -> list[str]:
    """A text's words in small letters, without marks."""
    return "".join(char if char.isalpha() or char in "' " else " " for char in text.lower()).split()
