"""Texts longer than an engine's longest are said in pieces: every word once, joined without a click."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.tts.double import DoubleTts
from backends.tts.long_texts import cut, say
from backends.tts.protocol import Speech, SpeechRefused
from data_schemas.records import WordTiming

SENTENCES = "Seven apples. Four pears, two plums; nine nuts and one fig."
FOUR_WORDS = "Seven apples. Four pears,"

WORDS = st.lists(st.from_regex(r"[A-Za-z]{1,9}[,.?!;:]?", fullmatch=True), min_size=1, max_size=60)


@given(words=WORDS, max_chars=st.integers(10, 80))
def test_pieces_are_short_enough_and_have_every_word_in_order(words: list[str], max_chars: int) -> None:
    text = " ".join(words)
    pieces = list(cut(text, max_chars))
    assert " ".join(pieces) == text
    assert all(0 < len(piece) <= max_chars for piece in pieces)


@pytest.mark.parametrize(
    ("max_chars", "first"), [(16, "Seven apples."), (20, "Seven apples."), (28, FOUR_WORDS), (34, FOUR_WORDS)]
)
def test_a_piece_ends_where_one_breathes(max_chars: int, first: str) -> None:
    assert next(cut(SENTENCES, max_chars)) == first


def test_the_last_piece_is_no_single_word() -> None:
    text = "Seven apples and four pears, as well as two plums, please."
    assert list(cut(text, 54)) == ["Seven apples and four pears,", "as well as two plums, please."]


def test_a_word_that_is_too_long_is_refused() -> None:
    with pytest.raises(SpeechRefused, match="a word of more than 10 letters"):
        list(cut("It is antidisestablishmentarianism.", 10))


class Short(DoubleTts):
    """Says at most 20 characters in one go, and tells when each word comes; its sounds begin and end aloud."""

    max_chars = 20

    def __init__(self, tells: bool = True) -> None:
        self.tells = tells
        self.said: list[tuple[str, int]] = []

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        assert len(text) <= 20, "the model takes no more"
        self.said.append((text, take))
        words = text.split()
        timings = (
            WordTiming(word=word, start_s=0.1 * at, end_s=0.1 * at + 0.1, score=0.0, method="short")
            for at, word in enumerate(words)
        )
        is_told = self.tells or len(self.said) > 1
        return Speech(np.full(2_400 * len(words), 0.5, np.float32), tuple(timings) if is_told else ())


def test_a_long_text_is_said_in_pieces_joined_with_a_breath() -> None:
    tts = Short()
    speech = say(tts, "Seven apples. Four pears, two plums.", "double_a", 1.0, 2)
    assert tts.said == [("Seven apples.", 2), ("Four pears,", 2), ("two plums.", 2)]
    assert len(speech.samples) == 6 * 2_400 + 4_800 + 2_400
    assert not speech.samples[4_800:9_600].any()
    assert np.abs(np.diff(speech.samples)).max() < 0.01, "no click at a join"
    assert [each.word for each in speech.words] == ["Seven", "apples.", "Four", "pears,", "two", "plums."]
    assert [each.start_s for each in speech.words] == pytest.approx([0.0, 0.1, 0.4, 0.5, 0.7, 0.8], abs=5e-4)


def test_words_have_times_only_where_all_pieces_tell_them() -> None:
    assert say(Short(tells=False), "Seven apples. Four pears, two plums.", "double_a", 1.0).words == ()


def test_what_is_short_enough_is_the_engines_own() -> None:
    own = DoubleTts().synthesise(SENTENCES, "double_a", 1.1)
    assert np.array_equal(say(DoubleTts(), SENTENCES, "double_a", 1.1).samples, own.samples)
