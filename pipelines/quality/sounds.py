"""Compares the sound of two words by eSpeak NG's phones, since recognisers vary in how they spell names."""

from functools import lru_cache
from typing import Final

from rapidfuzz.distance import Levenshtein

from backends.aligner.arpabet import pronounce
from backends.aligner.protocol import AlignmentRefused
from pipelines.vocabulary import is_word
from spoken.spoken_text import make_word_set

NEAR_SHARE: Final = 1 / 3
"""Two words sound similar if they differ in at most this share of the first one's phones, and at least in one."""

_SAID_ALIKE: Final = {"to": "two", "an": "a"}
"""Words that differ from others only by stress or reduction ("to" and "two" are the same in fluent speech)."""

_WEAK: Final = make_word_set("a an the it at is as of and to for")
"""Words whose vowels are reduced in fluent speech, so that they cannot be told apart ("it" and "at")."""

_CLITICS: Final = frozenset(
    frozenset({word, f"{word}s"}) for word in ("it", "that", "what", "there", "here", "who", "he", "she", "where")
)
"""Words with and without "'s" (apostrophe removed), which is lost before an s and does not change the meaning."""

_PREFIXES: Final = ("hyper", "hypo", "endo", "exo", "inter", "intra", "macro", "micro", "anti", "ante")
_SUFFIXES: Final = ("ate", "ite", "ide", "ane", "ene", "yne", "ose", "ase")
"""Affixes of terms that the dictionaries lack, which mean the opposite or another substance."""

_VOWELS: Final = make_word_set("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW")


@lru_cache(maxsize=20_000)
def find_phones(word: str) -> str:
    """Returns the phones of a word, joined by `_`; the word itself if it cannot be pronounced."""
    try:
        return pronounce(_SAID_ALIKE.get(word, word)).replace(" ", "_")
    except AlignmentRefused:
        return word


def sounds_similar(said: str, heard: str) -> bool:
    """Returns whether two words differ in at most `NEAR_SHARE` of the phones of `said`, or in one."""
    wanted = find_phones(said).split("_")
    most = max(1, int(len(wanted) * NEAR_SHARE))
    return Levenshtein.distance(wanted, find_phones(heard).split("_"), score_cutoff=most) <= most


def is_spelling_of(said: str, heard: str, is_name: bool) -> bool:
    """Returns whether `heard` may be a recogniser's spelling of `said`; both in lower case.

    Two English words that do not sound the same are never spellings of each other, however similar they are
    ("increase", "decrease"), except names and reduced words that differ only in vowels ("Natalia", "Natalya"; "it",
    "at"), and words with and without "'s" (`_CLITICS`). If no dictionary has one of them, a similar word is a spelling
    of a name or a rare word, unless it has another of the prefixes and suffixes that change the meaning of a stem.
    """
    if find_phones(said) == find_phones(heard) or frozenset({said, heard}) in _CLITICS:
        return True
    if (
        not heard
        or _changes_stem(said, heard)
        or not (sounds_similar(said, heard) or _has_similar_letters(said, heard))
    ):
        return False
    may_differ_in_vowels = is_name or {said, heard} <= _WEAK
    if is_word(said) and is_word(heard):
        return (
            sounds_similar(said, heard) and may_differ_in_vowels and _list_consonants(said) == _list_consonants(heard)
        )
    return True


def _changes_stem(said: str, heard: str) -> bool:
    """Returns whether two words have different prefixes or suffixes of those that give a stem another meaning."""
    begins = [next((part for part in _PREFIXES if word.startswith(part)), "") for word in (said, heard)]
    ends = [next((part for part in _SUFFIXES if word.endswith(part)), "") for word in (said, heard)]
    return begins[0] != begins[1] or ends[0] != ends[1]


def _has_similar_letters(said: str, heard: str) -> bool:
    """Returns whether two words differ in at most a fifth of the letters of `said`."""
    most = len(said) // 5
    return Levenshtein.distance(said, heard, score_cutoff=most) <= most


def _list_consonants(word: str) -> list[str]:
    """Returns the phones of a word that are not vowels."""
    return [phone for phone in find_phones(word).split("_") if phone not in _VOWELS]
