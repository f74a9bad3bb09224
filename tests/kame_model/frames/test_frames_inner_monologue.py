"""A speaker's words on frames, and back."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.records import WordTiming
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.inner_monologue import TextFrames, place_text, read_words
from kame_model.text.tokenizer import Tokenizer
from tests.support.vocabularies import make_moshi_like, make_vocabulary

pytestmark = pytest.mark.full

PAD, END = PADDING_ID, END_OF_PADDING_ID
WORD = st.text(string.ascii_letters, min_size=1, max_size=9) | st.sampled_from(["sixty", "That's", "litres", "I"])


@pytest.fixture(scope="module", params=["ours", "like Moshi's"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    return make_vocabulary(folder) if request.param == "ours" else make_moshi_like(folder)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_vocabulary(tmp_path_factory.mktemp("vocabulary"))


def word(text: str, start_s: float, end_s: float) -> WordTiming:
    return WordTiming(word=text, start_s=start_s, end_s=end_s, score=1.0, method="test")


def first_frames(laid: TextFrames, n_words: int) -> list[int]:
    """The frame of each word's first token."""
    return [laid.word_of_frame.tolist().index(index) for index in range(n_words)]


@st.composite
def sentences(draw: st.DrawFn) -> list[WordTiming]:
    """Words one after the other, at any speed, with and without gaps."""
    words, time_s = [], 0.0
    for text in draw(st.lists(WORD, max_size=12)):
        start_s = time_s + draw(st.floats(0, 1))
        time_s = start_s + draw(st.floats(0, 0.8))
        words.append(word(text, start_s, time_s))
    return words


@given(words=sentences())
def test_the_words_are_found_again_at_their_frames(tokenizer: Tokenizer, words: list[WordTiming]) -> None:
    laid = place_text(words, tokenizer, n_frames=600)
    written = [tokenizer.decode(tokenizer.encode(each.word)) for each in words]
    assert read_words(laid.tokens, tokenizer) == list(zip(first_frames(laid, len(words)), written, strict=True))
    assert laid.n_cut_tokens == 0


@given(words=sentences(), n_frames=st.integers(0, 40))
def test_what_finds_no_frame_is_counted(tokenizer: Tokenizer, words: list[WordTiming], n_frames: int) -> None:
    laid = place_text(words, tokenizer, n_frames)
    whole = tokenizer.encode(" ".join(each.word for each in words))
    kept = [token for token in laid.tokens.tolist() if token not in (PAD, END)]
    assert kept == whole[: len(kept)]
    assert len(kept) + laid.n_cut_tokens == len(whole)
    assert len(laid.tokens) == n_frames


def spread(words: list[WordTiming], tokenizer: Tokenizer, n_frames: int) -> list[int]:
    """The rule of the ancestor, character by character, for words whose pieces are spelt as they are."""
    times_s = []
    for index, each in enumerate(words):
        characters = (" " if index else "") + each.word
        times_s += [
            each.start_s + at * ((each.end_s - each.start_s) / len(characters)) for at in range(len(characters))
        ]
    frames, at = [PAD] * n_frames, 0
    for index, token in enumerate(tokenizer.encode(" ".join(each.word for each in words))):
        frame = int(times_s[at] // 0.08)
        while frames[frame] != PAD:
            frame += 1
        frames[frame] = token
        if frame and frames[frame - 1] == PAD:
            frames[frame - 1] = END
        word_start = tokenizer.starts_word(token)
        at += len(tokenizer.decode([token]).strip()) + (word_start and index > 0)
    return frames


@given(words=sentences())
def test_tokens_are_spread_over_a_word_as_the_ancestor_spreads_them(ours: Tokenizer, words: list[WordTiming]) -> None:
    assert place_text(words, ours, 600).tokens.tolist() == spread(words, ours, 600)


def test_words_may_come_in_any_order(ours: Tokenizer) -> None:
    words = [word("sixty", 0.41, 0.8), word("litres", 1.21, 1.6), word("so", 0.1, 0.2)]
    laid = place_text(words, ours, 30)
    assert [text for _, text in read_words(laid.tokens, ours)] == ["so", "sixty", "litres"]
    assert first_frames(laid, 3) == [5, 15, 1]


def test_hurried_words_push_each_other_on(ours: Tokenizer) -> None:
    laid = place_text([word("sixty", 0.0, 0.04), word("minus", 0.04, 0.08), word("ten", 0.08, 0.2)], ours, 5)
    assert laid.tokens.tolist() == [*ours.encode("sixty minus ten"), PAD, PAD]
    assert (laid.n_moved_tokens, laid.n_cut_tokens) == (2, 0)
