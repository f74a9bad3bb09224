"""Words that lost several spaces, parted by how frequent their parts are: "inelectronvoltsof", "payinga", "fiveyears".

The frequencies are the unigrams of the English language model that ships with pocketsphinx, and of words that it lacks
those of pyspellchecker's list of 160,000 words. A parting is taken only where its parts are frequent for their length,
so that rare terms of science stay whole.
"""

import math
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spoken.spoken_text import word_set

if TYPE_CHECKING:
    from pocketsphinx import NGramModel
    from spellchecker import WordFrequency

_SMALL: Final = word_set(
    "a an as at be by do he if in is it no of on or so to we and are can did for had has her him his how its may not "
    "one our out she the two use was who why you any all but per when that with from this which what then than they "
    "their into have been will were where does"
)
"""Small words; no others of at most three letters may be parts, for they are found in terms by chance."""

_SHORT_CONTENT: Final = word_set("air gas oil man sum law day new old end ten six car tax hot wet dry net raw")
_NEVER_PARTS: Final = word_set(
    "ally able ably ability ary ate ation ion ism ist ship ers er or ant ent us ness al ery ity less like fold wise "
    "hood itis ize ized ies ents ment est age sis ors men"
)
"""Endings that the model has as words."""

_PREFIXES: Final = word_set(
    "non over pre dis mal sub anti post semi auto mid meta mono poly tri uni bio trans super hyper endo micro kilo "
    "milli out under mis pro con tele geo thermo hydro electro multi inter intra psycho neuro nor tetra "
    "penta para mega giga nano pico del rare para ultra photo radio up back body home house light off counter self"
)
"""Beginnings of words that need no space after them."""

NEVER_PARTED: Final = word_set(
    "hereof thereof whereof therefor persisters atrioventricular parthenogenesis sidereal windowsill endothermy "
    "relaxin atrial amoralists histone histones vaginalis forbear induration indurations marginalist rationalist "
    "airstream barstool"
)
"""Words that the dictionary lacks and whose parts are frequent."""

_SHORTEST: Final = 6
_SHORTEST_SURE: Final = 9
_LONGEST_PART: Final = 18
_NATS_A_LETTER: Final = {True: 2.46, False: 1.95}
"""Most nats a letter, in a text that lost spaces elsewhere too and in others; of the unknown words of MMLU-Pro nearly
all below are words run together, and nearly all above are not."""
_NATS_WITHOUT_SMALL: Final = {True: 2.45, False: 1.6}
_NATS_IN_MANY: Final = 2.42
_FEW: Final = 2
_LONG_GLUED: Final = 12
"""Three words or more of together so many letters are no term."""
_ENDS_OF_TERMS: Final = ("ity", "ible", "able", "ence", "ency", "ive", "ate", "ous")
"""Of words that "in" may be a syllable of: "ineligibility"."""

_BEFORE_ARTICLE: Final = ("ing", "of", "is", "in", "by", "for", "as", "with")
_NATS_OF_TWO: Final = 2.55
_LONG: Final = 8
"""A part that the model does not know is a word all the same if the dictionary has it and it is as long as this."""
_LOG_BASE: Final = 1e-4
"""Of the model's integers, whose base is 1.0001."""
_NEVER_SEEN: Final = 30.0
_RARE: Final = 11.5
_MUCH_RARER: Final = 1.5
"""Nats of a word that the model lacks, of one so rare that it may be half of another, and how many more it has then."""

_UNKNOWN: Final = -500_000_000
_SHORTEST_LISTED: Final = 5
_NATS_OF_CONTENT: Final = 13.5
_SHORTEST_CONTENT: Final = 4
"""Two words so frequent and so long, neither a prefix nor an ending, that an unknown word is both: "ratedload"."""


@cache
def _model() -> "NGramModel":
    from pocketsphinx import NGramModel, get_model_path

    return NGramModel.readfile(get_model_path("en-us/en-us.lm.bin"))


@cache
def _listed() -> "WordFrequency":
    from spellchecker import SpellChecker

    return SpellChecker().word_frequency


def is_listed(word: str) -> bool:
    """Whether a word in lower case, long enough to be no chance find, is in the larger list of words."""
    return len(word) >= _SHORTEST_LISTED and _listed()[word] > 0


@lru_cache(maxsize=100_000)
def _cost(part: str) -> float | None:
    """Nats of a part by itself; None where it may be no part."""
    is_short = len(part) <= 3
    if part in _NEVER_PARTS or (is_short and part not in _SMALL and part not in _SHORT_CONTENT):
        return None
    return _nats(part)


def _nats(word: str) -> float | None:
    """Nats of a word by itself; None where neither the model nor the list has it."""
    logarithm = int(_model().prob([word]))
    if logarithm >= _UNKNOWN:
        return -logarithm * _LOG_BASE
    return math.log(_listed().total_words / _listed()[word]) if is_listed(word) else None


def are_small(parts: tuple[str, ...]) -> bool:
    """Whether all parts are small words, which no term is made of: "was his"."""
    return all(part in _SMALL and len(part) > 1 for part in parts)


def are_frequent(parts: tuple[str, ...]) -> bool:
    """Whether parts are frequent enough to be words beside each other, not halves of a rare one ("induct orson")."""
    costs = [_cost(part) for part in parts]
    if None in costs:
        return all(cost is not None or len(part) >= _LONG for cost, part in zip(costs, parts, strict=True))
    return sum(cost or 0.0 for cost in costs) <= _NATS_OF_TWO * sum(map(len, parts))


def is_frequent(word: str, is_very: bool = False) -> bool:
    """Whether a word by itself is so frequent, or `is_very` much so, that it is hardly a piece of a rare one."""
    nats = _nats(word)
    return nats is not None and nats <= (_RARE if is_very else _NATS_OF_CONTENT)


def is_likelier(whole: str, parts: tuple[str, ...]) -> bool:
    """Whether a word is much more frequent than the rarest of the parts it broke into: "corresponding" than "cor"."""
    rarest = max(_nats(part) or _NEVER_SEEN for part in parts)
    return rarest > _RARE and (_nats(whole) or _NEVER_SEEN) < rarest - _MUCH_RARER


@lru_cache(maxsize=20_000)
def segmented(word: str, is_broken: bool = False) -> tuple[str, ...]:
    """The likeliest words of a word in lower case that no dictionary has; the word alone where that is not sure.

    Args:
        is_broken: whether its text has surely lost spaces elsewhere.
    """
    if word in NEVER_PARTED or len(word) < _SHORTEST:
        return (word,)
    best: list[tuple[float, tuple[str, ...]] | None] = [(0.0, ()), *[None] * len(word)]
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - _LONGEST_PART), end):
            head, cost = best[start], _cost(word[start:end])
            if head is None or cost is None:
                continue
            reached = best[end]
            if reached is None or head[0] + cost < reached[0]:
                best[end] = (head[0] + cost, (*head[1], word[start:end]))
    found = best[-1]
    return found[1] if found is not None and _is_sure(*found, len(word), is_broken) else (word,)


def _is_content(part: str) -> bool:
    nats = _nats(part)
    is_long = len(part) >= _SHORTEST_CONTENT and part not in _PREFIXES and not part.endswith(_ENDS_OF_TERMS)
    return is_long and nats is not None and nats <= _NATS_OF_CONTENT


def _is_sure(cost: float, parts: tuple[str, ...], length: int, is_broken: bool) -> bool:
    if len(parts) < 2 or parts[0] in _PREFIXES or parts[-2:] == ("it", "is"):
        return False
    if any(len(left) <= 2 and len(right) <= 2 for left, right in pairwise(parts)):
        return False
    if any(right == "a" and not left.endswith(_BEFORE_ARTICLE) for left, right in pairwise(parts)):
        return False
    if len(parts) > _FEW and length >= _LONG_GLUED:
        return cost <= _NATS_IN_MANY * length
    if all(_is_content(part) for part in parts):
        return True
    if parts[0] == "in" and parts[1].endswith(_ENDS_OF_TERMS):
        return False
    if are_small(parts):
        return cost <= _NATS_A_LETTER[True] * length
    if length < _SHORTEST_SURE and not is_broken:
        return False
    limits = _NATS_A_LETTER if any(part in _SMALL for part in parts) else _NATS_WITHOUT_SMALL
    return cost <= limits[is_broken] * length
