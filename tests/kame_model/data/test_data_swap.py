import random
from dataclasses import replace

import numpy as np
import pytest

from kame_model.data.example import sides_of
from kame_model.data.swap import NOTICE_FRAMES, QUIET_FRAMES, Sides, corrected, handover, swapped
from kame_model.frames.ids import PADDING_ID
from tests.support.made_rows import made_with, make_row

BY = made_with()


def dialogue(number: int) -> Sides:
    return sides_of(make_row(number, "train", BY), "a")


def said(text: np.ndarray) -> list[int]:
    return list(map(int, text[text > PADDING_ID]))


def test_the_question_of_one_is_followed_by_the_answer_of_the_other() -> None:
    one, other = dialogue(1), dialogue(2)
    joined = swapped(one, other)
    assert joined is not None
    assert said(joined.other.text) == said(one.other.text)
    assert said(joined.own.text) == said(other.own.text)
    assert joined.own.answer_mask.sum() == other.own.answer_mask.sum()


def test_sound_and_text_are_joined_at_one_frame() -> None:
    one, other = dialogue(1), dialogue(2)
    joined = swapped(one, other)
    assert joined is not None
    cut, other_cut = handover(one.own), handover(other.own)
    for side in ("own", "other"):
        first, second, both = getattr(one, side), getattr(other, side), getattr(joined, side)
        assert np.array_equal(both.codes, np.concatenate([first.codes[:, :cut], second.codes[:, other_cut:]], axis=1))
        assert len(both.text) == both.codes.shape[1] == len(both.answer_mask)


def test_the_oracle_is_the_answers_at_the_same_distance_from_the_questions_end() -> None:
    one, other = dialogue(1), dialogue(2)
    joined = swapped(one, other)
    assert joined is not None
    cut, other_cut = handover(one.own), handover(other.own)
    assert cut is not None
    assert other_cut is not None
    last = len(joined.own.oracle) - 1
    assert joined.own.oracle.said(last).tolist() == said(other.own.text)
    assert int(joined.own.oracle.frame[last]) - cut == int(other.own.oracle.frame[-1]) - other_cut == -1
    assert joined.own.oracle.frame.min() >= 0


def test_a_dialogue_in_which_the_answer_begins_early_is_not_cut() -> None:
    sides = dialogue(1)
    cut = handover(sides.own)
    assert cut is not None
    text = sides.own.text.copy()
    text[cut - QUIET_FRAMES] = 9  # a word of a lead, while the question still runs
    early = Sides(replace(sides.own, text=text), sides.other)
    assert handover(early.own) is None
    assert swapped(early, dialogue(2)) is None
    assert swapped(dialogue(2), early) is None


def test_without_an_answer_or_its_last_oracle_there_is_no_cut() -> None:
    own = dialogue(1).own
    assert handover(replace(own, answer_mask=np.zeros_like(own.answer_mask))) is None
    assert handover(replace(own, oracle=dialogue(1).other.oracle)) is None


@pytest.mark.parametrize("seed", range(8))
def test_a_corrected_answer_begins_as_the_one_and_ends_as_the_other(seed: int) -> None:
    one, other = dialogue(3), dialogue(4)
    joined = corrected(one, other, random.Random(seed))
    assert joined is not None
    words, whole = said(joined.sides.own.text), said(other.own.text)
    n_first = len(words) - len(whole)
    assert n_first >= 1
    assert words == said(one.own.text)[:n_first] + whole


@pytest.mark.parametrize("seed", range(8))
def test_the_news_of_a_correction_come_in_the_middle_of_the_answer(seed: int) -> None:
    one, other = dialogue(3), dialogue(4)
    joined = corrected(one, other, random.Random(seed))
    assert joined is not None
    own = joined.sides.own
    frame, tokens = joined.news[-1]
    assert tokens == said(other.own.text)
    assert own.oracle.said(len(own.oracle) - 1).tolist() == said(one.own.text)
    assert np.flatnonzero(own.answer_mask)[0] < frame
    changes = frame + NOTICE_FRAMES[0] + np.flatnonzero(own.text[frame + NOTICE_FRAMES[0] :] > PADDING_ID)
    assert said(other.own.text)[0] in own.text[changes]


@pytest.mark.parametrize("seed", range(20))
def test_no_shift_of_the_stream_brings_the_news_after_the_change(seed: int) -> None:
    one, other = dialogue(3), dialogue(4)
    joined = corrected(one, other, random.Random(seed))
    assert joined is not None
    n_new = len(said(other.own.text))
    change = np.flatnonzero(joined.sides.own.text > PADDING_ID)[-n_new]
    assert NOTICE_FRAMES[0] <= change - joined.news[0][0]
    assert all(frame < joined.news[0][0] for frame in joined.sides.own.oracle.frame.tolist())
