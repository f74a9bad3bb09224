"""Signs of comparison and equality: where "is" is said, where not, and how a chain of them is told."""

import pytest

from spoken.reader import speak

DOMAINS = [
    ("for even k > 4, find it", "for even k greater than four, find it"),
    ("for all y > 0 and z > 1 it holds", "for all y greater than zero and z greater than one it holds"),
    ("every integer k ≥ 2", "every integer k greater than or equal to two"),
    ("There is a constant c > 0.", "There is a constant c greater than zero."),
    ("the interval 1 <= u <= 9", "the interval one less than or equal to u less than or equal to nine"),
    ("g(u) = 4 for |u| < 2", "g of u equals four for the absolute value of u less than two"),
    ("If y > 0, then z < 2.", "If y is greater than zero, then z is less than two."),
    ("the k for which k > 3", "the k for which k is greater than three"),
    ("Let d > 0.", "Let d be greater than zero."),
]
CHAINS = [
    ("where 0 < u < 1", "where zero is less than u, which is less than one"),
    ("3d < 4s < 4p", "three d is less than four s, which is less than four p"),
    ("Zn > Sn > Cu", "zinc is greater than tin, which is greater than copper"),
    ("2 < \\bar{Y} < 6", "two is less than Y bar, which is less than six"),
    ("0 < u > 1", "zero is less than u is greater than one"),
]
EQUALS = [
    ("Let g(u) = 2u and h(u) = 5.", "Let g of u equal two u and h of u equal five."),
    ("Let a = 3, b = 4, and c = 5.", "Let a equal three, b equal four, and c equal five."),
    ("Let u be the value where v = 3.", "Let u be the value where v equals three."),
    ("Here u = 3.", "Here u equals three."),
]


@pytest.mark.parametrize(("written", "said"), DOMAINS + CHAINS + EQUALS)
def test_signs_of_comparison(written: str, said: str) -> None:
    assert speak(written) == said
