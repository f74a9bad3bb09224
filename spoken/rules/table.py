"""The order in which all rules of reading are tried at each place of a text; the first that matches reads it."""

import re
from typing import Final

from spoken.formulas.operators import OPERATORS
from spoken.rules.chemistry import CHEMISTRY_RULES, ISOTOPE_RULES
from spoken.rules.maths import MATHS_RULES
from spoken.rules.money import MONEY_RULES
from spoken.rules.quantities import QUANTITY_RULES
from spoken.rules.rule import Match, Rule, after, before, refusal, rule
from spoken.rules.shorthand import SHORTHAND_RULES
from spoken.rules.words import WORD_RULES
from spoken.spoken_text import Unspeakable


def _strongest(match: Match) -> str:
    return next(mark for mark in "?!.;:," if mark in match[0])


_BEFORE_OPERAND: Final = r"[ (/=×*+-]"
_AFTER_OPERAND: Final = (
    "(?:" + "|".join(rf"(?<={start}{operand})" for start in ("^", _BEFORE_OPERAND)
                     for operand in (r"\d", r"\d\d", r"\d{3}", "[b-hj-z]")) + ")"
)  # fmt: skip
"""Right after a number of at most three digits, of which no sum or time of day can be the end, or a small letter."""

_OF_FACTORIALS: Final = re.compile(r"(?i)\b(?:factorials?|value|comput\w+|calculat\w+|evaluat\w+|factors?|digits?"
                                   r"|permutations?|divid\w+)\b|[a-z\d]! ?[-+*/=×]")  # fmt: skip


_ASKED_OR_ALONE: Final = re.compile(r"(?:^|[?:] |\b[Ww]hat(?: is|'s) |\b[Ii]t(?: is|'s) |\banswer is |[=] ?)[\dn]+$")
_EXCLAIMS: Final = re.compile(
    r"\b(?:I|[Ww]e|[Yy]ou|[Hh]e|[Ss]he|[Tt]hey|[A-Z][a-z]+) (?:\w+ed|won|got|has|have|had|ate|sold|bought|made|found"
    r"|lost|gave|needs?|wants?|only|just|saw|read) (?:(?:only|just|all|over|up) )?\d+$"
)
"""A number before "!" that is asked for or stands alone, and one that somebody won or has."""


def _mark_or_factorial(match: Match) -> str:
    """A number or letter with "!" at the end of a sentence: a factorial in maths, else it may be either."""
    if _ASKED_OR_ALONE.search(before(match)):
        return "factorial."
    if _EXCLAIMS.search(before(match)):
        return "!"
    is_denominator = re.search(r"[/=×*+][a-z]$", before(match)) is not None
    if is_denominator or _OF_FACTORIALS.search(before(match)) or _OF_FACTORIALS.search(after(match)):
        return "factorial."
    raise Unspeakable("formula", before(match)[-10:] + match[0])


_FIRST: Final[list[Rule]] = [
    rule("word", r"(?<!\w)_{2,}(?!\w)|\.{5,}|(?:^|(?<= ))_(?= (?![*=+])| ?[.;?])", "blank"),
    refusal("symbol", r"\?{3,}"),
    rule("word", r"(?<=[=/] )\?(?= )|\?(?= ?[/=])|(?<=[a-z] )\?(?= [a-z]{2})", "what"),
]
_LAST: Final[list[Rule]] = [
    refusal("formula", r"(?<=\d)!!|(?<=[a-z)])(?<![A-Za-z]{2})!!(?= ?[-+*/=×)^,<>a-z])"),
    rule("suffix", r"(?<=[\dA-Za-z)])(?<![A-Za-z]{2})!(?= ?[-+*/=×÷)^,<>]|\()", "factorial"),
    rule("suffix", r"(?:(?<=\d\))|(?<=[ (+-][a-z]\)))!(?=\?|[.;:]| [a-z])", "factorial"),
    rule("suffix", rf"{_AFTER_OPERAND}!(?=\?| ?[.;:](?!\.)| [a-z\d])", "factorial"),
    rule("mark", rf"(?:{_AFTER_OPERAND}|(?<=\d\))|(?<=[ (+-][a-z]\)))!(?!!)", _mark_or_factorial),
    rule("variable", r"(?<=\d)x(?=\d)", "x"),
    rule(
        "operator",
        r"(?<=[,+*×<] )\.\.\.(?= ?\.? ?(?:[,+*×<)}\]]|[a-z\d](?![a-z])|$))|--+",
        lambda m: "…" if "." in m[0] else "—",
    ),
    rule("operator", f"[{re.escape(OPERATORS)}]", lambda m: m[0]),
    rule("open", r"[(\[{]", lambda m: m[0]),
    rule("close", r"[)\]}]", lambda m: m[0]),
    rule("mark", r"[,.;:?!]+", _strongest),
    rule("nothing", r"[\"']", ""),
]

RULES: Final[list[Rule]] = [
    *_FIRST, *SHORTHAND_RULES, *MONEY_RULES, *MATHS_RULES[:-3], *ISOTOPE_RULES, *QUANTITY_RULES,
    *CHEMISTRY_RULES, *MATHS_RULES[-3:], *WORD_RULES, *_LAST,
]  # fmt: skip
"""Money before formulas, formulas before plain numbers, and words after all that is made of letters and digits."""
