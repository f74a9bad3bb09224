"""Parses number words, so that two readings of one number are equal: "nineteen fourteen" and 1,914 are both 1914.

A sign is part of its number ("minus five", "negative five": -5); between two numbers, "minus" is a separate word.
Consecutive values are written as one string of digits: "twenty, five" and "twenty five" sound the same.

`spoken/rules/numerals.py` spells numbers, the other way round.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final


def _split_words(text: str) -> list[str]:
    return text.split()


_LOW: Final = _split_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS: Final = {word: value for value, word in enumerate(_LOW[:10])}
_TEENS: Final = {word: value for value, word in enumerate(_LOW[10:], start=10)}
_TENS: Final = {
    word: 10 * value
    for value, word in enumerate(_split_words("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)
}
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS: Final = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
_PLAIN: Final = {*_UNITS, *_TEENS, *_TENS, "hundred", *_SCALES}
_SIGNS: Final = {"minus", "negative"}
_JOINERS: Final = {"and", "point", "oh", "o"}
"""Parts of a number only if number words are on both sides ("point" also before one)."""


def find_cardinal(word: str) -> str | None:
    """Returns the cardinal of a lower-case number word or ordinal ("twentieth", "thirds"); None for other words."""
    if word in _PLAIN:
        return word
    stem = word.removesuffix("s")
    if stem in _ORDINALS and word != "seconds":
        return _ORDINALS[stem]
    if stem.endswith("ieth") and stem[:-4] + "y" in _TENS:
        return stem[:-4] + "y"
    return stem[:-2] if stem.endswith("th") and stem[:-2] in _PLAIN else None


def count_number_words(words: Sequence[str], at: int) -> int:
    """Returns how many lower-case words, from `at` on, are number words that follow one another; 0 if none is there.

    "a hundred", "point five" and "minus five" start one; "and", "point" and "oh" belong to it only inside.
    """
    if words[at] in _SIGNS:
        follows_number = at > 0 and find_cardinal(words[at - 1]) is not None
        n_words = 0 if follows_number or at + 1 == len(words) else count_number_words(words, at + 1)
        return n_words and n_words + 1
    starts_with_a = words[at] == "a" and at + 1 < len(words) and words[at + 1] in {"hundred", *_SCALES}
    starts_with_point = words[at] == "point" and at + 1 < len(words) and words[at + 1] in _UNITS
    if find_cardinal(words[at]) is None and not starts_with_a and not starts_with_point:
        return 0
    end = at + 1
    while end < len(words):
        if find_cardinal(words[end]) is not None:
            end += 1
        elif _joins_number(words, at, end):
            end += 2
        else:
            break
    return end - at


def _joins_number(words: Sequence[str], start: int, at: int) -> bool:
    """Returns whether word `at` ("and", "point", "oh") belongs to the numbers on both sides of it.

    "and" does so only after a hundred or a larger unit, if the whole next number fits there ("one hundred and two", but
    not "one hundred and two hundred"), and not if it is the only "and" after "between".

    Args:
        start: the first of the number words before it.
    """
    if words[at] not in _JOINERS or at + 1 == len(words) or find_cardinal(words[at + 1]) is None:
        return False
    if words[at] != "and":
        return True
    if words[at - 1] not in {"hundred", *_SCALES}:
        return False
    end = at + 1 + _parse_whole_number(list(takewhile(lambda word: word != "and", words[at + 1 :])))[1]
    if start and words[start - 1] == "between" and "and" not in words[end : end + 3]:
        return False
    while (last := start + _parse_whole_number(words[start:end])[1]) < at and last > start:
        start = last
    return last == end


def split_numbers(words: Sequence[str]) -> list[int]:
    """Returns the number of words of each number in number words: [2, 2] for "seventy two seventy two".

    Which of them belong together ("nineteen fourteen") depends on the meaning.

    Raises:
        ValueError: a word is not a number word.
    """
    lengths: list[int] = []
    at = 0
    while at < len(words):
        start = at
        if words[at] in _SIGNS | {"oh", "o", "and"}:
            at += 1
        elif words[at] != "point":
            at += _parse_whole_number(words[at:])[1]
        if at > start and words[start] in _SIGNS and at < len(words) and words[at] != "point":
            at += _parse_whole_number(words[at:])[1]
        if at < len(words) and words[at] == "point":
            decimals = takewhile(lambda word: word in _UNITS or word in {"oh", "o"}, words[at + 1 :])
            at += 1 + sum(1 for _ in decimals)
        if at == start:
            raise ValueError(f"{words[at]!r} is not a number word.")
        lengths.append(at - start)
    return lengths


def parse_number_words(words: Sequence[str]) -> str:
    """Returns the digits of number words that `count_number_words` found, with `#` after an ordinal.

    "two thousand eight" is 2008, and so is "twenty oh eight"; "three point one four" is 3.14; "twenty first" is 21#;
    "minus two" is -2.

    Raises:
        ValueError: a word is not a number word.
    """
    if words[0] in _SIGNS:
        return "-" + parse_number_words(words[1:])
    digits: list[str] = []
    at = 0
    while at < len(words):
        if words[at] == "point":
            decimals = list(takewhile(lambda word: word in _UNITS or word in {"oh", "o"}, words[at + 1 :]))
            digits += ["" if digits else "0", ".", *(str(_UNITS.get(word, 0)) for word in decimals)]
            at += 1 + len(decimals)
        elif words[at] in {"oh", "o"}:
            digits.append("0")
            at += 1
        elif words[at] == "and":
            at += 1
        else:
            number, n_words = _parse_whole_number(words[at:])
            if not n_words:
                raise ValueError(f"{words[at]!r} is not a number word.")
            digits.append(str(number))
            at += n_words
            if words[at - 1] not in _PLAIN:
                digits.append("#")
    return "".join(digits)


def _parse_whole_number(words: Sequence[str]) -> tuple[int, int]:
    """Returns the value of the whole number at the start of the words, and its number of words; (0, 0) without one."""
    total, part, n_words = 0, 0, 0
    room = 10**15  # the next value must be less than this: 10 after twenty, 1000 after a thousand
    scale_room = 10**15
    for word in words:
        plain = "one" if word == "a" else "" if word == "and" else find_cardinal(word)
        if plain is None:
            break
        if plain in _SCALES:
            if _SCALES[plain] >= scale_room:
                break
            total, part = total + max(part, 1) * _SCALES[plain], 0
            room = scale_room = _SCALES[plain]
        elif plain == "hundred":
            if part >= 100:
                break
            part, room = max(part, 1) * 100, 100
        elif plain:
            value = _UNITS.get(plain, _TEENS.get(plain, _TENS.get(plain, 0)))
            if value >= room or (n_words and not value):
                break
            part, room = part + value, 10 if value >= 20 else 1
        n_words += 1
        if word != "a" and plain and word not in _PLAIN:
            break  # an ordinal ends its number
    return total + part, n_words
