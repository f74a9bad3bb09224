import random
from dataclasses import replace

import numpy as np
import pytest

from kame_model.data.copying import Pieces
from kame_model.data.substitution import substituted
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokens
from tests.support.made_rows import made_with, make_row

BY = made_with()
PIECES = Pieces(range(10, 120), range(120, BY.text_card), BY.text_card, BY.layout)


def own_of(number: int) -> SpeakerTokens:
    """A speaker who says a lead of two words, then the oracle's words."""
    return make_row(number, "train", BY).a


def said(own: SpeakerTokens) -> list[int]:
    return [token for token in own.text.tolist() if token > PADDING_ID]


@pytest.mark.parametrize("seed", range(6))
def test_the_text_still_says_what_the_oracle_tells_in_other_words(seed: int) -> None:
    own = own_of(seed)
    other = substituted(own, PIECES, random.Random(seed))
    assert other is not None
    last = len(own.oracle) - 1
    told = other.oracle.said(last).tolist()
    assert said(own)[-len(told) :] == own.oracle.said(last).tolist()
    assert said(other)[-len(told) :] == told
    assert told != own.oracle.said(last).tolist()
    assert (np.flatnonzero(other.text > PADDING_ID) == np.flatnonzero(own.text > PADDING_ID)).all()


def test_beginnings_of_words_stay_beginnings() -> None:
    own = own_of(1)
    other = substituted(own, PIECES, random.Random(1))
    assert other is not None
    before, after = (each.oracle.hint_values for each in (own, other))
    assert (np.isin(before, PIECES.first) == np.isin(after, PIECES.first)).all()
    assert (np.isin(before, PIECES.more) == np.isin(after, PIECES.more)).all()


def test_a_piece_stands_for_the_same_one_throughout_an_example_and_for_another_in_the_next() -> None:
    own = own_of(2)
    one, other = (substituted(own, PIECES, random.Random(seed)) for seed in (1, 2))
    assert one is not None
    assert other is not None
    for changed in (one, other):
        pairs = set(zip(own.oracle.hint_values.tolist(), changed.oracle.hint_values.tolist(), strict=True))
        assert len(pairs) == len({before for before, _ in pairs})
    assert one.oracle.hint_values.tolist() != other.oracle.hint_values.tolist()


def test_the_answer_has_no_sound_and_what_is_before_it_stays() -> None:
    own = own_of(3)
    other = substituted(own, PIECES, random.Random(3))
    assert other is not None
    start = int(np.flatnonzero(other.codes[0] == ZERO_ID)[0])
    assert (other.codes[:, start:] == ZERO_ID).all()
    assert (other.codes[:, :start] == own.codes[:, :start]).all()
    assert (other.text[:start] == own.text[:start]).all()
    assert own.text[start] > PADDING_ID


def test_a_tail_that_no_oracle_tells_of_keeps_its_words_and_its_sound() -> None:
    own, n_answer = own_of(5), len(own_of(5).text)
    text = np.append(own.text, [PADDING_ID, PADDING_ID, 150, 151])
    codes = np.append(own.codes, np.full((BY.layout.n_codebooks, 4), 7, np.int16), axis=1)
    own = replace(own, text=text, codes=codes, answer_mask=np.append(own.answer_mask, [False] * 4))
    other = substituted(own, PIECES, random.Random(5))
    assert other is not None
    assert other.text[n_answer:].tolist() == text[n_answer:].tolist()
    assert (other.codes[:, n_answer + 2 :] == 7).all()
    assert (other.codes[:, n_answer : n_answer + 2] == ZERO_ID).all(), "the answer's last word may still be heard there"


@pytest.mark.parametrize("is_later", [False, True])
def test_a_turn_with_an_oracle_of_its_own_keeps_its_words_and_they_theirs(is_later: bool) -> None:
    """A greeting before the question, or a follow-up behind it."""
    own = own_of(6)
    n_frames, oracle = len(own.text), own.oracle
    turn = [150, 151, 152]
    shift = 0 if is_later else 20
    at = n_frames + 10 if is_later else 8
    text = np.full(n_frames + 20, PADDING_ID, np.int32)
    text[shift : shift + n_frames] = own.text
    text[at : at + 3] = turn
    mask = np.zeros(len(text), np.bool_)
    mask[shift : shift + n_frames] = own.answer_mask
    events = [(int(each) + shift, oracle.pred(n), oracle.hint(n)) for n, each in enumerate(oracle.frame)]
    ratio, forbidden = oracle.ratio.tolist(), oracle.skip_forbid.tolist()
    first = len(events) if is_later else 0
    events.insert(first, (at - 4, np.asarray(turn), np.asarray(turn)))
    ratio.insert(first, 1.0)
    forbidden.insert(first, True)
    more = OracleTokens.pack(
        [frame for frame, _, _ in events],
        ratio,
        [5] * len(events),
        forbidden,
        [pred.tolist() for _, pred, _ in events],
        [hint.tolist() for _, _, hint in events],
    )
    codes = np.ones((BY.layout.n_codebooks, len(text)), np.int16)
    whole = replace(own, text=text, answer_mask=mask, codes=codes, oracle=more)
    other = substituted(whole, PIECES, random.Random(6))
    assert other is not None
    assert other.text[at : at + 3].tolist() == turn == other.oracle.said(first).tolist()
    assert (other.codes[:, at : at + 3] == 1).all()
    answering = whole.answering_event()
    assert answering is not None
    assert other.oracle.said(answering).tolist() != whole.oracle.said(answering).tolist()


def test_an_answer_that_is_not_the_oracles_is_left_alone() -> None:
    own = own_of(4)
    text = own.text.copy()
    text[np.flatnonzero(text > PADDING_ID)[-1]] += 1
    assert substituted(replace(own, text=text), PIECES, random.Random(4)) is None
    assert substituted(replace(own, answer_mask=np.zeros_like(own.answer_mask)), PIECES, random.Random(4)) is None
