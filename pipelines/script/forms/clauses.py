"""Where a speaker may stop inside a question, by its punctuation and its joining words."""

from collections.abc import Sequence
from typing import Final

from spoken.spoken_text import make_word_set

_JOINING: Final = make_word_set("if when while because but although unless since so whereas until")
_BEFORE_A_PHRASE: Final = make_word_set(
    "of in for to from with on by at into between about under after before during that"
)
_MIN_BREATH: Final = 4
"""Least words on either side of a break: synthesisers babble on shorter ones."""

_LONG_CLAUSE: Final = 12
"""Words of a clause that takes more than one breath, or about 4.5 s."""


def find_breath_breaks(text: str) -> list[int]:
    """Indices of the words that may start a second breath, with at least `_MIN_BREATH` words on either side.

    After a sentence; else at a clause boundary: after a comma or before a joining word; else, where a single clause is
    too long for one breath, before a phrase ("of the", "in the").
    """
    words = text.split()
    inside = range(_MIN_BREATH, len(words) - _MIN_BREATH + 1)
    sentences = [at for at in inside if words[at - 1][-1] in ".?!;:"]
    clauses = [at for at in inside if is_clause(words, at)]
    phrases = [at for at in inside if len(words) >= _LONG_CLAUSE and _is_phrase(words, at)]
    return _keep_middle_breaks(sentences or clauses or phrases, len(words))


def pause_breaks(text: str) -> list[int]:
    """Indices of the words before which someone stops to think: inside sentences where there is a place for it.

    At clause boundaries, else before a phrase ("of the", "in the"), else between sentences.
    """
    words = text.split()
    inside = range(_MIN_BREATH, len(words) - 1)
    within = [at for at in inside if words[at - 1][-1] not in ".?!;:"]
    clauses = [at for at in within if is_clause(words, at)]
    phrases = [at for at in within if _is_phrase(words, at)]
    return clauses or phrases or [at for at in inside if at not in within]


def _keep_middle_breaks(breaks: list[int], n_words: int) -> list[int]:
    """Those that leave a fifth of the words on either side, where there are such."""
    return [at for at in breaks if n_words / 5 <= at <= n_words * 4 / 5] or breaks


def is_clause(words: Sequence[str], at: int) -> bool:
    """Whether word `at` starts a clause inside a sentence."""
    return words[at - 1][-1] == "," or words[at].lower() in _JOINING


def _is_phrase(words: Sequence[str], at: int) -> bool:
    """Before "of the", "in the", but inside no number or formula: "ten to the power of five"."""
    if words[at].lower() not in _BEFORE_A_PHRASE:
        return False
    return "power" not in words[at - 1 : at + 3] and words[at - 1] not in {"root", "log", "integral", "derivative"}
