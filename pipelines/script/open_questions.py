"""A question about "the following" opened up, so that it stands without its options."""

import re
from typing import Final

from spoken.spoken_text import word_set

_WHICH_OF: Final = re.compile(
    r"\b([Ww])hich (?:one )?(?:of|among|amongst) the following,?\s+"
    r"(?:((?:[\w-]+ ){0,3}?)([A-Za-z-]+[^\Wsui_]s)\b(?=\s+(?:(?:best|most|both|all) )?([A-Za-z]+))|([A-Za-z-]+))"
)
_VERBISH: Final = word_set(
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
"""Words that leave one thing to name, of all there are."""

_STILL_POINTS: Final = re.compile(
    r"(?i)\bwhich of (?:the following|these|those)\b|\b(?:of|is|are|by|as|among) the following\b(?! (?:\w+ )*:)"
)


def opened(text: str) -> str | None:
    """The question asked of anything there is, instead of "the following"; None where that would ask for too much."""
    points = _WHICH_OF.search(text) is not None
    made = _WHICH_OF.sub(_open_which, text)
    if _STILL_POINTS.search(made) or (points and not _UNIQUE.search(made)):
        return None
    return made


def _open_which(match: re.Match[str]) -> str:
    """ "Which of the following is ..." asks what; "which of the following gases is ..." asks which gas."""
    start, between, noun, verb, only = match.groups()
    first = (only or between or noun).split()[0].lower()
    if first in _VERBISH:
        return f"{'What' if start == 'W' else 'what'} {only or between + noun}"
    if only:
        return f"{start}hich {only}"
    return f"{start}hich {between}{noun if _is_of_several(verb) else _singular(noun)}"


def _is_of_several(verb: str) -> bool:
    """Whether a verb tells of several things: "are", "provide"."""
    return verb in {"are", "were", "have", "do"} or f"{verb}s" in _VERBISH


def _singular(noun: str) -> str:
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    if re.search(r"(?:x|ch|sh|ss)es$", noun):
        return noun[:-2]
    return noun[:-1] if re.search(r"[^sui]s$", noun) else noun
