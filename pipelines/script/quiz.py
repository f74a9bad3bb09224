"""An item as a quiz-master takes it: its question, the answer in words of its own, and wrong answers to offer.

Exam questions speak of what stands on paper: "I and III only", "True, False", "none of the above", "(a) … (b) …". Here
they are given words that can be followed by ear; where that is not sure, the item is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from data_schemas.records import Item
from pipelines.script.refusals import NotAskable, refers_to_options
from pipelines.script.spoken import Unspeakable

_ORDINALS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi")
_ROMAN_NAME: Final = r"\(?(i|ii|iii|iv|v|vi)\)?"
_NAMES: Final = re.compile(
    rf"(?:statements? )?{_ROMAN_NAME}(?:(?:,? and|,? &|,) {_ROMAN_NAME})*(?: only)?\.?", re.IGNORECASE
)
_TRUTHS: Final = re.compile(r"(true|false), ?(true|false)\.?", re.IGNORECASE)
_NONE: Final = re.compile(
    r"none(?: of (?:the )?(?:above|these|those|them|options|choices|answers)(?: answers| choices| options)?)?\.?"
    r"|neither (?:i|1),? (?:ii|2),? n?or (?:iii|3)\.?|no (?:correct|right) (?:answer|option|choice)[\w ]*\.?",
    re.IGNORECASE,
)
_ALL: Final = re.compile(r"all (?:of )?(?:the )?(?:above|these)(?: answers| choices| options)?\.?", re.IGNORECASE)
_LETTERS: Final = re.compile(r"\(?[a-e]\)?(?:(?:,| and|, and|,? or) \(?[a-e]\)?)*(?: only)?\.?", re.IGNORECASE)
_MAX_UNSHUFFLED: Final = 5
"""MMLU-Pro adds wrong options to four or five and shuffles: with more, "above" is not sure."""


@dataclass(frozen=True, slots=True)
class Quiz:
    """What is asked and answered, before it is decided how.

    `wrong` are answers that may be offered beside the right one. `closing` is what a list of options ends with ("none
    of these"), where the answer is that.
    """

    question: str
    answer: str
    wrong: tuple[str, ...]
    closing: str | None = None
    has_statements: bool = False
    is_true_or_false: bool = False


def take(item: Item, question: str) -> Quiz:
    """An item with `question` for its question; what names a label or other options is put in words.

    Raises:
        NotAskable: `answer_refers_to_options`.
        Unspeakable: `blank`, an empty answer.
    """
    if not re.search(r"\w", item.answer):
        raise Unspeakable("blank", item.answer)
    answer = _unlabelled(item.answer) if item.options else item.answer.strip()
    wrong = [_unlabelled(option) for at, option in enumerate(item.options) if at != item.answer_index]
    if {option.strip().lower().rstrip(".") for option in item.options} == {"true", "false"}:
        return Quiz(question, answer, tuple(wrong), is_true_or_false=True)
    if item.options and (named := _statements(question, answer)) is not None:
        return named
    offered = tuple(_parts(text) for text in wrong if not refers_to_options(text))
    has_parts = _parts(question) != question
    question, answer = _parts(question), _parts(answer)
    if item.options and _NONE.fullmatch(answer) and answer.lower() != "none":
        return Quiz(question, "None of them", offered, closing="none of these")
    if item.options and _ALL.fullmatch(answer) and item.answer_index == len(item.options) - 1 < _MAX_UNSHUFFLED:
        return Quiz(question, "All of them", offered, closing="all of these")
    is_lettered = has_parts and _LETTERS.fullmatch(answer) is not None
    if item.options and (is_lettered or refers_to_options(answer)):
        raise NotAskable("answer_refers_to_options", answer[:80])
    return Quiz(question, answer, offered)


def _unlabelled(option: str) -> str:
    """ "(A) rising" is "rising": the letter is the option's own."""
    text = option.strip()
    has_parts = re.search(r"\(a\).*\(b\)", text, re.IGNORECASE | re.DOTALL) is not None
    return text if has_parts else re.sub(r"^\([A-J]\) +", "", text)


def _statements(question: str, answer: str) -> Quiz | None:
    """A question about numbered statements, with the answer that tells which of them hold; None where it is none."""
    if (truths := _TRUTHS.fullmatch(answer)) is not None:
        styles = (r"(?:Statement )?{n} ?[|:.]", r"\(?{n}[.)]")
        asked = _labelled(question, styles, ("1", "2", "3"))
        if asked is None or len(re.findall("Statement (?:one|two|three):", asked)) != 2:
            return None
        if not re.search(r"\?", question):
            asked = f"{asked.rstrip(' .')}. Is each of them true or false?"
        return Quiz(asked, _tell_truths(truths[1].lower(), truths[2].lower()), (), has_statements=True)
    if _NAMES.fullmatch(answer) or _NONE.fullmatch(answer):
        asked = _labelled(question, (r"\(?{n}[.):]", r"\({n}\)"), _ROMAN)
        if asked is not None:
            return Quiz(asked, _tell_names(answer), (), has_statements=True)
    return None


def _tell_truths(first: str, second: str) -> str:
    return f"Both are {first}" if first == second else f"The first is {first}, and the second is {second}"


def _tell_names(answer: str) -> str:
    if _NONE.fullmatch(answer):
        return "None of them"
    bare = re.sub(r"^statements? ", "", answer.lower())
    found = [_ORDINALS[_ROMAN.index(each)] for each in re.findall(r"\b(?:i|ii|iii|iv|v|vi)\b", bare)]
    if len(found) == 1:
        return f"Only statement {found[0]}"
    listed = f"{', '.join(found[:-1])} and {found[-1]}"
    return f"{'Only statements' if 'only' in bare else 'Statements'} {listed}"


def _labelled(question: str, styles: Sequence[str], names: Sequence[str]) -> str | None:
    """The question with its labels, from the first on without a gap and at least two, as "Statement one:"."""
    for style in styles:
        text, at, count = question, 0, 0
        for name, ordinal in zip(names, _ORDINALS, strict=False):
            found = re.compile(rf"(?<![\w(]){style.format(n=name)}\s*(?=\S)", re.IGNORECASE).search(text, at)
            if found is None:
                break
            before = text[: found.start()].rstrip()
            mark = "" if not before or before[-1] in ".?!:;" else "." if before[-1] != "," else ""
            head = f"{before}{mark} Statement {ordinal}: ".lstrip()
            text, at, count = head + text[found.end() :], len(head), count + 1
        if count >= 2:
            return text
    return None


def _parts(text: str) -> str:
    """ "(a) … (b) …" as "part one, … part two, …"; other text as it is."""
    for style in (r"\({n}\)", r"(?<!\(){n}\)"):
        made, at, count = text, 0, 0
        for letter, ordinal in zip("abcdef", _ORDINALS, strict=False):
            found = re.compile(rf"(?<![\w]){style.format(n=letter)}[.:]?\s*(?=\S)", re.IGNORECASE).search(made, at)
            if found is None:
                break
            head = f"{made[: found.start()]}part {ordinal}, "
            made, at, count = head + made[found.end() :], len(head), count + 1
        if count >= 2:
            return re.sub(r"(?:^|(?<=[.?!] ))part\b", "Part", re.sub(r"\bpart part\b", "part", made))
    return text
