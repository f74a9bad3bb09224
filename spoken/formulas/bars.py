"""One bar: a condition, "such that" in a set, or refused where it may tell of a divisor."""

from spoken.formulas.tokens import NUMBERS, Place, is_operand, is_term, starts_term


def say_bar(place: Place) -> str:
    """What a bar is called that is not one of the two about an absolute value.

    Raises:
        Unspeakable: nothing stands on one side of it, or "3 | 12" and "a | b" may tell of a divisor.
    """
    left, right = place.left, place.right
    ends = is_term(left) or (left is not None and left.kind == "close")
    if left is None or right is None or not ends or not starts_term(place):
        raise place.refuse()
    opening = _opening(place)
    if opening is None:
        if left.kind in NUMBERS or (left.kind == "variable" and left.written.islower()):
            raise place.refuse()
        return "given"
    if _is_called(place, opening):
        return "given"
    is_set = place.line.tokens[opening].text == "{"
    told = is_set and any(token.text in {":", "|"} for token in place.line.tokens[opening : place.at])
    if told or left.kind in NUMBERS:
        raise place.refuse()
    return "such that" if is_set else "given"


def _opening(place: Place) -> int | None:
    """Which token opens the brackets that the bar stands in; None where it stands in none."""
    n_closed = 0
    for at in range(place.at - 1, -1, -1):
        kind = place.line.tokens[at].kind
        if kind == "open" and n_closed == 0:
            return at
        n_closed += (kind == "close") - (kind == "open")
    return None


def _is_called(place: Place, opening: int) -> bool:
    """Whether the brackets hold the argument of a function: "P(1 | 0)"."""
    tokens = place.line.tokens
    return opening > 0 and not tokens[opening].space_before and is_operand(tokens[opening - 1])
