"""Signs between numbers, letters and words: what each is called where it stands, or a refusal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.script.spoken import Unspeakable, word_set

OPERATORS: Final = "=+*×÷/<>≤≥≠≈~±√-—&@#%"
"""Signs that this module can call by a name; every other one is refused before."""

_OPERANDS: Final = frozenset({"number", "quantity", "variable"})
_BINARY: Final = {"+": "plus", "*": "times", "×": "times", "÷": "divided by", "±": "plus or minus"}
_RELATIONS: Final = {
    "<": "less than", ">": "greater than", "≤": "less than or equal to", "≥": "greater than or equal to",
    "≠": "not equal to", "≈": "approximately equal to",
}  # fmt: skip
_RATES: Final = word_set("hour day week month year minute second person mole mile gallon pound kilogram liter")
_BEFORE_NUMBERS: Final = word_set("at of is to from by was be between and or than")
"""Words after which "- 5" is a number below zero, not a dash."""

_ALTERNATIVES: Final = frozenset(
    {
        ("he", "she"),
        ("she", "he"),
        ("his", "her"),
        ("him", "her"),
        ("yes", "no"),
        ("a", "an"),
        ("male", "female"),
        ("true", "false"),
    }
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text with its reading; `text` is the sign itself for operators, brackets and marks."""

    kind: str
    text: str
    written: str
    space_before: bool
    space_after: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """An operator among its neighbours."""

    tokens: Sequence[Token]
    at: int

    @property
    def sign(self) -> Token:
        return self.tokens[self.at]

    @property
    def left(self) -> Token | None:
        return self.tokens[self.at - 1] if self.at else None

    @property
    def right(self) -> Token | None:
        return self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None

    @property
    def in_equation(self) -> bool:
        """Whether an equals sign stands in the same sentence."""
        for step in (-1, 1):
            at = self.at
            while 0 <= at < len(self.tokens) and not (
                self.tokens[at].kind == "mark" and self.tokens[at].text in {".", "?", "!", ";"}
            ):
                if self.tokens[at].text == "=":
                    return True
                at += step
        return False

    def refuse(self) -> Unspeakable:
        near = self.tokens[max(0, self.at - 3) : self.at + 4]
        return Unspeakable("formula", " ".join(token.written for token in near))


def _is_operand(token: Token | None) -> bool:
    return token is not None and (token.kind in _OPERANDS or (token.kind == "word" and len(token.text) == 1))


def _is_term(token: Token | None) -> bool:
    return token is not None and (token.kind in _OPERANDS or token.kind == "word")


def _starts_term(place: _Place) -> bool:
    """Whether a number, letter or word follows, possibly after its own minus or root sign."""
    right = place.right
    if right is not None and right.text in {"-", "√"} and right.kind == "operator" and not right.space_after:
        return place.at + 2 < len(place.tokens) and _is_operand(place.tokens[place.at + 2])
    return _is_term(right)


def _say_binary(place: _Place) -> str:
    sign = place.sign
    operands = _is_operand(place.left) and (_is_operand(place.right) or _starts_term(place))
    words = _is_term(place.left) and _starts_term(place) and sign.space_before == sign.space_after
    if operands or (words and (place.in_equation or sign.text in "*×÷" or sign.space_after)):
        return _BINARY[sign.text]
    if (
        sign.text in "+±"
        and not sign.space_after
        and (sign.space_before or place.at == 0)
        and place.right is not None
        and place.right.kind in {"number", "quantity"}
    ):
        return _BINARY[sign.text]
    raise place.refuse()


def _say_equals(place: _Place) -> str:
    if _is_term(place.left) and _starts_term(place):
        return "equals"
    raise place.refuse()


def _say_relation(place: _Place) -> str:
    name = _RELATIONS[place.sign.text]
    if not _starts_term(place):
        raise place.refuse()
    if _is_operand(place.left):
        return f"is {name}"
    if place.right is not None and place.right.kind in {"number", "quantity"}:
        return "approximately" if place.sign.text == "≈" else name.replace("greater", "more")
    raise place.refuse()


def _say_slash(place: _Place) -> str:
    left, right, sign = place.left, place.right, place.sign
    if left is None or right is None:
        raise place.refuse()
    if left.kind in _OPERANDS and right.kind in _OPERANDS:
        is_letters = "variable" in {left.kind, right.kind}
        return "over" if is_letters else "divided by"
    if left.kind == "word" and right.kind in _OPERANDS and sign.space_before and sign.space_after and place.in_equation:
        return "divided by"
    if right.kind != "word" or left.kind not in _OPERANDS | {"word"}:
        raise place.refuse()
    before = place.tokens[place.at - 2] if place.at >= 2 else None
    if left.kind in {"number", "quantity"} or right.text in _RATES or (before is not None and before.kind == "number"):
        return "per"
    if left.kind != "word" or sign.space_before or sign.space_after:
        raise place.refuse()
    pair = (left.text.lower(), right.text.lower())
    return "" if pair == ("and", "or") else "or" if pair in _ALTERNATIVES else "slash"


def _value(token: Token) -> float | None:
    try:
        return float(token.written.strip("$£€¥%° ").replace(",", ""))
    except ValueError:
        return None


def _is_range(left: Token, right: Token) -> bool:
    """Whether two numbers rise, or are of a kind without a size here, such as times of day."""
    low, high = _value(left), _value(right)
    return low is None or high is None or low < high


def _say_between_numbers(place: _Place, left: Token, right: Token) -> str:
    """A hyphen without spaces between two numbers: a difference in an equation, else a range from low to high."""
    if place.in_equation:
        return "minus"
    if _is_range(left, right):
        before = place.tokens[place.at - 2] if place.at >= 2 else None
        if before is not None and before.kind == "operator" and before.text in "×*/+÷":
            raise place.refuse()  # 1.4 × 10-11 has lost its exponent
        return "to"
    raise place.refuse()


def _say_hyphen(place: _Place) -> str:
    left, right, sign = place.left, place.right, place.sign
    numbers = {"number", "quantity"}
    if right is None or left is None or left.kind in {"mark", "open", "operator"}:
        return "minus" if right is not None and right.kind in _OPERANDS and not sign.space_after else ","
    if not sign.space_before and not sign.space_after:
        if left.kind in numbers and right.kind in numbers:
            return _say_between_numbers(place, left, right)
        return "minus" if _is_operand(left) and _is_operand(right) and place.in_equation else ""
    if not sign.space_before:
        return "minus" if _is_operand(left) and place.in_equation else ""
    if sign.space_after and left.text.lower() in _BEFORE_NUMBERS and right.kind in numbers:
        return "minus"
    if sign.space_after and left.kind in numbers and right.kind in numbers and not place.in_equation:
        return "to" if _is_range(left, right) else "minus"
    if sign.space_after:
        both = _is_operand(left) and _is_operand(right)
        return "minus" if both or (place.in_equation and _is_term(right)) else ","
    return "minus" if _is_operand(right) else ","


def _say_prefix(place: _Place) -> str:
    """Signs that belong to what follows: about five, the square root of two, number one."""
    right = place.right
    if place.sign.space_after and place.sign.text != "~":
        raise place.refuse()
    if place.sign.text == "√" and _is_operand(right):
        return "the square root of"
    if right is not None and right.kind in {"number", "quantity"} and not _is_operand(place.left):
        return {"~": "about", "#": "number"}[place.sign.text]
    raise place.refuse()


def say_operator(tokens: Sequence[Token], at: int) -> str:
    """What the sign at `at` is called, "," for a dash, "" for a hyphen.

    Raises:
        Unspeakable: it has no clear reading there.
    """
    place = _Place(tokens, at)
    sign = place.sign.text
    if sign in _BINARY:
        return _say_binary(place)
    if sign in _RELATIONS:
        return _say_relation(place)
    if sign in "~√#":
        return _say_prefix(place)
    if sign == "%" and (place.left is None or place.left.kind != "word"):
        raise place.refuse()
    if sign == "@" and (place.right is None or not place.sign.space_before):
        raise Unspeakable("symbol", "@")
    fixed = {"&": "and", "@": "at", "—": ",", "%": "percent"}
    if sign in fixed:
        return fixed[sign]
    return {"=": _say_equals, "/": _say_slash, "-": _say_hyphen}[sign](place)


def say_times(tokens: Sequence[Token], at: int) -> str:
    """The letter x between two numbers: "times" in an equation, "by" in measures, else the letter."""
    place = _Place(tokens, at)
    left, right = place.left, place.right
    if left is None or right is None or right.kind not in {"number", "quantity"}:
        return "x"
    if left.kind in {"number", "quantity"} or (left.kind == "word" and len(left.text) > 1 and place.in_equation):
        return "times" if place.in_equation else "by"
    return "x"


def _holds_number(place: _Place) -> bool:
    return place.right is not None and place.right.kind in {"number", "quantity"}


def check_brackets(tokens: Sequence[Token]) -> None:
    """Refuses brackets that group a formula: said aloud they would be lost."""
    for at, token in enumerate(tokens):
        place = _Place(tokens, at)
        before = place.left if token.kind == "open" else None
        after = place.right if token.kind == "close" else None
        beside = before or after
        is_sign = beside is not None and beside.kind == "operator" and beside.text not in "-—&"
        is_call = before is not None and not token.space_before and (before.kind in _OPERANDS or _holds_number(place))
        if is_sign or is_call or (beside is not None and beside.text == "-" and place.in_equation):
            raise place.refuse()
