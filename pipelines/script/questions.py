"""Words spoken questions: alone if they stand alone, else with some of their options read out."""

import random
import re
from dataclasses import dataclass
from typing import Final

from data_schemas.config import ScriptConfig
from pipelines.script import choices, question_shape
from pipelines.script.exam_forms import Quiz
from pipelines.script.question_shape import BLANK, QuestionShape
from pipelines.script.rejections import NotAskable
from pipelines.vocabulary import find_singular
from spoken.reader import Unspeakable, read_aloud
from spoken.spoken_text import make_word_set

_ASKABLE_END: Final = re.compile(
    r"\b(?:of|by|called|named|termed|(?:known|referred to|classified|described|defined) as|in|with|from|into|through"
    r"|against|(?:due|equal|refers?|leads?|led|related|attributed|similar|belongs?|corresponds?|subject|according) to)$"
)
"""The end of a sentence that becomes a question by adding "what": "This process is called what?"."""

_NAMED_FIRST: Final = re.compile(
    r"((?:The|An?) (?:(?!that\b|which\b|who\b)[\w'-]+ ){1,11}?"
    r"|(?!It\b|This\b|They\b|These\b)[A-Z][\w'-]+ (?:[\w'-]+ ){0,3}?)(is|are|was|were)$"
)
"""A thing and its verb, which are asked for in reverse order: "What is the main cost of a lake?"."""

_FILL: Final = ("Fill in the blank: {stem}.", "Can you fill in the blank? {stem}.", "What goes in the blank? {stem}.")
_FEWEST_WORDS: Final = 2
_FRAME_WORDS: Final = 10
"""Words around options that are read out: "The choices are: first, …; second, …"."""

_POINTS_AT_OPTIONS: Final = re.compile(r"(?i)\b(?:which|one) (?:one )?(?:of|among|amongst) (?:the following|these)\b")
_NUMERIC: Final = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*(?:[A-Za-z%/^\d°-]{1,8})?")
"""Numbers, at most with a unit: nobody keeps four of them apart, so they are offered only if needed."""

_LATEX: Final = re.compile(r"\\[a-z]+|[${}~]")
_THIS_ONE: Final = re.compile(r"(?<= (?:in|of|by|as|to|on) )this ([a-z]{4,})$")
"""The end of an incomplete sentence that is to be named: "… may result in this illness:"."""

WORDS_PER_S: Final = 2.5
"""Speaking rate by which the longest question is limited: 150 words a minute, between careful and quick readers."""

_WHICH_OF: Final = re.compile(
    r"\b([Ww])hich (?:one )?(?:of|among|amongst) the following,?\s+"
    r"(?:((?:[\w-]+ ){0,3}?)([A-Za-z-]+[^\Wsui_]s)\b(?=\s+(?:(?:best|most|both|all) )?([A-Za-z]+))|([A-Za-z-]+))"
)
_VERBISH: Final = make_word_set(
    "is are was were would will can could may might must should has have had does do did best most more better "
    "correctly accurately describes explains represents provides contains causes occurs shows refers defines "
    "illustrates reflects gives makes produces involves indicates increases decreases results leads allows "
    "requires characterizes applies constitutes exhibits influenced contributed also often always generally "
    "typically usually primarily probably led summarizes supports comes determines identifies helps includes "
    "plays led caused came first gave made became played clearly ultimately directly likely reduces prevents "
    "creates distinguishes demonstrates exemplifies initiated lists affects controls belongs works uses describe "
    "explain represent provide contain cause occur show refer explains"
)
_UNIQUE: Final = re.compile(
    r"\b(?:best|most|least|first|last|largest|smallest|greatest|highest|lowest|main|primary|chief|known as|called|term"
    r"|named?|refers to|defined? as|invented|discovered|wrote|founded|\w{3,}est)\b"
)
"""Words that leave only one thing to name."""

_STILL_POINTS: Final = re.compile(
    r"(?i)\bwhich of (?:the following|these|those)\b|\b(?:of|is|are|by|as|among) the following\b(?! (?:\w+ )*:)"
)

_ENDS_OPEN: Final = re.compile(r"\b(?:the|its|their)[ .:;,]*$")
"""An end after which nobody pauses to list choices."""


@dataclass(frozen=True, slots=True)
class WordedQuestion:
    """A question in written form.

    `stem` is the sentence that its answer completes, with `___` in place of the answer; empty if there is none.
    """

    text: str
    stem: str = ""


def count_most_words(config: ScriptConfig) -> int:
    """Returns the maximum number of words of a spoken question, including options."""
    return int(config.max_question_s * WORDS_PER_S)


def word_question(quiz: Quiz, config: ScriptConfig, rng: random.Random) -> WordedQuestion:
    """Returns a quiz's question as it is asked, in written form, with or without options.

    Questions that stand alone are asked without options, except for the configured share.

    Raises:
        NotAskable: `needs_options` if the options cannot be read out, `question_too_long` if there is no room for them,
            or `not_a_question`.
    """
    text = question_shape.tidy_question(quiz.question)
    if quiz.is_true_or_false:
        return WordedQuestion(_ask_true_or_false(text))
    if quiz.has_statements:
        return WordedQuestion(text)
    shape = question_shape.find_shape(text)
    is_negated = question_shape.find_negation(quiz.question)
    if quiz.wrong and (
        shape.kind == "states" or (shape.kind == "stem" and len(re.findall(r"\b[^\W\d_]{2,}\b", text)) < _FEWEST_WORDS)
    ):
        raise NotAskable("not_a_question", shape.last[-80:])
    needs = quiz.closing or is_negated or question_shape.find_need_of_options(text)
    is_of_options = is_negated or bool(quiz.wrong and (needs or _POINTS_AT_OPTIONS.search(text)))
    alone = None if is_of_options else _ask_without_options(shape, quiz, text, rng)
    by_choice = not _NUMERIC.fullmatch(_LATEX.sub("", quiz.answer)) and rng.random() < config.offer_share
    can_pause = shape.kind != "stem" or _ENDS_OPEN.search(shape.last) is None
    if quiz.wrong and can_pause and (alone is None or by_choice):
        n_words = _count_spoken_words(text)
        room = min(config.max_options_words, count_most_words(config) - n_words - _FRAME_WORDS)
        offered = choices.choose_options(quiz, room, config, rng)
        if offered is not None and choices.can_be_followed(offered, is_needed=alone is None):
            return WordedQuestion(choices.word_question_with_choices(shape, offered, rng), _find_stem(shape))
        alone = alone or (None if needs else _ask_without_options(shape, quiz, text, rng))
        if alone is None and offered is None and choices.choose_options(quiz, config.max_options_words, config, rng):
            raise NotAskable("question_too_long", f"{n_words} words without its options")
    if alone is None:
        raise NotAskable("needs_options", needs or text[-80:])
    return alone


def _ask_without_options(shape: QuestionShape, quiz: Quiz, text: str, rng: random.Random) -> WordedQuestion | None:
    """Returns a question as it is asked without options; None if it needs them and the item has some.

    Raises:
        NotAskable: it cannot be asked, and the item has no options.
    """
    try:
        if not quiz.wrong and shape.kind in {"stem", "states"}:
            return WordedQuestion(_make_phrase_question(shape))
        return _ask_alone(text, rng)
    except NotAskable:
        if not quiz.wrong:
            raise
        return None


def _count_spoken_words(text: str) -> int:
    """Returns the number of words of a text as spoken, or as written if it cannot be spoken by itself."""
    try:
        return read_aloud(text).n_words
    except Unspeakable:
        return len(text.split())


def _make_phrase_question(shape: QuestionShape) -> str:
    """Returns the phrase of an item without options as a question: "capital of France?".

    Raises:
        NotAskable: `not_a_question`: it is a statement or a formula.
    """
    if shape.kind == "states" or len(re.findall(r"\b[^\W\d_]{2,}\b", shape.last)) < _FEWEST_WORDS:
        raise NotAskable("not_a_question", shape.last[-80:])
    return f"{shape.before}{shape.last.rstrip(' .:;,')}?"


def _ask_alone(text: str, rng: random.Random) -> WordedQuestion:
    """Returns a question that stands alone as it is asked; an incomplete sentence is made to ask for its missing end.

    Raises:
        NotAskable: `needs_options` if it asks about its options, or `not_a_question`.
    """
    made = make_open_question(text)
    if made is None:
        raise NotAskable("needs_options", text[-80:])
    shape = question_shape.find_shape(made)
    bare = shape.last.rstrip(" .:;,")
    if shape.kind == "asks":
        if shape.last.endswith("?"):
            return WordedQuestion(made)
        return WordedQuestion(f"{shape.before}{bare}{'?' if question_shape.is_question(bare) else '.'}")
    if shape.kind == "blank":
        stem = made.rstrip(" .:?")
        return WordedQuestion(rng.choice(_FILL).format(stem=stem), _find_stem(shape))
    n_words = len(re.findall(r"\b[^\W\d_]{2,}\b", bare))
    if shape.kind == "stem" and n_words >= _FEWEST_WORDS and bare.count("(") == bare.count(")"):
        stem = re.sub(r"[\s:,;.\-–—…_]+$", "", bare)
        if shape.last.rstrip().endswith(":") and (asked := _THIS_ONE.sub(r"which \1", stem)) != stem:
            return WordedQuestion(f"{shape.before}{asked}?")
        if (named := _NAMED_FIRST.fullmatch(stem)) and re.search(r" (?:of|for|to|in|between) ", named[1]):
            return WordedQuestion(
                f"{shape.before}What {named[2]} {choices.lower_start(named[1]).strip()}?", _make_stem(stem)
            )
        if _ASKABLE_END.search(named_by := re.sub(r" (?:an?|the)$", "", stem)):
            return WordedQuestion(f"{shape.before}{named_by} what?", _make_stem(stem))
        if stem.endswith(" to"):
            return WordedQuestion(f"{shape.before}{stem} do what?", _make_stem(stem))
    raise NotAskable("not_a_question", shape.last[-80:])


def _find_stem(shape: QuestionShape) -> str:
    """Returns the sentence that the answer completes, with `___` in its place; empty if there is none."""
    if shape.kind == "blank":
        return "" if BLANK.search(shape.before) else _make_stem(shape.last)
    return _make_stem(shape.last) if shape.kind == "stem" else ""


def _make_stem(sentence: str) -> str:
    """Returns an incomplete sentence with `___` in the place of the answer.

    Returns an empty text if it has several blanks, or refers to options ("these").
    """
    bare = re.sub(r"[\s:,;.\-–—…]+$", "", sentence)
    if not bare or re.search(r"(?i)\bfollowing\b|\bthese\b", bare):
        return ""
    pause = "," if question_shape.has_pause(sentence) else ""
    places = BLANK.findall(bare)
    if len(places) > 1:
        return ""
    return BLANK.sub("___", bare) if places else f"{bare}{pause} ___"


def _ask_true_or_false(text: str) -> str:
    """Returns a statement as a true-or-false question.

    Raises:
        NotAskable: it is not one statement.
    """
    text = re.sub(r"(?i)^(?:True or false|T/F)\s*[:?.]\s*|\s*\(?True or false\)?\s*[?.]?$", "", text)
    if re.search(r"\bStatement (?:1|one|I)\b|\|", text):
        raise NotAskable("needs_options", text[:80])
    if text.endswith("?"):
        return f"{text} True or false?"
    return f"True or false: {choices.lower_start(text.rstrip(' .:'))}."


def make_open_question(text: str) -> str | None:
    """Returns a question without references to its options ("which of the following").

    Returns None if such a reference is left, or if the question would then have many answers.
    """
    points = _WHICH_OF.search(text) is not None
    made = _WHICH_OF.sub(_rewrite_which, text)
    if _STILL_POINTS.search(made) or (points and not _UNIQUE.search(made)):
        return None
    return made


def _rewrite_which(match: re.Match[str]) -> str:
    """Makes "what is …" of "which of the following is …", "which city is …" of "which of the following cities is …".

    Returns the text as it is if the singular is unknown, so that the question still refers to its options.
    """
    start, between, noun, verb, only = match.groups()
    first = (only or between or noun).split()[0].lower()
    if first in _VERBISH:
        return f"{'What' if start == 'W' else 'what'} {only or between + noun}"
    if only:
        return f"{start}hich {only}"
    asked = noun if _is_plural_verb(verb) else find_singular(noun)
    return match[0] if asked is None else f"{start}hich {between}{asked}"


def _is_plural_verb(verb: str) -> bool:
    """Returns whether a verb has a plural subject ("are", "cause")."""
    return verb in {"are", "were", "have", "do"} or f"{verb}s" in _VERBISH
