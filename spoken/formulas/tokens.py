"""Pieces of a text with their readings, and what can be asked of a piece among its neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Final

from spoken.spoken_text import Unspeakable

NUMBERS: Final = frozenset({"number", "quantity"})
OPERANDS: Final = frozenset({"number", "quantity", "variable", "suffix"})
STARTS: Final = frozenset({"number", "quantity", "variable", "function"})
"""Kinds that end, and that begin, what a sign joins. A suffix is a power or index of what stands before it."""

RELATIONS: Final = "=<>≤≥≠≈≪≫≡∝"
_JOINS_VARIABLES: Final = frozenset("=+*×/<>≤≥≠≈∝√")
OVER_LETTERS: Final = frozenset({"hat", "tilde"})
"""Marks over a letter, which they are said after."""

_SENTENCE_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ()[]~¬")
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
        self.tokens = [self._as_variable(at) for at in range(len(tokens))]

    def _as_variable(self, at: int) -> Token:
        """Capitals beside a sign in an equation are variables multiplied, not a word: "v = RT/P"."""
        token = self.tokens[at]
        if token.kind != "word" or not (
            token.written.isalpha()
            and token.written.isupper()
            and 2 <= len(token.written) <= 3
            and self.in_equation[at]
        ):
            return token
        beside = [*self.tokens[max(at - 1, 0) : at], *self.tokens[at + 1 : at + 2]]
        is_joined = any(
            each.kind == "operator"
            and (each.text in _JOINS_VARIABLES or (each.text == "-" and each.space_before and each.space_after))
            for each in beside
        )
        return replace(token, kind="variable") if is_joined else token

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
    def words(self) -> str:
        """Its words in small letters."""
        return " ".join(token.text.lower() for token in self.tokens if token.kind == "word")

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

    @property
    def joins_sentences(self) -> bool:
        """Whether a sign stands between sentences of formal logic, in capitals: "H • R", "~ A • (B ∨ C)"."""
        sides = [token for token in (self.left, self.right) if token is not None]
        are_letters = all(len(token.written) == 1 and token.written in _SENTENCE_LETTERS for token in sides)
        return are_letters and len(sides) == 2 and not self.in_equation

    @property
    def is_counted(self) -> bool:
        """Whether a word stands after what follows, which may be a thing that is counted: "- 3 apples"."""
        beyond = self.line.tokens[self.at + 2 : self.at + 3]
        return bool(beyond) and beyond[0].kind == "word"

    @property
    def is_call_after(self) -> bool:
        """Whether a name with its argument in brackets follows: "ReLU(x)"."""
        two = self.line.tokens[self.at + 1 : self.at + 3]
        return len(two) == 2 and is_term(two[0]) and two[1].kind == "open" and not two[1].space_before

    @property
    def is_sum_after(self) -> bool:
        """Whether brackets follow that hold letters and numbers with signs between them: "(x - 4)"."""
        inside = takewhile(lambda token: token.kind != "close", self.line.tokens[self.at + 2 :])
        kinds = {token.kind for token in inside if not is_operand(token)}
        return "operator" in kinds and kinds <= {"operator", "function", "open"}

    def refuse(self) -> Unspeakable:
        """The refusal of this token as a formula."""
        return self.line.refuse(self.at)


def is_operand(token: Token | None) -> bool:
    """Whether a sign may have this on its left."""
    if token is None:
        return False
    is_letter = token.kind == "word" and (len(token.text) == 1 or token.text in OVER_LETTERS)
    return token.kind in OPERANDS or is_letter


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
