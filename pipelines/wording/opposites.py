"""Finds opposite words, by which a new wording may reverse the meaning of the old one.

The lists are our own and err on the safe side: a wording that is rejected without need only keeps the rules' words.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pipelines.meaning import is_negation
from spoken.spoken_text import make_word_set

_DENIALS: Final = make_word_set(
    "wrong wrongly false falsely incorrect incorrectly untrue mistaken mistake hardly barely scarcely unlikely "
    "impossible unable fail fails failed failing lack lacks lacking refuse refuses refused deny denies denied doubt"
)
"""Words that deny what they accompany; they count with the negations, so "not true" and "false" are one of either."""

_AXES: Final = """
up upward above exceed increase rise rose risen grow grew grown growth raise climb more most high great greater larger \
largest bigger biggest longer longest faster fastest maximum maximal maximize maximise
down downward below under decrease fall fell fallen drop dropped dropping decline shrink shrank shrunk reduce less \
least fewer fewest low smaller smallest shorter shortest slower slowest minimum minimal minimize minimise

before earlier earliest early
after later latest late

buy bought purchase
sell sold

add addition
subtract subtraction remove removal

lend lent
borrow

win won winning
lose lost losing

inside within
outside

hot hotter hottest warm heat
cold cool chill

older oldest
young younger youngest newer newest

same equal identical similar alike
different differ unequal unlike

accept agree allow permit
reject disagree forbid forbidden prohibit prevent

best better
worst worse

strong
weak

always
sometimes rarely seldom

north
south

east
west

forward
backward

heavy heavier heaviest
light

thick
thin thinner thinnest

wide
narrow

deep
shallow

rich
poor

full
empty

even
odd

wet
dry

husband
wife

mother
father

brother
sister
"""
"""Axes with their two poles, one pole per line; regular inflections are derived."""

_ENDINGS: Final = ("", "s", "es", "d", "ed", "r", "er", "st", "est", "ing")

_PREFIXES: Final = make_word_set(
    "un in im il ir dis non mis de ex out over under hyper hypo endo exo inter intra macro micro pre post anti sub"
)
_SHORTEST_STEM: Final = 4

_POLE_OF: Final = {
    word: (axis, pole)
    for axis, poles in enumerate(_AXES.strip().split("\n\n"))
    for pole, words in enumerate(poles.split("\n"))
    for word in words.split()
}


def count_negations(words: Sequence[str]) -> int:
    """Returns how many of the lower-case words are negations or deny something ("false", "hardly")."""
    return sum(is_negation(word) or word in _DENIALS for word in words)


def find_opposites(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Returns the lower-case words, new or missing, that may give a new wording the opposite meaning; empty if none do.

    These are the words of a pole of which the new wording has more or fewer ("rises" and "grows" belong to one pole),
    and words that differ from an old one in their prefix ("stable", "unstable"; "import", "export"). A word is new or
    missing as often as the other text lacks it: "more, more and less" has another meaning than "less, more and less".
    """
    poles_old, poles_new = (Counter(filter(None, map(_find_pole, words))) for words in (old, new))
    moved = {pole for pole in poles_old | poles_new if poles_old[pole] != poles_new[pole]}
    added, lost = Counter(new) - Counter(old), Counter(old) - Counter(new)
    found = [word for word in (*added, *lost) if _find_pole(word) in moved]
    return found + [word for word in added if any(_is_prefixed_anew(word, other) for other in lost)]


def _find_pole(word: str) -> tuple[int, int] | None:
    """Returns axis and pole of a word or its base form, as indices into `_AXES`; None if it is on no axis."""
    stems = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending))
    return next((_POLE_OF[form] for stem in stems for form in (stem, f"{stem}e") if form in _POLE_OF), None)


def _is_prefixed_anew(word: str, other: str) -> bool:
    """Returns whether two words have a common stem with different prefixes, or with and without one."""
    return any(len(stem) >= _SHORTEST_STEM for stem in _list_stems(word) & _list_stems(other))


def _list_stems(word: str) -> set[str]:
    """Returns a word, and what is left of it without each prefix that it may have."""
    return {word, *(word.removeprefix(prefix) for prefix in _PREFIXES if word.startswith(prefix))}
