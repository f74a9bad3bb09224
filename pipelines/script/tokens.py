"""Pieces of a text with their readings, and what can be asked of a piece among its neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pipelines.script.spoken import Unspeakable

NUMBERS: Final = frozenset({"number", "quantity"})
OPERANDS: Final = frozenset({"number", "quantity", "variable", "suffix"})
STARTS: Final = frozenset({"number", "quantity", "variable", "function"})
"""Kinds that end, and that begin, what a sign joins. A suffix is a power or index of what stands before it."""

RELATIONS: Final = "=<>≤≥≠≈≪≫≡∝"
_SENTENCE_ENDS: Final = frozenset({".", "?", "!", ";"})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece `[start, end)` of the text; `text` is its reading, or the sign itself for operators, brackets and marks.

    Kinds: number, quantity (a number with its unit), variable, suffix, function, word, operator, open, close, mark.
    """

    kind: str
    text: str
    written: str
    start: int
    end: int
    space_before: bool
    space_after: bool


class Line:
    """All tokens of a text, and what is known of them as a whole."""

    def __init__(self, tokens: Sequence[Token], is_formula: bool = False) -> None:
        self.tokens = tokens
        self._is_formula = is_formula

    @cached_property
    def in_equation(self) -> list[bool]:
        """For each token, whether an equals sign or the like stands in its sentence."""
        flags = [self._is_formula] * len(self.tokens)
        start = 0
        for at, token in enumerate([*self.tokens, Token("mark", ".", ".", 0, 0, False, False)]):
            if token.kind == "mark" and token.text in _SENTENCE_ENDS:
                if any(each.kind == "operator" and each.text in RELATIONS for each in self.tokens[start:at]):
                    flags[start:at] = [True] * (at - start)
                start = at + 1
        return flags

    @cached_property
    def is_logic(self) -> bool:
        """Whether signs of formal logic stand in it; there a slash comes before the conclusion."""
        return any(token.kind == "operator" and token.text in "⊃∨∀∃" for token in self.tokens)

    @cached_property
    def is_list(self) -> bool:
        """Whether it speaks of a list, whose square brackets are no interval."""
        return any(token.text.lower() in {"list", "lists", "coordinates", "optimal"} for token in self.tokens)

    def refuse(self, at: int, reason: str = "formula") -> Unspeakable:
        """The refusal of the token at `at`, with its neighbours for the eye."""
        return Unspeakable(reason, " ".join(token.written for token in self.tokens[max(0, at - 3) : at + 4]))


@dataclass(frozen=True, slots=True)
class Place:
    """One token among its neighbours."""

    line: Line
    at: int

    @property
    def sign(self) -> Token:
        """The token itself."""
        return self.line.tokens[self.at]

    @property
    def left(self) -> Token | None:
        """The token before it."""
        return self.line.tokens[self.at - 1] if self.at else None

    @property
    def right(self) -> Token | None:
        """The token after it."""
        return self.line.tokens[self.at + 1] if self.at + 1 < len(self.line.tokens) else None

    @property
    def in_equation(self) -> bool:
        """Whether an equals sign or the like stands in the same sentence."""
        return self.line.in_equation[self.at]

    def refuse(self) -> Unspeakable:
        """The refusal of this token as a formula."""
        return self.line.refuse(self.at)


def is_operand(token: Token | None) -> bool:
    """Whether a sign may have this on its left."""
    return token is not None and (token.kind in OPERANDS or (token.kind == "word" and len(token.text) == 1))


def is_term(token: Token | None) -> bool:
    """Whether this is a number, a letter or a word."""
    return token is not None and (token.kind in OPERANDS or token.kind in {"word", "function"})


def ends_term(token: Token | None) -> bool:
    """Whether a sum or product may end here: an operand, a word, or a closing bracket."""
    return is_term(token) or (token is not None and token.kind == "close")


def starts_term(place: Place) -> bool:
    """Whether a number, letter, word or bracket follows, possibly after its own sign."""
    right = place.right
    if right is None:
        return False
    if right.kind == "operator" and right.text in "-+√∛∜±∫∑∏∂∇~¬∀∃∞…|‖":
        return True
    return is_term(right) or right.kind == "open"
