"""Words that the meaning of a sentence hangs on, and that nobody may change or mishear: names and negations.

Numbers are the third kind; `spoken.number_words` finds them.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from pipelines.vocabulary import is_content, is_word
from spoken.number_words import count_number_words
from spoken.spoken_text import make_word_set

NEGATIONS: Final = make_word_set(
    "no not never none nobody nothing nowhere neither nor without except minus negative cannot cant couldnt dont "
    "doesnt didnt isnt arent wasnt werent wont wouldnt shouldnt hasnt havent hadnt mustnt neednt mightnt aint"
)
"""Words that turn a sentence round, apostrophes left out."""

COMMON_WORDS: Final = Path(__file__).with_name("common_words.txt")
_MARKED_WORD: Final = re.compile(r"([A-Za-z]+(?:'[A-Za-z]+)*)([,.?!;:]?)")
_SHORT_FORMS: Final = re.compile(r"'(?:s|m|d|ll|re|ve)$")
_ENDINGS: Final = (("s", ""), ("es", ""), ("d", ""), ("ed", ""), ("ing", ""), ("ing", "e"), ("ly", ""), ("ness", ""))
"""Endings of forms that the list leaves out, and what the word itself has in their place."""
_ENDINGS_OF_NO_NAME: Final = (
    *("tion", "tions", "sion", "sions", "ment", "ments", "ive", "able", "ible", "ous", "ize", "ized", "izes", "less"),
)
"""Words of the dictionary that end so, and verbs in -ing, are common ones where the list lacks them."""
_SHORTEST_STEM: Final = 4


def is_negation(word: str) -> bool:
    """Whether a spoken word turns its sentence into the opposite."""
    return word.lower().replace("'", "") in NEGATIONS


def names_of(spoken_text: str) -> frozenset[str]:
    """The words of a spoken text that are names, as they stand in it ("Weng", "Bob's"); no acronyms.

    They have a capital. At a sentence's start, and after any other mark, where options and quotations begin, a word
    that is also written in small letters is none.
    """
    names = set()
    may_begin = True
    for word, mark in _MARKED_WORD.findall(spoken_text):
        plain = _SHORT_FORMS.sub("", word)
        has_capital = plain[0].isupper() and plain[1:].replace("'", "").islower() and plain != "I"
        if has_capital and not (may_begin and is_common(plain.lower())):
            names.add(word)
        may_begin = bool(mark)
    return frozenset(names)


def is_common(word: str) -> bool:
    """Whether a word in small letters is written so in running text, not only as part of a name.

    Pronouncing dictionaries and lists of words do not tell: they have names in small letters too.
    """
    words = _load_common_words()
    return (
        word in words
        or bool(count_number_words([word], 0))
        or word.endswith("n't")
        or any(stem + last in words for stem, last in _split_stems(word))
        or (word.endswith(_ENDINGS_OF_NO_NAME) and is_word(word))
        or (word.endswith("ing") and any(is_content(stem + last) for stem, last in _split_stems(word)))
    )


def _split_stems(word: str) -> Iterator[tuple[str, str]]:
    for ending, last in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            yield word[: -len(ending)], last


@cache
def list_common_words() -> tuple[str, ...]:
    """English words that are written in small letters, without their commonest forms; by the alphabet."""
    lines = COMMON_WORDS.read_text(encoding="utf-8").splitlines()
    return tuple(sorted(make_word_set(" ".join(line for line in lines if not line.startswith("#")))))


@cache
def _load_common_words() -> frozenset[str]:
    return frozenset(list_common_words())
