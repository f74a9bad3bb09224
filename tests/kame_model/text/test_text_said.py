"""The inner monologue as text, token by token."""

import pytest

from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.text.tokenizer import Tokenizer
from tests.support.vocabularies import make_moshi_like


@pytest.fixture(scope="module")
def moshi_like(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_moshi_like(tmp_path_factory.mktemp("vocabulary"))


@pytest.mark.parametrize("text", ["How much did she earn?", "a café, 3 €, 🙂 and more", ""])
def test_all_of_a_text_is_said_whatever_stands_between(moshi_like: Tokenizer, text: str) -> None:
    said = moshi_like.said()
    pieces = []
    for token in moshi_like.encode(text):
        pieces += [said.feed(each) for each in (PADDING_ID, token, END_OF_PADDING_ID)]
    assert "".join(pieces) == (f" {text}" if text else "")
    assert all(not each or each.isprintable() for each in pieces)


def test_half_a_character_is_shown_to_be_one(moshi_like: Tokenizer) -> None:
    said = moshi_like.said()
    half = next(token for token in moshi_like.encode("é") if isinstance(moshi_like.piece(token), bytes))
    word = moshi_like.encode("fifty")[0]
    assert said.feed(half) == ""
    assert said.feed(word) == "\N{REPLACEMENT CHARACTER}" + str(moshi_like.piece(word))


def test_what_stands_for_no_text_is_not_said(moshi_like: Tokenizer) -> None:
    said = moshi_like.said()
    assert [said.feed(token) for token in (PADDING_ID, END_OF_PADDING_ID, moshi_like.text_card, -2, 1, 2)] == [""] * 6
