"""The lenient rule of recall before version 3, computed on the same runs, to show how much it overestimated.

It judges only a dialogue's first answered turn, and none if the user interrupts. The key is the number that the answer
starts with, whatever it is ("one" of "one could argue"), else all words of the answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rapidfuzz.distance import Levenshtein

from data_schemas.units import FRAMES_PER_S
from kame_model.evaluate.recall.turns import INTERRUPTION, AskedDialogue, SaidWord, Turn, count_words
from spoken.number_words import count_number_words

_Measures = Mapping[str, Any]


def measure_leniently(
    asked: AskedDialogue, turn: Turn, said: Sequence[SaidWord], later: Sequence[SaidWord], stranger: Turn | None = None
) -> dict[str, Any]:
    """Computes the measures of the rule before version 3 for a turn; empty for a turn that it did not judge.

    Args:
        said: the words said in the turn.
        later: the words said after it.
        stranger: the turn of the dialogue whose oracle was fed instead; then `old_said_stranger` is the only measure.
            None: the dialogue's own oracle, or none.
    """
    if turn is not asked.turn or asked.row.form == INTERRUPTION:
        return {}
    words, expected = [each.word for each in [*said, *later]], turn.oracle_words
    n_said, n_expected = (_count_key(_make_key(turn.answer), each) for each in (words, expected))
    measures = {
        "old_said": n_said > 0,
        "old_said_too_often": n_said > max(1, n_expected) if n_said else None,
        "old_word_errors": [Levenshtein.distance(expected, [each.word for each in said]), len(expected)],
    }
    return measures if stranger is None else {"old_said_stranger": _count_key(_make_key(stranger.answer), words) > 0}


def measure_old_correction(turn: Turn, stranger: Turn, said: Sequence[SaidWord], after_s: float) -> dict[str, Any]:
    """Returns as `old_corrected_in_lead` whether the old correction came before any word of the wrong oracle was said.

    It came `after_s` seconds after the first word of any kind; None if nothing was said.
    """
    if not said:
        return {"old_corrected_in_lead": None}
    due = said[0].frame + round(after_s * FRAMES_PER_S)
    before = [each.word for each in said if each.frame <= due]
    return {"old_corrected_in_lead": count_words(stranger.oracle_words, before).n_in_order == 0}


def count_causes(records: Sequence[_Measures]) -> Counter[str]:
    """Counts turns that are right by the old rule but are not `said_once`, or the reverse, by the reason of this."""
    judged = (each["measures"] for each in records if each["measures"].get("old_said") is not None)
    return Counter(cause for measures in judged if (cause := _explain_difference(measures)))


def _explain_difference(new: _Measures) -> str:
    """Returns why the old rule and `said_once` judge a turn differently; empty if they agree."""
    if new["old_said"] == new["said_once"]:
        return ""
    if new["said_once"]:
        return "gained: the answer in other words between its key words, or a number in another form"
    if not new["said_anywhere"]:
        return "the old key words are said, but not the new ones: a pronoun, part of a number, denied, or another form"
    if not new["said"]:
        return "said in a later turn only"
    if new["said_another"]:
        where = "before" if new["right_first"] is False else "beside"
        return f"another number or option is said {where} it"
    return "said more often than its oracle says it"


def _make_key(answer: Sequence[str]) -> Sequence[str]:
    """Returns the number that an answer starts with, or else all its words."""
    n_number = count_number_words(answer, 0) if answer else 0
    return answer[: n_number or len(answer)]


def _count_key(key: Sequence[str], words: Sequence[str]) -> int:
    """Counts how often a key is said as consecutive words, but not as part of a larger number."""
    runs, at = [], 0
    while at < len(words):
        n_words = count_number_words(words, at)
        runs += [(at, at + n_words)] * bool(n_words)
        at += max(n_words, 1)
    n = len(key)
    places = [at for at in range(len(words) - n + 1) if n and list(words[at : at + n]) == list(key)]
    return sum(not any(a < at + n and at < b and not (at <= a and b <= at + n) for a, b in runs) for at in places)
