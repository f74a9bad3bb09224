"""Whether an answer was said: its words in a row, a number only as a whole."""

from collections.abc import Sequence

from spoken.number_words import cardinal_of, number_at

_PARTS = frozenset({"dozen", "half", "halves", "quarter", "quarters"})
_OPERATORS = frozenset({"cubed", "divided", "minus", "or", "over", "pi", "plus", "squared", "to"})
_JOINING = frozenset({"and", "by", "times"})
"""Words behind a number that make another amount of it: at once, and these three where a further number follows."""


def times_said(answer: Sequence[str], text: Sequence[str]) -> int:
    """How often an answer is said in a text."""
    return len(ends_of(answer, text))


def ends_of(answer: Sequence[str], text: Sequence[str]) -> list[int]:
    """Where the answer's words end that stand in a text, in a row and in small letters: the places of the words after.

    A number that is part of a larger one is another number: "thirty six" is not said in "one hundred thirty six".
    """
    if not answer:
        return []
    runs, n_words = _number_runs(text), len(answer)
    return [
        end
        for end in range(n_words, len(text) + 1)
        if list(text[end - n_words : end]) == list(answer) and not any(_cuts(run, end - n_words, end) for run in runs)
    ]


def key_words(answer: Sequence[str]) -> list[str]:
    """The words of an answer that tell it: the number that it begins with, if that is the amount, else all of them.

    "thirty six students got B" is said where "thirty six" is. The first words of "one could argue so", "first in first
    out", "four to one" and "two dollars and five cents" are said in many other answers too.
    """
    n_number = number_at(answer, 0) if answer else 0
    return list(answer[:n_number] if n_number and _is_amount(answer[:n_number], answer[n_number:]) else answer)


def _is_amount(number: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether a number at the beginning of an answer is all of its amount.

    Not "one" alone, which is a pronoun as often; no ordinal, fractions among them; and none that goes on in the rest.
    """
    if list(number) == ["one"] or cardinal_of(number[-1]) != number[-1] or (_PARTS | _OPERATORS).intersection(rest[:1]):
        return False
    joining = next((at for at, word in enumerate(rest[:2]) if word in _JOINING), len(rest))
    return not any(cardinal_of(word) or word in _PARTS for word in rest[joining + 1 : joining + 3])


def _number_runs(text: Sequence[str]) -> list[tuple[int, int]]:
    """Where numbers stand, as [start, end)."""
    runs, at = [], 0
    while at < len(text):
        n_words = number_at(text, at)
        if n_words:
            runs.append((at, at + n_words))
        at += max(n_words, 1)
    return runs


def _cuts(run: tuple[int, int], start: int, end: int) -> bool:
    """Whether [start, end) takes part of a number and leaves the rest."""
    overlaps = run[0] < end and start < run[1]
    return overlaps and not (start <= run[0] and run[1] <= end)
