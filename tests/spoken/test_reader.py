"""What holds of any text: only words and marks come out, in time, or a refusal with one of the known reasons."""

import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spoken.reader import REASONS, SPOKEN, Unspeakable, speak
from spoken.spoken_text import split_words

PIECES = st.sampled_from(
    ["$", "5", "1/2", ".", ",", " ", "-", "x", "A", "II", "in 1914", "%", "(", ")", "'", '"', "e.g.", "U.S.", "°C",
     "kg", "=", "+", "3:30", " PM", "Dr.", "_", "^", "2", "\\frac{1}{2}", "the", "H2O", "é", "½", "\n", "/", "Jr.", "?",
     "J.", "<", "[", "{", "~", "C-14", "12th", "i=1", "∑", "ions", "Na+"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
@settings(max_examples=600, deadline=None)
@example("a. A. Inc. B")
@example("St. Mr. 5's")
@pytest.mark.full
def test_only_words_and_marks_come_out(text: str) -> None:
    try:
        spoken = speak(text)
    except Unspeakable:
        return
    assert SPOKEN.fullmatch(spoken)


@pytest.mark.parametrize("text", ["She has seven cats, and he none.", "It is eight in the morning. The D N A of it"])
def test_spoken_text_is_said_as_it_stands(text: str) -> None:
    assert speak(text) == text


@given(st.integers(min_value=0, max_value=10**12))
def test_thousands_commas_do_not_change_a_number(number: int) -> None:
    assert speak(f"{number:,} things") == speak(f"{number} things")


def test_words_are_counted_without_their_marks() -> None:
    assert split_words("It's ten o'clock, isn't it?") == ["It's", "ten", "o'clock", "isn't", "it"]


def test_a_refusal_crosses_process_borders() -> None:
    refusal = pickle.loads(pickle.dumps(Unspeakable("formula", "x_{12}")))
    assert (refusal.reason, refusal.detail) == ("formula", "x_{12}")


def test_an_unknown_reason_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="no reason"):
        Unspeakable("whatever", "x")


@pytest.mark.parametrize(
    "piece",
    ["the cat ", "1", "5 C ", "(", "^{", "\\frac{", "$a ", "a@b.", "A.", "m^", "H2O ", "\n", '"5" ', "x="],
)
@pytest.mark.full
def test_ten_thousand_characters_are_read_or_refused(piece: str) -> None:
    try:
        outcome = speak((piece * 10_000)[:10_000])
    except Unspeakable as refusal:
        outcome = refusal.reason
    assert outcome in REASONS or SPOKEN.fullmatch(outcome)
