"""Brackets that belong together, what stands in them and what beside them."""

from dataclasses import dataclass
from typing import Final

from spoken.formulas.tokens import Line, Token, is_operand

_MATHS_SIGNS: Final = frozenset("=+*×÷/<>≤≥≠≈±√∛∜-^∫∑∏∂∇~¬∧∨⊃≡∪∩∈⊂⊆→↔⇒•|‖!∝≪≫⊥∥∀∃∞…'%")
JOINING: Final = frozenset("=+*×÷/<>≤≥≠≈±√∛∜∫∑∏∂∇~¬∧∨⊃≡∪∩∈⊂⊆↔⇒•∝≪≫∀∃")
"""Signs that make brackets beside them part of a formula."""

_MAX_NESTED: Final = 12


@dataclass(frozen=True, slots=True)
class Pair:
    """Two brackets, by their places among the tokens of a line."""

    start: int
    end: int
    line: Line

    @property
    def inside(self) -> list[Token]:
        """What stands between them."""
        return list(self.line.tokens[self.start + 1 : self.end])

    @property
    def before(self) -> Token | None:
        """What stands before them."""
        return self.line.tokens[self.start - 1] if self.start else None

    @property
    def after(self) -> Token | None:
        """What stands after them."""
        return self.line.tokens[self.end + 1] if self.end + 1 < len(self.line.tokens) else None

    @property
    def is_glued(self) -> bool:
        """Whether something stands right before the bracket, without a space."""
        return self.before is not None and not self.line.tokens[self.start].space_before

    @property
    def is_maths(self) -> bool:
        """Whether they hold a formula and no prose."""
        return bool(self.inside) and all(_is_maths(token) for token in self.inside)

    @property
    def is_plain(self) -> bool:
        """Whether the content is one thing that needs no brackets to be heard as such."""
        unraised = [token for token in self.inside if token.kind != "suffix"]
        return len(unraised) == 1 and self.inside[0].kind != "operator"

    @property
    def n_commas(self) -> int:
        """Marks in them, which are commas in a formula."""
        return sum(token.kind == "mark" for token in self.inside)


def _is_maths(token: Token) -> bool:
    if token.kind == "operator":
        return token.text in _MATHS_SIGNS
    if token.kind == "mark":
        return token.text == ","
    return (
        token.kind not in {"word"}
        or max(map(len, token.text.split())) == 1
        or token.text in {"and", "or", "choose", "mod"}
    )


def pairs_of(line: Line) -> tuple[list[Pair], list[int]]:
    """Brackets that belong together, inner ones first, and the places of those that stand alone.

    Raises:
        Unspeakable: more stand in each other than anybody follows.
    """
    pairs, opened, alone = [], list[int](), []
    for at, token in enumerate(line.tokens):
        if token.kind == "open":
            opened.append(at)
            if len(opened) > _MAX_NESTED:
                raise line.refuse(at)
        elif token.kind == "close":
            if opened:
                pairs.append(Pair(opened.pop(), at, line))
            else:
                alone.append(at)
    return pairs, alone + opened


def joins(pair: Pair) -> bool:
    """Whether what stands beside the brackets makes them part of a formula."""
    before, after, line = pair.before, pair.after, pair.line
    if before is not None and before.kind == "operator" and (before.text in JOINING or _is_minus(line, pair.start - 1)):
        return True
    if before is not None and pair.is_glued and (is_operand(before) or before.kind in {"close", "function"}):
        return True
    if after is None:
        return False
    glued = not line.tokens[pair.end].space_after
    if after.kind == "suffix" or (glued and after.kind in {"open", "number", "variable"}):
        return True
    return after.kind == "operator" and (after.text in JOINING - {"~", "√"} or _is_minus(line, pair.end + 1))


def _is_minus(line: Line, at: int) -> bool:
    token = line.tokens[at]
    return token.text == "-" and (line.in_equation[at] or token.space_before == token.space_after)
