"""Powers, indexes, functions, roots, sums and integrals: what has a part that is read by itself."""

import math
import re
from typing import Final

from spoken.rules.numerals import cardinal, ordinal, power
from spoken.rules.rule import Inner, Match, Rule, Saying, after, before, rule, topic
from spoken.spoken_text import Unspeakable, word_set

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
"""Functions that are words of their own: only where brackets follow."""

_BRACED: Final = r"\{((?:[^{}]|\{[^{}]{0,80}\}){1,160})\}"
_ROUND: Final = r"\(((?:[^()]|\([^()]{0,80}\)){1,120})\)"
_SIMPLE: Final = r"([-+]?(?:\d+(?:\.\d+)?(?:/\d+)?|[A-Za-zα-ωΓ-Ω∞](?![A-Za-z]{2})))"
POWER: Final = rf"(?<=[\w)\]}}'α-ωΑ-Ω|])\^ ?(?:{_SIMPLE}|{_BRACED}|{_ROUND})"
_INDEX: Final = rf"_ ?(?:(\d+|[A-Za-z]{{1,4}}(?![A-Za-z])|[α-ωΓ-Ω∞]|[A-Z][a-z]+|[a-z]+)|{_BRACED}|{_ROUND})"
_STRAY_POWER: Final = rf"(?<= )\^(?:{_SIMPLE}|{_BRACED})"
_BOUND: Final = rf"(?:(-?[\w∞π.]+?(?=\^|[ _]|$)|-?[\w∞π.])|{_BRACED}|{_ROUND})"
_BOUNDS: Final = rf"(?: ?_ ?{_BOUND})?(?: ?\^ ?{_BOUND})?"
_NOT_INDEX: Final = word_set("is of and the for to in at")


def _first(match: Match, start: int, count: int = 3) -> str | None:
    """The one of several alternative groups that matched."""
    return next((match[at] for at in range(start, start + count) if match[at] is not None), None)


def say_power(exponent: str) -> Saying:
    """What is said after a base: "squared", "to the power of minus four", "to the n plus one power"."""
    exponent = exponent.strip()
    if exponent in {"*", "'", "†"}:
        return {"*": "star", "'": "prime", "†": "dagger"}[exponent]
    if re.fullmatch(r"(?:- ?|\+)?(?:\d+(?:\.\d+)?|[A-Za-z])", exponent):
        return power(exponent.replace(" ", ""))
    if found := re.fullmatch(r"(\d{1,3}|[a-z])(?:th|st|nd|rd)", exponent):
        return "th" if found[1].isalpha() else ordinal(int(found[1]))
    if found := re.fullmatch(r"(\d?) ?([+-])|([+-])(\d)", exponent):
        return charge(found[1] or found[4] or "", found[2] or found[3])
    return ["to the", Inner(exponent), "power"]


def charge(size: str, sign: str) -> str:
    """The charge of an ion: "two plus", "minus"."""
    return f"{cardinal(int(size)) if size else ''} {'plus' if sign == '+' else 'minus'}".strip()


def _power(match: Match) -> Saying:
    exponent = _first(match, 1) or ""
    if match[1] and (parts := re.fullmatch(r"(\d+)/(\d+)", match[1])) and parts[1] != "1":
        return _power_over(match, parts[1], parts[2])
    if re.search(r"(?<![A-Za-z])[A-Z]$", match.string[: match.start()][-3:]) and re.fullmatch("[A-MO-Z]", exponent):
        return exponent  # alleles and transposes: "I^A", "U^T"
    return say_power(exponent)


def _power_over(match: Match, top: str, bottom: str) -> Saying:
    """ "t^3/3" is "t cubed over three", as nobody writes such a fraction in an exponent; "x^3/2" may be either."""
    if math.gcd(int(top), int(bottom)) == 1:
        raise Unspeakable("formula", f"{match.string[: match.start()][-10:]}{match[0]}")
    return [*_flat(say_power(top)), "over", cardinal(int(bottom))]


def _is_of_matrix(match: Match, index: str) -> bool:
    """Whether "y_12" stands in row 1 and column 2, as where "y_22" or "y_21" is in the text too."""
    letter = match.string[: match.start()][-1:]
    others = re.findall(rf"(?<![A-Za-z]){re.escape(letter)}_\{{?([1-4][1-4])\}}?(?!\d)", topic(match))
    return index in others and any(other[0] in "234" for other in others)


def _index(match: Match) -> Saying:
    index = (_first(match, 1) or "").strip()
    if index.isdigit() and len(index) < 5:
        if match.string[: match.start()].endswith(("log", "Log")):
            raise Unspeakable("formula", match[0])
        is_single = len(index) > 1 and (index[0] != "1" or _is_of_matrix(match, index))
        return " ".join(cardinal(int(digit)) for digit in index) if is_single else cardinal(int(index))
    if re.fullmatch(r"[A-Za-z]", index):
        return index
    if re.fullmatch(r"[+-]", index):
        return charge("", index)
    if re.fullmatch(r"[A-Za-z]+", index):
        return spelled(index)
    return ["sub", Inner(index), ","]


def spelled(letters: str) -> str:
    """A group of letters as a word where it can be one, else letter by letter."""
    is_word = len(letters) > 2 and re.search("[aeiouy]", letters) and not re.search("[a-z][A-Z]", letters)
    return letters if is_word and not letters.isupper() else " ".join(letters)


def _function(match: Match) -> Saying:
    name = CALLED_FUNCTIONS[match["name"]]
    if match["name"] == "sqrt" and re.search(r"[\d)] ?$", before(match)):
        name = f"times {name}"
    base, raised = match["base"], (match["raised"] or "").strip("{}() ")
    if raised == "-1":
        name = f"inverse {name.removeprefix('the ')}"
    elif raised:
        return [name, *_flat(say_power(raised)), "of"]
    if base:
        base = base.strip("{}() ")
        return [name, "base", Inner(base) if not base.isdigit() else cardinal(int(base)), "of"]
    return f"{name} of"


def _flat(saying: Saying) -> list[str | Inner]:
    return [saying] if isinstance(saying, str) else list(saying)


_SUMS: Final = {"∫": "the integral", "∬": "the double integral", "∮": "the contour integral", "∑": "the sum",
                "∏": "the product"}  # fmt: skip


def _sum(match: Match) -> Saying:
    low, high = _first(match, 2), _first(match, 5)
    words: list[str | Inner] = [_SUMS[match[1]]]
    if low is not None:
        words += ["over" if high is None else "from", Inner(low)]
    if high is not None:
        words += ["to", Inner(high)]
    return [*words, "of"]


def _limit(match: Match) -> Saying:
    name = {"lim": "the limit", "limsup": "the limit superior", "liminf": "the limit inferior"}[match["name"]]
    below = match["below"] or match["round"]
    approach = re.fullmatch(r"\s*(.+?)\s*(?:→|->)\s*(.+?)\s*", below or "")
    if approach:
        return [name, "as", Inner(approach[1]), "approaches", Inner(approach[2]), "of"]
    return [name, "over", Inner(below), "of"] if below else f"{name} of"


def _derivative(match: Match) -> str:
    order = {"2": "second ", "3": "third "}.get(match["order"] or "", "")
    top = " ".join(match["top"] or "")
    return f"the {order}derivative of {top} with respect to {match['bottom']}" if top else f"d {match['bottom']}"


def _prime(match: Match) -> str:
    return ["prime", "double prime", "triple prime"][len(match[1]) - 1]


_COMPARED: Final = re.compile(" ?[<>=≤≥≠≈]")
"""What no pause need be made before."""


def _absolute(match: Match) -> Saying:
    said: list[str | Inner] = ["the absolute value of", Inner(match[1])]
    return said if _COMPARED.match(after(match)) else [*said, ","]


_ARGUMENT: Final = r"(?= ?[(√\[{|]| ?\d| ?[α-ωΔ]| [a-zA-Z](?![a-zA-Z])| (?:xy|kx|kt|wt|nx|mx|kT|dx)\b)"
_BASE: Final = r"(?: ?_ ?(?P<base>\{[^{}]{1,20}\}|\d+|[a-z]))?"
_RAISED: Final = r"(?: ?\^ ?(?P<raised>\{[^{}]{1,20}\}|\(-1\)|-?\d|[a-z]))?"

_BAR: Final = r"(?:\|(?! )|(?<![\d)\]}] )(?<!(?<![A-Za-z])[A-Za-z] )\|)"
"""Opens an absolute value, unless it stands off from both sides: "P(A | ¬B), P(A | B)"."""

MATHS_RULES: Final[list[Rule]] = [
    rule("function", rf"([∫∬∮∑∏]){_BOUNDS}", _sum),
    rule("function", r"(?<![A-Za-z])(?P<name>limsup|liminf|lim)(?: ?_ ?\{(?P<below>(?:[^{}]|\{[^{}]*\})+)\}"
         r"| ?_?\((?P<round>[^()]*→[^()]*)\))", _limit),
    rule("function", rf"(?<![A-Za-z])(?P<name>{'|'.join(_FUNCTIONS)}){_BASE}{_RAISED}(?![A-Za-z]){_ARGUMENT}",
    _function),
    rule("function", rf"(?<![A-Za-z])(?P<name>{'|'.join(CALLED_FUNCTIONS)}){_BASE}{_RAISED}(?=\()", _function),
    rule("variable", r"(?<![A-Za-z\d])d(?:\^(?P<order>[23]))? ?(?P<top>[a-zA-Z])?/\(?d ?(?P<bottom>[a-zA-Z])"
         r"(?(order)\^(?P=order))\)?(?![\w^])", _derivative),
    rule("suffix", r"(?<=[A-Za-z)])(?<![A-Za-z]{2})(?<!'[A-Za-z])('{1,3})"
         r"(?=[ ]?[(=+\-,)*/]|$| (?:is|are|was|be|and|or|of|to|at|by|in|on|from|with|for|lies|has|have|can|cannot"
         r"|stands|moves|represents?|denotes?|relative)\b"
         r"|[.?;:](?: |$))(?! ?\()|"
         r"(?<=[A-Za-z])(?<![A-Za-z]{2})('{1,3})(?=\()",
         lambda m: ["prime", "double prime", "triple prime"][len(m[1] or m[2]) - 1]),
    rule("suffix", r"(?<=_[A-Za-z\d])('{1,3})(?=[ .,)=]|$)", _prime),
    rule("suffix", r"(?<=[\w)\]}α-ωΑ-Ω])\^(?:\{ ?([1-7]?) ?([+-]) ?\}|([1-7]?)([+-])"
         r"(?=[,.;:)?_]|$| [a-z]{2}| [→⇌+=]| ?\.))",
         lambda m: charge(m[1] or m[3] or "", m[2] or m[4])),
    rule("suffix", r"(?:(?<=[A-Z])|(?<=_[a-z]))°(?! ?[CFKR]\b)", "naught"),
    rule("suffix", r"(?<=[A-Za-z])°K\b", "kelvin"),
    rule("suffix", r"(?<![A-Za-z\d].)(?<=L)\^ ?\{? ?- ?1 ?\}?(?= ?([{\[]))",
         lambda m: "inverse" if m[1] == "{" else "inverse of"),
    rule("suffix", POWER, _power),
    rule("suffix", rf"(?<=[\w)\]}}α-ωΑ-Ω'])(?<!_){_INDEX}", _index),
    rule("variable", r"‖([^‖\n]{1,60})‖", lambda m: ["the norm of", Inner(m[1]), ","]),
    rule("variable", rf"(?<![A-Za-z_)|]){_BAR}([^|\n]{{1,60}}?)\|(?:(?=d[a-z](?![A-Za-z]))|(?![\w|(]))", _absolute),
    rule("variable", f"[{''.join(GREEK)}]", lambda m: GREEK[m[0]]),
]  # fmt: skip
"""Tried before words and numbers that stand by themselves."""
