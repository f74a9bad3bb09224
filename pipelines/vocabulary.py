"""English vocabulary: which words exist, how frequent they are, and which unknown ones are run together or misprinted.

Words are those of the CMU Pronouncing Dictionary and of pyspellchecker's list of 160,000. Frequencies are the unigrams
of the English language model that ships with pocketsphinx, then those of the list. A rare scientific term is in
neither, so an unknown word is split into several only if these are frequent for their length: "temperatureof",
"ratedload", but neither "chitin" nor "asymptomatic".
"""

import math
import re
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spoken.spoken_text import make_word_set

if TYPE_CHECKING:
    from pocketsphinx import NGramModel
    from spellchecker import SpellChecker

SMALL_WORDS: Final = make_word_set(
    "a an as at be by do he if in is it no of on or so to us we and are can did for had has her him his how its may "
    "not one our out she the two use was who why you any all but per when that with from this which what then than "
    "they their into have been will were where does such should would could must about between under"
)
_FIRST: Final = make_word_set("a the of and is to for with that from what which has was")
_LAST: Final = make_word_set("a the of and is to for with has was from shall does reads")

_NEVER_PARTS: Final = make_word_set(
    "ally able ably ability ary ate ation ion ism ist ship ers er or ant ent us ness al ery ity less like fold wise "
    "hood itis ize ized ies ents ment est age sis ors men virus"
)
_PREFIXES: Final = make_word_set(
    "non over pre dis mal sub anti post semi auto mid meta mono poly tri uni bio trans super hyper endo micro kilo "
    "milli out under mis pro con tele geo thermo hydro electro multi inter intra psycho neuro nor tetra "
    "penta para mega giga nano pico del rare ultra photo radio up back body home house light off counter self "
    "proto pseudo neo chloro cyto immuno crypto corona retro osteo cardio crowd cross stereo macro infra peri co re un "
    "ex bi gastro extra"
)
_TERMS: Final = make_word_set(
    "embryogenesis endplate endplates contralateral ipsilateral persisters workpapers timespan headspace coset cosets "
    "habitus flowrate contractarianism electronvolts newswriter zigzag dashpot"
)
_ENDS_OF_TERMS: Final = (
    *("ism", "isms", "ion", "ions", "ity", "ics", "osis", "itis", "ide", "ine", "ate", "ase", "oid", "ous", "ical"),
)
"""Endings that the model has as words, prefixes that need no space after them, technical words that no list has, and
endings of scientific terms."""

_LONGEST: Final = 48
_LONGEST_PART: Final = 18
_NATS_A_LETTER: Final = 2.46
"""Of the unknown words of MMLU-Pro nearly all with fewer nats per letter are words run together, and few with more."""
_NATS_BESIDE_SMALL: Final = 2.6
_RARE_NATS: Final = 13.5
_COMMON_NATS: Final = 12.0
_ALONE_NATS: Final = 9.5
_SHORT_NATS: Final = 9.0
"""Other words of at most three letters occur in terms by chance."""

_NATS_APART: Final = 3.0
"""A spelling that is so much rarer than another one of the same word is taken for a name or a misprint: "gase"."""
_ENDS_VARIOUSLY: Final = re.compile(r"ies$|(?:[csxzov]|ch|sh)es$")
"""Ends of plurals whose singular is not always the plural without -s: "cities", "gases", "hypotheses"."""

_LOG_BASE: Final = 1e-4
"""The scale of the model's integer logarithms, whose base is 1.0001."""
_UNKNOWN: Final = -500_000_000
_SHORTEST_LISTED: Final = 5
_SHORTEST_CONTENT: Final = 4
_SHORTEST_MISPRINT: Final = 6
_ENDINGS: Final = tuple(
    (ending, stem)
    for stem, endings in {"": "s es ed d ing ly al ally ity able ness ic", "e": "ed ing able"}.items()
    for ending in endings.split()
)
_BRITISH: Final = (("is", "iz"), ("ys", "yz"), ("our", "or"), ("oe", "e"), ("ae", "e"), ("ence", "ense"), ("ll", "l"))
"""British spellings and the American ones, which the lists have."""


@cache
def _load_dictionary() -> frozenset[str]:
    """Returns the dictionary's 125,000 words that consist of letters only, in lower case."""
    from pocketsphinx import get_model_path

    lines = Path(get_model_path("en-us/cmudict-en-us.dict")).read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if (word := line.partition(" ")[0]).isalpha() and word.isascii())


@cache
def _load_model() -> "NGramModel":
    """Returns pocketsphinx's language model of English, which has the frequencies of words."""
    from pocketsphinx import NGramModel, get_model_path

    return NGramModel.readfile(get_model_path("en-us/en-us.lm.bin"))


@cache
def _load_speller() -> "SpellChecker":
    """Returns pyspellchecker's spell checker, with its list of 160,000 words and their frequencies."""
    from spellchecker import SpellChecker

    return SpellChecker(distance=1)


def _is_listed(word: str) -> bool:
    """Returns whether a word is in the spell checker's list and long enough to be trusted there."""
    return len(word) >= _SHORTEST_LISTED and _load_speller().word_frequency[word] > 0


def is_word(word: str) -> bool:
    """Returns whether a lower-case word is English: it, or it without a regular ending, is in a word list."""
    words = _load_dictionary()
    return (
        _is_listed(word)
        or word in words
        or word in _TERMS
        or any(
            word.endswith(ending) and len(word) >= len(ending) + 3 and word[: -len(ending)] + stem in words
            for ending, stem in _ENDINGS
        )
    )


def is_in_dictionary(part: str) -> bool:
    """Returns whether a lower-case part of a word is in the dictionary itself, and has at least four letters.

    Shorter ones are found by chance.
    """
    return len(part) >= _SHORTEST_CONTENT and part in _load_dictionary()


def _is_known(word: str) -> bool:
    """Returns whether a lower-case word is an English word in American or British spelling."""
    return is_word(word) or any(is_word(word.replace(*pair)) for pair in _BRITISH)


@lru_cache(maxsize=100_000)
def _measure_rarity(word: str) -> float:
    """Returns how rare a word is, in nats; infinite if neither the model nor the list has it."""
    logarithm = int(_load_model().prob([word]))
    if logarithm >= _UNKNOWN:
        return -logarithm * _LOG_BASE
    listed = _load_speller().word_frequency
    return math.log(listed.total_words / listed[word]) if _is_listed(word) else math.inf


def find_singular(plural: str) -> str | None:
    """Returns the singular of a regular plural, which ends in -s.

    Returns None if no singular that it could have is a word ("species"), or two are equally frequent ("bases").
    """
    word = plural.rpartition("-")[2]
    if not _ENDS_VARIOUSLY.search(word):
        return plural[:-1]
    n_cut, endings = (3, ("y", "ie")) if word.endswith("ies") else (2, ("e", "", "is"))
    stem = word[:-n_cut].lower()
    rarities = sorted((_measure_rarity(stem + ending), ending) for ending in endings if len(stem + ending) > 2)
    (least, best), *others = rarities
    is_word_too = least < math.inf and least <= _measure_rarity(word.lower()) + _NATS_APART
    if not is_word_too or any(rarity <= least + _NATS_APART for rarity, _ in others):
        return None
    return plural[:-n_cut] + best


def is_frequent(word: str) -> bool:
    """Returns whether a lower-case word is so frequent that it is hardly ever a part of a rare word."""
    return _measure_rarity(word) <= _RARE_NATS


def _is_part(part: str) -> bool:
    """Returns whether letters may be one of several words that were run together."""
    is_long = len(part) >= _SHORTEST_CONTENT
    return part not in _NEVER_PARTS and (
        is_long or part in SMALL_WORDS or (len(part) == 3 and _measure_rarity(part) < _SHORT_NATS)
    )


@lru_cache(maxsize=20_000)
def split_run_together(word: str) -> tuple[str, ...]:
    """Splits a lower-case word that lost its spaces into the most frequent words.

    Returns an empty tuple if it is a word, may be a term, or has more than `_LONGEST` letters.
    """
    if len(word) > _LONGEST or _is_known(word):
        return ()
    best: list[tuple[float, tuple[str, ...]]] = [(0.0, ()), *[(math.inf, ())] * len(word)]
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - _LONGEST_PART), end):
            part = word[start:end]
            if best[start][0] < math.inf and _is_part(part):
                best[end] = min(best[end], (best[start][0] + _measure_rarity(part), (*best[start][1], part)))
    cost, parts = best[-1]
    return parts if cost < math.inf and _are_words(parts, cost, len(word)) else _split_small_word(word)


def _split_small_word(word: str) -> tuple[str, ...]:
    """Splits a small word off a common one before or after it: "afish", "ableto"; returns an empty tuple for others."""
    for at in range(1, len(word)):
        left, right = word[:at], word[at:]
        if (left in _FIRST and is_very_frequent(right)) or (right in _LAST and is_very_frequent(left)):
            return left, right
    return ()


def is_very_frequent(part: str) -> bool:
    """Returns whether a word of at least four letters is so frequent that its neighbour must be a word too."""
    return len(part) >= _SHORTEST_CONTENT and is_word(part) and _measure_rarity(part) <= _COMMON_NATS


def _are_words(parts: tuple[str, ...], cost: float, n_letters: int) -> bool:
    """Returns whether the parts of a split word are separate words, and not parts of one rare word ("induct orson").

    Args:
        cost: sum of the rarities of the parts, in nats.
        n_letters: number of letters of all parts.
    """
    if len(parts) < 2 or parts[0] in _PREFIXES or (parts[0] == "in" and parts[1].endswith(_ENDS_OF_TERMS)):
        return False
    if parts[-1] in {"in", "is"} and (
        len(parts) == 2 and ((len(parts[0]) <= 5 and parts[0][-1] not in "sdy") or parts[0].endswith("al"))
    ):
        return False
    if any(right == "a" and len(left) <= _SHORTEST_CONTENT for left, right in pairwise(parts)):
        return False
    is_content_alone = all(len(part) >= _SHORTEST_CONTENT and is_frequent(part) for part in parts)
    is_beside_small = parts[0] in SMALL_WORDS or parts[-1] in SMALL_WORDS
    return is_content_alone or cost <= (_NATS_BESIDE_SMALL if is_beside_small else _NATS_A_LETTER) * n_letters


def stands_alone(part: str) -> bool:
    """Returns whether a part of a hyphenated word is itself a word or a prefix: "red-eyed", "co-workers"."""
    is_short = len(part) < _SHORTEST_CONTENT
    return (
        part in _PREFIXES or part in SMALL_WORDS or _measure_rarity(part) <= (_ALONE_NATS if is_short else _RARE_NATS)
    )


@lru_cache(maxsize=20_000)
def is_misprint(word: str) -> bool:
    """Returns whether an unknown lower-case word is one edit away from a common word: "theorm", "flouride".

    An edit is a letter too few, too many or wrong, or two that are swapped. Short words, and beginnings and extensions
    of a word, are no misprints.
    """
    if len(word) < _SHORTEST_MISPRINT or _is_known(word):
        return False
    nearest = _load_speller().known(_load_speller().edit_distance_1(word))
    return any(
        _measure_rarity(near) <= _COMMON_NATS
        for near in nearest
        if not (near.startswith(word) or word.startswith(near))
    )
