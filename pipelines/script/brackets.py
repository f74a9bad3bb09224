"""Brackets: a pause in prose, "of" after a function, words of their own where they group a formula.

Grouping brackets are named, as teachers do and as the ClearSpeak rules for reading mathematics say: without them
"2 × (3 + 4)" and "2 × 3 + 4" would sound alike.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pipelines.script.spoken import word_set
from pipelines.script.tokens import NUMBERS, Line, Token, is_operand, is_term

_MATHS_SIGNS: Final = frozenset("=+*×÷/<>≤≥≠≈±√∛∜-^∫∑∏∂∇~¬∧∨⊃≡∪∩∈⊂⊆→↔⇒•|‖!∝≪≫⊥∥∀∃∞…'%")
_JOINING: Final = frozenset("=+*×÷/<>≤≥≠≈±√∛∜∫∑∏∂∇~¬∧∨⊃≡∪∩∈⊂⊆↔⇒•∝≪≫∀∃")
_NAMES: Final = {"(": "parenthesis", "[": "bracket", "{": "brace"}
_CALLED: Final = word_set("f g h u v y z F G H P E V T U C Q N φ ψ Φ Ψ phi psi sigma pi")
"""Letters that a bracket right after them makes a function of what is in it; after others it is a factor."""

_CALLED_OF: Final = word_set("x p q r s w i e c d k m D X Y R S M I v a b")
_ARGUMENTS: Final = [["t"], ["x"], ["n"], ["z"], ["0"], ["P"], ["Q"], ["q"], ["s"], ["T"]]
"""Letters that are functions of one of these: "p(x)", "x(t)"."""

_CALLED_GREEK: Final = frozenset("δΘΓ")
_QUANTITIES: Final = frozenset("TPVNCQ")
"""Letters that "(1 + r)" after them is rather a factor of."""

_SIGNALS: Final = word_set("x y h u g f v w d X Y H")
_LISTS: Final = word_set("vector matrix list array row column sequence point pair tuple")
_MAX_ARGUMENTS: Final = 4
_MAX_NESTED: Final = 12


@dataclass(frozen=True, slots=True)
class _Pair:
    start: int
    end: int
    line: Line

    @property
    def inside(self) -> list[Token]:
        return list(self.line.tokens[self.start + 1 : self.end])

    @property
    def before(self) -> Token | None:
        return self.line.tokens[self.start - 1] if self.start else None

    @property
    def after(self) -> Token | None:
        return self.line.tokens[self.end + 1] if self.end + 1 < len(self.line.tokens) else None

    @property
    def is_glued(self) -> bool:
        """Whether something stands right before the bracket, without a space."""
        return self.before is not None and not self.line.tokens[self.start].space_before

    @property
    def is_maths(self) -> bool:
        return bool(self.inside) and all(_is_maths(token) for token in self.inside)


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


def _pairs(line: Line) -> tuple[list[_Pair], list[int]]:
    """Brackets that belong together, inner ones first, and those that stand alone."""
    pairs, opened, alone = [], list[int](), []
    for at, token in enumerate(line.tokens):
        if token.kind == "open":
            opened.append(at)
            if len(opened) > _MAX_NESTED:
                raise line.refuse(at)
        elif token.kind == "close":
            if opened:
                pairs.append(_Pair(opened.pop(), at, line))
            else:
                alone.append(at)
    return pairs, alone + opened


def _joins(pair: _Pair) -> bool:
    """Whether what stands beside the brackets makes them part of a formula."""
    before, after, line = pair.before, pair.after, pair.line
    if (
        before is not None
        and before.kind == "operator"
        and (before.text in _JOINING or _is_minus(line, pair.start - 1))
    ):
        return True
    if before is not None and pair.is_glued and (is_operand(before) or before.kind in {"close", "function"}):
        return True
    if after is None:
        return False
    glued = not line.tokens[pair.end].space_after
    if after.kind == "suffix" or (glued and after.kind in {"open", "number", "variable"}):
        return True
    return after.kind == "operator" and (after.text in _JOINING - {"~", "√"} or _is_minus(line, pair.end + 1))


def _is_minus(line: Line, at: int) -> bool:
    token = line.tokens[at]
    return token.text == "-" and (line.in_equation[at] or token.space_before == token.space_after)


def _n_commas(pair: _Pair) -> int:
    return sum(token.kind == "mark" for token in pair.inside)


def _is_plain(pair: _Pair) -> bool:
    """Whether the content is one thing that needs no brackets to be heard as such."""
    return len([token for token in pair.inside if token.kind != "suffix"]) == 1 and pair.inside[0].kind != "operator"


def _is_measure(pair: _Pair) -> bool:
    """Whether the brackets hold a number with its unit: "H_2 (4.5 eV)"."""
    return len(pair.inside) == 1 and pair.inside[0].kind == "quantity" and pair.inside[0].written[-1].isalpha()


def _follows_closely(pair: _Pair) -> bool:
    return pair.before is not None and pair.before.kind == "close" and pair.is_glued


def _raises_product(pair: _Pair) -> bool:
    """ "(ab)^2": without its brackets the power would be heard of the last letter alone."""
    after = pair.after
    is_product = pair.inside[0].kind == "variable" and " " in pair.inside[0].text
    return is_product and after is not None and after.kind == "suffix"


def _raises_fraction(pair: _Pair) -> bool:
    """ "3 (1/3)^n": the power of a fraction, after a factor."""
    return "/" in pair.inside[0].written and pair.after is not None and pair.after.kind == "suffix"


def _say_call(pair: _Pair) -> tuple[str, str]:
    """ "f(x)", "f(x, y)", "P(A | B)": an argument that is a sum keeps its brackets."""
    opening = "" if pair.before is not None and pair.before.kind == "function" else "of"
    if not any(token.kind == "operator" and token.text in "+-=<>≤≥±" for token in pair.inside[1:]):
        return opening, ""
    if any(token.text == "|" for token in pair.inside):
        return opening, ","
    return f"{opening} open parenthesis", "close parenthesis"


def _is_factor(pair: _Pair) -> bool:
    """Whether a letter is no function of the brackets after it: "y(4 - y)", "RT(1 + B/V)", "P(1 + r)"."""
    letter, inside = pair.line.tokens[pair.start - 1].written, [token.written for token in pair.inside]
    is_sum = inside[:1] == ["1"] and inside[1:2] in (["+"], ["-"])
    is_in_it = any(one == letter and following != "(" for one, following in pairwise([*inside, ""]))
    is_product = letter == "π" and any(sign in inside for sign in "+-×")
    return is_product or (len(letter) == 1 and is_in_it) or (is_sum and letter[-1:] in _QUANTITIES)


def _is_called(pair: _Pair) -> bool:
    """Whether the brackets hold the argument of a function: "f(x)", "f'(2)", "F_1(x)"."""
    at = pair.start - 1
    tokens = pair.line.tokens
    if _is_factor(pair):
        return False
    if "prime" in tokens[at].text:
        return True
    while at > 0 and tokens[at].kind == "suffix" and tokens[at].written.startswith("_"):
        at -= 1
    is_letter = tokens[at].kind in {"variable", "word"}
    if tokens[at].written in _CALLED_GREEK:
        return True
    if is_letter and tokens[at].text in _CALLED_OF and [token.written for token in pair.inside] in _ARGUMENTS:
        return True
    return is_letter and tokens[at].text in _CALLED


def _is_sequence(pair: _Pair) -> bool:
    """ "y[n]", "x [n - 1]": the samples of a signal."""
    before, inside = pair.before, pair.inside
    is_signal = before is not None and before.kind == "variable" and before.text in _SIGNALS
    return is_signal and pair.is_maths and any(token.written == "n" for token in inside) and not _n_commas(pair)


def _say_factor(pair: _Pair) -> tuple[str, str]:
    """ "2(3)", "66(2/3)", "x(1/2)": one thing in brackets after an operand."""
    before, inner = pair.before, pair.inside[0]
    is_mixed = before is not None and before.kind == "number" and "/" in inner.written and before.written.isdigit()
    if is_mixed and " over " not in inner.text:
        return "and", ""
    return ("times" if inner.kind in NUMBERS else ""), ""


def _rises(pair: _Pair) -> bool:
    """Whether the numbers in brackets, if they are two, could be the ends of an interval."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?),(-?\d+(?:\.\d+)?)", "".join(token.written for token in pair.inside))
    return found is None or float(found[1]) < float(found[2])


def _ends_of(pair: _Pair) -> tuple[str, str]:
    """Both ends of an interval in words, with their signs."""
    said = " ".join("minus" if token.text == "-" else token.text for token in pair.inside)
    low, _, high = said.partition(" , ")
    return low, high


def _say_square(pair: _Pair) -> tuple[str, str] | None:
    """ "[0, 1]" by itself is an interval, and so is "[0, 1)", without one of its ends."""
    ends = pair.line.tokens[pair.start].text + pair.line.tokens[pair.end].text
    is_square = ends in {"[]", "[)", "(]"}
    is_listed = pair.before is not None and pair.before.text.lower() in _LISTS
    is_pair = (
        not pair.line.is_list and pair.is_maths and _n_commas(pair) == 1 and len(pair.inside) <= 5 and _rises(pair)
    )
    if is_square and is_pair and not is_listed and not (pair.is_glued and is_term(pair.before)):
        low, high = _ends_of(pair)
        left_out = {"[)": f", without {high},", "(]": f", without {low},"}.get(ends, ",")
        is_open = (ends == "[)" and "infinity" in high) or (ends == "(]" and "infinity" in low)  # never in it
        name = "" if pair.before is not None and pair.before.text == "interval" else "the interval"
        return name, "," if is_open else left_out
    return None


def _say(pair: _Pair) -> tuple[str, str]:
    before = pair.before
    if before is not None and before.kind == "function":
        return _say_call(pair)
    name = _NAMES[pair.line.tokens[pair.start].text]
    if before is not None and before.kind == "suffix" and _is_measure(pair):
        return ",", ","
    if name == "brace" and before is not None and before.kind == "suffix" and pair.is_maths:
        return "of", ","
    if name == "bracket" and _is_sequence(pair):
        return "of", ("" if len(pair.inside) == 1 else ",")
    if name == "brace" and not _joins_tightly(pair):
        is_listed = before is not None and before.text == "set"
        return ("" if is_listed else "the set"), ","
    if square := _say_square(pair):
        return square
    if not pair.inside or not (pair.is_maths and _joins(pair)):
        return _say_prose(pair)
    if before is not None and pair.is_glued and is_operand(before):
        if _is_called(pair) and _n_commas(pair) < _MAX_ARGUMENTS:
            return _say_call(pair)
        if _is_plain(pair):
            return _say_factor(pair)
    elif _is_plain(pair) and before is not None and before.kind == "number" and _raises_fraction(pair):
        return "times", ""
    elif _is_plain(pair) and not _raises_product(pair) and not _follows_closely(pair):
        return "", ""
    return f"open {name}", f"close {name}"


def _joins_tightly(pair: _Pair) -> bool:
    return pair.is_maths and not _n_commas(pair) and _joins(pair)


def _say_prose(pair: _Pair) -> tuple[str, str]:
    before = pair.before
    if pair.is_glued and before is not None and len(pair.inside) == 1 and pair.inside[0].kind == "number":
        return "", ""
    if pair.is_glued and _is_called(pair):
        return "of", ","
    if pair.is_glued and pair.is_maths and before is not None and re.search("[a-z][A-Z]", before.written):
        return _say_call(pair)  # "ReLU(x)"
    return ",", ";" if pair.is_maths and _n_commas(pair) else ","


def _multiplies(pair: _Pair, said: dict[int, str]) -> bool:
    """Whether a fraction in brackets that are not said stands before a factor: "(27/20) 3^n", "(3/5)(1/2)^n"."""
    after = pair.after
    is_fraction = pair.end - pair.start == 2 and "/" in pair.line.tokens[pair.start + 1].written
    is_factor = after is not None and (after.kind == "number" or (after.kind == "open" and after.text == "("))
    return is_fraction and is_factor and said[pair.end] == "" and pair.line.in_equation[pair.start]


def say_brackets(line: Line) -> dict[int, str]:
    """What each bracket of a text is called, by its place among the tokens.

    Raises:
        Unspeakable: a bracket that has no partner stands in a formula.
    """
    said: dict[int, str] = {}
    pairs, alone = _pairs(line)
    for pair in pairs:
        said[pair.start], said[pair.end] = _say(pair)
        if _multiplies(pair, said):
            said[pair.end] = "times"
    for at in alone:
        beside = line.tokens[at - 1 : at] if line.tokens[at].kind == "open" else line.tokens[at + 1 : at + 2]
        if beside and beside[0].kind == "operator" and beside[0].text in _JOINING:
            raise line.refuse(at)
        said[at] = ","
    return said
