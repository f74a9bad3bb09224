"""Formulas, chemistry and broken text, as a careful reader says them: one reading a line."""

import pytest

from spoken.reader import Unspeakable, speak

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
    ("|x| < 5", "the absolute value of x is less than five"),
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
    ("H2SO4 and Ca(OH)_2", "H two S O four and C A, O H two"),
    ("2H_2 + O_2 → 2H_2O", "two H two plus O two yields two H two O"),
    ("Fe^{3+}, Cl^- and Na+", "F E three plus, C L minus and N A plus"),
    ("CO_2(g) is formed", "C O two, gas, is formed"),
    ("^{14}C and U-235", "carbon fourteen and uranium two hundred thirty five"),
    ("the Bb parent", "the big B little b parent"),
    ("CD4 cells and p53", "C D four cells and p fifty three"),
    ("the 5' end", "the five prime end"),
]

MENDED = [
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


FROM_EXAMS = [
    # signs, fractions and powers
    ("a fee of (1 / 4)% and odds of 1 / 36", "a fee of one quarter percent and odds of one thirty sixth"),
    ("z = 5t^3/3", "z equals five t cubed over three"),
    ("r = 2V^1/3", "r equals two V to the one third power"),
    ("y[n] = (9/20) 3^n + (1/5) (1/4)^n", "y of n equals nine twentieths times three to the power of n plus one fifth "
                                         "times one quarter to the power of n"),
    ("L^-1 {log (s + 1)}", "L inverse of log of open parenthesis s plus one close parenthesis"),
    ("it falls to $-7$$\\mathrm{~J}$.", "it falls to minus seven joules."),
    # isotopes and ions
    ("of _26Fe^56 and of ^60Co", "of iron fifty six and of cobalt sixty"),
    ("the ion CO32- in water", "the ion C O three two minus in water"),
    ("pure 1,3-dimethylbenzene", "pure one three dimethylbenzene"),
    # units
    ("a pulse of 72/min at 900 r/min", "a pulse of seventy two per minute at nine hundred revolutions per minute"),
    ("a 3 in. pipe, 40 ft. long, of 9 in.^3", "a three inch pipe, forty feet long, of nine cubic inches"),
    ("a BMI of 24 kg/m2.", "a BMI of twenty four kilograms per square meter."),
    ("5 J mol-1 K-1", "five joules per mole per kelvin"),
    ("at 30°S", "at thirty degrees south"),
    ("70 Nm/rad", "seventy newton meters per radian"),
    # ends of sentences
    ("at 9 A.M. The bus left the U.S. It is old.", "at nine in the morning. The bus left the U S. It is old."),
    ("by 3 cu. ft. Find how.", "by three cubic feet. Find how."),
    ("a wave of 4500 Å", "a wave of four thousand five hundred angstroms"),
    ("7 × 10- 3 m high", "seven times ten to the power of minus three meters high"),
    ("a dose of 3 × 10^-9 C", "a dose of three times ten to the power of minus nine coulombs"),
    ("0.5 Btu/hr. ft^2. °F and 2 W/m -°K",
     "zero point five B T U per hour per square foot per degree Fahrenheit and two watts per meter per kelvin"),
    ("cos2t and 9 × 10^\\rule{1em}{1pt}6", "cosine of two t and nine times ten to the power of minus six"),
    ("Algorithm I beats Algorithm II", "Algorithm one beats Algorithm two"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), FROM_EXAMS)
def test_reading_of_what_exams_have(written: str, spoken: str) -> None:
    assert speak(written) == spoken


def test_a_power_that_may_be_a_root_is_refused() -> None:
    with pytest.raises(Unspeakable) as refused:
        speak("y = x^3/2 at x = 4")
    assert refused.value.reason == "formula"


FROM_CLINICS_AND_LABS = [
    ("the factor in ψ is 1 at 30 psi", "the factor in psi is one at thirty pounds per square inch"),
    ("in units of mm Hg", "in units of millimeters of mercury"),
    ("90 U/L (N=22-60)", "ninety units per liter, N equals twenty two to sixty"),
    ("the Na+(aq) ion", "the N A plus, aqueous, ion"),
    ("at 300 . K and 11 $\\mu \\mathrm{T}$", "at three hundred kelvin and eleven microtesla"),
    ("(ab)^3 = 8", "open parenthesis a b close parenthesis cubed equals eight"),
    ("1/45th of it", "one forty fifth of it"),
    ("ty' - y = 0", "t y prime minus y equals zero"),
    ("silk, tea, &c., from China", "silk, tea, et cetera, from China"),
]


@pytest.mark.parametrize(("written", "spoken"), FROM_CLINICS_AND_LABS)
def test_reading_of_findings_and_quantities(written: str, spoken: str) -> None:
    assert speak(written) == spoken
