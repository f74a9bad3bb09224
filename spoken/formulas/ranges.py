"""A hyphen between two bare numbers: a difference, a range, or part of a telephone number, as its neighbours show."""

import re
from typing import Final

from spoken.formulas.tokens import Place, Token
from spoken.rules.money import FUNCTION_WORDS
from spoken.rules.rule import about
from spoken.spoken_text import word_set

_ORDERS: Final = word_set("calculate compute evaluate find simplify subtract solve equals")
_RANGE_CUES: Final = word_set("from between page age aged about around approximately roughly nearly range year scale")
_NOT_PLURAL: Final = word_set("is was has does this his its us as equals minus plus times less thus yes")
_UNCOUNTED: Final = (FUNCTION_WORDS - {"people", "per", "more"}) | {"today", "now", "later", "tomorrow", "again"}
_SUM_SIGNS: Final = frozenset("+*×÷-√")


def _at(place: Place, offset: int) -> Token | None:
    at = place.at + offset
    return place.line.tokens[at] if 0 <= at < len(place.line.tokens) else None


def _is_sign(token: Token | None, signs: frozenset[str]) -> bool:
    return token is not None and token.kind == "operator" and token.text in signs


def _is_counted(place: Place) -> bool:
    """Whether a noun follows: "5 - 10 people"."""
    noun = _at(place, 2)
    return noun is not None and noun.kind == "word" and len(noun.text) > 1 and noun.text not in _UNCOUNTED


def is_difference(place: Place) -> bool:
    """Whether the numbers about a hyphen stand in a sum, or are what one is asked to work out: "What is 3 - 35?"."""
    glued = not place.sign.space_before
    signs = _SUM_SIGNS - {"-"} if glued else _SUM_SIGNS
    if _is_sign(_at(place, 2), signs) or _is_sign(_at(place, -2), signs):
        return True
    cue, earlier = _at(place, -2), _at(place, -3)
    right = _at(place, 1)
    if cue is None or _is_counted(place) or (right is not None and right.kind == "quantity"):
        return False
    pair = (earlier.text.lower() if earlier is not None else "", cue.text.lower())
    return pair[1] in _ORDERS or pair in {("what", "is"), ("value", "of"), ("result", "of"), ("much", "is")}


def tells_range(place: Place, left: Token, right: Token) -> bool:
    """Whether a unit, a noun, years or the word before show that a hyphen stands for "to"."""
    if "quantity" in {left.kind, right.kind} or (len(left.written) == len(right.written) == len("1914")):
        return True
    cue = _at(place, -2)
    if _is_counted(place):
        return True
    if cue is None or cue.kind != "word":
        return False
    word = cue.text.lower()
    return word in _RANGE_CUES or (word.endswith("s") and word not in _NOT_PLURAL)


def range_word(place: Place) -> str:
    """What is said between the ends of a range."""
    cue = _at(place, -2)
    return "and" if cue is not None and cue.text.lower() == "between" else "to"


def is_telephone(place: Place, left: Token, right: Token) -> bool:
    """Whether three and four digits may be somebody's number: "555-1234"."""
    written = re.fullmatch(r"\d{3}-\d{4}", f"{left.written}-{right.written}")
    return written is not None and not right.written.endswith("00") and not tells_range(place, left, right)


def _value(token: Token) -> float | None:
    top, _, bottom = token.written.strip("$£€¥%° ").replace(",", "").partition("/")
    try:
        return float(top) / float(bottom or "1")
    except (ValueError, ZeroDivisionError):
        return None


def is_rising(left: Token, right: Token) -> bool:
    """Whether two numbers rise, or are of a kind without a size here, such as times of day."""
    low, high = _value(left), _value(right)
    return low is None or high is None or low < high


def is_normal_range(place: Place) -> bool:
    """ "N=22-198" beside a finding in medicine: the range that is normal."""
    before = place.line.tokens[max(0, place.at - 3) : place.at - 1]
    return [token.written for token in before] == ["N", "="]


def is_chained(place: Place) -> bool:
    """Whether the two numbers about a hyphen are part of a longer sum: "12 - 2 - 2"."""
    return any((token := _at(place, offset)) is not None and token.text in {"-", "+"} for offset in (-2, 2))


def is_factored(place: Place) -> bool:
    """Whether the second number goes on as a product or quotient: "1 - 1/e"."""
    beyond = _at(place, 2)
    return beyond is not None and beyond.kind == "operator" and beyond.text in "/×*"


_OF_MATRICES: Final = re.compile(r"\bmatri(?:x|ces)\b.*\bdimensions?\b|\bdimensions?\b.*\bmatri(?:x|ces)\b", re.DOTALL)


def is_size(place: Place) -> bool:
    """Whether a sign stands between two whole numbers where matrices are spoken of: "dimensions 3 × 4"."""
    are_whole = all(side is not None and side.written.isdigit() for side in (place.left, place.right))
    return are_whole and _OF_MATRICES.search(f"{place.line.words} {about()}") is not None
