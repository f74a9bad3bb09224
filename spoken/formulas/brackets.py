"""Reads brackets: a pause in prose, "of" after a function, and named if they group a formula.

Grouping brackets are named, as teachers and the ClearSpeak rules for reading mathematics do: otherwise "2 × (3 + 4)"
and "2 × 3 + 4" would sound the same. Square brackets and braces in formulas are refused.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spoken.formulas.tokens import NUMBERS, Token, TokenSequence, is_operand
from spoken.spoken_text import make_word_set

_JOINING: Final = frozenset("=+*×÷/<>≤≥≠≈±√∛")
"""Signs next to which brackets are part of a formula."""

_MAX_NESTED: Final = 12
_MAX_ARGUMENTS: Final = 4
"""With this many commas or more in its brackets, the letter before them is not a function."""

_CALLED: Final = make_word_set("f g h u v y z F G H P E V T U C Q N O φ ψ Φ Ψ phi psi sigma pi")
"""Letters that are functions if a bracket follows directly; other letters are factors."""

_CALLED_OF: Final = make_word_set("x p q r s w i e c d k m D X Y R S M I v a b nu rho W")
_ARGUMENTS: Final = make_word_set("t x n z 0 P Q q s T")
"""Arguments of which `_CALLED_OF` are functions: "p(x)", "x(t)"."""

_QUANTITIES: Final = frozenset("TPVNCQ")
"""Letters of which "(1 + r)" is rather a factor."""


@dataclass(frozen=True, slots=True)
class BracketPair:
    """A pair of brackets, by their indices among the tokens of a line."""

    start: int
    end: int
    line: TokenSequence

    @property
    def inside(self) -> list[Token]:
        """The tokens between them."""
        return list(self.line.tokens[self.start + 1 : self.end])

    @property
    def before(self) -> Token | None:
        """The token before them."""
        return self.line.tokens[self.start - 1] if self.start else None

    @property
    def after(self) -> Token | None:
        """The token after them."""
        return self.line.tokens[self.end + 1] if self.end + 1 < len(self.line.tokens) else None

    @property
    def is_glued(self) -> bool:
        """Whether a token directly precedes the bracket, without a space."""
        return self.before is not None and not self.line.tokens[self.start].space_before

    @property
    def is_maths(self) -> bool:
        """Whether they contain a formula and no prose."""
        return bool(self.inside) and all(_is_maths(token) for token in self.inside)

    @property
    def is_plain(self) -> bool:
        """Whether the content is one operand, which is understood without brackets."""
        unraised = [token for token in self.inside if token.kind != "suffix"]
        return len(unraised) == 1 and self.inside[0].kind != "operator"

    @property
    def n_commas(self) -> int:
        """Number of marks inside, those in nested brackets included; in a formula they are commas."""
        return sum(token.kind == "mark" for token in self.inside)


def _is_maths(token: Token) -> bool:
    """Returns whether a token may be in a formula.

    Words of several letters may not, except "and" and "or", nor signs and marks that formulas do not have.
    """
    if token.kind in {"operator", "mark"}:
        return token.text in "=+*×÷/<>≤≥≠≈±√∛-^→•|…%,"
    return token.kind != "word" or token.text in {"and", "or"} or max(map(len, token.text.split())) == 1


def read_brackets(line: TokenSequence) -> dict[int, str]:
    """Returns the reading of each bracket of a text, by its index among the tokens.

    Raises:
        Unspeakable: a formula has a bracket without a partner, a square bracket or a brace; brackets are nested too
            deeply, or have several possible readings.
    """
    said: dict[int, str] = {}
    opened: list[int] = []
    alone: list[int] = []
    for at, token in enumerate(line.tokens):
        if token.kind == "open":
            opened.append(at)
            if len(opened) > _MAX_NESTED:
                raise line.make_refusal(at)
        elif token.kind == "close" and opened:
            start = opened.pop()
            said[start], said[at] = _read_pair(BracketPair(start, at, line))
        elif token.kind == "close":
            alone.append(at)
    for at in alone + opened:
        beside = line.tokens[at - 1 : at] if line.tokens[at].kind == "open" else line.tokens[at + 1 : at + 2]
        is_unit = line.tokens[at].kind == "open" and bool(beside) and beside[0].kind in NUMBERS  # "40 (J / mole at"
        if is_unit or (beside and beside[0].kind == "operator" and beside[0].text in _JOINING):
            raise line.make_refusal(at)
        said[at] = ","
    return said


def _read_pair(pair: BracketPair) -> tuple[str, str]:
    """Returns the readings of both brackets: commas in prose, "of" after a function, their names or "" in a formula.

    Raises:
        Unspeakable: they are square brackets or braces in a formula, empty after a name, or may hold a factor or an
            argument.
    """
    before, after = pair.before, pair.after
    if before is not None and before.kind == "function":
        return _read_call(pair)
    if pair.line.tokens[pair.start].text != "(" or pair.line.tokens[pair.end].text != ")":
        if pair.is_maths or pair.is_glued or _is_beside_formula(pair):
            raise pair.line.make_refusal(pair.start)
        return ",", ","
    if not pair.inside and pair.is_glued:
        raise pair.line.make_refusal(pair.start)  # "a density f()"
    if not pair.inside or not (pair.is_maths and _is_beside_formula(pair)):
        return _read_prose(pair)
    if before is not None and is_operand(before) and pair.is_glued:
        if _is_called(pair) and pair.n_commas < _MAX_ARGUMENTS:
            return _read_call(pair)
        if pair.is_plain:
            return ("times" if pair.inside[0].kind in NUMBERS else ""), ""
    elif pair.is_plain and not (
        after is not None and after.kind == "suffix" and (" " in pair.inside[0].text or "/" in pair.inside[0].written)
    ):
        if before is not None and before.kind == "variable" and pair.inside[0].kind == "variable":
            raise pair.line.make_refusal(pair.start)  # "v (t) = 5 t" or a factor
        is_factor = before is not None and before.kind == "close" and pair.is_glued
        follows = after is not None and (after.kind == "number" or (after.kind == "open" and after.text == "("))
        if not is_factor and not (follows and "/" in pair.inside[0].written):
            return "", ""
    return "open parenthesis", "close parenthesis"


def _read_prose(pair: BracketPair) -> tuple[str, str]:
    """Returns the readings of both brackets in prose: mostly commas, but "" around a year or a number.

    Those of a function's argument are "of" and a comma.
    """
    is_number = len(pair.inside) == 1 and pair.inside[0].kind == "number"
    if is_number and (pair.is_glued or re.fullmatch(r"1[5-9]\d\d|20\d\d", pair.inside[0].written)):
        return "", ""  # "a VAR(6) model", "Kendall (1999)"
    if pair.is_glued and _is_called(pair):
        return "of", ","
    return ",", ";" if pair.is_maths and pair.n_commas else ","


def _read_call(pair: BracketPair) -> tuple[str, str]:
    """Returns the readings of the brackets around a function's argument, as in "f(x)"; those of a sum are named too."""
    opening = "" if pair.before is not None and pair.before.kind == "function" else "of"
    if not any(token.kind == "operator" and token.text in "+-=<>≤≥±" for token in pair.inside[1:]):
        divides = any(token.text == "/" for token in pair.inside)
        return opening, "," if divides and pair.after is not None and pair.after.kind == "variable" else ""
    return f"{opening} open parenthesis", "close parenthesis"


def _is_factor(pair: BracketPair) -> bool:
    """Returns whether the letter before the brackets is multiplied by them: "y(4 - y)", "RT(1 + B/V)", "P(1 + r)"."""
    letter, inside = pair.line.tokens[pair.start - 1].written, [token.written for token in pair.inside]
    is_sum = inside[:1] == ["1"] and inside[1:2] in (["+"], ["-"])
    is_product = letter == "π" and any(sign in inside for sign in "+-×")
    is_in_it = any(one == letter and following != "(" for one, following in pairwise([*inside, ""]))
    return is_product or (len(letter) == 1 and is_in_it) or (is_sum and letter[-1:] in _QUANTITIES)


def _is_called(pair: BracketPair) -> bool:
    """Returns whether the brackets contain the argument of a function: "f(x)", "f'(2)", "F_1(x)"."""
    at = pair.start - 1
    tokens = pair.line.tokens
    if _is_factor(pair):
        return False
    if "prime" in tokens[at].text:
        return True
    while at > 0 and tokens[at].kind == "suffix" and tokens[at].written.startswith("_"):
        at -= 1
    letter = tokens[at]
    if letter.kind not in {"variable", "word"}:
        return False
    if at > 0 and letter.text == "O" and not letter.space_before and is_operand(tokens[at - 1]):
        return False  # of water, "H_2O(25 K)"
    if letter.written in "δΘΓΩ":
        return True
    inside = "".join(token.written for token in pair.inside)
    is_alone = at == 0 or tokens[at - 1].kind in {"word", "mark"}
    is_value = is_alone and re.fullmatch(r"\d+", inside) and pair.after is not None and pair.after.text == "="
    return letter.text in _CALLED or bool(is_value) or (letter.text in _CALLED_OF and inside in _ARGUMENTS)


def _is_beside_formula(pair: BracketPair) -> bool:
    """Returns whether the tokens before and after the brackets show that they are part of a formula."""
    before, after, line = pair.before, pair.after, pair.line
    if before is not None and _is_sign(line, pair.start - 1, before):
        return True
    if before is not None and pair.is_glued and (is_operand(before) or before.kind in {"close", "function"}):
        return True
    if after is None:
        return False
    is_glued = not line.tokens[pair.end].space_after
    return (
        after.kind == "suffix"
        or (is_glued and after.kind in {"open", "number", "variable"})
        or (after.text != "√" and _is_sign(line, pair.end + 1, after))
    )


def _is_sign(line: TokenSequence, at: int, token: Token) -> bool:
    """Returns whether the token at `at` is a sign of a formula; a hyphen is only if it can be a minus."""
    if token.kind != "operator":
        return False
    is_minus = token.text == "-" and (line.in_equation[at] or token.space_before == token.space_after)
    return token.text in _JOINING or is_minus
