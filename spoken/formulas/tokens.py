"""Tokens of a text with their readings, and questions about a token and its neighbours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from spoken.spoken_text import Unspeakable

NUMBERS: Final = frozenset({"number", "quantity"})
OPERANDS: Final = frozenset({"number", "quantity", "variable", "suffix"})
"""Kinds of tokens that end an operand. A suffix is a power or index of the previous token."""

_RELATIONS: Final = "=<>≤≥≠≈"
_JOINS_VARIABLES: Final = frozenset("=+*×/<>≤≥≠≈√")
OVER_LETTERS: Final = frozenset({"hat", "tilde", "bar"})
"""Marks over a letter, which are said after it."""

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


class TokenSequence:
    """All tokens of a text, and their common properties.

    Args:
        tokens: the tokens; two or three capitals become a variable beside a sign in an equation ("v = RT/P").
        is_formula: whether the text is a nested formula, so that every token counts as part of an equation.
    """

    def __init__(self, tokens: Sequence[Token], is_formula: bool = False) -> None:
        self.tokens = tokens
        self._is_formula = is_formula
        self.tokens = [self._convert_to_variable(at) for at in range(len(tokens))]

    def _convert_to_variable(self, at: int) -> Token:
        """Returns token `at`, as a variable if it is two or three capitals beside a sign in an equation: "v = RT/P"."""
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
        """For each token, whether its sentence has an equals sign or another relation, or the text is a formula."""
        flags = [self._is_formula] * len(self.tokens)
        start = 0
        for at, token in enumerate([*self.tokens, Token("mark", ".", ".", 0, 0, False, False)]):
            if token.kind == "mark" and token.text in _SENTENCE_ENDS:
                if any(each.kind == "operator" and each.text in _RELATIONS for each in self.tokens[start:at]):
                    flags[start:at] = [True] * (at - start)
                start = at + 1
        return flags

    def has_nearby(self, pattern: re.Pattern[str], at: int) -> bool:
        """Returns whether a pattern occurs in the text from 20 tokens before token `at` to four after it."""
        return pattern.search(" ".join(token.text for token in self.tokens[max(0, at - 20) : at + 5])) is not None

    def make_refusal(self, at: int, reason: str = "formula") -> Unspeakable:
        """Returns the error to raise for token `at`, with the tokens around it as its detail."""
        return Unspeakable(reason, " ".join(token.written for token in self.tokens[max(0, at - 3) : at + 4]))


@dataclass(frozen=True, slots=True)
class TokenPosition:
    """One token with its neighbours."""

    line: TokenSequence
    at: int

    @property
    def sign(self) -> Token:
        """The token itself."""
        return self.line.tokens[self.at]

    @property
    def left(self) -> Token | None:
        """The token before it."""
        return self.get_neighbour(-1)

    @property
    def right(self) -> Token | None:
        """The token after it."""
        return self.get_neighbour(1)

    def get_neighbour(self, offset: int) -> Token | None:
        """Returns the token at an offset from this one; None beyond the text."""
        at = self.at + offset
        return self.line.tokens[at] if 0 <= at < len(self.line.tokens) else None

    @property
    def in_equation(self) -> bool:
        """Whether its sentence has an equals sign or another relation, or the text is a formula."""
        return self.line.in_equation[self.at]

    @property
    def is_tight(self) -> bool:
        """Whether there is no space on either side of it."""
        return not (self.sign.space_before or self.sign.space_after)

    def make_refusal(self, reason: str = "formula") -> Unspeakable:
        """Returns the error to raise for this token, with the tokens around it as detail."""
        return self.line.make_refusal(self.at, reason)


def is_operand(token: Token | None) -> bool:
    """Returns whether a token is an operand or its end: a number, a variable, a suffix, a single letter or its mark.

    False for None.
    """
    if token is None:
        return False
    is_letter = token.kind == "word" and (len(token.text) == 1 or token.text in OVER_LETTERS)
    return token.kind in OPERANDS or is_letter


def is_term(token: Token | None) -> bool:
    """Returns whether a token is a number, a letter, a word or the name of a function; False for None."""
    return token is not None and (token.kind in OPERANDS or token.kind in {"word", "function"})


def ends_term(token: Token | None) -> bool:
    """Returns whether a token may end a term: it is as in `is_term`, or a closing bracket."""
    return is_term(token) or (token is not None and token.kind == "close")


def starts_term(place: TokenPosition) -> bool:
    """Returns whether a term follows: a number, letter, word or opening bracket, also after a sign of its own."""
    right = place.right
    if right is None:
        return False
    return is_term(right) or right.kind == "open" or (right.kind == "operator" and right.text in "-+√±")
