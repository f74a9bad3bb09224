"""Sentences that lost the mark between them, or have one inside: where a pause or an end belongs."""

import re
from typing import Final

from pipelines.script.rewrites import Rewrite, rewrite

_ORDERS: Final = "Assume|Calculate|Find|Determine|Estimate|Compute|Evaluate"
_ORDERED: Final = rf"(?=(?:{_ORDERS}) (?:the|that|its|their|for|an?|what|how|\d[\d.,]*) ?\w)"
_NO_LABEL: Final = r"(?<![( ][A-Za-z\d]\))(?<!^[A-Za-z\d]\))(?<![a-z] [A-Za-z\d]\))"
_NO_SHORT_FORM: Final = r"(?<=[a-z]{4})(?<!\bdept)(?<!\buniv)"
_OPENED_QUOTE: Final = re.compile(r"(?:^|[\s(])'\w")


def _possessive(match: re.Match[str]) -> str:
    """ "Mr. Atlas' car"; after an opening quote the mark may close it."""
    return match[0] if _OPENED_QUOTE.search(match.string[: match.start()]) else f"{match[1]}'s"


SENTENCES: Final[tuple[Rewrite, ...]] = (
    rewrite("line of an author", r"((?:^|\n) ?— ?[A-Z][^\n]{2,200}[^\s.?!:;,]) *\n\s*(?=[A-Z\"])", r"\1. ",
            "So be it.\n— Ann Lake, Old Pikes (1843)\nAnn says", "So be it.\n— Ann Lake, Old Pikes (1843). Ann says"),
    rewrite("order after a formula", rf"(?<=[A-Za-z\d)}}\]°]){_NO_LABEL} {_ORDERED}", ". ",
            "2H_2 + O_2 → 2H_2O Assume 3 g. Part (a) Find the rest.",
            "2H_2 + O_2 → 2H_2O. Assume 3 g. Part (a) Find the rest."),
    rewrite("stop before its definitions", r"\. (?=where (?:[a-zA-Z]\b|[a-zA-Z][_^])[^.]{0,20}=)", ", ",
            "k = 2m. where m = 5", "k = 2m, where m = 5"),
    rewrite("stop before a joining word",
            rf"{_NO_SHORT_FORM}\. (?=(?:(?:of|to(?= (?:the|an?)\b)|by|with|from|than|between|in|on|at|is|are|was|were)"
            r"|[a-z]{3,}ed by) [a-z])", " ", "the pikes. of a lake", "the pikes of a lake"),
    rewrite("stop before a joined clause", rf"{_NO_SHORT_FORM}\. (?=(?:and|or|but|which|who|because) [a-z])", ", ",
            "the pikes. and a carp", "the pikes, and a carp"),
    rewrite("row of shares", r"(?<=\d%) (?=[A-Z][a-z]+(?: [a-z]+){0,3} \d[\d.]*%)", ", ",
            "Ann 5% Ben 10% Cy 85%", "Ann 5%, Ben 10%, Cy 85%"),
    rewrite("end of a row of shares", r"(?<=\d%) (?=(?:On|In|At|During|The|If|Which|What) [A-Za-z]+ [a-z\d])", ". ",
            "Cy 85% On May 2 Ann left", "Cy 85%. On May 2 Ann left"),
    rewrite("possessive of a name",
            r"\b((?:Mr|Ms|Mrs|Dr)\.? [A-Z][a-z]*s|[A-Z][a-z]+(?:us|is|as))'(?= [a-z])", _possessive,
            "Mr. Reeves' car and Erasmus' books", "Mr. Reeves's car and Erasmus's books"),
)  # fmt: skip
"""Tried on lines as they are, before `layout.LINES` makes one line of them."""
