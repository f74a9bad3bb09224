"""Formulas, chemistry and broken text, as a careful reader says them: one reading a line."""

import pytest

from pipelines.script.speakable import speak

FORMULAS = [
    # brackets
    ("2 × (3 + 4)", "two times open parenthesis three plus four close parenthesis"),
    ("(1/2) × 6", "one half times six"),
    ("2(3) = 6", "two times three equals six"),
    ("at 6(1/2)% a year", "at six and one half percent a year"),
    ("f(x) and g(x, y)", "f of x and g of x, y"),
    ("f'(2) = 6", "f prime of two equals six"),
    ("P(A|B)", "P of A given B"),
    ("the points (1,5) and (2,3)", "the points, one, five; and, two, three"),
    ("a VAR(6) model", "a VAR six model"),
    ("{1, 2, 3}", "the set one, two, three"),
    ("|x| < 5", "the absolute value of x, is less than five"),
    # powers, indexes, functions
    ("e^{-x}", "e to the power of minus x"),
    ("x_1 + x_2", "x one plus x two"),
    ("x^{n+1}", "x to the n plus one power"),
    ("a_{n+1} = 2", "a sub n plus one, equals two"),
    ("sin^2(x) + cos 2x", "sine squared of x plus cosine of two x"),
    ("log_2 8 = 3", "log base two of eight equals three"),
    ("y'' - 2y' = 0", "y double prime minus two y prime equals zero"),
    ("5! = 120", "five factorial equals one hundred twenty"),
    ("1, 2, ..., n", "one, two, dot dot dot, n"),
    ("(∀x)Px", "for all x, P x"),
    # LaTeX
    ("\\int_0^1 x dx", "the integral from zero to one of x d x"),
    ("\\sum_{i=1}^{n} i", "the sum from i equals one to n of i"),
    ("\\lim_{x \\to 0} f(x)", "the limit as x approaches zero of f of x"),
    ("\\frac{a+b}{2}", "open parenthesis a plus b close parenthesis over two"),
    ("\\sqrt{x} and \\sqrt[3]{8}", "the square root of x and the cube root of eight"),
    ("\\DeltaH at 5\\%", "delta H at five percent"),
    ("\x08eta and \x07lpha", "beta and alpha"),
    ("what is $k$ if $a, b$", "what is k if a, b"),
    ("5 \\mathrm{~kJ} \\mathrm{~mol}^{-1}", "five kilojoules per mole"),
    # powers of ten, also with the sign or the caret lost
    ("3 x 10^8 m/s", "three times ten to the power of eight meters per second"),
    ("1.01 10^{-5} m", "one point zero one times ten to the power of minus five meters"),
    ("1.36 × 10-11", "one point three six times ten to the power of minus eleven"),
    ("4.2 x 106 joules", "four point two times ten to the power of six joules"),
    # units
    ("10^5 J/mol·K", "ten to the power of five joules per mole per kelvin"),
    ("8 J/(mol K)", "eight joules per mole per kelvin"),
    ("5 W m^-2 K^-1", "five watts per square meter per kelvin"),
    ("12 Btu/hr-ft^2-°F", "twelve B T U per hour per square foot per degree Fahrenheit"),
    ("blood pressure is 110/70 mm Hg", "blood pressure is one hundred ten over seventy millimeters of mercury"),
    ("5'6\" tall", "five feet six inches tall"),
    ("heated to 80 C", "heated to eighty degrees Celsius"),
    ("a charge of 3 C", "a charge of three coulombs"),
]  # fmt: skip

CHEMISTRY = [
    ("H2SO4 and Ca(OH)_2", "H two S O four and C A, O H twice"),
    ("2H_2 + O_2 → 2H_2O", "two H two plus O two yields two H two O"),
    ("Fe^{3+}, Cl^- and Na+", "F E three plus, C L minus and N A plus"),
    ("CO_2(g) is formed", "C O two, gas, is formed"),
    ("^{14}C and U-235", "carbon fourteen and uranium two hundred thirty five"),
    ("the Bb parent", "the big B little b parent"),
    ("CD4 cells and p53", "C D four cells and p fifty three"),
    ("the 5' end", "the five prime end"),
]

MENDED = [
    ("what isLibermanism", "what is Libermanism"),
    ("the productsA", "the products A"),
    ("Whatis inthe box", "What is in the box"),
    ("aFreudian view", "a Freudian view"),
    ("in3 years, last10years", "in three years, last ten years"),
    ("sets of 1,2,3 or 1,250", "sets of one, two, three or one thousand two hundred fifty"),
    ("1 atm = 1.013 25 bar", "one atmosphere equals one point zero one three two five bar"),
    ("450 000 people", "four hundred fifty thousand people"),
    ("it\x80\x99s the fiancÃ©e", "it's the fiancee"),
    ("А Senior Center", "A Senior Center"),  # the first letter is Cyrillic
    ("<b>bold</b> x<sup>2</sup>", "bold x squared"),
    ("&lt; 5 &amp; more", "less than five and more"),
    ("mail joe.doe@example.org", "mail joe dot doe at example dot org"),
    ("see www.example.org", "see example dot org"),
]


@pytest.mark.parametrize(("written", "spoken"), FORMULAS + CHEMISTRY + MENDED)
def test_reading_of_formulas(written: str, spoken: str) -> None:
    assert speak(written) == spoken
