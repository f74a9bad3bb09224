"""What holds of any text: only words and marks come out, in time, or a refusal with one of the known reasons."""

import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spoken.reader import REASONS, SPOKEN, Unspeakable, speak
from spoken.rules.numerals import spell_cardinal
from spoken.spoken_text import find_last_words

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


@given(st.integers(min_value=0, max_value=10**12))
def test_thousands_commas_do_not_change_a_number(number: int) -> None:
    assert speak(f"{number:,} things") == speak(f"{number} things")


def test_a_refusal_crosses_process_borders_and_has_a_known_reason() -> None:
    refusal = pickle.loads(pickle.dumps(Unspeakable("formula", "x_{12}")))
    assert (refusal.reason, refusal.detail) == ("formula", "x_{12}")
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


@pytest.mark.parametrize(
    ("wanted", "said", "place"),
    [
        ("six", "thirty six minus six more gives six", 6), ("six", "he has thirty six of them", None),
        ("six", "six hundred of them", None), ("six", "six point five of them", None),
        ("six", "six and a half of them", None), ("six", "six and two fifths of them", None),
        ("three", "three quarters of them", None), ("five", "one hundred and five of them", None),
        ("four", "it falls to minus four degrees", None), ("four", "ten minus four", 2),
        ("six eggs", "Six eggs and five are eleven", 0), ("a pike", "it is a pike and a carp", 2),
        ("seven", "there are seven and eight of them", 2),
        ("two hundred", "between one hundred and two hundred of them", 4),
        ("three thousand", "two thousand and three thousand of them", 3),
        ("two thousand", "between one hundred and two thousand of them", 4),
        ("two thousand", "one hundred and two thousand of them", None),
        ("fifty", "between one hundred and fifty and two hundred", None),
    ],
)  # fmt: skip
def test_the_last_place_that_says_the_whole_answer(wanted: str, said: str, place: int | None) -> None:
    assert find_last_words(wanted.split(), said.split()) == place


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_number_is_found_in_no_other(sought: int, said: int) -> None:
    found = find_last_words(spell_cardinal(sought).split(), ["about", *spell_cardinal(said).split(), "of", "them"])
    assert found == (1 if sought == said else None)
