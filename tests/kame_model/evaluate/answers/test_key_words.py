"""An answer is told by its content words in a row, or by its number: answers written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.evaluate.answers.key_words import (
    extract_words,
    find_key,
    find_key_words,
    find_offered_options,
    find_other_answers,
    split_into_units,
)

WORDS = st.lists(st.sampled_from(["the", "answer", "is", "paris", "now", "six", "thirty"]), max_size=12)

AMOUNTS = {
    "thirty six students got b": "36",
    "three point five meters": "3.5",
    "point five percent": "0.5",
    "minus one hundred fifty one kilocalories per mole": "-151",
    "negative five degrees": "-5",
    "one hundred and twenty dollars": "120",
    "a hundred dollars": "100",
    "two donuts because forty eight divided by twenty four equals two": "2",
    "eighty dogs and cats in the village": "80",
    "six": "6",
    "zero": "0",
    "nineteen fourteen": "1914",
    "twenty oh eight": "2008",
    "two thousand and eight": "2008",
    "three thousand four hundred and fifty six marbles": "3456",
    "ninety nine point nine percent": "99.9",
    "seven and that is all": "7",
}
"""Answers that a number tells, and its value."""

WORDY = {
    "an expansion path": "expansion path",
    "none of the above": "none above",
    "the treaty of versailles": "treaty versailles",
    "it is not safe to drink": "not safe drink",
    "the court may not hear the case": "court not hear case",
    "they take in carbon dioxide and give off oxygen": "take carbon dioxide give off oxygen",
    "her mother's maiden name": "mother's maiden name",
    "one could argue that the court erred": "argue court erred",
    "one of the most diverse colonies": "most diverse colonies",
    "one who sells shoes": "sells shoes",
    "one": "one",
    "one dollar": "one dollar",
    "no one knows": "no one knows",
    "yes": "yes",
    "no it falls": "no falls",
    "it was they": "it was they",
    "all of these": "all",
    "without any friction": "without any friction",
    "anywhere but the north pole": "anywhere north pole",
    "a quarter": "quarter",
}
"""Answers that words tell."""

LARGER = {
    "one half": "one half",
    "two and a half hours": "2 half hours",
    "two dollars and eighty two cents": "2 dollars 82 cents",
    "eighty dogs and twenty cats": "80 dogs 20 cats",
    "four to one": "4 one",
    "seven over three": "7 3",
    "three quarters of an hour": "3 quarters hour",
    "ten dozen donuts": "10 dozen donuts",
    "two pi": "2 pi",
    "five squared": "5 squared",
    "first in first out": "1# 1# out",
    "twenty first century literature": "21# century literature",
}
"""Answers that only begin like an amount: all of them is wanted."""


@pytest.mark.parametrize(("answer", "key"), [*AMOUNTS.items(), *WORDY.items(), *LARGER.items()])
def test_what_tells_an_answer(answer: str, key: str) -> None:
    assert find_key_words(answer.split()) == tuple(key.split())
    assert find_key(find_key_words(answer.split()), answer.split()), "an answer tells itself"


@pytest.mark.parametrize(
    ("answer", "text", "n_times"),
    [
        ("thirty six", "so it is thirty six students", 1),
        ("thirty six", "thirty six thirty six", 2),
        ("thirty six", "thirty thirty six", 1),
        ("thirty six", "it is one hundred thirty six", 0),
        ("thirty six", "it is thirty", 0),
        ("six", "it is thirty six", 0),
        ("six", "six six six", 3),
        ("nineteen fourteen", "in nineteen fourteen nineteen fourteen", 2),
        ("nineteen fourteen", "in nineteen", 0),
        ("two hundred and five", "that is two hundred five dollars", 1),
        ("minus five", "it is negative five", 1),
        ("five", "it is minus five", 0),
        ("minus five", "it is minus minus five", 1),
        ("seven", "it is seven and a half", 0),
        ("seven", "it is seven and half of them left", 0),
        ("seven", "it is seven and a few", 1),
        ("two", "two dozen", 0),
        ("carbon dioxide", "they take in carbon dioxide and give off oxygen", 1),
        ("carbon dioxide", "they take in carbon and dioxide", 1),
        ("carbon dioxide", "carbon and then some dioxide", 0),
        ("the treaty of versailles", "it was the treaty at versailles", 1),
        ("the treaty of versailles", "a treaty signed in versailles", 0),
        ("it is not safe", "it is safe", 0),
        ("it is not safe", "it is not safe", 1),
        ("the treaty of versailles", "it is not the treaty of versailles", 0),
        ("the treaty of versailles", "it isn't in the treaty of versailles", 0),
        ("the treaty of versailles", "it is not it is the treaty of versailles", 1),
        ("paris", "london no rome no paris", 1),
        ("gold", "there is no gold", 0),
        ("five", "it is six not five", 0),
        ("paris", "no it isn't paris", 1),
        ("paris", "no not that paris", 1),
        ("paris", "it isn't paris", 0),
        ("paris", "no i said it isn't paris", 0),
        ("paris", "so no it is not paris", 0),
        ("six", "it isn't really six", 0),
        ("paris", "it is not called paris", 0),
        ("paris", "it is neither paris nor rome", 0),
        ("rome", "it is neither paris nor rome", 0),
        ("paris", "it is anything but paris", 0),
        ("paris", "i don't think it is paris it is rome", 0),
        ("rome", "i don't think it is paris it is rome", 1),
        ("the treaty of versailles", "i do not believe that the answer is the treaty of versailles", 0),
        ("twelve", "it cannot be twelve", 0),
        ("twelve", "it must be twelve", 1),
        ("twelve", "twelve is wrong", 0),
        ("twelve", "twelve isn't the right one", 0),
        ("twelve", "twelve is not right", 0),
        ("twelve", "twelve is not a prime", 1),
        ("one", "it is one does that help", 1),
        ("one", "one does not say so", 0),
        ("", "anything", 0),
    ],
)
def test_how_often_an_answer_is_said(answer: str, text: str, n_times: int) -> None:
    assert len(find_key(find_key_words(answer.split()), text.split())) == n_times


@given(WORDS, WORDS)
def test_units_cover_all_words_once(before: list[str], after: list[str]) -> None:
    words = before + after
    units = split_into_units(words)
    assert [place for unit in units for place in range(unit.start, unit.end)] == list(range(len(words)))


@given(WORDS, WORDS)
def test_what_is_put_into_a_text_is_found_there(before: list[str], after: list[str]) -> None:
    answer = ["carbon", "dioxide"]
    assert len(find_key(answer, [*before, *answer, *after])) == 1


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("it is seventy two", []),
        ("it is seventy", ["70"]),
        ("twenty four and forty eight is seventy two", []),  # as the oracle says it
        ("twenty four twenty four and seventy two", ["24"]),
        ("it is seventy two no it is twenty four", ["24"]),
        ("first let me see seventy two", []),  # an ordinal is no amount
        ("one could say seventy two", []),
        ("ninety no seventy two no eighty", ["90", "80"]),
        ("it is not ninety it is seventy two", []),
    ],
)
def test_another_number_is_another_answer(text: str, others: list[str]) -> None:
    oracle = extract_words("Twenty four and forty eight is seventy two.")
    assert [each.text for each in find_other_answers(("72",), text.split(), oracle, [])] == others


@pytest.mark.parametrize(
    ("answer", "text", "others"),
    [
        ("seven", "it is seven and a half", ["7"]),
        ("seven", "it is seven", []),
        ("one", "it is seven no one", ["7"]),
        ("one dollar", "five dollars no one dollar", ["5"]),
        ("no one", "five of them no one", []),
    ],
)
def test_a_number_with_a_part_is_another_and_of_one_any_number_is(answer: str, text: str, others: list[str]) -> None:
    found = find_other_answers(find_key_words(answer.split()), text.split(), answer.split(), [])
    assert [each.text for each in found] == others


def test_an_option_that_is_a_part_of_the_right_one_is_not_told_by_it() -> None:
    right, part = ("gravity", "friction"), ("gravity",)
    assert find_other_answers(right, ["it", "is", "gravity", "and", "friction"], [], [part]) == []
    said = find_other_answers(right, ["it", "is", "gravity", "no", "gravity", "and", "friction"], [], [part])
    assert [each.start for each in said] == [2]
    assert [each.text for each in find_other_answers(part, ["gravity", "and", "friction"], [], [right])] == [
        "gravity friction"
    ]


def test_of_an_answer_in_words_numbers_are_none_but_other_options_are() -> None:
    said = extract_words("Five of them: Mars, no, Jupiter.")
    found = find_other_answers(("jupiter",), said, [], [("mars",), ("jupiter",)])
    assert [each.text for each in found] == ["mars"]


@pytest.mark.parametrize(
    ("question", "answer", "others"),
    [
        ("Which planet is largest? Is it Mars, Venus, or Jupiter?", "jupiter", [("mars",), ("venus",)]),
        ("Which is it: the sun or the moon?", "the moon", [("sun",)]),
        ("How many? Your choices: ten, twelve, or one hundred and five.", "twelve", [("10",), ("105",)]),
        (
            "What holds? The choices are: first, the court may hear it; second, one may sue; or third, nobody may.",
            "one may sue",
            [("court", "hear"), ("nobody",)],
        ),
        ("What is two and two?", "four", []),
        ("Is it true that six, seven, or eight of them came?", "nine", []),
        ("", "nine", []),
    ],
)
def test_options_that_a_question_reads_out(question: str, answer: str, others: list[tuple[str, ...]]) -> None:
    assert find_offered_options(question, find_key_words(extract_words(answer))) == others
