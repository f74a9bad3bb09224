"""Signs of comparison: "is less than", after "for all x" without "is", in a chain "which is", after "let" "equal".

A chain such as "0 < x < 1" is said as two sentences, "zero is less than x, which is less than one": with one "is" after
the other a listener takes the second for the verb of another sentence.
"""

from collections.abc import Sequence
from typing import Final

from spoken.formulas.tokens import NUMBERS, OVER_LETTERS, Line, Place, Token, ends_term, is_operand, starts_term
from spoken.spoken_text import word_set

COMPARED: Final = {
    "<": "less than", ">": "greater than", "≤": "less than or equal to", "≥": "greater than or equal to",
    "≠": "not equal to", "≈": "approximately equal to", "≪": "much less than", "≫": "much greater than",
    "≡": "equivalent to", "∝": "proportional to", "∈": "in", "∉": "not in", "⊂": "a subset of",
    "⊆": "a subset of", "⊥": "perpendicular to", "∥": "parallel to",
}  # fmt: skip
_RISING: Final = "<≤≪"
_FALLING: Final = ">≥≫"
_MAX_TERM: Final = 16
"""A term of more tokens is no part of a chain that anybody follows."""

_DOMAINS: Final = word_set("for on over in with interval range domain even odd integers numbers constants")
"""Words after which "x > 0" tells what x is, not that it is so."""

_ANY: Final = word_set("all any every each some for integer")
_ONE: Final = {(verb, one) for verb in ("is", "be", "exists", "with", "for", "find") for one in ("a", "an")}
_CLAUSES: Final = word_set("if that when where whether because since as then which while unless until say says")
"""Words that begin a sentence of its own, whose verb must be said."""


def _is_letter_with_mark(place: Place) -> bool:
    """Whether "X bar", a letter and what is written over it, stands on the left."""
    left, letter = place.left, place.line.tokens[place.at - 2] if place.at >= 2 else None
    return left is not None and left.text in {*OVER_LETTERS, "bar"} and letter is not None and len(letter.text) == 1


def _opens_before(tokens: Sequence[Token], end: int) -> int:
    """Where the term begins that ends before `end`: numbers, letters, signs and whole brackets, but no words."""
    depth, at = 0, end
    while at > max(0, end - _MAX_TERM):
        token = tokens[at - 1]
        if token.kind == "close":
            depth += 1
        elif token.kind == "open":
            if not depth:
                break
            depth -= 1
        elif not depth and not _is_of_term(token):
            break
        at -= 1
    return at


def _is_of_term(token: Token) -> bool:
    if token.kind == "operator":
        return token.text in "+-×*/÷√∛∞±…"
    return is_operand(token) or token.kind == "function" or token.text in {*OVER_LETTERS, "bar"}


def _chained(line: Line, at: int) -> int | None:
    """Which sign before this one has the same term on its right, and points the same way."""
    tokens = line.tokens
    start = _opens_before(tokens, at)
    is_name = start == at and at > 1 and tokens[at - 1].kind == "word"  # "aluminum > nickel > silver"
    before = start - 1 - is_name
    if before < 0 or before == at - 1 or tokens[before].kind != "operator":
        return None
    same = next((way for way in (_RISING, _FALLING) if tokens[at].text in way), "")
    return before if tokens[before].text in same else None


def _names_domain(line: Line, at: int) -> bool:
    """Whether "x > 0" says what x is: "for x > 0", "all integers n > 0", "on the interval 0 < x < 1"."""
    if (earlier := _chained(line, at)) is not None:
        return _names_domain(line, earlier)
    tokens = line.tokens
    start = _opens_before(tokens, at)
    if start == at or start == 0:
        return False
    words = [token.text.lower() for token in tokens[max(0, start - 4) : start]]
    if (joint := _before_joint(tokens, start)) is not None:
        return _goes_on(line, joint)
    if set(words[-2:-1]) & _CLAUSES or tokens[start - 1].kind != "word":
        return False
    is_one = tuple(words[-3:-1]) in _ONE or set(words[-3:-1]) & _ANY
    return words[-1] in _DOMAINS | _ANY or (bool(is_one) and words[-1].isalpha() and not set(words) & _CLAUSES)


def _before_joint(tokens: Sequence[Token], start: int) -> int | None:
    """Where what is joined to the term from `start` on by "and", "or" or a comma ends; None where nothing is."""
    joints = [token.text.lower() in {"and", "or", ","} for token in tokens[max(0, start - 2) : start]]
    if not joints or not joints[-1]:
        return None
    return start - (2 if len(joints) == 2 and all(joints) else 1)


def _goes_on(line: Line, at: int) -> bool:
    """Whether the term before "and" ends "for x > 0", so that "and y > 0" goes on with it."""
    before = _opens_before(line.tokens, at) - 1
    is_sign = before > 0 and line.tokens[before].kind == "operator"
    return is_sign and line.tokens[before].text in _RISING + _FALLING and _names_domain(line, before)


def _in_chain(place: Place, name: str) -> str:
    """The second sign of a chain; "which" would be heard of the last term of a sum alone."""
    term = place.line.tokens[_opens_before(place.line.tokens, place.at) : place.at]
    is_sum = any(token.kind == "operator" and token.text in "+-" for token in term[1:])
    return f", and this is {name}" if is_sum else f", which is {name}"


def say_relation(place: Place) -> str:
    """What a sign of comparison is called between its neighbours.

    Raises:
        Unspeakable: nothing stands on one side of it.
    """
    name, left, right = COMPARED[place.sign.text], place.left, place.right
    if not starts_term(place):
        raise place.refuse()
    if place.sign.text == "∈":
        return "in"
    is_term = is_operand(left) or (left is not None and left.kind == "close") or _is_letter_with_mark(place)
    if is_term and place.sign.text in _RISING + _FALLING:
        if _follows_let(place):
            return f"be {name}"
        if _names_domain(place.line, place.at):
            return name
    if is_term or (left is not None and left.kind == "word" and not (right is not None and right.kind in NUMBERS)):
        return _in_chain(place, name) if _chained(place.line, place.at) is not None else f"is {name}"
    if right is not None and right.kind in NUMBERS:
        return "approximately" if place.sign.text == "≈" else name.replace("greater", "more")
    raise place.refuse()


def _follows_let(place: Place) -> bool:
    """Whether a sign is the first after "let", or after "let x = 3 and": "let x equal three"."""
    tokens, at = place.line.tokens, place.at
    while True:
        start = _opens_before(tokens, at)
        if start == 0 or start == at:
            return False
        if tokens[start - 1].text.lower() == "let":
            return True
        if (joint := _before_joint(tokens, start)) is None:
            return False
        before = _opens_before(tokens, joint) - 1
        if before < 0 or tokens[before].text != "=":
            return False
        at = before


def say_equals(place: Place) -> str:
    """What an equals sign is called.

    Raises:
        Unspeakable: nothing stands on one side of it.
    """
    if ends_term(place.left) and starts_term(place):
        return "equal" if _follows_let(place) else "equals"
    if starts_term(place) and place.left is not None and place.left.text in {"%", ",", "?", "|"}:
        return "equals"
    raise place.refuse()
