"""How an answer is said aloud: the last step and the number where the item explains itself, else the option's text."""

import random
import re
from dataclasses import dataclass
from typing import Final

from data_schemas.records import Item
from pipelines.script.choices import lower_start, signed
from pipelines.script.numerals import year
from pipelines.script.refusals import refers_to_options
from pipelines.script.speakable import Unspeakable, read_aloud
from pipelines.script.spoken import Spoken, joined, last_place, spoken_words, word_set

_CONCLUSIONS: Final = ("The answer is {answer}.", "So the answer is {answer}.", "So that makes {answer}.",
                       "That makes {answer}.", "So it's {answer}.")  # fmt: skip
_SHORT: Final = ("That would be {answer}.", "The answer is {answer}.", "It's {answer}.", "That's {answer}.")
_LONG: Final = ("The answer is: {answer}.", "The right one is: {answer}.")
_SEVERAL: Final = re.compile(r"^[^,.;]+, [^,.;]+, (?:and )?[^,.;]+")
"""An answer of several things, which no "one" is said of."""

_NUMBERING: Final = (["the", "first", "is"], ["part", "one"])
"""Words before the first of several answers that tell nothing of it."""

_NOUN_STARTS: Final = word_set("the a an its their his her your my our one two three")
_BARE_STARTS: Final = word_set(
    "yes no none all both only statement statements because by to in on at from with for through when if during after "
    "before as it they he she there this that these we you i since while although under within into about whether "
    "where so not"
)
_FINITE: Final = re.compile(
    r"\b(?:is|are|was|were|will|would|can|could|may|might|must|should|has|have|had|does|do|did|cannot|\w+n't)\b"
)
_SHORT_SENTENCE: Final = re.compile(
    r"(?:[Tt]he |[Tt]here |[Ii]t |[A-Z])(?:(?!who|that|which|where|when|what|how|whose)\w+ ){0,2}"
    r"(?:is|are|was|were|has|have|will|can|cannot|does|did) \w"
)
"""A sentence of three or four words: "the shares are equal"."""

_MAX_SHORT_WORDS: Final = 4
_SENTENCE_WORDS: Final = 5
_VOWELS: Final = frozenset("aeio")
_MAX_STEM_WORDS: Final = 20
_WHOLE_SENTENCES: Final = 0.4
"""Share of completions answered by the whole sentence."""
_MONEY: Final = "$£€"
_NUMBER: Final = r"(?<![\w.,])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_MEASURES: Final = word_set(
    "seconds minutes hours days weeks months years inches feet yards miles meters kilometers centimeters ounces pounds "
    "grams kilograms tons liters milliliters gallons cups dollars cents degrees"
)
_AREAS: Final = "feet|foot|ft|inches|inch|in|c?m|mm|km|(?:centi|milli|kilo)?meters?|yards?|miles?"
_IN_SHORT: Final = rf"(?:square|cubic|sq\.?|cu\.?) ?(?:{_AREAS})|min|mins|hrs?|ml|lbs?|oz|kg|cm|mm|km|mph|ft"
_UNIT: Final = re.compile(
    rf"(?P<whole> ?(?P<short>{_IN_SHORT})\b(?![/-])| (?P<counted>[a-z]+)\b(?!-)(?: ?(?:per|/) ?(?:an? )?[a-z]+)?)"
    r"(?P<more> (?:and|or|&) [a-z]+)?"
)
"""What follows a number: a unit in short or with "square", or a word, which may be a rate: "miles per hour"."""

_PLURAL: Final = re.compile(
    r"(?!(?:does|is|was|has|less)\b)[a-z]*s|people|(?:grand)?children|(?:wo)?men|[a-z]*fish|sheep|deer|geese|mice|teeth"
)
"""What a number counts, as far as it shows; "seven green" of "seven green frogs" would be no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A spoken answer and the index of its first word that bears the answer."""

    said: Spoken
    word_index: int


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer of an item that explains itself: with its last step where that can be said, and alone."""

    full: Answer
    short: Answer
    step: Spoken | None


def conclude(answer: str, last_line: str, question: str) -> str | None:
    """The final number with its money sign, percent sign, unit or counted thing, as the reasoning's last line has it.

    None where that line does not have the number, or has it in another currency than the question.
    """
    number = answer.strip().lstrip("$").rstrip(".")
    same = [found for found in re.finditer(_NUMBER, last_line) if _same(found[0], number)]
    if not same or ("$" in last_line and "$" not in question and re.search("[£€]", question)):
        return None
    because = last_line.rfind(" because ")
    stated = [found for found in same if found.end() <= because]
    places = [same[-1], *stated[-1:]]
    return next((full for each in places if (full := _of_what(number, last_line, each, question)) != number), number)


def _of_what(number: str, line: str, found: re.Match[str], question: str) -> str:
    """The number with what it counts or measures at one place of the line; alone where that cannot be told."""
    before, after = line[: found.start()].rstrip(), re.sub(r"^\.?0*", "", line[found.end() :])
    if before and before[-1] in _MONEY:
        return f"{before[-1]}{number}"
    if re.match(r" ?%", after) or re.search(r"(?i)\bwhat percent(?:age)?\b", question):
        return f"{number}%"
    if re.match(r" ?\$(?! ?\d)", after):
        return f"${number}"
    unit = _UNIT.match(after)
    if unit is None or (unit["counted"] == "years" and re.search(r"(?i)\bhow old\b", question)):
        return number
    counted = unit["counted"] or ""
    if unit["short"] or counted in _MEASURES or (_is_asked_for(counted, question) and not unit["more"]):
        return f"{number} {unit['whole'].strip()}"
    return f"{number} {counted}" if _same(number, "1") and f"{counted}s" in _MEASURES else number


def _is_asked_for(counted: str, question: str) -> bool:
    """Whether a question "how many apples" asks for these, or a "how much" leaves open what is counted."""
    asked = re.findall(r"how (?:many|much)(?: more| fewer| less| total)? ([a-z]+)\b(?! (?:and|or)\b)", question.lower())
    is_open = re.search(r"(?i)\bhow much\b[^?]*\?\s*$", question) is not None
    return _PLURAL.fullmatch(counted) is not None and (is_open or counted in asked[-1:])


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


def explained(item: Item, max_words: int, rng: random.Random) -> Explained:
    """The spoken answers of an item that explains itself.

    The last step is said first where it can be said, leads to the answer, and leaves room for it in `max_words`; else
    the answer stands alone: the step is an ornament, the answer is not.

    Raises:
        Unspeakable: the answer itself cannot be said.
    """
    written_step = last_step(item.explanation or "")
    concluded = conclude(item.answer, written_step, item.question)
    shown = as_said(concluded or item.answer, item.question)
    conclusion, short = _framed(rng.choice(_CONCLUSIONS), shown), _framed(rng.choice(_SHORT), shown)
    step = None
    if concluded is not None and not _ends_otherwise(written_step, item.answer):
        step = _sayable_step(written_step)
    if step is None or step.n_words + conclusion.said.n_words > max_words:
        return Explained(short, short, None)
    at = _place_in(step, [shown, item.answer])
    if at is None:
        at = step.n_words + conclusion.word_index
    return Explained(Answer(joined([step, conclusion.said]), at), short, step)


def _ends_otherwise(step: str, answer: str) -> bool:
    """Whether the step comes out at another number than the answer, as a few rows do."""
    result = re.findall(_NUMBER, step[step.rfind("=") + 1 :]) if "=" in step else []
    return bool(result) and not any(_same(each, answer.strip().lstrip("$")) for each in result)


def _place_in(step: Spoken, answers: list[str]) -> int | None:
    """Where the step says one of the answer's wordings: before its "because", else for the last time."""
    said = spoken_words(step.text)
    stated = said[: said.index("because")] if "because" in said else []
    for answer in answers:
        wanted = spoken_words(read_aloud(answer).text)
        for words in (stated, said):
            if (at := last_place(wanted, words)) is not None:
                return at
    return None


def _sayable_step(written: str) -> Spoken | None:
    """The step as a sentence; None where it cannot be said, or only with its brackets."""
    try:
        step = read_aloud(re.sub(r"[\s.:,;]*$", "", written) + ".")
    except Unspeakable:
        return None
    return None if "parenthesis" in step.text else step


def _framed(frame: str, answer: str) -> Answer:
    """The answer starts where the words of the frame, all plain ones, leave off, and those that only number it."""
    said, at = read_aloud(frame.format(answer=answer)), len(spoken_words(frame.partition("{")[0]))
    words = [word.lower() for word in spoken_words(said.text)]
    numbered = (each for each in _NUMBERING if words[at : at + len(each)] == each and len(words) > at + len(each))
    return Answer(said, at + len(next(numbered, [])))


def of_option(option: str, stem: str, rng: random.Random) -> Answer:
    """An option's text as a spoken answer; at times the whole sentence that it completes.

    Args:
        stem: the unfinished sentence, `___` where the option goes; empty where there is none.

    Raises:
        Unspeakable: the option cannot be said.
    """
    if stem and len(stem.split()) <= _MAX_STEM_WORDS and rng.random() < _WHOLE_SENTENCES:
        before, _, after = stem.partition("___")
        goes_in = lower_start(_bare(option))
        if goes_in[:1] in _VOWELS:
            before = re.sub(r"\b([Aa]) $", r"\1n ", before)
        whole = read_aloud(f"{before}{goes_in}{after.rstrip()}.")
        if not before.strip():
            return Answer(whole, 0)
        head = read_aloud(before)
        if spoken_words(whole.text)[: head.n_words] == spoken_words(head.text):
            return Answer(whole, head.n_words)
    return alone(option, bool(stem), rng)


def alone(option: str, completes: bool, rng: random.Random) -> Answer:
    """An option's text as a spoken answer that stands by itself.

    A completion, a sentence of its own, a phrase such as "by heating" or one written with a capital is said as it is; a
    few words or a number get a frame; anything else follows a colon, where any form of words may stand.

    Raises:
        Unspeakable: the option cannot be said.
    """
    text = _bare(option)
    if text.lower() in {"true", "false"}:
        return _framed("That's {answer}.", text.lower())
    words = text.split()
    first = words[0].lower().strip(",") if words else ""
    is_capital = text[:1].isupper() and first not in _NOUN_STARTS
    is_sentence = len(words) >= _SENTENCE_WORDS and _FINITE.search(text) is not None
    is_sentence |= _SHORT_SENTENCE.match(text) is not None
    if completes or first in _BARE_STARTS or is_sentence or (is_capital and len(words) > 2):
        return _framed("{answer}.", f"{text[:1].upper()}{text[1:]}")
    frame = rng.choice(_SHORT if len(words) <= _MAX_SHORT_WORDS else _LONG)
    return _framed(_LONG[0] if frame == _LONG[1] and _SEVERAL.search(text) else frame, lower_start(text))


def _bare(option: str) -> str:
    return signed(re.sub(r"[\s.;,:]+$", "", option.strip()))


def as_noun_phrase(option: str) -> str | None:
    """An option of a few words as it stands in "Isn't it …?"; None where it is a sentence or too long for that."""
    text = _bare(option)
    words = text.split()
    if not 1 <= len(words) <= _MAX_SHORT_WORDS or _FINITE.search(text) or re.search(r"[,;:]\s", text):
        return None
    first = words[0].lower()
    if (
        first in _BARE_STARTS
        or first in {"true", "false", "all", "none", "neither", "either"}
        or refers_to_options(text)
    ):
        return None
    return lower_start(text)
