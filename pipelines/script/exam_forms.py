"""Rephrases exam items for speech: the question, the answer in words of its own, and wrong answers to offer.

Exam questions refer to what is on paper: "I and III only", "True, False", "none of the above", "(a) … (b) …". They are
rephrased in words that can be followed by ear; where that is uncertain, the item is rejected.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from data_schemas.records import Item
from pipelines.script.rejections import NotAskable, refers_to_options
from spoken.spoken_text import Unspeakable

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
_VERDICT: Final = re.compile(r"(?:Is|Are|Was|Does|Do|Did|Can|Could|Will|Has|Have)\b[^?]*\?")
_MONTH_NAMES: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH: Final = f"({'|'.join(_MONTH_NAMES)})"
_FRACTION_AS_DATE: Final = re.compile(rf"(\d{{1,2}})-{_MONTH}|{_MONTH}-(\d{{2}})")
_LONE_LABEL: Final = re.compile(
    r"(?:^|(?<=[.?!:;\"] )|(?<=[.?!:;\"])|(?<=[.?!:;\"])\n|([^\s.?!:;])\n)\((?:a|b|i|1)\)\s+(?=[A-Z])"
)
"""A label before a sentence without another label: the row holds one part of a longer question."""

_LABELLED: Final = re.compile(
    r"(?<![\w)\]])\((?:a|i|1)\).*?(?<![\w)\]])\((?:b|ii|2)\)|(?<![\w(])a\)[.:]?\s*\w.*?(?<![\w(])b\)",
    re.IGNORECASE | re.DOTALL,
)
"""Several parts, whose answers a listener cannot keep apart."""

_TWO_PARTS: Final = re.compile(
    r"(?P<lead>.*?)(?<![\w(])\(?(?:a|i|1)\)[.:]?\s*(?P<first>\w.*?)(?<![\w(])\(?(?:b|ii|2)\)[.:]?\s*(?P<second>\w.*)",
    re.IGNORECASE | re.DOTALL,
)
_THIRD_LABEL: Final = re.compile(r"(?<![\w(])\(?(?:c|iii|3)\)", re.IGNORECASE)
_VALUE: Final = r"(?:[A-Za-z][^,;=:]* ?= ?)?[-−+]? ?[$(]?\.?\d(?!\d{3}$)[^,;]*"
_TWO_VALUES: Final = re.compile(rf"(?P<one>[^,;:]+?)(?:,? and|,) +(?P<two>{_VALUE})")
_ASKS_FOR_TWO: Final = re.compile(r"\band\b[^?]*$|\?.*\?|\band\b[^?.]*\?", re.DOTALL)
"""A request for two things, and the two values of an answer to it."""

_OPEN_ARTICLE: Final = re.compile(
    r"(?<=\w)(?<! is to)(?: (?P<article>the|its|their|his|her)"
    r"|(?:(?<= as)|(?<= is)|(?<= of)|(?<=alled)|(?<= with)) (?P<one>an?))\s*[:…]*\s*$"
)
"""How an unfinished sentence may end although the word belongs to the options: "… is called the"."""

_UNIT_NOTED: Final = re.compile(r"\s*\(Units?: *([^()]+)\)+[\s.]*$")

_ASKED_OUTRIGHT: Final = re.compile(
    r"\b(?:which|what|how|whether|who|why)\b[^.?!]*\?"
    r"|(?:^|[.?!:] +)(?:Is|Are|Was|Does|Do|Did|Can|Will|Would)\b[^.?!]*\?",
    re.IGNORECASE,
)
_SAID_TWICE: Final = re.compile(r"\b([A-Za-z][^.;]{15,})[.;] ?\1$")
_MAX_UNSHUFFLED: Final = 5
"""MMLU-Pro adds wrong options to four or five and shuffles them: with more options, the meaning of "above" is
uncertain."""
_FEWEST_BESIDE_NONE: Final = 2
"""Minimum number of other options beside "none of these"; with fewer there is no choice."""


@dataclass(frozen=True, slots=True)
class Quiz:
    """The content of a question and its answer, before their wording is chosen.

    `wrong` are answers that may be offered besides the right one. `closing` is the last entry of a list of options
    ("none of these"), if that is the answer.
    """

    question: str
    answer: str
    wrong: tuple[str, ...]
    closing: str | None = None
    has_statements: bool = False
    is_true_or_false: bool = False


def make_quiz(item: Item, question: str) -> Quiz:
    """Makes a quiz of an item, with `question` as its question.

    References to labels and to other options become words, such as "Both are true" or "None of them". A unit noted at
    the end of the question, or an article there, is moved to the answers.

    Raises:
        NotAskable: `answer_refers_to_options`; `needs_options` for "none of these" beside too few options; or
                `needs_writing` for several parts.
        Unspeakable: `blank` for an empty answer; `broken_text` for one whose end is repeated.
    """
    if not re.search(r"\w", item.answer):
        raise Unspeakable("blank", item.answer)
    if repeated := _SAID_TWICE.search(item.answer.strip(" .")):
        raise Unspeakable("broken_text", repeated[0][:80])
    answer = _to_asked_form(_strip_label(item.answer), question) if item.options else item.answer.strip()
    wrong = [
        _to_asked_form(_strip_label(option), question)
        for at, option in enumerate(item.options)
        if at != item.answer_index
    ]
    if noted := _UNIT_NOTED.search(question):
        question = question[: noted.start()]
        times = " × " if noted[1].strip(" $").startswith("10") else " "
        answer, *wrong = (f"{each}{times}{noted[1]}" for each in (answer, *wrong))
    if wrong and (opened := _OPEN_ARTICLE.search(question)):
        question = question[: opened.start()]
        answer, *wrong = (_add_article(opened["article"] or opened["one"], each) for each in (answer, *wrong))
    if {option.strip().lower().rstrip(".") for option in item.options} == {"true", "false"}:
        return Quiz(question, answer, tuple(wrong), is_true_or_false=True)
    if answer in {"Yes", "No"} and item.answer.strip() in {"0.0", "1.0"}:
        wrong = []  # numbers, as in the other rows
    if item.options and (named := _rewrite_statements(question, answer)) is not None:
        return named
    offered = tuple(text for text in wrong if not refers_to_options(text) and not _LABELLED.search(text))
    if two := _rewrite_two_parts(question, answer):
        return Quiz(*two, ())
    question, answer = _remove_lone_label(question), _remove_lone_label(answer)
    if item.options and _NONE.fullmatch(answer) and answer.lower() != "none":
        if len(offered) < _FEWEST_BESIDE_NONE:
            raise NotAskable("needs_options", answer[:80])
        return Quiz(question, "None of them", offered, closing="none of these")
    if item.options and _ALL.fullmatch(answer) and item.answer_index == len(item.options) - 1 < _MAX_UNSHUFFLED:
        return Quiz(question, "All of them", offered, closing="all of these")
    if item.options and refers_to_options(answer):
        raise NotAskable("answer_refers_to_options", answer[:80])
    return Quiz(question, answer, offered)


def _strip_label(option: str) -> str:
    """Returns an option without its own letter: "(A) rising" becomes "rising"."""
    text = option.strip()
    has_parts = re.search(r"\(a\).*\(b\)", text, re.IGNORECASE | re.DOTALL) is not None
    return text if has_parts else re.sub(r"^\([A-J]\) +", "", text)


def _add_article(article: str, option: str) -> str:
    """Returns an option with the article with which the question ended, unless it has one of its own or needs none."""
    if refers_to_options(option) or re.match(r"(?:the|an?|its|their|his|her|my|your|one|no) |[^A-Za-z]", option, re.I):
        return option
    if article in {"a", "an"}:
        article = "an" if re.match("[aeio]", option, re.IGNORECASE) else "a"
    return f"{article} {option}"


def _rewrite_two_parts(question: str, answer: str) -> tuple[str, str] | None:
    """Returns question and answer without labels, the two values joined by "and"; None unless two are asked for."""
    values = _TWO_VALUES.fullmatch(re.sub(r"(?<![\w(])\(?[abAB]\)\s*", "", answer).strip(" ."))
    if values is None or (values["two"].count(" and ") + values["one"].count(" and ")):
        return None
    parts = _TWO_PARTS.fullmatch(question)
    if parts is not None and not _THIRD_LABEL.search(question):
        lead, first, second = parts["lead"].rstrip(" ,:°"), parts["first"].rstrip(" ,:;"), parts["second"]
        lead += ":" * lead.endswith("following")
        is_new = not lead or lead[-1] in ".?!"
        first = f"{first[:1].upper()}{first[1:]}" if is_new else first
        if first[-1] in ".?!":
            second = f" {second[:1].upper()}{second[1:]}"
        else:
            second = f" {second}" if re.search(r"\b(?:and|or)$", first) else f", and {second}"
        question = f"{lead} {first}{second}".strip()
    elif parts is not None or not _ASKS_FOR_TWO.search(question[-250:]):
        return None
    first = re.sub(r"(?<=\d) in$", " in.", values["one"].strip())
    return question, f"{first} and {values['two']}"


def _to_asked_form(option: str, question: str) -> str:
    """Returns an option in the form that the question asks for.

    Reverts a ratio that a spreadsheet made a time of day ("1:03") or a fraction that it made a date ("10-Sep"), removes
    the brackets of a list, and turns "1.0" into 1 after "return 1 for yes", or into yes for a yes-no question.
    """
    if re.search(r"(?i)\bratio\b|\bodds\b", question) and (ratio := re.fullmatch(r"(\d{1,3}):0(\d)(?::00)?", option)):
        return f"{ratio[1]} to {ratio[2]}"
    if (dated := _FRACTION_AS_DATE.fullmatch(option)) and not re.search(r"(?i)\b(?:date|day|month|when)\b", question):
        return f"{_MONTH_NAMES.index(dated[2] or dated[3]) + 1}/{dated[1] or dated[4]}"
    listed = re.fullmatch(r"\[([^\[\]]*,[^\[\]]*)\]", option)
    if listed and (re.search(r"(?i)\blist\b", question) or not re.search(r"(?i)\bintervals?\b", question)):
        return listed[1].strip()
    if option in {"0.0", "1.0"}:
        if re.search(r"(?i)\breturn [01]\b|\b[01] for\b|\b[01] \(?(?:if|means)\b", question):
            return option[0]
        if _VERDICT.match(re.split(r"[.?!] +(?=[A-Z])", question.strip())[-1]):
            return "Yes" if option == "1.0" else "No"
    return option


def _rewrite_statements(question: str, answer: str) -> Quiz | None:
    """Returns the quiz of a question about numbered statements, whose answer says which are true; None for others."""
    if (truths := _TRUTHS.fullmatch(answer)) is not None:
        styles = (r"(?:Statement )?{n} ?[|:.]", r"\(?{n}[.)]")
        asked = _rewrite_labels(question, styles, ("1", "2", "3"))
        if asked is None or len(re.findall("Statement (?:one|two|three):", asked)) != 2:
            return None
        if not _ASKED_OUTRIGHT.search(question):
            asked = f"{asked.replace('?', '.').rstrip(' .')}. Is each of them true or false?"
        return Quiz(asked, _state_truths(truths[1].lower(), truths[2].lower()), (), has_statements=True)
    if _NAMES.fullmatch(answer) or _NONE.fullmatch(answer):
        asked = _rewrite_labels(question, (r"\(?{n}[.):]", r"\({n}\)"), _ROMAN)
        if asked is not None:
            return Quiz(asked, _state_names(answer), (), has_statements=True)
    return None


def _state_truths(first: str, second: str) -> str:
    """Returns the answer that says which of two statements is "true" and which "false"."""
    return f"Both are {first}" if first == second else f"The first is {first}, and the second is {second}"


def _state_names(answer: str) -> str:
    """Returns an answer that names statements by numerals in words: "I and II" becomes "Statements one and two"."""
    if _NONE.fullmatch(answer):
        return "None of them"
    bare = re.sub(r"^statements? ", "", answer.lower())
    found = [_ORDINALS[_ROMAN.index(each)] for each in re.findall(r"\b(?:i|ii|iii|iv|v|vi)\b", bare)]
    if len(found) == 1:
        return f"Only statement {found[0]}"
    listed = f"{', '.join(found[:-1])} and {found[-1]}"
    return f"{'Only statements' if 'only' in bare else 'Statements'} {listed}"


def _rewrite_labels(question: str, styles: Sequence[str], names: Sequence[str]) -> str | None:
    """Returns the question with its labels rewritten as "Statement one:"; None if fewer than two follow one another.

    Args:
        styles: patterns of a label, with `{n}` for its name; the first style that fits is used.
        names: names of the labels in order, such as "i", "ii".
    """
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


def _remove_lone_label(text: str) -> str:
    """Returns a text without a label, such as "(a)", that has no other one beside it.

    Raises:
        NotAskable: `needs_writing`: it has several parts.
    """
    if labelled := _LABELLED.search(text):
        raise NotAskable("needs_writing", labelled[0][-80:])
    if re.search(r"\((?:b|ii|2)\)", text, re.IGNORECASE):
        return re.sub(r"\band \(b\) ", "and ", text)
    return _LONE_LABEL.sub(lambda m: f"{m[1]}. " if m[1] else " " if m[0][0] == "\n" else "", text)
