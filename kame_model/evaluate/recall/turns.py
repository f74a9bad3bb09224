"""Finds the turns of a dialogue in which the assistant is asked, and judges an answer by its words alone.

The recording is judged by the same rule as the model and its score is reported with every figure: where the recording
fails, the measure or the dialogue is at fault, not the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from data_schemas.units import FRAME_S
from kame_model.encode.rows import TokenRow
from kame_model.evaluate.answers.key_words import (
    extract_words,
    find_key,
    find_key_words,
    find_offered_options,
    find_other_answers,
    has_number,
    split_into_units,
)
from kame_model.frames.inner_monologue import read_words
from kame_model.text.tokenizer import Tokenizer

INTERRUPTION = "interruption"


class SaidWord(NamedTuple):
    """A word in lower case, and the frame in which it starts."""

    frame: int
    word: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of the user and the time in which it is to be answered.

    Attributes:
        number: index among the dialogue's answered turns, from 0.
        event: the oracle event that had heard the whole question (r = 1 of the turn).
        begin: frame of the first oracle of the question, if nothing was said by the assistant before it; else `start`,
            because what is said during the question may belong to the answer before.
        start, end: frames from that event to the first oracle of the user's next turn, or to the dialogue's end.
        question: `TokenRow.question`, the same for all turns: what the user said before the answer was first given.
        answer: the words of the recording that contain the answer.
        key: the key words of the answer.
        oracle_words: the words of the oracle with r = 1, the true answer as it should be said.
        options: key words of the wrong options that the question offers.
    """

    number: int
    event: int
    begin: int
    start: int
    end: int
    question: str
    answer: tuple[str, ...]
    key: tuple[str, ...]
    oracle_words: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]

    @property
    def group(self) -> str:
        """One of `GROUPS`: whether the answer could be known without the oracle, by the question or an earlier turn."""
        if self.number:
            return "asked again"
        is_in_question = find_key(self.key, extract_words(self.question))
        return "answer in the question" if is_in_question else "answer not in the question"

    def compute_seconds_since(self, frame: int) -> float:
        """Returns the seconds from the question's end to a frame, rounded to hundredths; negative if it is earlier."""
        return round((frame - self.start) * FRAME_S, 2)


GROUPS = ("answer not in the question", "answer in the question", "asked again")


class AskedDialogue(NamedTuple):
    """A dialogue and its turns that can be judged."""

    row: TokenRow
    turns: list[Turn]

    @property
    def turn(self) -> Turn:
        """The turn for wrong and corrected oracles."""
        return self.turns[0]


def find_turns(rows: Sequence[TokenRow], tokenizer: Tokenizer) -> list[AskedDialogue]:
    """Returns dialogues with their turns; dialogues without a turn that can be judged are skipped."""
    found = [AskedDialogue(row, find_answered_turns(row, tokenizer)) for row in rows]
    return [each for each in found if each.turns]


def find_answered_turns(row: TokenRow, tokenizer: Tokenizer) -> list[Turn]:
    """Returns the turns in which the recorded assistant gives the answer after an oracle that contains it.

    If the user interrupts, only turns after the interruption count: before it the recording is cut off at a word that
    the model may not have reached.
    """
    oracle = row.a.oracle
    bearing = np.where(row.a.answer_mask, row.a.text, -1)
    heard = np.flatnonzero(oracle.ratio >= 1).tolist()
    turns = list[Turn]()
    for event in heard:
        start = int(oracle.frame[event])
        end = int(oracle.frame[event + 1]) if event + 1 < len(oracle) else row.n_frames
        answer = [each.word for each in decode_said_words(bearing, tokenizer, start, end)]
        if answer:
            key = find_key_words(answer)
            turns.append(
                Turn(
                    number=len(turns),
                    event=event,
                    begin=int(oracle.frame[0]) if event == heard[0] and row.form != INTERRUPTION else start,
                    start=start,
                    end=end,
                    question=row.question,
                    answer=tuple(answer),
                    key=key,
                    oracle_words=tuple(extract_words(tokenizer.decode(oracle.get_fed(event).tolist()))),
                    options=tuple(find_offered_options(row.question, key)),
                )
            )
    return [each for each in turns if row.form != INTERRUPTION or each.event == heard[-1]]


def decode_said_words(
    text: Sequence[int] | NDArray[np.integer[Any]], tokenizer: Tokenizer, start: int, end: int
) -> list[SaidWord]:
    """Returns the words that start in the frames [start, end) of a text stream."""
    return [
        SaidWord(frame, word)
        for frame, piece in read_words(text, tokenizer)
        if start <= frame < end
        for word in extract_words(piece)
    ]


@dataclass(frozen=True, slots=True)
class AnswerJudgement:
    """The judgement of the answer to a turn.

    Attributes:
        n_said: how often the key words were said; n_in_oracle: how often the oracle says them.
        n_other: how often another number or option was said.
        is_right_first: whether the right answer was said before any other; None: the answer has no number and the
            question no options, so that no other answer could be recognised.
        is_early: whether the right answer or another one was said before the end of the question.
        delay_s, key_delay_s: from the question's end to the first word, and to the first key word; None: not said.
    """

    n_said: int
    n_in_oracle: int
    n_other: int
    is_right_first: bool | None
    is_early: bool
    delay_s: float | None
    key_delay_s: float | None

    @property
    def is_said_once(self) -> bool:
        """Whether the key words were said, not more often than once or than by the oracle, and no other answer was."""
        return 1 <= self.n_said <= max(1, self.n_in_oracle) and self.n_other == 0


def judge_turn(turn: Turn, said: Sequence[SaidWord], early: Sequence[SaidWord] = ()) -> AnswerJudgement:
    """Judges the answer to a turn by where its key words and other answers are said.

    Args:
        said: the words said in the turn.
        early: the words said before it, during the question.
    """
    words = [each.word for each in said]
    keys = find_key(turn.key, words)
    wrong = find_other_answers(turn.key, words, turn.oracle_words, turn.options)
    early_words = [each.word for each in early]
    early_keys = find_key(turn.key, early_words)
    early_wrong = find_other_answers(turn.key, early_words, (), turn.options)
    first, first_wrong = (early_keys, early_wrong) if early_keys or early_wrong else (keys, wrong)
    is_first = bool(first) and (not first_wrong or first[0].start < first_wrong[0].start)
    return AnswerJudgement(
        n_said=len(keys),
        n_in_oracle=len(find_key(turn.key, turn.oracle_words)),
        n_other=len(wrong),
        is_right_first=is_first if turn.options or has_number(turn.key) else None,
        is_early=bool(early_keys or early_wrong),
        delay_s=turn.compute_seconds_since(said[0].frame) if said else None,
        key_delay_s=turn.compute_seconds_since(said[keys[0].start].frame) if keys else None,
    )


class OracleWordCounts(NamedTuple):
    """Counts of said words against the oracle's words; a number counts as one word.

    `n_in_order` of the `n_expected` words were said in order (longest common subsequence). Of the other words that were
    said, `n_repeated` had been said before, and `n_inserted` had not.
    """

    n_expected: int
    n_in_order: int
    n_repeated: int
    n_inserted: int


def count_words(expected: Sequence[str], said: Sequence[str]) -> OracleWordCounts:
    """Counts which words of a text were said, and which others. Leads and tails, which oracles lack, are insertions."""
    wanted, found = ([each.text for each in split_into_units(words)] for words in (expected, said))
    beside = [edit.dest_pos for edit in LCSseq.editops(wanted, found) if edit.tag == "insert"]
    n_repeated = sum(found[at] in found[:at] for at in beside)
    return OracleWordCounts(len(wanted), len(found) - len(beside), n_repeated, len(beside) - n_repeated)
