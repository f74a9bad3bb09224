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
        ("thirty six students got B", "thirty six"),
        ("an expansion path", "an expansion path"),
        ("three point five meters", "three point five"),
        ("", ""),
    ],
)
def test_a_number_tells_an_answer_that_begins_with_it(answer: str, key: str) -> None:
    assert key_words(answer.split()) == key.split()
