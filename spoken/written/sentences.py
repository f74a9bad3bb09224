"""Sentences that lost the mark between them, or have one inside: where a pause or an end belongs."""

import re
from typing import Final

from spoken.written.rewrite import Rewrite, rewrite

_ORDERS: Final = "Assume|Calculate|Find|Determine|Estimate|Compute|Evaluate"
_ORDERED: Final = rf"(?=(?:{_ORDERS}) (?:the|that|its|their|for|an?|what|how|\d[\d.,]*) ?\w)"
_NO_LABEL: Final = r"(?<![( ][A-Za-z\d]\))(?<!^[A-Za-z\d]\))(?<![a-z] [A-Za-z\d]\))"
_AFTER_FORMULA: Final = rf"(?:(?<=[\d}}\]°])|(?<=\d\))(?<!\(\d\d\)){_NO_LABEL}|(?<=\(t\))|(?<= [A-Za-z]\([a-z]\)))"
"""Right after a number or a bracket that is no label's."""

_NO_TITLE: Final = (
    r"(?<=[a-z]{2})(?<! of)(?<! in)(?<! or)(?<! and)(?<! by)(?<! to)(?<! as)(?<! is)(?<! the)(?<!titled)(?<!called)"
    r"(?<!essay)(?<! book)(?<!article)(?<!asked)(?<! asks)(?<!question)"
)
_ASKS: Final = (
    "What (?:is|are|was|were|will|would|should|does|do)|How (?:many|much|long|far|fast|does|do|is|are)"
    "|Which (?:of|is|are)|Why (?:is|are|does|do)|Who (?:is|was)"
)
_SUBJECTS: Final = "the|this|that|it|these|there|he|she|they"
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
    rewrite("question after a formula",
            rf"{_AFTER_FORMULA} (?=(?:Is|Are|Does|Do|Will|Can) (?:{_SUBJECTS}) [a-z])", ". ",
            "y = f(x) Is this curve steep? (ii) Is the", "y = f(x). Is this curve steep? (ii) Is the"),
    rewrite("question inside a line", rf"{_NO_TITLE} (?=(?:{_ASKS}|(?:{_ORDERS}) the) [a-z])", ". ",
            "blue pikes What is the cost of What is to be done", "blue pikes. What is the cost of What is to be done"),
    rewrite("sentence after a unit",
            r"((?:/|\d )(?:ft|[cm]?m|in)\^[23]) (?=(?:The|It|If|Its) [a-z])", r"\1. ",
            "3 lb/ft^3 The pikes", "3 lb/ft^3. The pikes"),
    rewrite("unit and equation",
            r"(°[CFR] ?|/(?:ft|[cm]?m|in)\^[23] )(?=[A-Za-zα-ωΔ](?:_\{?\w+\}?)? ?= ?[\d.])",
            lambda m: f"{m[1].rstrip()}, ",
            "2 lb/ft^3 k = 4 J/°Cn = 5", "2 lb/ft^3, k = 4 J/°C, n = 5"),
    rewrite("editor's word",
            r"(\b(?:[Tt]he|an?|[Oo]ur|their|his|her|its|my|your|of|to|has|have|had|not|is|are|was|were)|[a-z]'s)"
            r" \[([a-z]{4,})\](?= [a-z])", r"\1 \2",
            "our [main] wish, a pike [fish] and", "our main wish, a pike [fish] and"),
    rewrite("editor's small word",
            r"(?<=[a-z]{3} )\[(is|was|are|were|and|or|of|to|had|has|have|that|not|be|will|would)\](?= [a-z])", r"\1",
            "pikes [and] carps", "pikes and carps"),
    rewrite("list of values",
            r"(= ?\d[\d.,]*(?:\d ?| )(?:psi|psia|lb|lbs|percent|%|amperes|volts|ohms|watts|hp|rpm|ft|in\.|inches|feet))"
            r" (?=[A-Z][a-z]{2,}(?: [a-z]+){0,3} ?= ?\d)", r"\1, ",
            "Strain = 30 psi Pull = 5 lb", "Strain = 30 psi, Pull = 5 lb"),
    rewrite("stop before a closing bracket", r"(?<=[a-z\d])\.(?=\] [a-z])", "",
            "[x + 3y.] with it", "[x + 3y] with it"),
    rewrite("comma before its noun", r"([A-Z]_?\{?\d\}?), (?=solution\b)", r"\1 ",
            "an H_2SO_4, solution", "an H_2SO_4 solution"),
    rewrite("answers in a row", r"(?<=\d%) (?=\$\d[\d.,]*(?: [A-Za-z] ?=|$))", ", ",
            "30% $500 k = 4", "30%, $500 k = 4"),
    rewrite("sum and equation", r"(\$\d[\d.,]*\d|\$\d) (?=[A-Za-z] = ?\d)", r"\1, ",
            "30%, $500 k = 4", "30%, $500, k = 4"),
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
