"""Restores, in a transcript, the words that voices are given in another spelling (`spoken/pronunciations.py`)."""

from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.quality.sounds import find_phones
from spoken.reader import get_reader
from spoken.spoken_text import split_words

_MOST_WORDS: Final = 5
"""The maximum number of words that a recogniser makes of one word."""


def normalise_word(word: str) -> str:
    """Returns a word in the form for comparisons: in lower case, without straight apostrophes (')."""
    return word.lower().replace("'", "")


def find_respelt_words(spoken_text: str) -> dict[str, str]:
    """Returns the words of a text that the current reader's lexicon respells, each with its respelling; normalised.

    A respelling that also occurs in the text as words of its own is excluded, since hearing it would prove nothing.
    """
    words = split_words(spoken_text)
    pronunciations = get_reader().lexicon.pronunciations
    spelt = {
        normalise_word(word): " ".join(map(normalise_word, pronunciations.respell_word(word).split())) for word in words
    }
    own = f" {' '.join(map(normalise_word, words))} "
    return {word: spelling for word, spelling in spelt.items() if word != spelling and f" {spelling} " not in own}


def restore_spelling(heard: Sequence[str], spelt: Mapping[str, str]) -> list[str]:
    """Returns the heard words, in which words that sound like a respelling are replaced by the true word.

    Args:
        spelt: respellings by word (`find_respelt_words`).
    """
    wanted = {_join_phones(spelling.split()): word for word, spelling in spelt.items()}
    written: list[str] = []
    at = 0
    while at < len(heard):
        lengths = range(min(_MOST_WORDS, len(heard) - at), 0, -1) if wanted else ()
        n = next((n for n in lengths if _join_phones(heard[at : at + n]) in wanted), 0)
        written.append(wanted[_join_phones(heard[at : at + n])] if n else heard[at])
        at += n or 1
    return written


def _join_phones(words: Sequence[str]) -> str:
    """Returns the phones of all words, joined by `_`."""
    return "_".join(map(find_phones, words))
