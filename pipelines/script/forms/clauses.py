"""Finds where a speaker may pause inside a question, by its punctuation and its conjunctions."""

from collections.abc import Sequence
from typing import Final

from spoken.spoken_text import make_word_set

_JOINING: Final = make_word_set("if when while because but although unless since so whereas until")
_BEFORE_A_PHRASE: Final = make_word_set(
    "of in for to from with on by at into between about under after before during that"
)
_MIN_BREATH: Final = 4
"""Minimum number of words on either side of a break: text-to-speech engines babble on fewer."""

_LONG_CLAUSE: Final = 12
"""Words of a clause that takes more than one breath, about 4.5 s."""


def find_breath_breaks(text: str) -> list[int]:
    """Returns the indices of words before which a speaker may take a breath, with `_MIN_BREATH` words on either side.

    Breaks are after sentences; else at clause boundaries: after a comma or before a conjunction; else, in a single
    clause that is too long for one breath, before a phrase ("of the", "in the"). Those near an end are left out if
    there are others.
    """
    words = text.split()
    inside = range(_MIN_BREATH, len(words) - _MIN_BREATH + 1)
    sentences = [at for at in inside if words[at - 1][-1] in ".?!;:"]
    clauses = [at for at in inside if starts_clause(words, at)]
    phrases = [at for at in inside if len(words) >= _LONG_CLAUSE and _starts_phrase(words, at)]
    return _keep_middle_breaks(sentences or clauses or phrases, len(words))


def find_pause_breaks(text: str) -> list[int]:
    """Returns the indices of words before which a speaker may stop to think, preferably inside sentences.

    Pauses are at clause boundaries, else before a phrase ("of the", "in the"), else between sentences.
    """
    words = text.split()
    inside = range(_MIN_BREATH, len(words) - 1)
    within = [at for at in inside if words[at - 1][-1] not in ".?!;:"]
    clauses = [at for at in within if starts_clause(words, at)]
    phrases = [at for at in within if _starts_phrase(words, at)]
    return clauses or phrases or [at for at in inside if at not in within]


def _keep_middle_breaks(breaks: list[int], n_words: int) -> list[int]:
    """Returns the breaks that have at least a fifth of the words on either side; all breaks if there are none."""
    return [at for at in breaks if n_words / 5 <= at <= n_words * 4 / 5] or breaks


def starts_clause(words: Sequence[str], at: int) -> bool:
    """Returns whether word `at` starts a clause inside a sentence."""
    return words[at - 1][-1] == "," or words[at].lower() in _JOINING


def _starts_phrase(words: Sequence[str], at: int) -> bool:
    """Returns whether word `at` starts a phrase ("of the"), but not inside a formula: "ten to the power of five"."""
    if words[at].lower() not in _BEFORE_A_PHRASE:
        return False
    return "power" not in words[at - 1 : at + 3] and words[at - 1] not in {"root", "log", "integral", "derivative"}
