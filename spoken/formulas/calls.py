"""Brackets after a letter: the argument of a function, the samples of a signal, or a factor."""

from itertools import pairwise
from typing import Final

from spoken.formulas.pairs import Pair
from spoken.formulas.tokens import is_operand
from spoken.spoken_text import word_set

_CALLED: Final = word_set("f g h u v y z F G H P E V T U C Q N O φ ψ Φ Ψ phi psi sigma pi")
"""Letters that a bracket right after them makes a function of what is in it; after others it is a factor."""

_CALLED_OF: Final = word_set("x p q r s w i e c d k m D X Y R S M I v a b nu rho W")
_ARGUMENTS: Final = [["t"], ["x"], ["n"], ["z"], ["0"], ["P"], ["Q"], ["q"], ["s"], ["T"]]
"""Letters that are functions of one of these: "p(x)", "x(t)"."""

_CALLED_GREEK: Final = frozenset("δΘΓΩ")
_QUANTITIES: Final = frozenset("TPVNCQ")
"""Letters that "(1 + r)" after them is rather a factor of."""

MAX_ARGUMENTS: Final = 4
"""With as many commas in its brackets or more, a letter before them is no function."""

_SIGNALS: Final = word_set("x y h u g f v w d X Y H")


def say_call(pair: Pair) -> tuple[str, str]:
    """ "f(x)", "f(x, y)", "P(A | B)": an argument that is a sum keeps its brackets."""
    opening = "" if pair.before is not None and pair.before.kind == "function" else "of"
    if not any(token.kind == "operator" and token.text in "+-=<>≤≥±" for token in pair.inside[1:]):
        return opening, ""
    if any(token.text == "|" for token in pair.inside):
        return opening, ","
    return f"{opening} open parenthesis", "close parenthesis"


def _is_factor(pair: Pair) -> bool:
    """Whether a letter is no function of the brackets after it: "y(4 - y)", "RT(1 + B/V)", "P(1 + r)"."""
    letter, inside = pair.line.tokens[pair.start - 1].written, [token.written for token in pair.inside]
    is_sum = inside[:1] == ["1"] and inside[1:2] in (["+"], ["-"])
    is_in_it = any(one == letter and following != "(" for one, following in pairwise([*inside, ""]))
    is_product = letter == "π" and any(sign in inside for sign in "+-×")
    return is_product or (len(letter) == 1 and is_in_it) or (is_sum and letter[-1:] in _QUANTITIES)


def is_called(pair: Pair) -> bool:
    """Whether the brackets hold the argument of a function: "f(x)", "f'(2)", "F_1(x)"."""
    at = pair.start - 1
    tokens = pair.line.tokens
    if _is_factor(pair):
        return False
    if "prime" in tokens[at].text:
        return True
    is_raised = tokens[at].kind == "suffix" and tokens[at].written in {"^2", "^3"} and _is_of_time(pair)
    at -= is_raised
    while at > 0 and tokens[at].kind == "suffix" and tokens[at].written.startswith("_"):
        at -= 1
    letter, inside = tokens[at], pair.inside
    if letter.text == "O" and at > 0 and not letter.space_before and is_operand(tokens[at - 1]):
        return False  # of water, "H_2O(25 K)"
    if letter.written in _CALLED_GREEK or (letter.written == "ρ" and pair.n_commas == 1):
        return True
    if letter.kind not in {"variable", "word"}:
        return False
    if letter.text in _CALLED or _is_defined(pair, at) or any(token.text == "|" for token in inside):
        return True
    if at > 1 and tokens[at - 1].text == "=" and tokens[at - 2].written == letter.written and pair.is_plain:
        return True  # "ρ = ρ(r)"
    if letter.text in _CALLED_OF and [token.written for token in inside] in _ARGUMENTS:
        return True
    return tokens[pair.start].text == "{" and letter.text.isupper() and pair.is_plain


def _is_of_time(pair: Pair) -> bool:
    """ "i^2(t)": the square of what time changes; "x^2(y)" may be a product."""
    return [token.written for token in pair.inside] == ["t"]


def _is_defined(pair: Pair, at: int) -> bool:
    """ "t(24) = 2.1": a letter with a number, alone on its side of an equals sign."""
    earlier, after = pair.line.tokens[at - 1 : at] if at else [], pair.after
    is_first = not earlier or earlier[0].kind in {"word", "mark"}
    is_number = len(pair.inside) == 1 and pair.inside[0].kind == "number"
    return is_first and is_number and after is not None and after.text == "="


def is_sequence(pair: Pair) -> bool:
    """ "y[n]", "x [n - 1]": the samples of a signal."""
    before, inside = pair.before, pair.inside
    is_signal = before is not None and before.kind == "variable" and before.text in _SIGNALS
    return is_signal and pair.is_maths and any(token.written == "n" for token in inside) and not pair.n_commas
