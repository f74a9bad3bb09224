"""Where a spoken text bears the answer: the last place that says it, a number only as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spoken.rules.numerals import spell_cardinal
from spoken.spoken_text import find_last_words


@pytest.mark.parametrize(
    ("wanted", "said", "place"),
    [
        ("six", "thirty six minus six more gives six", 6),
        ("six", "he has thirty six of them", None),
        ("six", "six hundred of them", None),
        ("six", "six point five of them", None),
        ("six", "six and a half of them", None),
        ("six", "six and two fifths of them", None),
        ("three", "three quarters of them", None),
        ("five", "one hundred and five of them", None),
        ("four", "it falls to minus four degrees", None),
        ("four", "ten minus four", 2),
        ("six eggs", "Six eggs and five are eleven", 0),
        ("a pike", "it is a pike and a carp", 2),
        ("seven", "there are seven and eight of them", 2),
    ],
)
def test_the_last_place_that_says_the_whole_answer(wanted: str, said: str, place: int | None) -> None:
    assert find_last_words(wanted.split(), said.split()) == place


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_number_is_found_in_no_other(sought: int, said: int) -> None:
    found = find_last_words(spell_cardinal(sought).split(), ["about", *spell_cardinal(said).split(), "of", "them"])
    assert found == (1 if sought == said else None)
