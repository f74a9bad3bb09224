"""Arrows: of reactions, limits, logic, and those that only point."""

import re
from typing import Final

from spoken.formulas.tokens import Place, ends_term, starts_term
from spoken.rules.chemistry import COMPOUND

ARROWS: Final = {"→": "to", "←": "from", "↔": "if and only if", "⇒": ", so", "⇌": "in equilibrium with",
                  "↑": "up", "↓": "down"}  # fmt: skip
"""Arrows and what they are called where nothing else is known of them."""


def _nears(place: Place) -> bool:
    """ "as x → 0": a variable that comes near to something."""
    cue = place.line.tokens[place.at - 2] if place.at >= 2 else None
    return place.left is not None and place.left.kind == "variable" and cue is not None and cue.text == "as"


def say_arrow(place: Place) -> str:
    """What an arrow is called: "yields" in a reaction, "approaches" in a limit, else "to" or what it means in logic.

    Raises:
        Unspeakable: nothing stands on one side of it.
    """
    name = ARROWS[place.sign.text]
    if place.sign.text not in "↑↓" and not (ends_term(place.left) and starts_term(place)):
        if name == ", so" and starts_term(place):
            return name
        raise place.refuse()
    if name == "to" and _nears(place):
        return "approaches"
    return "yields" if place.sign.text == "→" and _is_reaction(place) else name


def _is_reaction(place: Place) -> bool:
    """Whether a chemical formula stands on either side of an arrow: "2H_2O → 2H_2"."""
    beside = [token.text for token in (place.left, place.right) if token is not None and token.kind == "word"]
    if any(re.search(r"\b[A-Z] (?:[A-Z]|two|three|four|five|six|eight)\b", text) for text in beside):
        return True
    tokens = place.line.tokens
    before, after = (
        "".join(f" {token.written}" if token.space_before else token.written for token in part)
        for part in (tokens[max(0, place.at - 5) : place.at], tokens[place.at + 1 : place.at + 6])
    )
    sides = (before.split()[-1:], after.split()[:1])
    bare = [re.sub(r"^\d+|[_{}]|\([a-z]+\)$", "", side[0]) for side in sides if side]
    return any(COMPOUND.fullmatch(each) and re.search(r"\d", each) for each in bare)
