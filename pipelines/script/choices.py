"""Chooses and words the options that are read out: which ones, in what order, and how a listener tells them apart."""

import random
import re
from collections.abc import Sequence
from typing import Final

from data_schemas.config import ScriptConfig
from pipelines.meaning import is_common
from pipelines.script.exam_forms import Quiz
from pipelines.script.question_shape import QuestionShape, is_question
from pipelines.script.rejections import find_unclear_words
from spoken.reader import Unspeakable, read_aloud, speak

_FEWEST: Final = 2
_ENOUGH_WORDS: Final = 24
"""If two options have so many words, there is no third one."""
_SHORT_WORDS: Final = 6
"""Maximum number of words of an option in "Is it X, Y, or Z?"; longer ones are numbered."""
_MOST_LISTED_WORDS: Final = 45
"""Maximum number of words of all numbered choices together; nobody remembers more."""
_IS_IT: Final = ("{asked} Is it {listed}?", "{asked} The choices are {listed}.", "{asked} Your choices: {listed}.")
_NUMBERED: Final = ("{asked} The choices are: {listed}.", "{asked} Is it: {listed}?", "{asked} Your choices: {listed}.")
_WHICH: Final = re.compile(r"\b([Ww])hich (?:one )?(?:of|among|amongst) (?:the following|these|those)\b(?! \d)")
_SMALL_STARTS: Final = re.compile(
    r"The|A|An|In|On|At|It|If|When|To|For|By|According|One|Most|Some|All|This|That|There|As|During|After|Under|They"
    r"|Their|Its|Because|From|With|Both|No|Not|He|She|His|Her|People|Only|Each|Any|These|Those"
)
_WORD_START: Final = re.compile(r"([A-Z][a-z]*)(?=$|[ ,;:.]|'s |-[a-z])")
_TITLE: Final = re.compile(r"(?: (?:of|and|the|in|for|to|an?|on))* (?:[A-Z][a-z]|[IVX]+\b)|(?<=May|rch|ust) \d")
"""What makes a capitalised common word a title or a name: another capital after it ("Bill of Rights"), a numeral
("Algorithm I"), and for "May", "March" and "August" a day."""


def lower_start(text: str) -> str:
    """Returns a sentence with a small letter at its start, unless it may start with a name or a title."""
    start = _WORD_START.match(text)
    if start is None or not (_SMALL_STARTS.fullmatch(start[1]) or is_common(start[1].lower())):
        return text
    is_title = not _SMALL_STARTS.fullmatch(start[1]) and _TITLE.match(text, start.end(1)) is not None
    return text if is_title else text[0].lower() + text[1:]


def choose_options(quiz: Quiz, room: int, config: ScriptConfig, rng: random.Random) -> tuple[str, ...] | None:
    """Chooses options to be read out: the right one and randomly drawn wrong ones; None if too few can be read out.

    They are in random order, but a closing answer is last ("none of these"); "all of these" needs all other options.
    There are `max_spoken_options` at most, and none is added to two or more that have more than `_ENOUGH_WORDS` words,
    except beside "all of these".

    Args:
        room: maximum number of words of all of them.
    """
    if config.max_spoken_options < _FEWEST:
        return None
    right = _trim_option(quiz.closing or quiz.answer)
    n_words = _count_words(right, config.max_option_words)
    if n_words is None:
        return None
    needs_all = quiz.closing == "all of these"
    if needs_all and len(quiz.wrong) >= config.max_spoken_options:
        return None
    total = room
    room -= n_words
    picked: list[str] = []
    seen = {right.lower()}
    for text in map(_trim_option, rng.sample(quiz.wrong, len(quiz.wrong))):
        n_words = _count_words(text, config.max_option_words) if text.lower() not in seen else None
        if n_words is not None and n_words <= room:
            picked.append(text)
            seen.add(text.lower())
            room -= n_words
        is_enough = bool(picked) and total - room > _ENOUGH_WORDS
        if not needs_all and (is_enough or len(picked) == config.max_spoken_options - 1):
            break
    if not picked or (needs_all and len(picked) < len(quiz.wrong)):
        return None
    if quiz.closing:
        return (*picked, right)
    picked.insert(rng.randint(0, len(picked)), right)
    return tuple(picked)


def can_be_followed(choices: Sequence[str], *, is_needed: bool) -> bool:
    """Returns whether a listener can follow these choices: they can be listed, or, if `is_needed`, are not too long."""
    n_words = sum(len(each.split()) for each in choices)
    return _can_be_listed(choices) or (is_needed and n_words <= _MOST_LISTED_WORDS)


def _trim_option(option: str) -> str:
    """Returns an option without marks and spaces at its end, and with the sign of a negative number joined to it."""
    return join_sign(re.sub(r"[\s.;,:]+$|[.;,]+(?=[\"'”’]$)", "", option.strip()))


def join_sign(option: str) -> str:
    """Returns an option with its sign joined to the number: "- 4 J" becomes "-4 J", which is not read as a dash."""
    return re.sub(r"^([-−–]) +(?=[\d.$√(]|[a-zπ](?![a-z]))", r"\1", option)


def _count_words(option: str, limit: int) -> int | None:
    """Returns the number of spoken words of an option; None if it cannot be read out.

    That is so if they are more than `limit`, it has no reading, cannot be followed by ear, or is a question.
    """
    if re.search(r"[?!]", option):
        return None
    try:
        said = read_aloud(option)
    except Unspeakable:
        return None
    return said.n_words if said.n_words <= limit and find_unclear_words(said.text) is None else None


def word_question_with_choices(shape: QuestionShape, choices: Sequence[str], rng: random.Random) -> str:
    """Returns the written form of a question with its choices after it."""
    listed = _list_choices(choices)
    last = re.sub(r"^Of the following\b", "Of these", shape.last)
    last = re.sub(r"(\b[Ww]hich (?:one )?(?:of )?(?:the )?[a-z]+) below\b", r"\1", last)
    bare = last.rstrip(" .:;,?")
    if shape.kind == "blank":
        asked = f"{shape.before}{last.rstrip(' .:?')}"
        return f"Fill in the blank: {asked}. The choices are: {listed}."
    if _WHICH.search(last):
        asked = _WHICH.sub(r"\1hich of these", bare)
        return f"{shape.before}{asked}: {listed}?"
    if shape.kind == "stem":
        bare = re.sub(r"\b(all|any|each|none|one|both) of the following\b", r"\1 of these", bare)
        return f"{shape.before}{bare}: {listed}?"
    asked = f"{shape.before}{last}"
    if not last.endswith("?"):
        asked = f"{shape.before}{bare}{'?' if is_question(bare) else '.'}"
    return rng.choice(_IS_IT if _can_be_listed(choices) else _NUMBERED).format(asked=asked, listed=listed)


def _can_be_listed(choices: Sequence[str]) -> bool:
    """Returns whether all choices fit into "X, Y, or Z": short, without commas, brackets, "or", "and" or a verb."""
    return all(
        len(each.split()) <= _SHORT_WORDS
        and not re.search(r"[,;:]\s|[(]|\[[A-Z]|\b(?:or|is|are|and)\b", each)
        and "," not in speak(each)
        for each in choices
    )


def _list_choices(choices: Sequence[str]) -> str:
    """Returns choices as "X, Y, or Z"; as "first, X; second, Y; or third, Z" if they are long or have commas."""
    if _can_be_listed(choices):
        few = [lower_start(each) for each in choices]
        if any(re.search(r"\d,\d{3}|\d{4}", each) for each in few):
            return ", or ".join(few)  # "sixteen million, one hundred twenty thousand" is one number
        return f"{few[0]} or {few[1]}" if len(few) == 2 else f"{', '.join(few[:-1])}, or {few[-1]}"
    ordinals = ("first", "second", "third", "fourth")
    named = [f"{ordinal}, {lower_start(each)}" for ordinal, each in zip(ordinals, choices, strict=False)]
    return f"{'; '.join(named[:-1])}; or {named[-1]}"
