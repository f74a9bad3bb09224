"""Finds the words on which the meaning of a sentence depends, names and negations, which must not change.

Numbers are the third kind; `spoken.number_words` finds them.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from pipelines.vocabulary import is_in_dictionary, is_word
from spoken.number_words import count_number_words
from spoken.spoken_text import make_word_set

NEGATIONS: Final = make_word_set(
    "no not never none nobody nothing nowhere neither nor without except minus negative cannot cant couldnt dont "
    "doesnt didnt isnt arent wasnt werent wont wouldnt shouldnt hasnt havent hadnt mustnt neednt mightnt aint"
)
"""Words that negate a sentence, without apostrophes."""

COMMON_WORDS: Final = Path(__file__).with_name("common_words.txt")
_MARKED_WORD: Final = re.compile(r"([A-Za-z]+(?:'[A-Za-z]+)*)([,.?!;:]?)")
_NAME: Final = re.compile(r"[A-Z](?:(?:[a-z]+|')[A-Z])?[a-z]+(?:'[a-z]+)*")
"""A word with one capital, or with two as in "McDonald" and "O'Brien"."""
_SHORT_FORMS: Final = re.compile(r"'(?:s|m|d|ll|re|ve)$")
_ENDINGS: Final = (("s", ""), ("es", ""), ("d", ""), ("ed", ""), ("ing", ""), ("ing", "e"), ("ly", ""), ("ness", ""))
"""Endings of inflected forms that the list lacks, and what the base form has in their place."""
_ENDINGS_OF_NO_NAME: Final = (
    *("tion", "tions", "sion", "sions", "ment", "ments", "ive", "able", "ible", "ous", "ize", "ized", "izes", "less"),
)
"""Dictionary words with these endings, and verbs in -ing, are common words although the list lacks them."""
_SHORTEST_STEM: Final = 4


def is_negation(word: str) -> bool:
    """Returns whether a spoken word negates its sentence."""
    return word.lower().replace("'", "") in NEGATIONS


def find_names(spoken_text: str) -> frozenset[str]:
    """Returns the words of a spoken text that are names, as written in it ("Weng", "McDonald's"), without acronyms.

    Names are capitalised. At the start of a sentence, and after any other punctuation mark, where options and
    quotations begin, a word that is also written in lower case is not a name.
    """
    names = set()
    may_begin = True
    for word, mark in _MARKED_WORD.findall(spoken_text):
        plain = _SHORT_FORMS.sub("", word)
        if _NAME.fullmatch(plain) and not (may_begin and is_common(plain.lower())):
            names.add(word)
        may_begin = bool(mark)
    return frozenset(names)


def is_common(word: str) -> bool:
    """Returns whether a lower-case word is common: it or its base form is written in lower case in running text.

    So it is not only a name or a part of one.

    Pronouncing dictionaries and word lists do not show this, since they have names in lower case too.
    """
    words = _load_common_words()
    return (
        word in words
        or bool(count_number_words([word], 0))
        or word.endswith("n't")
        or any(stem + last in words for stem, last in _split_stems(word))
        or (word.endswith(_ENDINGS_OF_NO_NAME) and is_word(word))
        or (word.endswith("ing") and any(is_in_dictionary(stem + last) for stem, last in _split_stems(word)))
    )


def _split_stems(word: str) -> Iterator[tuple[str, str]]:
    """Yields pairs that, joined, may be a word's base form: ("driv", "") and ("driv", "e") for "driving"."""
    for ending, last in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            yield word[: -len(ending)], last


@cache
def list_common_words() -> tuple[str, ...]:
    """Returns common English words in lower case, sorted; regular inflections of a word in the list are not in it."""
    lines = COMMON_WORDS.read_text(encoding="utf-8").splitlines()
    return tuple(sorted(make_word_set(" ".join(line for line in lines if not line.startswith("#")))))


@cache
def _load_common_words() -> frozenset[str]:
    """Returns the words of `list_common_words` as a set."""
    return frozenset(list_common_words())
