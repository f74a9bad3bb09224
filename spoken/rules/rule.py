"""What a rule of reading is: the kind of token it makes, the pattern it tries at a place, and how the match is said."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from spoken.spoken_text import Unspeakable

Match = re.Match[str]
_SEEN: Final = 60
"""How far a rule looks to either side of its match; bounded so that reading takes time linear in the text."""

_TOPIC: Final = 4000
"""How much of a text tells what it is about."""


@dataclass(frozen=True, slots=True)
class Inner:
    """A part of a match that is read by itself, as a formula: an exponent, the bounds of an integral."""

    text: str


Saying = str | Sequence[str | Inner]
Rule = tuple[str, re.Pattern[str], Callable[[Match], Saying]]
"""Kind of the token (see `tokens.Token`; "nothing": said not at all), pattern tried at a position, its reading."""


def rule(kind: str, pattern: str, say: str | Callable[[Match], Saying]) -> Rule:
    """A rule whose reading is a function of the match, or always the same words."""
    return kind, re.compile(pattern), (say if callable(say) else lambda match: str(say))


def refusal(reason: str, pattern: str) -> Rule:
    """A rule that refuses the text, with what it found and a little around it."""

    def refuse(match: Match) -> str:
        raise Unspeakable(reason, match.string[max(0, match.start() - 15) : match.end() + 15])

    return "refused", re.compile(pattern), refuse


_ABOUT: ContextVar[str] = ContextVar("what a text is about", default="")


@contextmanager
def reading_about(text: str) -> Iterator[None]:
    """Within it, what a short text such as an option is about is told by this one too: whether "3h" are hours."""
    token = _ABOUT.set(text[:_TOPIC])
    try:
        yield
    finally:
        _ABOUT.reset(token)


def about() -> str:
    """What the text that is read is about, as `reading_about` tells; empty where nothing does."""
    return _ABOUT.get()


def topic(match: Match) -> str:
    """The text of a match with what it is about, bounded."""
    told = about()
    return f"{match.string[:_TOPIC]}\n{told}" if told else match.string[:_TOPIC]


_FIRED: ContextVar[set[str] | None] = ContextVar("rules that fired", default=None)


@contextmanager
def noting_rules() -> Iterator[set[str]]:
    """The names of all rules that read or rewrite something within it, as they do so."""
    fired = set[str]()
    token = _FIRED.set(fired)
    try:
        yield fired
    finally:
        _FIRED.reset(token)


def note(name: str) -> None:
    """Notes that a rule has read or rewritten something."""
    if (fired := _FIRED.get()) is not None:
        fired.add(name)


_STARTERS: Final = re.compile(
    r" (?:The|An?|In|If|What|Which|Who|Whose|How|When|Where|Why|It|Its|This|That|These|Those|He|She|They|We|You|Your"
    r"|His|Her|Their|There|Is|Are|Was|Were|Do|Does|Did|Can|Should|Will|Assume|Assuming|Suppose|Find|Calculate|Determine"
    r"|Compute|Under|For|At|On|After|Before|During|By|From|Since|Although|However|Today|Then|Each|All|Two|One|As|To"
    r"|Estimate|Given|Let|Consider|Use|Using|But|And|So)(?= )"
)


def starts_sentence(text: str) -> bool:
    """Whether a text after an abbreviation begins with a word that begins sentences."""
    return _STARTERS.match(text) is not None


def before(match: Match) -> str:
    """The text just before a match."""
    return match.string[max(0, match.start() - _SEEN) : match.start()]


def after(match: Match) -> str:
    """The text just after a match."""
    return match.string[match.end() : match.end() + _SEEN]
