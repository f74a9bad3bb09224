"""Text to tokens: whole and streamed alike, word by word, and vocabularies that Moshi could not use."""

import string
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_schemas.errors import BackendError
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.text.tokenizer import Tokenizer
from tests.support.vocabularies import TEXTS, make_moshi_like, make_vocabulary, train_with

pytestmark = pytest.mark.full

MOSHIS = "hf://kyutai/moshiko-pytorch-bf16/tokenizer_spm_32k_3.model"

WORD = st.text(string.ascii_lowercase, min_size=1, max_size=9)
SPOKEN = st.lists(WORD | st.sampled_from(["Sixty", "That's", "litres.", "So,"]), max_size=12).map(" ".join)
CUTS = st.lists(st.integers(0, 200), max_size=8)


@pytest.fixture(scope="module", params=["ours", "like Moshi's"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    return make_vocabulary(folder) if request.param == "ours" else make_moshi_like(folder)


def streamed(tokenizer: Tokenizer, text: str, cuts: list[int]) -> list[int]:
    stream, tokens, places = tokenizer.stream(), [], sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for start, stop in pairwise(places):
        tokens += stream.feed(text[start:stop])
    return tokens + stream.finish()


@given(text=st.one_of(SPOKEN, st.text(max_size=60)), cuts=CUTS)
@example(text=" one  two\n", cuts=[1, 2, 5, 6])
@example(text="--", cuts=[1])
@example(text="a\u2581b \u0301c", cuts=[1, 2, 3, 4])
def test_streamed_text_has_the_tokens_of_the_whole(tokenizer: Tokenizer, text: str, cuts: list[int]) -> None:
    assert streamed(tokenizer, text, cuts) == tokenizer.encode(text)


def test_a_word_leaves_as_soon_as_it_is_complete(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream()
    assert stream.feed("six") == []
    assert stream.feed("ty") == []
    assert stream.feed(" lit") == tokenizer.encode("sixty")
    assert stream.feed("res") == []
    assert stream.finish() == tokenizer.encode("sixty litres")[len(tokenizer.encode("sixty")) :]


@given(words=st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=20))
def test_words_have_the_tokens_of_the_sentence_they_stand_in(tokenizer: Tokenizer, words: list[str]) -> None:
    placed = tokenizer.place_words(words)
    assert [each.id for each in placed] == tokenizer.encode(" ".join(words))
    by_word = [[each.id for each in placed if each.word_index == index] for index in range(len(words))]
    assert by_word == [tokenizer.encode(word) for word in words]


@given(words=st.lists(WORD, min_size=1, max_size=8))
def test_a_token_knows_which_characters_of_its_word_it_is(tokenizer: Tokenizer, words: list[str]) -> None:
    for index, word in enumerate(words):
        placed = [token for token in tokenizer.place_words(words) if token.word_index == index]
        spaced = f" {word}" if index else word
        assert {token.n_chars for token in placed} == {len(spaced)}
        for token, until in zip(placed, [*(each.first_char for each in placed[1:]), len(spaced)], strict=True):
            assert tokenizer.decode([token.id]).strip() == spaced[token.first_char : until].strip()


@given(text=SPOKEN)
def test_text_never_becomes_padding_or_end_of_padding(tokenizer: Tokenizer, text: str) -> None:
    assert not {PADDING_ID, END_OF_PADDING_ID} & set(tokenizer.encode(text))


def test_ids_that_stand_for_no_text_are_not_read(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("sixty litres")
    apart = [token for each in tokens for token in (END_OF_PADDING_ID, each, PADDING_ID)]
    assert tokenizer.decode([tokenizer.text_card, *apart, -1]) == tokenizer.decode(tokens) == "sixty litres"


def test_the_digest_is_of_what_the_file_holds(tokenizer: Tokenizer, tmp_path: Path) -> None:
    copy = tmp_path / "copy.model"
    copy.write_bytes(tokenizer.path.read_bytes())
    assert Tokenizer(copy).digest == tokenizer.digest != make_vocabulary(tmp_path, 301).digest


def refused(path: Path) -> str:
    with pytest.raises(BackendError) as caught:
        Tokenizer(path)
    return str(caught.value)


def test_a_missing_an_empty_and_a_foreign_file_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty.model").touch()
    (tmp_path / "foreign.model").write_bytes(b"no model at all")
    assert "No such file" in refused(tmp_path / "missing.model")
    assert "is empty" in refused(tmp_path / "empty.model")
    assert "is not a SentencePiece model" in refused(tmp_path / "foreign.model")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pad_id": -1}, "Moshi's is 3"),
        ({"byte_fallback": False}, "end of padding"),
        ({"split_by_whitespace": False}, "crosses a word boundary"),
        ({"treat_whitespace_as_suffix": True}, "crosses a word boundary"),
    ],
)
def test_a_vocabulary_that_moshi_could_not_use_is_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    assert told in refused(train_with(tmp_path / "other.model", **changes))


def test_the_hub_out_of_reach_is_one_clear_error() -> None:
    with pytest.raises(BackendError, match=r"Cannot download hf://kyutai/.*download the file and give its path"):
        Tokenizer.from_file(MOSHIS)
    with pytest.raises(BackendError, match="Use hf://owner/repository/file"):
        Tokenizer.from_file("hf://kyutai")


def test_a_file_on_the_hub_is_fetched_and_read(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(repository: str, file: str) -> str:
        asked.append((repository, file))
        return str(tokenizer.path)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    assert Tokenizer.from_file(MOSHIS).digest == tokenizer.digest
    assert asked == [("kyutai/moshiko-pytorch-bf16", "tokenizer_spm_32k_3.model")]


@pytest.fixture(scope="module")
def moshi_like(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_moshi_like(tmp_path_factory.mktemp("vocabulary"))


@pytest.mark.parametrize("text", ["How much did she earn?", "a café, 3 €, 🙂 and more", ""])
def test_all_of_a_text_is_said_whatever_stands_between(moshi_like: Tokenizer, text: str) -> None:
    said = moshi_like.decode_stream()
    pieces = []
    for token in moshi_like.encode(text):
        pieces += [said.feed(each) for each in (PADDING_ID, token, END_OF_PADDING_ID)]
    assert "".join(pieces) == (f" {text}" if text else "")
    assert all(not each or each.isprintable() for each in pieces)


def test_half_a_character_is_shown_to_be_one_and_ids_without_text_are_not_said(moshi_like: Tokenizer) -> None:
    said = moshi_like.decode_stream()
    assert [said.feed(token) for token in (PADDING_ID, END_OF_PADDING_ID, moshi_like.text_card, -2, 1, 2)] == [""] * 6
    half = next(token for token in moshi_like.encode("é") if isinstance(moshi_like.get_piece(token), bytes))
    word = moshi_like.encode("fifty")[0]
    assert said.feed(half) == ""
    assert said.feed(word) == "\N{REPLACEMENT CHARACTER}" + str(moshi_like.get_piece(word))
