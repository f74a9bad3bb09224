"""Rules of text normalisation, and how they access the text around a match."""

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
"""Number of characters that a rule sees on either side of its match; limited, so that time is linear in the text."""

_TOPIC: Final = 4000
"""Number of characters of a text that determine its topic."""


@dataclass(frozen=True, slots=True)
class NestedFormula:
    """A part of a match that is read by itself as a formula: an exponent, the bounds of an integral."""

    text: str


Saying = str | Sequence[str | NestedFormula]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one written form is read.

    Args:
        name: name in `benchmarks.readings --hits` and in failing tests.
        kind: kind of the token that it makes (see `spoken.formulas.tokens.Token`); or "rewrite": it changes the text
            before rules of other kinds are applied; "refused": it refuses the text; "nothing": it says nothing.
        pattern: what it reads, tried at each position of the text.
        reading: what is said, or written instead, of a match.
        example: a text to which it applies.
        expected: reading of the example; for a rewriting its result, for a refusal its reason.
    """

    name: str
    kind: str
    pattern: re.Pattern[str]
    reading: Callable[[Match], Saying]
    example: str
    expected: str

    def rewrite(self, text: TracedText) -> TracedText:
        """Returns the text with each match rewritten; the rule is recorded if there is a match."""
        made = text.sub(self.pattern, lambda match: str(self.reading(match)))
        if made is not text:
            record_fired_rule(self.name)
        return made


def make_rule(
    name: str, kind: str, pattern: str, reading: str | Callable[[Match], Saying], example: str, expected: str
) -> Rule:
    """Makes a rule; its `reading` is a function of the match, or a template as for `re.Match.expand`."""
    template = reading if isinstance(reading, str) else ""
    read = reading if callable(reading) else lambda match: match.expand(template)
    return Rule(name, kind, re.compile(pattern), read, example, expected)


def make_rewriting(name: str, pattern: str, new: str | Callable[[Match], str], example: str, becomes: str) -> Rule:
    """Makes a rule that replaces one written form by another."""
    return make_rule(name, "rewrite", pattern, new, example, becomes)


def make_refusal(name: str, reason: str, pattern: str, example: str) -> Rule:
    """Makes a rule that refuses a text, to prevent a wrong reading; the error has the match and some context."""

    def refuse(match: Match) -> str:
        raise Unspeakable(reason, match.string[max(0, match.start() - 15) : match.end() + 15])

    return Rule(name, "refused", re.compile(pattern), refuse, example, reason)


def apply_rewritings(text: TracedText, rules: Sequence[Rule]) -> TracedText:
    """Returns a text after all rewritings, which are applied in order."""
    for each in rules:
        text = each.rewrite(text)
    return text


_ABOUT: ContextVar[str] = ContextVar("what a text is about", default="")


@contextmanager
def use_topic(text: str) -> Iterator[None]:
    """Adds a text to the topic of all texts that are read in a `with` block; a nested block replaces it.

    The topic of a short text, such as an option, decides how it is read: whether "30 C" are degrees.
    """
    token = _ABOUT.set(text[:_TOPIC])
    try:
        yield
    finally:
        _ABOUT.reset(token)


def get_topic(match: Match) -> str:
    """Returns the text that decides how a match is read: its own text and that of `use_topic`, limited in length."""
    topic = _ABOUT.get()
    return f"{match.string[:_TOPIC]}\n{topic}" if topic else match.string[:_TOPIC]


_FIRED: ContextVar[set[str] | None] = ContextVar("rules that fired", default=None)


@contextmanager
def record_fired_rules() -> Iterator[set[str]]:
    """Yields a set, to which the names of all rules are added that read, rewrite or refuse something in the block.

    Readings of signs are added too, such as "+ as 'plus'". Inside a nested block, only the set of that block grows.
    """
    fired = set[str]()
    token = _FIRED.set(fired)
    try:
        yield fired
    finally:
        _FIRED.reset(token)


def record_fired_rule(name: str) -> None:
    """Adds the name of a rule to the set of the innermost active `record_fired_rules` block, if there is one."""
    if (fired := _FIRED.get()) is not None:
        fired.add(name)


_STARTERS: Final = re.compile(
    r" (?:The|An?|In|If|What|Which|Who|Whose|How|When|Where|Why|It|Its|This|That|These|Those|He|She|They|We|You|Your"
    r"|His|Her|Their|There|Is|Are|Was|Were|Do|Does|Did|Can|Should|Will|Assume|Assuming|Suppose|Find|Calculate|Determine"
    r"|Compute|Under|For|At|On|After|Before|During|By|From|Since|Although|However|Today|Then|Each|All|Two|One|As|To"
    r"|Estimate|Given|Let|Consider|Use|Using|But|And|So)(?=[ ']|’)"
)


def starts_sentence(text: str) -> bool:
    """Returns whether a text begins with a space and a word that typically begins sentences."""
    return _STARTERS.match(text) is not None


def get_text_before(match: Match) -> str:
    """Returns the text before a match, at most 60 characters."""
    return match.string[max(0, match.start() - _SEEN) : match.start()]


def get_text_after(match: Match) -> str:
    """Returns the text after a match, at most 60 characters."""
    return match.string[match.end() : match.end() + _SEEN]
