"""Held-out dialogues to outcomes and figures: whose answer was said, when, and how sure the share is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.evaluate.conditions import Condition, question_end_frame, script_for
from kame_model.evaluate.figures import figures, share
from kame_model.evaluate.free_running import FreeRun
from kame_model.evaluate.proof import Outcome, judged, strangers_of
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleTokens
from kame_model.text.tokenizer import Tokenizer
from tests.support.token_rows import vocabulary_of

WORDS = ("it", "is", "five", "six", "no", "wait")
PIECES = ["<end-of-padding>", "<s>", "<unk>", "<pad>", *(f"▁{word}" for word in WORDS)]
N_FRAMES, QUESTION_END, ANSWER_AT = 40, 10, 14


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return vocabulary_of(PIECES, tmp_path / "words.model")


def row(name: str, answer: str, tokenizer: Tokenizer, question: str = "how many") -> TokenRow:
    """A dialogue with a guess before the question's end, and the truth at it."""
    said, guess = tokenizer.encode(f"it is {answer}"), tokenizer.encode("no")
    oracle = OracleTokens.pack([6, QUESTION_END], [0.4, 1.0], [0, 5], [False, True], [guess, said], [[], said])
    mask = np.zeros(N_FRAMES, np.bool_)
    mask[ANSWER_AT] = True
    silent = np.full(N_FRAMES, PADDING_ID, np.int32)
    codes = np.zeros((3, N_FRAMES), np.int16)
    nobody = OracleTokens.pack([], [], [], [], [], [])
    return TokenRow(
        dialogue_id=name,
        item_id=name,
        source="mine",
        split="validation",
        form="plain",
        question=question,
        answer=answer,
        n_frames=N_FRAMES,
        duration_s=N_FRAMES * 0.08,
        a=SpeakerTokens(silent, codes, oracle, mask),
        b=SpeakerTokens(silent, codes, nobody, np.zeros(N_FRAMES, np.bool_)),
    )


def run_of(tokenizer: Tokenizer, words: dict[int, str], **fields: Any) -> FreeRun:
    text = np.full(N_FRAMES, PADDING_ID, np.int32)
    for frame, word in words.items():
        text[frame] = tokenizer.encode(word)[0]
    first = next((frame for frame in sorted(words) if frame >= QUESTION_END), None)
    return FreeRun(text, np.zeros((3, N_FRAMES), np.int16), first, fields.get("correction_frame"))


def outcome(condition: Condition = "right", **fields: Any) -> Outcome:
    values: dict[str, Any] = {
        "dialogue_id": "d",
        "source": "mine",
        "form": "plain",
        "answer": "five",
        "stranger_answer": "six",
        "in_question": False,
        "said": "it is five",
        "recorded": "well it is five",
        "told": "it is five",
        "n_said": 1,
        "n_stranger": 0,
        "n_told": 1,
        "n_said_at_last": None,
        "delay_s": 0.4,
    }
    values |= fields
    return Outcome(condition=condition, said_in_turn=values["said"], **values)


def test_the_event_that_knows_the_answer_is_the_one_that_heard_the_question(tokenizer: Tokenizer) -> None:
    one = row("one", "five", tokenizer)
    assert (one.a.answering_event(), question_end_frame(one)) == (1, QUESTION_END)


def test_conditions_give_the_right_oracle_none_anothers_or_a_correction(tokenizer: Tokenizer) -> None:
    one, other = row("one", "five", tokenizer), row("other", "six", tokenizer)
    told = {name: script_for(one, other, name, 2) for name in ("right", "none", "wrong", "corrected")}
    ends = {name: [tokenizer.decode(list(tokens)) for _, tokens in each.events][-1:] for name, each in told.items()}
    assert ends == {"right": ["it is five"], "none": [], "wrong": ["it is six"], "corrected": ["it is six"]}
    assert [frame for frame, _ in told["right"].events] == [8, QUESTION_END + 2]
    assert tokenizer.decode(list(told["corrected"].correction)) == "it is five"
    assert not any(told[name].correction for name in ("right", "none", "wrong"))


def test_a_stranger_has_another_answer(tokenizer: Tokenizer) -> None:
    rows = [row("one", "five", tokenizer), row("two", "five", tokenizer), row("three", "six", tokenizer)]
    assert strangers_of(rows) == [rows[2], rows[2], rows[0]]


def test_where_all_have_one_answer_nobody_is_a_stranger(tokenizer: Tokenizer) -> None:
    """Its own oracle is no wrong one."""
    rows = [row("one", "five", tokenizer), row("two", "five", tokenizer)]
    assert strangers_of(rows) == [None, None]
    found = judged(rows[0], None, "right", run_of(tokenizer, {12: "five"}), tokenizer)
    assert (found.n_said, found.n_stranger, found.stranger_answer) == (1, 0, "")


def test_a_wrong_oracle_ends_with_the_question_though_somebody_talks_over_its_end(tokenizer: Tokenizer) -> None:
    one, other = row("one", "five", tokenizer), row("other", "six", tokenizer)
    frames = other.a.oracle.frame + 7
    other = replace(other, a=replace(other.a, oracle=replace(other.a.oracle, frame=frames)))
    talking = other.a.text.copy()
    talking[QUESTION_END + 5 : QUESTION_END + 9] = tokenizer.encode("no")[0]
    mask = np.roll(other.a.answer_mask, 7)
    other = replace(other, a=replace(other.a, text=talking, answer_mask=mask))
    events = script_for(one, other, "wrong", 0).events
    assert [frame for frame, _ in events] == [6, QUESTION_END]


def test_a_run_is_judged_by_what_it_says_once_the_question_was_heard(tokenizer: Tokenizer) -> None:
    one, other = row("one", "five", tokenizer, "is it five"), row("other", "six", tokenizer)
    early = judged(one, other, "right", run_of(tokenizer, {3: "five"}), tokenizer)
    assert (early.n_said, early.delay_s, early.in_question) == (0, None, True)
    late = judged(one, other, "right", run_of(tokenizer, {12: "it", 13: "is", 14: "five"}), tokenizer)
    assert (late.said, late.n_said, late.n_told, late.delay_s) == ("it is five", 1, 1, 0.16)


def test_a_corrected_run_is_judged_by_what_follows_the_correction(tokenizer: Tokenizer) -> None:
    one, other = row("one", "five", tokenizer), row("other", "six", tokenizer)
    words = {12: "it", 13: "is", 14: "six", 26: "no", 27: "wait", 30: "five"}
    found = judged(one, other, "corrected", run_of(tokenizer, words, correction_frame=25), tokenizer)
    assert (found.n_stranger, found.n_said, found.n_said_at_last) == (1, 1, 1)
    back = judged(
        one, other, "corrected", run_of(tokenizer, words | {32: "it", 34: "six"}, correction_frame=25), tokenizer
    )
    assert (back.n_said, back.n_said_at_last) == (1, 0), "it ends with the wrong one"
    before = judged(one, other, "corrected", run_of(tokenizer, {14: "five"}, correction_frame=25), tokenizer)
    assert (before.n_said, before.n_said_at_last) == (1, 0)


def test_figures_are_by_condition_and_apart_where_the_question_holds_the_answer() -> None:
    outcomes = [
        outcome(),
        outcome(n_said=0, said="", delay_s=None),
        outcome(n_said=2, said="it is five is five"),
        outcome(in_question=True),
        outcome("wrong", n_said=0, n_stranger=1, said="it is six", told="it is six"),
        outcome("corrected", n_said_at_last=1),
    ]
    lines = {(each.condition, each.group): each for each in figures(outcomes)}
    right = lines["right", "answer not in the question"]
    assert (right.said.n, right.said.of, right.repeated.n, right.silent.n) == (2, 3, 1, 1)
    assert right.wer == pytest.approx(5 / 9, abs=1e-4)
    assert right.wer_recorded == pytest.approx(3 / 9, abs=1e-4), "leads and tails count in both"
    assert right.median_delay_s == 0.4
    assert lines["right", "answer in the question"].said.of == 1
    assert lines["wrong", "answer not in the question"].said_stranger.value == 1.0
    at_last = lines["corrected", "answer not in the question"].said_at_last
    assert at_last is not None
    assert at_last.n == 1
    assert ("none", "answer not in the question") not in lines


def test_what_is_said_in_the_users_next_turn_is_no_more_the_answer(tokenizer: Tokenizer) -> None:
    one, other = row("one", "five", tokenizer), row("other", "six", tokenizer)
    told = tokenizer.encode("no")
    oracle = OracleTokens.pack([QUESTION_END, 25], [1.0, 0.3], [5, 0], [True, True], [told, told], [[], []])
    text = run_of(tokenizer, {13: "wait", 14: "five", 30: "six"}).text
    turned = replace(one, a=replace(one.a, oracle=oracle, text=text))
    run = run_of(tokenizer, {12: "five", 26: "five"})
    found = judged(turned, other, "right", run, tokenizer)
    assert (found.said, found.said_in_turn, found.recorded) == ("five five", "five", "wait five")


def test_a_follow_ups_own_recording_does_not_say_its_answer_too_often(tokenizer: Tokenizer) -> None:
    """Its second turn tells the answer again, as its second question asks; the first turn's oracle tells it once."""
    one, other = row("one", "five", tokenizer), row("other", "six", tokenizer)
    said = tokenizer.encode("it is five")
    oracle = OracleTokens.pack([QUESTION_END, 25], [1.0, 1.0], [5, 5], [True, True], [said, said], [said, said])
    recording = run_of(tokenizer, {12: "it", 13: "is", 14: "five", 30: "no", 31: "wait", 32: "five"})
    follow_up = replace(one, form="follow-up", a=replace(one.a, oracle=oracle, text=recording.text))
    again = run_of(tokenizer, {12: "it", 13: "is", 14: "five", 18: "is", 19: "five", 32: "five"})
    late = run_of(tokenizer, {12: "wait", 32: "five"})
    (own,), (stammered,), (only_later,) = (
        figures([judged(follow_up, other, "right", run, tokenizer)]) for run in (recording, again, late)
    )
    assert (own.said.n, own.repeated.n, own.repeated.of) == (1, 0, 1)
    assert (stammered.said.n, stammered.repeated.n, stammered.repeated.of) == (1, 1, 1)
    assert (only_later.said.n, only_later.repeated.of) == (1, 0), "that turn does not say it at all"


def test_a_share_has_wilsons_interval() -> None:
    found = share(80, 100)  # Wilson 1927: 0.7112 to 0.8666
    assert found.low == pytest.approx(0.7112, abs=2e-4)
    assert found.high == pytest.approx(0.8666, abs=2e-4)
    assert share(0, 0).value == 0.0
