"""How an answer is said aloud: the last step and the number where the item explains itself, else the option's text."""

import random
import re
from collections.abc import Callable
from typing import Final

from pipelines.script.numerals import year
from pipelines.script.spoken import Unspeakable, spoken_words, word_set

_CONCLUSIONS: Final = ("The answer is {answer}.", "So the answer is {answer}.", "So that makes {answer}.")
_SHORT: Final = ("That would be {answer}.", "The answer is {answer}.", "It's {answer}.")
_NOUN_STARTS: Final = word_set("the a an its their his her your my our one two three")
_BARE_STARTS: Final = word_set(
    "yes no because by to in on at from with for through when if during after before as it they he she there this that "
    "these we you i since while although under within into about only whether where so not both"
)
_FINITE: Final = re.compile(
    r"\b(?:is|are|was|were|will|would|can|could|may|might|must|should|has|have|had|does|do|did|cannot|\w+n't)\b"
)
_MAX_SHORT_WORDS: Final = 4
_SENTENCE_WORDS: Final = 5
_MONEY: Final = "$£€"
_NUMBER: Final = r"(?<![\w.,])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_NOT_COUNTED: Final = word_set("more of does did is will are was were would do has had can in")


def conclude(answer: str, last_line: str, question: str) -> str | None:
    """The final number with its money sign, percent sign or counted thing, as the reasoning's last line has it.

    None where that line does not have the number, or has it in another currency than the question.
    """
    number = answer.strip().lstrip("$").rstrip(".")
    same = [found for found in re.finditer(_NUMBER, last_line) if _same(found[0], number)]
    if not same or ("$" in last_line and "$" not in question and re.search("[£€]", question)):
        return None
    before, after = last_line[: same[-1].start()].rstrip(), last_line[same[-1].end() :]
    if before and before[-1] in _MONEY:
        return f"{before[-1]}{number}"
    if re.match(r" ?%", after):
        return f"{number}%"
    counted = re.match(r"\.?0* ([a-z]+s|people|children|feet)\b(?!-)", after)
    asked = re.findall(r"how (?:many|much)(?: more| fewer| less| total)? ([a-z]+)", question.lower())
    if counted and asked and counted[1] == asked[-1] and counted[1] not in _NOT_COUNTED:
        return f"{number} {counted[1]}"
    return number


def _same(left: str, right: str) -> bool:
    try:
        return float(left.replace(",", "")) == float(right.replace(",", ""))
    except ValueError:
        return False


def as_said(answer: str, question: str) -> str:
    """The answer as written, but a year in words where the question asks for a year."""
    bare = answer.strip().rstrip(".")
    if re.fullmatch(r"1[1-9]\d\d|20[0-4]\d", bare) and re.search(r"(?i)\b(?:what|which) year\b|^when\b", question):
        return year(int(bare))
    return bare


def last_step(explanation: str) -> str:
    """The last line of the reasoning, as one sentence; empty where there is none."""
    lines = [line.strip() for line in explanation.splitlines()]
    lines = [line for line in lines if line and not line.startswith("####")]
    return lines[-1] if lines else ""


def explained(
    answer: str, explanation: str, question: str, say: Callable[[str], str], max_words: int, rng: random.Random
) -> tuple[str, str]:
    """The spoken turn of an item that explains itself, and the spoken answer inside it.

    The last step is said first where it can be said, leads to the answer, and leaves room for it; else the answer
    stands alone: the step is an ornament, the answer is not.

    Args:
        say: from written to spoken text.
        max_words: longest turn.

    Raises:
        Unspeakable: the answer itself cannot be said.
    """
    step = last_step(explanation)
    concluded = conclude(answer, step, question)
    shown = as_said(concluded or answer, question)
    target = say(shown)
    conclusion = say(rng.choice(_CONCLUSIONS).format(answer=shown))
    if concluded is None:
        return conclusion, target
    try:
        spoken_step = say(re.sub(r"[\s.:,;]*$", "", step) + ".")
    except Unspeakable:
        return conclusion, target
    if len(spoken_words(spoken_step)) + len(spoken_words(conclusion)) > max_words:
        return conclusion, target
    return f"{spoken_step} {conclusion}", target


def _lower_start(text: str) -> str:
    first, space, rest = text.partition(" ")
    return first.lower() + space + rest if first.lower() in _NOUN_STARTS else text


def of_option(option: str, completes: bool, rng: random.Random) -> str:
    """An option's text as a spoken answer would be written.

    A completion, a sentence of its own, a phrase such as "by heating" or one written with a capital is said as it is; a
    few words or a number get a frame; anything else follows a colon, where any form of words may stand.
    """
    text = re.sub(r"[\s.;,:]+$", "", option.strip())
    if text.lower() in {"true", "false"}:
        return f"That's {text.lower()}."
    words = text.split()
    first = words[0].lower().strip(",") if words else ""
    as_it_is = f"{text[:1].upper()}{text[1:]}."
    if completes or first in _BARE_STARTS or (len(words) >= _SENTENCE_WORDS and _FINITE.search(text)):
        return as_it_is
    is_capital = text[:1].isupper() and first not in _NOUN_STARTS
    if is_capital and len(words) > 2:
        return as_it_is
    if len(words) <= _MAX_SHORT_WORDS:
        return rng.choice(_SHORT).format(answer=_lower_start(text))
    return f"The answer is: {_lower_start(text)}."
