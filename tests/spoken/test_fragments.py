"""Texts joined at random from the forms that the rules know: refused, or said with every number that they hold."""

import re
from collections import Counter

import pytest
from hypothesis import example, given, settings

from spoken.number_words import find_cardinal
from spoken.reader import SPOKEN, Unspeakable, speak
from spoken.rules.numerals import MAX_DIGITS, spell_cardinal, spell_year
from spoken.spoken_text import split_lower_words
from tests.support.fragments import TEXTS

pytestmark = pytest.mark.full


def numbers_of(text: str) -> Counter[str]:
    """The whole numbers of two digits and more in a text, thousands without their commas; no minutes of midnight."""
    plain = re.sub(r"(?<![\d,.])([1-9]\d{0,2}(?:,\d{3})+)(?![\d,])", lambda match: match[1].replace(",", ""), text)
    return Counter(number for number in re.findall(r"\d{2,}", plain) if number != "00")


def digit_by_digit(number: str) -> str:
    """Digits as codes are read: "007" is "zero zero seven"."""
    return " ".join(spell_cardinal(int(digit)) for digit in number)


def ways_of(number: str) -> list[str]:
    """How a number may be said: as a whole, as a year, as two numbers, or digit by digit."""
    ways = [digit_by_digit(number), *([spell_cardinal(int(number))] if len(number) <= MAX_DIGITS else [])]
    if len(number) == 4:
        ways += [spell_year(int(number)), f"{spell_cardinal(int(number[:2]))} {spell_cardinal(int(number[2:]))}"]
    return ways


def in_cardinals(text: str) -> str:
    """The words of a text, ordinals and plurals of numbers as the numbers themselves."""
    words = [re.sub("ies$", "y", word.removesuffix("'s").replace("sixes", "six")) for word in split_lower_words(text)]
    return " ".join(find_cardinal(word) or find_cardinal(word.removesuffix("s")) or word for word in words)


def assert_nothing_is_lost(text: str, said: str) -> None:
    assert SPOKEN.fullmatch(said)
    heard = in_cardinals(said)
    for number, n_written in numbers_of(text).items():
        n_said = sum(len(re.findall(rf"\b{way}\b", heard)) for way in set(ways_of(number)))
        assert n_said >= n_written, (number, said)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
@example("Who ruled France in the XIXth century?")
@example("Louis XVIII and Pope John XXII")
@example("2**3 + x**14")
@example('a 15" board')
def test_any_text_of_known_forms_is_refused_or_said_with_all_its_numbers(text: str) -> None:
    try:
        said = speak(text)
    except Unspeakable:
        return
    assert_nothing_is_lost(text, said)
