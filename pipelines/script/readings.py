"""The order in which all rules of reading are tried at each place of a text; the first that matches reads it."""

import re
from typing import Final

from pipelines.script.chemistry import CHEMISTRY_RULES
from pipelines.script.formulas import OPERATORS
from pipelines.script.maths import MATHS_RULES
from pipelines.script.money import MONEY_RULES
from pipelines.script.quantities import QUANTITY_RULES
from pipelines.script.rule import Match, Rule, refusal, rule
from pipelines.script.words import WORD_RULES


def _strongest(match: Match) -> str:
    return next(mark for mark in "?!.;:," if mark in match[0])


_FIRST: Final[list[Rule]] = [
    rule("word", r"(?<!\w)_{2,}(?!\w)|\.{5,}|(?<= )_(?= )", "blank"),
    refusal("symbol", r"\?{3,}"),
    rule("word", r"(?<=[=/] )\?(?= )|\?(?= ?[/=])", "what"),
]
_LAST: Final[list[Rule]] = [
    rule("suffix", r"(?<=[\dA-Za-z)])(?<![A-Za-z]{2})!(?= ?[-+*/=×)^,<>]|\()", "factorial"),
    rule("variable", r"(?<=\d)x(?=\d)", "x"),
    rule(
        "operator",
        r"(?<=[,+*×<] )\.\.\.(?=\.? ?(?:[,+*×<)}\]]|[a-z\d](?![a-z])|$))|--+",
        lambda m: "…" if "." in m[0] else "—",
    ),
    rule("operator", f"[{re.escape(OPERATORS)}]", lambda m: m[0]),
    rule("open", r"[(\[{]", lambda m: m[0]),
    rule("close", r"[)\]}]", lambda m: m[0]),
    rule("mark", r"[,.;:?!]+", _strongest),
    rule("nothing", r"[\"']", ""),
]

RULES: Final[list[Rule]] = [
    *_FIRST, *MONEY_RULES, *MATHS_RULES[:-3], *CHEMISTRY_RULES[:5], *QUANTITY_RULES, *CHEMISTRY_RULES[5:],
    *MATHS_RULES[-3:],
    *WORD_RULES, *_LAST,
]  # fmt: skip
"""Money before formulas, formulas before plain numbers, and words after all that is made of letters and digits."""
