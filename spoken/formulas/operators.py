"""Signs between numbers, letters and words: what each is called where it stands, or a refusal."""

import re
from typing import Final

from spoken.formulas.arrows import ARROWS, say_arrow
from spoken.formulas.bars import say_bar
from spoken.formulas.hyphens import say_hyphen
from spoken.formulas.ranges import is_size
from spoken.formulas.relations import COMPARED, say_equals, say_relation
from spoken.formulas.tokens import NUMBERS, OPERANDS, Line, Place, ends_term, is_operand, starts_term
from spoken.rules.rule import about
from spoken.spoken_text import Unspeakable, word_set

OPERATORS: Final = "=+*×÷/<>≤≥≠≈≪≫≡∝~±∓√∛∜-—&@#%∀∃⊃∨∧¬∩∪⊂⊆∈∉→←↔⇒⇌∥∠∑∏∬∮∫∂∇△⊥|‖∖↑↓•…_"
"""Signs that this module can call by a name; every other one is refused before."""

_BINARY: Final = {
    "+": "plus", "*": "times", "×": "times", "÷": "divided by", "±": "plus or minus", "∓": "minus or plus",
    "∪": "union", "∩": "intersection", "∖": "minus", "∧": "and", "∨": "or", "⊃": "implies", "•": "times",
}  # fmt: skip
_PREFIXES: Final = {
    "√": "the square root of", "∛": "the cube root of", "∜": "the fourth root of", "∑": "the sum of",
    "∏": "the product of", "∫": "the integral of", "∬": "the double integral of", "∮": "the contour integral of",
    "∂": "partial", "∇": "del", "△": "triangle", "∠": "angle", "∀": "for all", "∃": "there exists", "¬": "not",
}  # fmt: skip
_ROOTS: Final = frozenset("√∛∜")
_RATES: Final = word_set("hour day week month year minute second person mole mile gallon pound kilogram liter hr sec")
_ALTERNATIVES: Final = frozenset({("he", "she"), ("she", "he"), ("his", "her"), ("him", "her"), ("yes", "no"),
                                  ("a", "an"), ("male", "female"), ("true", "false")})  # fmt: skip


def _say_binary(place: Place) -> str:
    sign, left, right = place.sign, place.left, place.right
    name = _BINARY[sign.text]
    if sign.text == "×" and not place.in_equation and is_size(place):
        return "by"
    if sign.text in "•×" and (place.line.is_logic or (sign.text == "•" and place.joins_sentences)):
        return "and"
    if sign.text == "•" and not (is_operand(left) and starts_term(place)):
        return ","
    if (is_operand(left) or (left is not None and left.kind == "close")) and starts_term(place):
        return name
    words = ends_term(left) and starts_term(place)
    if words and (place.in_equation or sign.text not in "+±" or sign.space_before == sign.space_after):
        return name
    if sign.text in "+±" and right is not None and right.kind in NUMBERS | {"variable"} and not ends_term(left):
        return name
    if sign.text in "+±" and sign.space_before and not sign.space_after and starts_term(place):
        return name
    if sign.text == "*" and not is_operand(left):
        return ","  # a bullet, or the star of a footnote
    if sign.text == "+" and is_operand(left) and (right is None or right.kind in {"mark", "close"}):
        return name
    raise place.refuse()


def _say_slash(place: Place) -> str:
    left, right, sign = place.left, place.right, place.sign
    if left is None or right is None:
        raise place.refuse()
    if left.kind in NUMBERS and right.kind in NUMBERS:
        return "divided by"
    if place.line.is_logic:
        return ", therefore"
    if place.in_equation and left.kind == "word" and right.kind == "operator" and right.text == "/":
        return ""
    if left.text == "pi" and right.kind in NUMBERS:
        return "over"
    if left.kind == "close" or right.kind in {"open", "function"} or (right.text in "∂√∛" and ends_term(left)):
        return "over"
    if left.kind in OPERANDS and right.kind in OPERANDS:
        return "over"
    if left.kind == "word" and right.kind in OPERANDS and place.in_equation:
        return "divided by"
    if right.kind != "word" or left.kind not in OPERANDS | {"word"}:
        raise place.refuse()
    before = place.line.tokens[place.at - 2] if place.at >= 2 else None
    if (
        left.kind in NUMBERS
        or right.text in _RATES
        or right.text.startswith(("cubic ", "square "))
        or (before is not None and before.kind == "number" and not _are_plural(left.text, right.text))
    ):
        return "per"
    if left.kind != "word":
        return "over"
    pair = (left.text.lower(), right.text.lower())
    if before is not None and before.text == "/" and pair[0] in _RATES:
        return "per"  # "$100/day/worker"
    if sign.space_before != sign.space_after:
        return "slash" if not place.in_equation else "over"
    return "" if pair == ("and", "or") else "or" if pair in _ALTERNATIVES else "slash"


def _are_plural(left: str, right: str) -> bool:
    """ "5 letters/digits" tells one thing twice: what stands for "per" is one of its kind."""
    return left.endswith("s") and re.search("[^siu]s$", right) is not None


def _say_prefix(place: Place) -> str:
    """Signs that belong to what follows: about five, number one, not p."""
    right, sign = place.right, place.sign
    if right is not None and right.kind in NUMBERS and not is_operand(place.left):
        return {"~": "about", "#": "number"}[sign.text]
    if sign.text == "~" and starts_term(place):
        return "is distributed as" if is_operand(place.left) and sign.space_before == sign.space_after else "not"
    raise place.refuse()


def say_operator(line: Line, at: int) -> str:
    """What the sign at `at` is called, "," for a dash, "" for a hyphen.

    Raises:
        Unspeakable: it has no clear reading there.
    """
    place = Place(line, at)
    sign = place.sign.text
    if sign in _BINARY:
        return _say_binary(place)
    if sign in COMPARED:
        return say_relation(place)
    if sign in ARROWS:
        return say_arrow(place)
    if sign in _PREFIXES:
        if not starts_term(place):
            raise place.refuse()
        left = place.left
        is_factor = sign in _ROOTS and left is not None and (is_operand(left) or left.kind == "close")
        return f"times {_PREFIXES[sign]}" if is_factor else _PREFIXES[sign]
    if sign == "%" and (place.left is None or place.left.kind not in {"word", "close", "quantity"}):
        raise place.refuse()
    if sign == "@" and place.right is None:
        raise Unspeakable("symbol", "@")
    if sign == "—" and is_operand(place.left) and is_operand(place.right) and place.in_equation:
        return "minus"
    fixed = {"&": "and", "@": "at", "—": ",", "%": "percent", "…": "dot dot dot"}
    if sign in fixed:
        return fixed[sign]
    named = {"=": say_equals, "/": _say_slash, "-": say_hyphen, "~": _say_prefix, "#": _say_prefix, "|": say_bar}
    if sign not in named:
        raise place.refuse()
    return named[sign](place)


_MULTIPLIES: Final = re.compile(r"\b(?:expressions?|products?|multipl\w+|factors?|calculate|compute|evaluate|solve)\b")
"""Words of sums, in which "9x80" is a product and no measure."""


def say_times(line: Line, at: int) -> str:
    """The letter x between two numbers: "times" in an equation, "by" in measures, else the letter."""
    place = Place(line, at)
    left, right = place.left, place.right
    if left is None or right is None or right.kind not in NUMBERS:
        is_product = left is not None and right is not None and left.kind in NUMBERS and right.kind == "open"
        return "times" if is_product and place.in_equation and place.sign.space_after else "x"
    if left.kind in NUMBERS or (left.kind == "word" and len(left.text) > 1 and place.in_equation):
        are_bare = left.kind == right.kind == "number"
        is_product = are_bare and _MULTIPLIES.search(f"{line.words} {about()}") is not None
        return "times" if place.in_equation or is_product else "by"
    return "x"
