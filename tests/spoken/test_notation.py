"""Formulas and units in another order or with other signs than is usual: what is said of each."""

import pytest

from pipelines.script.askable import NotAskable, check_brackets, check_wording
from spoken.reader import Unspeakable, speak
from spoken.rules.rule import reading_about

READINGS = [
    # bounds before their sign, arrows after their letter, stars, pairs
    ("G(z) = ^\\infty\\sum_k=0 g[k] z^-k",
     "G of z equals the sum from k equals zero to infinity of g of k z to the power of minus k"),
    ("^\\infty\\int0e^-at dt", "the integral from zero to infinity of e to the power of minus a t d t"),
    ("^+\\infty\\int_-\\infty w(x)dx", "the integral from minus infinity to plus infinity of w of x d x"),
    ("the field D^\\ding{217} is weak", "the field vector D is weak"),
    ("an acceleration g\\ding{217}, then", "an acceleration vector g, then"),
    ("strings over {a, b}^* end", "strings over the set a, b, star end"),
    ("N* in M* is", "N star in M star is"),
    ("edges {<3,4>,<4,5>} are drawn", "edges the set, three, four; four, five; are drawn"),
    ("g(t) {_\\ast} h(t)", "g of t convolved with h of t"),
    ("the norm ||y||_2 is", "the two norm of y is"),
    ("|G(w)| ^2 = 3", "the absolute value of G of w, squared equals three"),
    ("\\int_0^1 |h(t)|dt", "the integral from zero to one of the absolute value of h of t, d t"),
    ("The matrix B = [[5, 6], [7, 8]] is", "The matrix B, with the rows five, six; and seven, eight; is"),
    ("the rank of [[1, -2], [0, 4]]", "the rank of the matrix with the rows one, minus two; and zero, four"),
    ("detP + 2", "the determinant of P plus two"),
    ("If h (y) = f (–y) here", "If h of y equals f of minus y here"),
    ("3(2z — 5) and 4z — 9", "three open parenthesis two z minus five close parenthesis and four z minus nine"),
    ("the z - transform of it", "the z transform of it"),
    ("Q = D(P) = 80 - 40P", "Q equals D of P equals eighty minus forty P"),
    ("an angle of .3pi, or 5pi/7", "an angle of zero point three pi, or five pi over seven"),
    ("i_L (t) = 2 and ν_R(t) = 3", "i L of t equals two and nu R of t equals three"),
    ("a charge ρ=ρ(r) inside", "a charge rho equals rho of r inside"),
    ("a new K' for it", "a new K prime for it"),
    ("L^-1{2/s}", "L inverse of two over s"),
    ("L^{-1}[3/s]", "L inverse of open bracket three over s close bracket"),
    ("the value ΔH_f° of it", "the value delta H f naught of it"),
    # dollars about formulas and money
    ("What is $\\hat{p} \\bar{q}?", "What is p hat q bar?"),
    ("a bill of $ \\$70 $ before", "a bill of seventy dollars before"),
    ("to lend $\\$20,\\!000$ now", "to lend twenty thousand dollars now"),
    ("the line$$y = \\frac{1}{x}.$$ Find", "the line y equals one over x. Find"),
    ("a charge of $-e / 2$. Then", "a charge of minus e over two. Then"),
    ("fees of $300. 00", "fees of three hundred dollars"),
    # particles, isotopes, ions
    ("two isotopes, ^150X and ^152X", "two isotopes, X one hundred fifty and X one hundred fifty two"),
    ("the ${ }^6 \\mathrm{Li}^2 \\mathrm{H}$ state", "the lithium six hydrogen two state"),
    ("(^40 _5) hands", "forty choose five hands"),
    ("an SO3- radical", "an S O three minus radical"),
    ("a 131I scan, Rh-negative", "a iodine one hundred thirty one scan, R H negative"),
    ("some PCI_3, NaCI, KC1 and 2 moles of HCI",
     "some P C L three, N A C L, K C L and two moles of H C L"),
    ("1.5 N HCI is", "one point five normal H C L is"),
    ("filled in the order 6d = 6f > 5g", "filled in the order six d equals six f is greater than five g"),
    # units
    ("30 m. P. H. at most", "thirty miles per hour at most"),
    ("R = .08 liter - atm/mole - °K.", "R equals zero point zero eight liter atmospheres per mole per kelvin."),
    ("0.04 cal gr^-1 K°^-1", "zero point zero four calories per gram per kelvin"),
    ("oil (sp. gr. = 0.8)", "oil, specific gravity equals zero point eight"),
    ("a rate in m/s^2, a density in kg/m^3",
     "a rate in meters per second squared, a density in kilograms per cubic meter"),
    ("a gap in µs here", "a gap in microseconds here"),
    ("cells per cm^3.", "cells per cubic centimeter."),
    ("a count of 9,000/mm3 , then", "a count of nine thousand per cubic millimeter, then"),
    ("(normal range: 20-40 U/L) < 50", "normal range: twenty to forty units per liter, is less than fifty"),
    ("roots T5-T9", "roots T five to T nine"),
    ("It turned 8radin all", "It turned eight radians in all"),
    ("a lens of power, - 0.5diopteris", "a lens of power, minus zero point five diopter is"),
    ("of section $12.0 \\mathrm{~cm}^2$", "of section twelve point zero square centimeters"),
    ("2.5 \\mu coulombs", "two point five microcoulombs"),
    ("in (-\\infty, 4] and $(-\\infty,0)\\cup (1,2)$",
     "in the interval minus infinity, four, and open parenthesis minus infinity, zero close parenthesis union "
     "open parenthesis one, two close parenthesis"),
    ("the C - H bond of it", "the C H bond of it"),
    ("a depth (in m) of", "a depth, in meters, of"),
    ("some iron(III) oxide", "some iron three oxide"),
    ("the H2PO4- ion", "the H two P O four minus ion"),
    ("8\\mum thick, from 0.2\\mumto 0.3\\mum",
     "eight micrometers thick, from zero point two micrometers to zero point three micrometers"),
    ("y = .2cost + 1", "y equals zero point two cosine of t plus one"),
    ("a pool kept at 25oC, not at 80oF",
     "a pool kept at twenty five degrees Celsius, not at eighty degrees Fahrenheit"),
    ("green light (λ = 5200 A) falls", "green light, lambda equals five thousand two hundred angstroms, falls"),
    ("at a wavelength of 610 A, a current of 3 A",
     "at a wavelength of six hundred ten angstroms, a current of three amps"),
    ("an inductance of 2 × 10^-6 Henry/meter",
     "an inductance of two times ten to the power of minus six henries per meter"),
    ("It gains 12.5eu.", "It gains twelve point five entropy units."),
    ("a pump of 2.5gpm", "a pump of two point five gallons per minute"),
    ("c = 0.03 Btu/lbm-°R[0.2 kJ/kg-°K]",
     "c equals zero point zero three B T U per pound mass per degree Rankine, or zero point two kilojoules per "
     "kilogram per kelvin"),
    ("9 lb moles of it", "nine pound moles of it"),
    ("held at 1atm(above 90°K)", "held at one atmosphere, above ninety kelvin"),
    ("a gap of $8 \\mathrm{pm}$ for an electron, at 8 pm",
     "a gap of eight picometers for an electron, at eight in the evening"),
    ("3.2 × 10^-4 (ohm)(ft) at 5 lb/(ft) (sec)",
     "three point two times ten to the power of minus four ohm feet at five pounds per foot per second"),
    ("\\Upsilon- rays and \\alpha - particles at a distance of lm",
     "gamma rays and alpha particles at a distance of one meter"),
    ("a 5m * 2m wooden floor, 3 ft × 4 ft × 5 ft",
     "a five meter by two meter wooden floor, three feet by four feet by five feet"),
    ("A = 3 m × 4 m", "A equals three meters times four meters"),
    ("It has 0.5 mm thick glass and is 2 mm thick.",
     "It has zero point five millimeter thick glass and is two millimeters thick."),
    ("A current of 2.5 A is sent.", "A current of two point five amps is sent."),
    ("atoms with a diameter of 2 A, light of 5000A^o",
     "atoms with a diameter of two angstroms, light of five thousand angstroms"),
    ("2.5 g-NaOH, 40 cal/g-mol and 18 g mol^-1",
     "two point five grams of N A O H, forty calories per gram mole and eighteen grams per mole"),
    ("a density of 0.9 (g / cm^3)at noon", "a density of zero point nine grams per cubic centimeter at noon"),
    ("§2. The land, under § 3 of it", "Section two. The land, under section three of it"),
    ("5H_20 (g), 2N0_2, H_2O(1)", "five H two O, gas, two N O two, H two O, liquid"),
    ("9kwhr at 4.5psf through 30 cu cm, a force of 12 Nt",
     "nine kilowatt hours at four point five pounds per square foot through thirty cubic centimeters, "
     "a force of twelve newtons"),
    ("an area of 20π cm^2, at the point (1, 4) cm",
     "an area of twenty pi square centimeters, at the point, one, four; centimeters"),
    ("A charge of 1 C flows.", "A charge of one coulomb flows."),
    ("0.02 kg water/kg dry air", "zero point zero two kilograms of water per kilogram of dry air"),
    ("0.2 cal/(gmC°), k_f = 3.1°C/m",
     "zero point two calories per gram per degree Celsius, k f equals three point one degrees Celsius per molal"),
    ("pH 9.0. K_a = 2, air at 1 atm. and 90 . Torr",
     "P H nine point zero. K a equals two, air at one atmosphere and ninety torr"),
    ("in kVA and kVAR", "in kilovolt amperes and kilovars"),
    ("It is 3μ (microns) long and 1μ in depth.", "It is three microns long and one micron in depth."),
    ("3 inches * 4 inches = 12", "three inches times four inches equals twelve"),
    ("a cost of 4 m^2 + 3m, a floor of 4 m^2 and 3 m of rope",
     "a cost of four m squared plus three m, a floor of four square meters and three meters of rope"),
    ("for 50. s, at 2 KN/m^2 and 300 cycles × s^-1",
     "for fifty seconds, at two kilonewtons per square meter and three hundred cycles per second"),
    ("NO and O_2 form here, 2NO is left", "N O and O two form here, two N O is left"),
    ("He said NO to it.", "He said no to it."),
    ("an energy in eV for copper, a mass in GeV",
     "an energy in electron volts for copper, a mass in giga electron volts"),
    ("r = 710lb/ft^3 h_f = 20 J The pikes, of 3 ft^2 The hens, and 5°F k = 2",
     "r equals seven hundred ten pounds per cubic foot, h f equals twenty joules The pikes, of three square feet. "
     "The hens, and five degrees Fahrenheit, k equals two"),
    ("the pikes at 14.7pisa (air)", "the pikes at fourteen point seven pounds per square inch absolute, air"),
    ("a lead of 2 in. O.D. and 0.80 I.D. Water at 3 in. Hg runs",
     "a lead of two inches O D and zero point eight zero I D. Water at three inches of mercury runs"),
    ("an acceleration of 3 g or 4 g, a turn at 5 g, in g units",
     "an acceleration of three g or four g, a turn at five g, in g units"),
    ("a force of $(20 \\hat{\\mathrm{i}}+5 \\hat{\\mathrm{j}}) \\mathrm{N} / \\mathrm{s}$ acts",
     "a force of, twenty i hat plus five j hat, newtons per second acts"),
    ("k = 0.6 Btu/lbm-°Fm = 0.2 lb",
     "k equals zero point six B T U per pound mass per degree Fahrenheit, m equals zero point two pounds"),
    # roots, products with an x, functions of two letters
    ("5\\sqrt{2} and 2sqrt(3)", "five times the square root of two and two times the square root of three"),
    ("x = \\sqrt{3}", "x equals the square root of three"),
    ("Which expression is it? (3x5)x7", "Which expression is it? open parenthesis three times five close parenthesis "
     "times seven"),
    ("z = 2 * hf(a_i,b_i)+ 3 * hf(a_{i+1},b_{i+1})",
     "z equals two times h f of a i, b i plus three times h f of a sub i plus one, b sub i plus one"),
    ("y = [2z + 3cos40z.] with it", "y equals open bracket two z plus three cosine of forty z close bracket with it"),
    ("y = 2 i^2(t) Is this wave slow?", "y equals two i squared of t. Is this wave slow?"),
    ("Att = 3 s it stops. Fork = 2 it goes on.", "At t equals three seconds it stops. For k equals two it goes on."),
    # events, functions, what letters stand for
    ("k = {change in cost}/{change in size}", "k equals change in cost over change in size"),
    ("Let W(t) grow while v (t) = 3.", "Let W of t grow while v of t equals three."),
    ("Let P(Y=2)=0.3. Find P(|Y-4| > 2).",
     "Let the probability that Y equals two be zero point three. Find the probability that the absolute value of Y "
     "minus four is greater than two."),
    ("w(t) = 3 i^2(t) where |Th(z)| < 2",
     "w of t equals three i squared of t where the absolute value of T h of z is less than two"),
    ("g : [a, b] is smooth", "g on the interval a, b, is smooth"),
    ("h(height of it) = 3 m v(speed of it) = 4 m/s",
     "h, height of it, equals three meters; v, speed of it, equals four meters per second"),
    ("where g' stands for it and S' moves", "where g prime stands for it and S prime moves"),
    ("K -> U <- W", "K to U from W"),
    ("They call it 'plan B' for now, and f' is it.", "They call it plan B for now, and f prime is it."),
    # labels, digits, names
    ("(i) It is cold. (ii) It is wet. (v) It rains.", "one, It is cold. two, It is wet. five, It rains."),
    ("strings of 1's and 0's", "strings of ones and zeros"),
    ("found there in 1931 within 9 years", "found there in nineteen thirty one within nine years"),
    ("Mr. Keldobought it", "Mister Keldo bought it"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "said"), READINGS)
def test_an_unusual_form_is_read_as_the_usual_one(written: str, said: str) -> None:
    assert speak(written) == said


def test_a_factor_after_a_fraction_of_an_angle_is_not_below_the_line() -> None:
    assert speak("3 sin (x/r) π") == "three sine of x over r, pi"
    assert speak("3 sin (x) π") == "three sine of x pi"
    assert speak("log(x/y) = 3") == "log of x over y equals three"


def test_a_signal_with_its_factor_is_of_time() -> None:
    assert speak("the wave km(t) = 3 cos t") == "the wave k m of t equals three cosine of t"


def test_an_intensity_is_divided_by_another() -> None:
    assert speak("the value (I / I_0) of it") == "the value, I over I zero, of it"


def test_sizes_of_atoms_are_in_angstroms() -> None:
    with reading_about("What is the diameter of a helium atom?"):
        assert speak("3.1 A") == "three point one angstroms"
    with reading_about("What current flows through a wire of this diameter?"):
        assert speak("3.1 A") == "three point one amps"


def test_sizes_of_matrices_are_not_multiplied() -> None:
    with reading_about("A matrix has these dimensions."):
        assert speak("3 × 4") == "three by four"
    assert speak("3 × 4") == "three times four"


@pytest.mark.parametrize(
    "written", ["y = x^5/2", "v0^2/(2μg) where g is gravity", "Pt/H_2/HCl (1M)", "K = {[NO]^2 [O_2]} / {[NO_2]^2}"]
)
def test_what_may_be_two_things_is_refused(written: str) -> None:
    with pytest.raises(Unspeakable):
        speak(written)


def test_brackets_are_counted_in_each_sentence() -> None:
    three = "open parenthesis a plus b close parenthesis over open parenthesis c plus d close parenthesis, " * 2
    check_brackets(f"{three}is it. {three}or not?")
    with pytest.raises(NotAskable, match="needs_writing"):
        check_brackets(f"{three}{three}")


def test_premises_in_symbols_are_refused() -> None:
    with pytest.raises(NotAskable, match="needs_writing"):
        check_wording("Which is an immediate consequence in PL of these premises? P ∨ Q", "P")
