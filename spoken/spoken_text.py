"""Defines spoken text (letters, apostrophes and six punctuation marks) and the error for text that cannot be read out.

The set is closed on purpose: speech engines drop or guess digits and symbols, and aligners give them no time, so none
may reach them. Capitals are kept because the phonemiser spells out "DNA" by itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spoken.number_words import count_number_words, find_cardinal

WORD: Final = r"[A-Za-z]+(?:'[A-Za-z]+)*"
"""Pattern of a spoken word."""
_MARKED: Final = rf"{WORD}[,.?!;:]?"

_FRACTIONS: Final = frozenset({"half", "halves", "quarter", "quarters"})
"""Parts of a number that `number_words` does not count as such."""

SPOKEN: Final = re.compile(rf"{_MARKED}(?: {_MARKED})*")
"""Full match of every spoken text: words of ASCII letters and inner apostrophes, single spaces, marks on words."""

REASONS: Final = frozenset(
    {
        "blank",  # nothing is left to say
        "broken_text",  # words run together: "whatis", "productsA"
        "code",  # letters and digits mixed, or letters that are no word: names of variables, codes
        "formula",  # beyond the simple formulas that people read out
        "markup",  # tags, addresses, programs
        "non_latin",  # another script
        "number",  # a number whose reading is not clear: phone numbers, leading zeros, very long ones
        "symbol",  # a character with no reading
        "table",  # cells and columns
        "too_long",  # more characters than are read at once
    }
)
"""All the reasons for which `speak` refuses a text."""


class Unspeakable(Exception):
    """A text that cannot be read out without garbling it.

    Args:
        reason: one of `REASONS`.
        detail: the span that could not be read.
    """

    def __init__(self, reason: str, detail: str) -> None:
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is no reason for refusing a text; they are {sorted(REASONS)}")
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type["Unspeakable"], tuple[str, str]]:
        return type(self), (self.reason, self.detail)


@dataclass(frozen=True, slots=True)
class SpokenText:
    """A text and its spoken form; `spans[i]` are the characters `[start, end)` of `written` that word i came from.

    A word without a written counterpart has no span. The length of `spans` is that of `split_words(text)`.
    """

    written: str
    text: str
    spans: tuple[tuple[int, int] | None, ...]

    @property
    def n_words(self) -> int:
        """Number of spoken words."""
        return len(self.spans)


def join_spoken(pieces: Sequence[SpokenText]) -> SpokenText:
    """Joins spoken texts, and their written texts, with single spaces; spans are moved to the joined written text."""
    spans: list[tuple[int, int] | None] = []
    at = 0
    for piece in pieces:
        spans += [None if span is None else (span[0] + at, span[1] + at) for span in piece.spans]
        at += len(piece.written) + 1
    return SpokenText(" ".join(each.written for each in pieces), " ".join(each.text for each in pieces), tuple(spans))


def split_words(text: str) -> list[str]:
    """Returns the words of a spoken text without punctuation, as the aligner and all word counts use them."""
    return re.findall(WORD, text)


def split_lower_words(text: str) -> list[str]:
    """Returns the words of a spoken text in lower case and without punctuation, for comparison."""
    return [word.lower() for word in split_words(text)]


def find_last_words(wanted: Sequence[str], words: Sequence[str]) -> int | None:
    """Returns the index at which `wanted` last occurs in `words`; None if it does not (see `find_words`)."""
    return next(reversed(find_words(wanted, words)), None)


def find_words(wanted: Sequence[str], words: Sequence[str]) -> list[int]:
    """Returns the indices at which the sequence `wanted` occurs in `words`, ignoring case.

    A number is found only as a whole: "six" neither in "thirty six" nor in "six and a half" or "minus six".
    """
    sought, said = [word.lower() for word in wanted], [word.lower() for word in words]
    inside = _find_inner_places(said)
    starts = range(len(said) - len(sought) + 1)
    return [at for at in starts if said[at : at + len(sought)] == sought and not {at, at + len(sought)} & inside]


def _find_inner_places(words: Sequence[str]) -> set[int]:
    """Returns the indices of words that continue a number, which no match may start or end at."""
    inside: set[int] = set()
    at = 0
    while at < len(words):
        end = at + count_number_words(words, at)
        if end > at:
            end += _count_fraction_words(words[end : end + 3])
            inside.update(range(at + 1, end))
        at = max(end, at + 1)
    return inside


def _count_fraction_words(words: Sequence[str]) -> int:
    """Returns how many of the words after a whole number are its fraction: 3 for "and a half", 1 for "quarters"."""
    if words[:1] and words[0] in _FRACTIONS:
        return 1
    is_part = len(words) == len(("and", "a", "half")) and words[0] == "and"
    is_part = is_part and (words[1] == "a" or find_cardinal(words[1]) is not None)
    return 3 * (is_part and (words[2] in _FRACTIONS or find_cardinal(words[2]) not in {None, words[2]}))


def make_word_set(text: str) -> frozenset[str]:
    """Returns the set of the words in a string, separated by spaces."""
    return frozenset(text.split())
