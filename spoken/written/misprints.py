"""Letters that a scanner misread, and words that lost one, put right where one reading is left."""

import re
from typing import Final

from spoken.segments import is_frequent
from spoken.vocabulary import is_word, parted
from spoken.written.rewrite import Rewrite, rewrite
from spoken.written.traced import Traced

_MISREAD: Final = (
    ("m", "rn"), ("rn", "m"), ("nun", "mm"), ("i", "l"), ("l", "i"), ("f", "l"), ("l", "t"), ("i", "r"), ("h", "n"),
    ("d", "o"), ("c", "e"), ("e", "c"), ("o", "c"), ("d", "cl"), ("cl", "d"),
)  # fmt: skip
"""What a scanner reads for what is printed."""

_UNKNOWN: Final = re.compile(r"(?<![\w'\\^_{$.-])[a-z]{6,20}(?![\w'^_}(-]|\.[a-z])")
"""Shorter ones are terms and names too often: "pili", "sinh"."""

_DONE: Final = "perform(?:s|ed)?|do|does|did|done|work(?:s|ed)?|function(?:s|ed)?|fare[sd]?|learn(?:s|ed)?"
_COMPARED: Final = r"(?=[^.?!;]{0,60} than\b)"

MISPRINTS: Final[tuple[Rewrite, ...]] = (
    rewrite("may be",
            r"(?<=[a-z]{3} )(?<!was )(?<!are )(?<!were )(?<!been )(?<!and )(?<!had )(?<!has )(?<!have )"
            r"maybe(?= (?:[a-z]{4,}ed|found|given|taken|written|drawn|shown)\b)", "may be",
            "heat maybe found, or was maybe found", "heat may be found, or was maybe found"),
    rewrite("better", rf"\b({_DONE}) beer\b{_COMPARED}", r"\1 better",
            "they worked beer in May than in June, and drank more beer than ale",
            "they worked better in May than in June, and drank more beer than ale"),
    rewrite("is after a bracket", r"(?<=\) )s (?=(?:defined|given|described|determined|represented|called) )", "is ",
            "a path (y > 0) s given by", "a path (y > 0) is given by"),
    rewrite("and or", r"\band[l1I|]or\b", "and or", "pikes andlor carps", "pikes and or carps"),
    rewrite("absolute pressure", r"(?<=\d) ?pisa\b", " psia", "at 14.7pisa in Pisa", "at 14.7 psia in Pisa"),
    rewrite("carried out",
            r"\b(experiments?|tests?|works?|operations?|is|are|was|were|been) preformed(?= on\b)", r"\1 performed",
            "a test preformed on it, a preformed lid", "a test performed on it, a preformed lid"),
    rewrite("horsepower", r"(?<=\d) ?[Hh]\. ?[Pp]\.(?= [a-z]|[,;)])", " hp", "a 5 h.p. motor", "a 5 hp motor"),
    rewrite("horsepower at an end", r"(?<=\d) ?[Hh]\. ?[Pp]\.(?= [A-Z]|$)", " hp.",
            "It has 5 H. P. It runs.", "It has 5 hp. It runs."),
    rewrite("melting or boiling point",
            r"(?<![\w.])([mb])\. ?p\.(?= (?:[-<>=~(]|\d|of |is |very |high |low |above |below ))",
            lambda m: f"{'melting' if m[1] == 'm' else 'boiling'} point", "(m.p. 50°, b.p. above 90°)",
            "(melting point 50°, boiling point above 90°)"),
)  # fmt: skip
"""Words that lost a letter, by what stands beside them, and short forms with dots that end no sentence."""


def as_printed(text: Traced) -> Traced:
    """Words that no dictionary has with the letters that a scanner misread: "attomey"."""
    return text.sub(_UNKNOWN, lambda match: _printed(match[0]))


def _printed(word: str) -> str:
    """The one frequent word from which a scanner makes the unknown one; the word itself where there is none."""
    if is_word(word) or len(parted(word, is_broken=True)) > 1:
        return word
    found = {
        candidate
        for wrong, right in _MISREAD
        for at in range(len(word) - len(wrong) + 1)
        if word.startswith(wrong, at)
        and is_frequent(candidate := word[:at] + right + word[at + len(wrong) :])
        and is_word(candidate)
    }
    return found.pop() if len(found) == 1 else word
