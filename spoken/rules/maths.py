"""Rules for powers, indexes, functions, roots, sums and integrals, which contain nested formulas."""

import re
from typing import Final

from spoken.rules.numerals import spell_cardinal, spell_power
from spoken.rules.rule import (
    Match,
    NestedFormula,
    Rule,
    Saying,
    get_text_after,
    get_text_before,
    make_refusal,
    make_rule,
)
from spoken.spoken_text import Unspeakable

GREEK: Final = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "ksi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "ς": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "gamma",
    "Δ": "delta", "Θ": "theta", "Λ": "lambda", "Ξ": "ksi", "Π": "pi", "Σ": "sigma", "Φ": "phi", "Ψ": "psi",
    "Υ": "upsilon",
    "Ω": "omega", "∞": "infinity", "ℏ": "h bar", "ℓ": "l", "Å": "angstroms", "∅": "the empty set", "ℝ": "R",
    "ℤ": "Z", "ℕ": "N", "ℚ": "Q", "ℂ": "C",
}  # fmt: skip
_FUNCTIONS: Final = {
    "sinh": "hyperbolic sine", "cosh": "hyperbolic cosine", "tanh": "hyperbolic tangent", "arcsin": "arc sine",
    "arccos": "arc cosine", "arctan": "arc tangent", "sin": "sine", "cos": "cosine", "tan": "tangent",
    "cot": "cotangent", "csc": "cosecant", "sec": "secant", "log": "log", "ln": "the natural log",
    "Log": "log", "Ln": "the natural log",
}  # fmt: skip
CALLED_FUNCTIONS: Final = {
    **_FUNCTIONS, "exp": "the exponential", "max": "the maximum", "min": "the minimum", "sup": "the supremum",
    "inf": "the infimum", "det": "the determinant", "dim": "the dimension", "rank": "the rank", "gcd": "the G C D",
    "lcm": "the L C M", "Var": "the variance",
    "var": "the variance", "cov": "the covariance", "Cov": "the covariance", "sqrt": "the square root",
    "floor": "the floor", "ceil": "the ceiling", "abs": "the absolute value", "arg": "the argument",
}  # fmt: skip
"""Functions whose names are also words: only before brackets."""

_BRACED: Final = r"\{((?:[^{}]|\{[^{}]{0,80}\}){1,160})\}"
_ROUND: Final = r"\(((?:[^()]|\([^()]{0,80}\)){1,120})\)"
_SIMPLE: Final = r"([-+]?(?:\d+(?:\.\d+)?(?:/\d+)?|[A-Za-zα-ωΓ-Ω∞](?![A-Za-z]{2})))"
_BOUND: Final = rf"(?:(-?[\w∞π.]+?(?=\^|[ _]|$)|-?[\w∞π.])|{_BRACED}|{_ROUND})"
_BOUNDS: Final = rf"(?: ?_ ?{_BOUND})?(?: ?\^ ?{_BOUND})?"
_HARD: Final = re.compile(r"[/=<>≤≥√∫∑(]|[a-z]{3}.*\W|\W.*[a-z]{3}|_.*_")
"""Exponents or indexes that are too complex to understand by ear: a fraction, a function, an equation."""


def _find_first_group(match: Match, start: int, count: int = 3) -> str | None:
    """Returns the first of `count` groups from `start` on that matched; None if none did."""
    return next((match[at] for at in range(start, start + count) if match[at] is not None), None)


def read_exponent(exponent: str) -> Saying:
    """Returns what is said after a base: "squared", "to the power of minus four", "to the n plus one power".

    A sign alone or after one digit is the charge of an ion: "2+" is "two plus", but "+2" a power.

    Raises:
        Unspeakable: a fraction, a function, an equation or the ending of an ordinal ("th").
    """
    exponent = exponent.strip()
    if re.fullmatch(r"(?:- ?|\+)?(?:\d+(?:\.\d+)?|[A-Za-z])", exponent):
        return spell_power(exponent.replace(" ", ""))
    if found := re.fullmatch(r"(\d?) ?([+-])|([+-])(\d)", exponent):
        return spell_charge(found[1] or found[4] or "", found[2] or found[3])
    if exponent in {"th", "st", "nd", "rd"} or _HARD.search(exponent) or not re.search(r"\w", exponent):
        raise Unspeakable("formula", f"^{exponent[:40]}")
    return ["to the", NestedFormula(exponent), "power"]


def spell_charge(size: str, sign: str) -> str:
    """Returns the charge of an ion in words: "two plus" for size "2" and sign "+"; "minus" if the size is empty."""
    return f"{spell_cardinal(int(size)) if size else ''} {'plus' if sign == '+' else 'minus'}".strip()


def _read_power(match: Match) -> Saying:
    """Reads an exponent, with a comma after it if the formula goes on: "three to the power of x, minus x squared"."""
    said = read_exponent(_find_first_group(match, 1) or "")
    goes_on = (
        isinstance(said, str) and said.startswith("to the power") and re.match(r" ?[-+*×•] ?\w", get_text_after(match))
    )
    return f"{said} ," if goes_on else said


def _read_index(match: Match) -> Saying:
    """Reads the index in "x_1", "V_max", "a_{n+1}".

    Raises:
        Unspeakable: it is a fraction or a function, the base of a "log", or a number of several digits that does not
            begin with 1.
    """
    index = (_find_first_group(match, 1) or "").strip()
    if _HARD.search(index) or re.match(r"/\d", get_text_after(match)):
        raise Unspeakable("formula", match[0])
    if index.isdigit() and len(index) < 5:
        if match.string[: match.start()].endswith(("log", "Log")) or (len(index) > 1 and index[0] != "1"):
            raise Unspeakable("formula", match[0])
        return spell_cardinal(int(index))
    if re.fullmatch(r"[A-Za-z]", index):
        return index
    if re.fullmatch(r"[A-Za-z]+", index):
        return _read_letters(index)
    return ["sub", NestedFormula(index), ","]


def _read_letters(letters: str) -> str:
    """Returns a group of letters as a word if it can be pronounced, else letter by letter."""
    is_word = len(letters) > 2 and re.search("[aeiouy]", letters) and not re.search("[a-z][A-Z]", letters)
    return letters if is_word and not letters.isupper() else " ".join(letters)


def _read_function(match: Match) -> Saying:
    """Reads a function's name with its power or base: "sine squared of", "inverse tangent of", "log base two of"."""
    name = CALLED_FUNCTIONS[match["name"] or match["called"]]
    if match["called"] == "sqrt" and re.search(r"[\d)] ?$", get_text_before(match)):
        name = f"times {name}"
    raised, base = (match["raised"] or "").strip("{}() "), (match["base"] or "").strip("{}() ")
    if raised == "-1":
        return f"inverse {name.removeprefix('the ')} of"
    if raised:
        said = read_exponent(raised)
        return [name, *([said] if isinstance(said, str) else said), "of"]
    return [name, "base", NestedFormula(base), "of"] if base else f"{name} of"


_SUMS: Final = {"∫": "the integral", "∬": "the double integral", "∮": "the contour integral", "∑": "the sum",
                "∏": "the product"}  # fmt: skip


def _read_sum(match: Match) -> Saying:
    """Reads a sign of a sum, product or integral with its bounds: "the sum from i equals one to n of".

    Raises:
        Unspeakable: the word "sum", "product" or "integral" is already before it.
    """
    if re.search(r"\b(?:integral|sum|product)(?: of)?:? $", get_text_before(match)):
        raise Unspeakable("formula", get_text_before(match)[-15:] + match[0])  # named twice
    low, high = _find_first_group(match, 2), _find_first_group(match, 5)
    words: list[str | NestedFormula] = [_SUMS[match[1]]]
    if low is not None:
        words += ["over" if high is None else "from", NestedFormula(low)]
    if high is not None:
        words += ["to", NestedFormula(high)]
    return [*words, "of"]


_ARGUMENT: Final = r"(?= ?[(√\[{|]| ?\d| ?[α-ωΔ]| [a-zA-Z](?![a-zA-Z])| (?:xy|kx|kt|wt|nx|mx|kT|dx)\b)"
_BASE: Final = r"(?: ?_ ?(?P<base>\{[^{}]{1,20}\}|\d+|[a-z]))?"
_RAISED: Final = r"(?: ?\^ ?(?P<raised>\{[^{}]{1,20}\}|\(-1\)|-?\d|[a-z]))?"
MATHS_RULES: Final[list[Rule]] = [
    make_rule("sum or integral", "function", rf"([∫∬∮∑∏]){_BOUNDS}", _read_sum, r"\sum_{i=1}^{n} i",
         "the sum from i equals one to n of i"),
    make_refusal("function run into its number or argument", "formula",
            r"\d(?:sin|cos|tan|log|ln|exp)[a-z](?![a-z])", "the value 2cost"),
    make_refusal("limit", "formula", r"(?<![A-Za-z])lim(?:sup|inf)?(?![a-z])", r"\lim_{x \to 0} f(x)"),
    make_refusal("program", "formula", r"\[ ?\[|[A-Za-z]\[[^\]]*\] ?=", "a[2] = 5"),
    make_rule("function", "function",
         rf"(?<![A-Za-z])(?:(?P<name>{'|'.join(_FUNCTIONS)}){_BASE}{_RAISED}(?![A-Za-z]){_ARGUMENT}"
         rf"|(?P<called>{'|'.join(CALLED_FUNCTIONS)})(?=\())", _read_function,
         "sin^2(x) + log_2 8", "sine squared of x plus log base two of eight"),
    make_rule("prime", "suffix",
         r"(?<=[A-Za-z)])(?<![A-Za-z]{2})(?<!'[A-Za-z])('{1,3})"
         r"(?=[ ]?[(=+\-,)*/]|$| (?:is|are|was|be|and|or|of|to|at|by|in|on|from|with|for|has|have|can|relative)\b"
         r"|[.?;:](?: |$))",
         lambda m: ["prime", "double prime", "triple prime"][len(m[1]) - 1], "f'(2) = 6", "f prime of two equals six"),
    make_refusal("prime or quote", "formula",
            r"(?<=_[A-Za-z\d])'|(?<=[^A-Za-z'][B-Zb-z])'(?![A-Za-z])|'(?= ?[+=*/^]|-| - \d| - [a-z]\b)",
            "a state y' that"),
    make_rule("power", "suffix", rf"(?<=[\w)\]}}'α-ωΑ-Ω|])\^ ?(?:{_SIMPLE}|{_BRACED}|{_ROUND})", _read_power,
         "x^2 + e^{-x}", "x squared plus e to the power of minus x"),
    make_rule("index", "suffix",
         rf"(?<=[\w)\]}}α-ωΑ-Ω'])(?<!_)_ ?(?:(\d+|[A-Za-z]{{1,4}}(?![A-Za-z])|[α-ωΓ-Ω∞]|[A-Z][a-z]+|[a-z]+)|{_BRACED}"
         rf"|{_ROUND})", _read_index, "x_1 + V_max", "x one plus V max"),
    make_rule("Greek letter", "variable", f"[{''.join(GREEK)}]", lambda m: GREEK[m[0]], "2π", "two pi"),
]  # fmt: skip
"""Tried before words and numbers without such a context."""
