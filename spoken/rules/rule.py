"""What a rule of reading is, and what a rule may ask of the text around its match."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from spoken.spoken_text import Unspeakable
from spoken.written.traced import TracedText

Match = re.Match[str]
_SEEN: Final = 60
"""How far a rule looks to either side of its match; bounded so that reading takes time linear in the text."""

_TOPIC: Final = 4000
"""How much of a text tells what it is about."""


@dataclass(frozen=True, slots=True)
class NestedFormula:
    """A part of a match that is read by itself, as a formula: an exponent, the bounds of an integral."""

    text: str


Saying = str | Sequence[str | NestedFormula]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one written form is read.

    Args:
        name: what `benchmarks.readings --hits` and a failing test call it.
        kind: of the token that it makes (see `spoken.formulas.tokens.Token`), or "rewrite": it changes the text before
            the rules of the other kinds go over it, "refused": it refuses the text, "nothing": it says nothing.
        pattern: what it reads, tried at each place of the text.
        reading: what is said, or written instead, of a match.
        example: a text in which it has a part.
        expected: what is said of the example; of a rewriting, what it makes of it; of a refusal, its reason.
    """

    name: str
    kind: str
    pattern: re.Pattern[str]
    reading: Callable[[Match], Saying]
    example: str
    expected: str

    def rewrite(self, text: TracedText) -> TracedText:
        """The text with each match rewritten."""
        made = text.sub(self.pattern, lambda match: str(self.reading(match)))
        if made is not text:
            record_fired_rule(self.name)
        return made


def make_rule(
    name: str, kind: str, pattern: str, reading: str | Callable[[Match], Saying], example: str, expected: str
) -> Rule:
    """A rule whose reading is a function of the match, or a template of it."""
    template = reading if isinstance(reading, str) else ""
    read = reading if callable(reading) else lambda match: match.expand(template)
    return Rule(name, kind, re.compile(pattern), read, example, expected)


def make_rewriting(name: str, pattern: str, new: str | Callable[[Match], str], example: str, becomes: str) -> Rule:
    """A rule that writes one form in place of another."""
    return make_rule(name, "rewrite", pattern, new, example, becomes)


def make_refusal(name: str, reason: str, pattern: str, example: str) -> Rule:
    """A rule that keeps a wrong reading out: it refuses the text, with what it found and a little around it."""

    def refuse(match: Match) -> str:
        raise Unspeakable(reason, match.string[max(0, match.start() - 15) : match.end() + 15])

    return Rule(name, "refused", re.compile(pattern), refuse, example, reason)


def apply_rewritings(text: TracedText, rules: Sequence[Rule]) -> TracedText:
    """The text after each rewriting, in their order."""
    for each in rules:
        text = each.rewrite(text)
    return text


_ABOUT: ContextVar[str] = ContextVar("what a text is about", default="")


@contextmanager
def use_topic(text: str) -> Iterator[None]:
    """Within it, what a short text such as an option is about is told by this one too: whether "30 C" are degrees."""
    token = _ABOUT.set(text[:_TOPIC])
    try:
        yield
    finally:
        _ABOUT.reset(token)


def get_topic(match: Match) -> str:
    """The text of a match with what `use_topic` tells of it, bounded."""
    told = _ABOUT.get()
    return f"{match.string[:_TOPIC]}\n{told}" if told else match.string[:_TOPIC]


_FIRED: ContextVar[set[str] | None] = ContextVar("rules that fired", default=None)


@contextmanager
def record_fired_rules() -> Iterator[set[str]]:
    """The names of all rules that read or rewrite something within it, as they do so."""
    fired = set[str]()
    token = _FIRED.set(fired)
    try:
        yield fired
    finally:
        _FIRED.reset(token)


def record_fired_rule(name: str) -> None:
    """Notes that a rule has read or rewritten something."""
    if (fired := _FIRED.get()) is not None:
        fired.add(name)


_STARTERS: Final = re.compile(
    r" (?:The|An?|In|If|What|Which|Who|Whose|How|When|Where|Why|It|Its|This|That|These|Those|He|She|They|We|You|Your"
    r"|His|Her|Their|There|Is|Are|Was|Were|Do|Does|Did|Can|Should|Will|Assume|Assuming|Suppose|Find|Calculate|Determine"
    r"|Compute|Under|For|At|On|After|Before|During|By|From|Since|Although|However|Today|Then|Each|All|Two|One|As|To"
    r"|Estimate|Given|Let|Consider|Use|Using|But|And|So)(?=[ ']|’)"
)


def starts_sentence(text: str) -> bool:
    """Whether a text after an abbreviation begins with a word that begins sentences."""
    return _STARTERS.match(text) is not None


def get_text_before(match: Match) -> str:
    """The text just before a match."""
    return match.string[max(0, match.start() - _SEEN) : match.start()]


def get_text_after(match: Match) -> str:
    """The text just after a match."""
    return match.string[match.end() : match.end() + _SEEN]
