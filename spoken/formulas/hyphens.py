"""Hyphens: a minus, a sign, a range, a dash, or nothing between the parts of a word, as the neighbours show."""

import re
from typing import Final

from spoken.formulas.ranges import (
    is_chained,
    is_difference,
    is_factored,
    is_normal_range,
    is_rising,
    is_telephone,
    range_word,
    tells_range,
)
from spoken.formulas.tokens import NUMBERS, OPERANDS, OVER_LETTERS, Place, Token, is_operand, is_term, starts_term
from spoken.spoken_text import word_set

_BEFORE_NUMBERS: Final = word_set("at of is to from by was be between and or than equals minus by")
"""Words after which "- 5" is a number below zero, not a dash."""

_PRODUCT_LETTERS: Final = 2


def _say_between_numbers(place: Place, left: Token, right: Token) -> str:
    """A hyphen without spaces between two numbers: a difference in an equation, else a range from low to high."""
    if place.in_equation and not is_normal_range(place):
        return "minus"
    before = place.line.tokens[place.at - 2] if place.at >= 2 else None
    if before is not None and before.kind == "operator" and before.text in "×*/+÷":
        raise place.refuse()
    if is_telephone(place, left, right):
        raise place.line.refuse(place.at, "number")
    if is_difference(place):
        return "minus"
    if is_rising(left, right):
        return range_word(place)
    if is_factored(place):
        return "minus"
    if left.written == right.written:
        return ""  # a "50-50 chance"
    if "." in left.written or "." in right.written:
        return "minus"
    raise place.refuse()


def _is_symbolic(left: Token, right: Token) -> bool:
    """Whether a hyphen between two operands without spaces can only be a minus sign."""
    pieces = {left.kind, right.kind}
    small = any(token.kind == "variable" and not token.written[:1].isupper() for token in (left, right))
    return bool(pieces & {"suffix", "function"}) or small or left.text in OVER_LETTERS


def _is_label(left: Token, right: Token) -> bool:
    """ "H-1B": a label or a difference."""
    return re.fullmatch("[A-Z]", left.written) is not None and re.fullmatch(r"\d{1,2}[A-Z]", right.written) is not None


def _say_label(place: Place) -> str:
    named = place.line.tokens[place.at + 2 : place.at + 3]
    if named and named[0].text in {"visa", "visas"}:
        return ""
    raise place.line.refuse(place.at, "code")


def say_hyphen(place: Place) -> str:
    """What a hyphen is called: "minus", "to" or "and" in a range, "," for a dash, nothing inside a word.

    Raises:
        Unspeakable: two numbers beside it have no sure reading.
    """
    left, right, sign = place.left, place.right, place.sign
    if right is None or left is None or left.kind in {"mark", "open", "operator"}:
        return _say_sign(place)
    closes, opens = left.kind == "close", right.kind == "open"
    if right.text in OVER_LETTERS:
        return ""  # "y-hat"
    if sign.space_before == sign.space_after:
        if _is_label(left, right) and not (place.in_equation or sign.space_after):
            return _say_label(place)
        if left.kind in NUMBERS and right.kind in NUMBERS:
            return _say_spaced(place, left, right) if sign.space_after else _say_between_numbers(place, left, right)
        if (is_operand(left) or closes) and (is_operand(right) or opens or right.kind == "function"):
            is_minus = place.in_equation or sign.space_after or closes or opens or _is_symbolic(left, right)
            return "minus" if is_minus else ""
        if is_operand(left) and right.kind == "operator" and right.text in "√∛∜∫∑∏":
            return "minus"
        if sign.space_after:
            if closes and place.is_call_after:
                return "minus"
            if left.text.lower() in _BEFORE_NUMBERS and right.kind in NUMBERS:
                return "minus"
            return "minus" if place.in_equation and starts_term(place) and is_term(left) else ","
        return "" if is_term(left) and is_term(right) else _say_sign(place) or ""
    if not sign.space_before:
        is_minus = (is_operand(left) or closes) and (place.in_equation or opens)
        return "minus" if is_minus else ""
    return "minus" if is_operand(right) or (opens and (place.in_equation or place.is_sum_after)) else ","


def _say_sign(place: Place) -> str:
    """A hyphen with nothing to subtract from: the sign of what follows, or a dash."""
    right = place.right
    if right is None:
        return ","
    is_group = right.kind == "open" and (place.in_equation or (not place.sign.space_after and place.is_sum_after))
    is_signed = right.kind in OPERANDS or right.kind == "function" or is_group
    after_sign = place.left is not None and place.left.kind == "operator" and place.left.text not in "-—&"
    if right.kind == "word" and len(right.text) == 1 and (after_sign or not place.sign.space_after):
        return "minus"
    if right.kind == "word" and len(right.written) == _PRODUCT_LETTERS and after_sign:
        return "minus"  # "y = - kt"
    opens_list = place.left is None or place.left.text in ",:([{"
    is_number = right.kind == "number" and (not place.is_counted or "." in right.written)
    is_listed = opens_list and (right.kind == "quantity" or is_number)
    is_sign = not place.sign.space_after or after_sign or place.in_equation or is_listed
    return "minus" if is_signed and is_sign else ","


def _say_spaced(place: Place, left: Token, right: Token) -> str:
    if place.in_equation or not is_rising(left, right):
        is_even = left.written == right.written and not place.in_equation and not is_chained(place)
        return "" if is_even and not is_factored(place) else "minus"
    if is_difference(place):
        return "minus"
    if tells_range(place, left, right):
        return range_word(place)
    raise place.refuse()
