"""How a question is asked aloud: alone where it stands alone, else with some of its options read out."""

import random
import re
from dataclasses import dataclass
from typing import Final

from data_schemas.config import ScriptConfig
from pipelines.script import choices, open_questions, question_wording
from pipelines.script.askable import NotAskable
from pipelines.script.question_wording import BLANK, Shape
from pipelines.script.quiz import Quiz
from spoken.reader import Unspeakable, read_aloud

_FINISH: Final = ("Can you finish this sentence: {stem}?", "How does this sentence end: {stem}?",
                  "How would you finish this: {stem}?")  # fmt: skip
_FILL: Final = ("Fill in the blank: {stem}.", "Can you fill in the blank? {stem}.", "What goes in the blank? {stem}.")
_FEWEST_WORDS: Final = 2
_FRAME_WORDS: Final = 10
"""Words around options that are read out: "The choices are: first, …; second, …"."""

_POINTS_AT_OPTIONS: Final = re.compile(r"(?i)\b(?:which|one) (?:one )?(?:of|among|amongst) (?:the following|these)\b")
_NUMERIC: Final = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*(?:[A-Za-z%/^\d°-]{1,8})?")
"""Numbers, at most with a unit: nobody keeps four of them apart, so they are not offered without need."""

_THIS_ONE: Final = re.compile(r"(?<= (?:in|of|by|as|to|on) )this ([a-z]{4,})$")
"""What a sentence that breaks off leaves to be named: "… may result in this illness:"."""

WORDS_PER_S: Final = 2.5
"""Speaking rate by which the longest question is told: 150 words a minute, between careful and quick readers."""

_DEFINES: Final = re.compile(r"(?:This|These|It|They) \w+ .{20}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as one would write it.

    `stem` is the sentence that its answer completes, with `___` where the answer goes; empty where there is none.
    """

    text: str
    stem: str = ""


def most_words(config: ScriptConfig) -> int:
    """Most words of a spoken question, options included."""
    return int(config.max_question_s * WORDS_PER_S)


def ask(quiz: Quiz, config: ScriptConfig, rng: random.Random) -> Asked:
    """A question as it is asked aloud.

    Questions that stand alone are asked so, and in the configured share with options all the same.

    Raises:
        NotAskable: `needs_options`, where the options cannot be read out, `question_too_long`, where there is no room
            for them, or `not_a_question`.
    """
    text = question_wording.tidy(quiz.question)
    if quiz.is_true_or_false:
        return Asked(_true_or_false(text))
    if quiz.has_statements:
        return Asked(text)
    shape = question_wording.shape_of(text)
    is_negated = question_wording.asks_for_what_is_not(quiz.question)
    needs = quiz.closing or is_negated or question_wording.needs_options(text)
    prefers = needs or shape.kind == "states" or _POINTS_AT_OPTIONS.search(text) or open_questions.opened(text) is None
    by_choice = not _NUMERIC.fullmatch(quiz.answer) and rng.random() < config.offer_share
    if quiz.wrong and (prefers or by_choice):
        n_words = _n_spoken(text)
        room = min(config.max_options_words, most_words(config) - n_words - _FRAME_WORDS)
        if (offered := choices.choose(quiz, room, config, rng)) is not None:
            return Asked(choices.ask_with(shape, offered, rng), _stem_of(shape))
        stands_alone = not needs and shape.kind != "states" and open_questions.opened(text) is not None
        would_fit = choices.choose(quiz, config.max_options_words, config, rng) is not None
        if n_words > most_words(config) or (would_fit and not stands_alone):
            raise NotAskable("question_too_long", f"{n_words} words without its options")
    if needs and (quiz.wrong or is_negated):
        raise NotAskable("needs_options", needs)
    if not quiz.wrong and shape.kind in {"stem", "states"}:
        return Asked(_bare_question(shape))
    return _ask_alone(text, rng)


def _n_spoken(text: str) -> int:
    """Words of a text as it is said; as it is written where it cannot be said by itself."""
    try:
        return read_aloud(text).n_words
    except Unspeakable:
        return len(text.split())


def _bare_question(shape: Shape) -> str:
    """What an open item asks by a mere phrase: "capital of France".

    Raises:
        NotAskable: a statement or a formula, `not_a_question`.
    """
    if shape.kind == "states" or len(re.findall(r"\b[^\W\d_]{2,}\b", shape.last)) < _FEWEST_WORDS:
        raise NotAskable("not_a_question", shape.last[-80:])
    return f"{shape.before}{shape.last.rstrip(' .:;,')}?"


def _ask_alone(text: str, rng: random.Random) -> Asked:
    opened = open_questions.opened(text)
    if opened is None:
        raise NotAskable("needs_options", text[-80:])
    shape = question_wording.shape_of(opened)
    bare = shape.last.rstrip(" .:;,")
    if shape.kind == "asks":
        if shape.last.endswith("?"):
            return Asked(opened)
        return Asked(f"{shape.before}{bare}{'?' if question_wording.still_asks(bare) else '.'}")
    if shape.kind == "blank":
        stem = opened.rstrip(" .:?")
        return Asked(rng.choice(_FILL).format(stem=stem), _stem_of(shape))
    n_words = len(re.findall(r"\b[^\W\d_]{2,}\b", bare))
    if shape.kind == "stem" and n_words >= _FEWEST_WORDS and bare.count("(") == bare.count(")"):
        stem = re.sub(r"[\s:,;.\-–—…_]+$", "", bare)
        if _DEFINES.match(stem) and not question_wording.BREAKS_OFF.search(stem):
            return Asked(f"{shape.before}{stem}. {'What are they?' if stem.startswith('The') else 'What is it?'}")
        if shape.last.rstrip().endswith(":") and (asked := _THIS_ONE.sub(r"which \1", stem)) != stem:
            return Asked(f"{shape.before}{asked}?")
        if question_wording.pauses(shape.last):
            stem += ","
        return Asked(shape.before + rng.choice(_FINISH).format(stem=f"{choices.lower_start(stem)} what"), _stem(stem))
    raise NotAskable("not_a_question", shape.last[-80:])


def _stem_of(shape: Shape) -> str:
    """The sentence that the answer completes: the last one, where no blank stands elsewhere."""
    if shape.kind == "blank":
        return "" if BLANK.search(shape.before) else _stem(shape.last)
    return _stem(shape.last) if shape.kind == "stem" else ""


def _stem(sentence: str) -> str:
    """The sentence with one place for the answer; empty where there is no such sentence, or several places."""
    bare = re.sub(r"[\s:,;.\-–—…]+$", "", sentence)
    if not bare or re.search(r"(?i)\bfollowing\b|\bthese\b", bare):
        return ""
    pause = "," if question_wording.pauses(sentence) else ""
    places = BLANK.findall(bare)
    if len(places) > 1:
        return ""
    return BLANK.sub("___", bare) if places else f"{bare}{pause} ___"


def _true_or_false(text: str) -> str:
    """A statement put to someone as true or false.

    Raises:
        NotAskable: it is not one statement.
    """
    text = re.sub(r"(?i)^(?:True or false|T/F)\s*[:?.]\s*|\s*\(?True or false\)?\s*[?.]?$", "", text)
    if re.search(r"\bStatement (?:1|one|I)\b|\|", text):
        raise NotAskable("needs_options", text[:80])
    if text.endswith("?"):
        return f"{text} True or false?"
    return f"True or false: {choices.lower_start(text.rstrip(' .:'))}."
