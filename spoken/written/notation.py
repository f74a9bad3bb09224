"""Forms of layout, units and formulas that are written in several ways, made one before any rule reads them."""

from typing import Final

from spoken.written.rewrite import Rewrite, rewrite

_EVENT: Final = (
    r"(?<![\w\\])P(?:r|rob)?(?:\(|\[) ?((?:\|[^|()]{1,20}\|)?"
    r"(?=[^()\[\],|]{0,30}[=<>≤≥≠])(?:[^()\[\],|]|\([^(),]{1,8}\)){1,40}?) ?[)\]]"
)
"""The probability of an event that is told as an equation: "P(X = 3)"."""

_VARIABLE: Final = r"(?:(?<![A-Za-z])[A-Za-z]{1,2}(?:_\{?\w+\}?)?|\)) ?= ?"

NOTATION: Final[tuple[Rewrite, ...]] = (
    rewrite("several spaces", r"[^\S\n]{2,}", " ", "a  lake", "a lake"),
    rewrite("blank in pieces", r"_(?: _)+", "____", "Pikes are _ _ _ here", "Pikes are ____ here"),
    rewrite("dots inside a sentence", r"(?<=[a-z]{2})&? ?(?:\. ?){3,}(?=[a-z]{2})", ", ",
            "roads . . . lead here", "roads, lead here"),
    rewrite("dots at its end", r"(?<=[a-z]{2})&? ?(?:\. ?){3,}(?=[A-Z][a-z])", ". ",
            "It was late....Then she left", "It was late. Then she left"),
    rewrite("degrees apart", r"(?<=\d)° ([CFK])\b(?! (?:major|minor|sharp|flat))", r"°\1", "20° C", "20°C"),
    rewrite("degrees in words", r"(?<=\d) ?(?:degrees?|deg\.?) ([CF])\b(?! (?:major|minor|sharp|flat))", r"°\1",
            "70 degrees F or 9 deg. C", "70°F or 9°C"),
    rewrite("sums with their names", r"(\$\d[\d,.]*) (?=[A-Z][a-z]+(?:'s)?(?: [a-z]+){0,8} \$\d)", r"\1, ",
            "Rent $800 Wages $90", "Rent $800, Wages $90"),
    rewrite("emphasis",
            r"(?<![\w\\*)])(?<![\d)=] )\*((?:[A-Za-z]{2,}|[A-Za-z](?= [a-z]{2}))(?:[ -][A-Za-z']+){0,5})\*(?![\w*(])"
            r"|(?<![\w\\])_(?=\w)((?:[A-Za-z]{2,})(?: [a-z]+){0,4})_(?!\w)",
            lambda m: m[1] or m[2], "an *a priori* rule is _ad hoc_", "an a priori rule is ad hoc"),
    rewrite("product of two letters",
            rf"({_VARIABLE}\d*)(?=.?[AEIOU]|X[VL])([A-Z])(?!\2)([A-Z])(?![A-Za-z\d'(])", r"\1\2 \3",
            "P = IV, and P = 2IV", "P = I V, and P = 2I V"),
    rewrite("mass times acceleration", r"(?<== )ma(?![\w'(])|(?<![\w'])ma(?= ?= ?[A-Z](?![A-Za-z]))", "m a",
            "By F = ma, it falls", "By F = m a, it falls"),
    rewrite("probability that is given", rf"{_EVENT} ?= ?", r"the probability that \1 is ",
            "P(X = 3) = 0.2", "the probability that X = 3 is 0.2"),
    rewrite("probability", _EVENT, r"the probability that \1", "Find P(X > 3).", "Find the probability that X > 3."),
)  # fmt: skip
