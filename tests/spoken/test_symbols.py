"""Letters that only the whole text tells apart: genes, hypotheses, means, rows and columns."""

import pytest

from spoken.reader import speak
from spoken.rules.rule import reading_about

READINGS = [
    ("The alleles R and r give RR, Rr and rr.",
     "The alleles big R and little r give big R big R, big R little r and little r little r."),
    ("the X gene in a cross of Rr x Rr", "the X gene in a cross of big R little r x big R little r"),
    ("a force R at a radius r", "a force R at a radius r"),
    ("the field where r < R", "the field where little r is less than big R"),
    ("H0: μ = 9 against Ha: μ > 9", "H zero: mu equals nine against H A: mu is greater than nine"),
    ("Ha, she said.", "Ha, she said."),
    ("Find the mean $\\langle v \\rangle$ of it.", "Find the mean the expectation value of v of it."),
    ("let $\\langle k\\rangle$ denote the next prime", "let k in angle brackets denote the next prime"),
    ("a magnetic field of 2.0 kT", "a magnetic field of two point zero kilotesla"),
    ("an energy of 2.0 kT in a magnetic field at this temperature",
     "an energy of two point zero k T in a magnetic field at this temperature"),
    ("b_12 = 2 and b_21 = 3", "b one two equals two and b two one equals three"),
    ("b_12 = 2 and b_13 = 3", "b twelve equals two and b thirteen equals three"),
    ("a Gly12Val change", "a G L Y twelve V A L change"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "said"), READINGS)
def test_letters_that_the_text_tells_apart(written: str, said: str) -> None:
    assert speak(written) == said


def test_an_answer_calls_genes_as_its_question_does() -> None:
    with reading_about("The alleles are K and k. What are they?"):
        assert speak("KK, or K and k") == "big K big K, or big K and little k"
