"""An answer is said where its words stand in a row; a number only as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.evaluate.said import key_words, times_said

WORDS = st.lists(st.sampled_from(["the", "answer", "is", "paris", "now"]), max_size=12)


@pytest.mark.parametrize(
    ("answer", "text", "n_times"),
    [
        ("thirty six", "so it is thirty six students", 1),
        ("thirty six", "it is thirty six yes thirty six", 2),
        ("thirty six", "it is one hundred thirty six", 0),
        ("thirty six", "it is thirty", 0),
        ("six", "it is thirty six", 0),
        ("two hundred and five", "that is two hundred and five dollars", 1),
        ("carbon dioxide", "they take in carbon dioxide and give off oxygen", 1),
        ("carbon dioxide", "they take in carbon and dioxide", 0),
        ("", "anything", 0),
    ],
)
def test_how_often_an_answer_is_said(answer: str, text: str, n_times: int) -> None:
    assert times_said(answer.split(), text.split()) == n_times


@given(WORDS, WORDS, WORDS)
def test_what_is_put_into_a_text_is_found_there(before: list[str], answer: list[str], after: list[str]) -> None:
    assert times_said(answer, [*before, *answer, *after]) >= bool(answer)


@pytest.mark.parametrize(
    ("answer", "key"),
    [
        ("thirty six students got b", "thirty six"),
        ("seventy two clips altogether in april and may", "seventy two"),
        ("three point five meters", "three point five"),
        ("point five percent", "point five"),
        ("minus one hundred fifty one kilocalories per mole", "minus one hundred fifty one"),
        ("one hundred and twenty dollars", "one hundred and twenty"),
        ("a hundred dollars", "a hundred"),
        ("twelve hours before it goes off", "twelve"),
        ("two donuts because forty eight divided by twenty four equals two", "two"),
        ("four more laps", "four"),
        ("eighteen years old", "eighteen"),
        ("forty five times a year", "forty five"),
        ("eighty dogs and cats in the village", "eighty"),
        ("one", "one"),
        ("six", "six"),
        ("nineteen fourteen", "nineteen fourteen"),
        ("", ""),
    ],
)
def test_the_amount_that_an_answer_begins_with_tells_it(answer: str, key: str) -> None:
    assert key_words(answer.split()) == key.split()


@pytest.mark.parametrize(
    "answer",
    [
        "an expansion path",
        "none of the above",
        "both of them are true",
        "one could argue that the court erred",
        "one of the most diverse colonies",
        "one and only one sperm will fertilize the egg",
        "one dollar",
        "two or three",
        "two pi",
        "five squared",
        "sixteen feet by ten feet",
        "one half",
        "one third of the cake",
        "two thirds of the class",
        "first in first out",
        "first degree murder",
        "second agricultural revolution",
        "twenty first century literature",
        "two and a half hours",
        "eighty dogs and twenty cats",
        "two dollars and eighty two cents",
        "three hundred seventy four and two thirds hours",
        "four to one",
        "seven over three",
        "three quarters of an hour",
        "ten dozen donuts",
        "two point eight times ten to the power of thirteen hertz",
        "one hundred minus x",
    ],
)
def test_all_words_tell_an_answer_that_only_begins_like_an_amount(answer: str) -> None:
    assert key_words(answer.split()) == answer.split()
