"""What counts as spoken text, and the refusal of what cannot be made so.

The set is closed on purpose: speech engines drop or guess at digits and symbols, aligners give them no time, so none
may reach them. Capitals stay, because the phonemiser spells "DNA" out by itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WORD: Final = r"[A-Za-z]+(?:'[A-Za-z]+)*"
_MARKED: Final = rf"{_WORD}[,.?!;:]?"

SPOKEN: Final = re.compile(rf"{_MARKED}(?: {_MARKED})*")
"""Full match of every spoken text: words of ASCII letters and inner apostrophes, single spaces, marks on words."""

REASONS: Final = frozenset(
    {
        "blank",  # nothing is left to say
        "broken_text",  # words run together: "thecell", "productsA"
        "code",  # letters and digits mixed, or letters that are no word: names of variables, codes
        "formula",  # beyond the simple formulas that people read out
        "markup",  # tags, addresses, programs
        "non_latin",  # another script
        "number",  # a number whose reading is not clear: phone numbers, leading zeros, very long ones
        "symbol",  # a character with no reading
        "table",  # cells and columns
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
class Spoken:
    """A text and how it is said; `spans[i]` are the characters `[start, end)` of `written` that word i came from.

    A word that stands for nothing written has no span. The length of `spans` is that of `spoken_words(text)`.
    """

    written: str
    text: str
    spans: tuple[tuple[int, int] | None, ...]

    @property
    def n_words(self) -> int:
        """Spoken words."""
        return len(self.spans)


def joined(pieces: Sequence[Spoken]) -> Spoken:
    """Spoken texts one after the other, joined by single spaces, each word still at its written place."""
    spans: list[tuple[int, int] | None] = []
    at = 0
    for piece in pieces:
        spans += [None if span is None else (span[0] + at, span[1] + at) for span in piece.spans]
        at += len(piece.written) + 1
    return Spoken(" ".join(each.written for each in pieces), " ".join(each.text for each in pieces), tuple(spans))


def spoken_words(text: str) -> list[str]:
    """The words of a spoken text without punctuation: what the aligner gets and what word counts are made of."""
    return re.findall(_WORD, text)


def lowered_words(text: str) -> list[str]:
    """The words of a spoken text in small letters, to compare them."""
    return [word.lower() for word in spoken_words(text)]


def position_of(wanted: list[str], words: list[str]) -> int | None:
    """Where some words first stand in others; None where they do not."""
    starts = range(len(words) - len(wanted) + 1)
    return next((at for at in starts if words[at : at + len(wanted)] == wanted), None)


def word_set(text: str) -> frozenset[str]:
    """A set of words written as one string, for the word lists of the rules."""
    return frozenset(text.split())
