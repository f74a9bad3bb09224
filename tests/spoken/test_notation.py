"""Layout, units, formulas and names in forms that are less usual: what is said of each."""

import pytest

from pipelines.script.askable import NotAskable, check_wording
from spoken.reader import Unspeakable, speak
from spoken.rules.rule import reading_about

READINGS = [
    # words left out
    ("The old roads . . . lead to it . . . and end.", "The old roads, lead to it, and end."),
    ("It was late…..Then she left.", "It was late. Then she left."),
    ("a fine day&…. He slept.", "a fine day. He slept."),
    ("S=1/2+1/4+\\cdots", "S equals one half plus one quarter plus dot dot dot"),
    # units
    ("2.5(T / \\text{K})", "two point five open parenthesis T over K close parenthesis"),
    ("a flask of 100. mL", "a flask of one hundred milliliters"),
    ("a box of 40 in^3. is full", "a box of forty cubic inches is full"),
    ("1/25 in and 1/2 in the box", "one twenty fifth inch and one half in the box"),
    ("2 MN/m^2, 80 Mpa, 90 lm, 3 Deg/mm",
     "two meganewtons per square meter, eighty megapascals, ninety lumens, three degrees per millimeter"),
    ("a flux of $2.0\\times 10^3 N \\cdot m^2/C$",
     "a flux of two point zero times ten to the power of three newton square meters per coulomb"),
    ("a mass m and one of 3m", "a mass m and one of three m"),
    ("a rod 3m long", "a rod three meters long"),
    ("9 m = ____ dm", "nine meters equals blank decimeters"),
    ("Find the force. (Unit: N)", "Find the force in newtons"),
    ("the 5 μF capacitor and the 6 km covered", "the five microfarad capacitor and the six kilometers covered"),
    ("a pulse of 60/min. It rose", "a pulse of sixty per minute. It rose"),
    ("a lens with 20x magnification", "a lens with twenty times magnification"),
    # signs
    ("a real 3 x 3 matrix", "a real three by three matrix"),
    ("(1-\\frac{x^2}{4})", "one minus x squared over four"),
    ("2y - \\sqrt{3}", "two y minus the square root of three"),
    ("20 - 3 - 3 and a 50 - 50 chance", "twenty minus three minus three and a fifty fifty chance"),
    ("\\int_0^1|p(x)-q(x)| dx",
     "the integral from zero to one of the absolute value of p of x minus q of x, d x"),
    ("3 (1/2)^n u[n]", "three times one half to the power of n u of n"),
    ("f is bounded as x \\rightarrow 0", "f is bounded as x approaches zero"),
    ("\\delta_D' is small", "delta D prime is small"),
    ("x_1(t) = 5", "x one of t equals five"),
    ("g(2012) = 4", "g of two thousand twelve equals four"),
    ("It's 3.54e-07.", "It's three point five four times ten to the power of minus seven."),
    # money
    ("$50 par-value stock and $2 pencils", "fifty dollar par value stock and two dollar pencils"),
    ("$90/day/worker", "ninety dollars per day per worker"),
    ("Rent $800 Wages $90 Gas $5", "Rent eight hundred dollars, Wages ninety dollars, Gas five dollars"),
    ("the _ad hoc_ rule", "the ad hoc rule"),
    # years, types, names
    ("She died in 1897 leaving two sons.", "She died in eighteen ninety seven leaving two sons."),
    ("Come by 6 P.M. Anna takes two.", "Come by six in the evening. Anna takes two."),
    ("Come at 6 P.M. Eastern time.", "Come at six in the evening Eastern time."),
    ("tales of about 1840 and songs from 1850 on", "tales of about eighteen forty and songs from eighteen fifty on"),
    ("an index (1967 = 100)", "an index, nineteen sixty seven equals one hundred"),
    ("a Boeing 747 and an 8085 microprocessor",
     "a Boeing seven forty seven and an eighty eighty five microprocessor"),
    ("a type Ia supernova", "a type one A supernova"),
    ("di- or tripeptides", "di or tripeptides"),
    ("King George III's hat", "King George the Third's hat"),
    ("Jan. Greg left on Jan. 5.", "Jan. Greg left on January fifth."),
    ("12 Elm St., Salem and St. Ives", "twelve Elm Street, Salem and Saint Ives"),
    ("the parent(s) provide(s) it", "the parents provide it"),
    # chemistry
    ("silicon dust, Si, and Si + O_2", "silicon dust, S I, and S I plus O two"),
    ("Al, Co, Ni and Ag", "aluminum, cobalt, nickel and silver"),
    ("4Al + 3O_2", "four A L plus three O two"),
    # layout
    ("a way\n\nbetween hills", "a way, between hills"),
    ("6 pens in each box\nWhich is right?", "six pens in each box. Which is right?"),
    ("[x+1]^-1- \\infty < x",
     "open bracket x plus one close bracket to the power of minus one minus infinity is less than x"),
    # what tells of one thing twice, what is no product, years of works
    ("a word has 5 letters/signs and a row 3 apples/basket",
     "a word has five letters slash signs and a row three apples per basket"),
    ("the work $\\vec{F} \\cdot d\\vec{r}$ of $\\mathbf{B} \\cdot d\\mathbf{a}$ and $4 \\cdot \\vec{r}$",
     "the work vector F dot d vector r of B dot d a and four times vector r"),
    ("write \\nearrow for it", "write arrow for it"),
    ("$\\limsup _{n \\rightarrow infty} X_n = 1$", "the limit superior as n approaches infinity of X n equals one"),
    ("[HNO2] > [NO2-] and [Ag+] = 3",
     "the concentration of H N O two is greater than the concentration of N O two minus and "
     "the concentration of A G plus equals three"),
    ("a distance \\rho(p, q) = 3", "a distance rho of p, q equals three"),
    ("Keld's(1967) study", "Keld's nineteen sixty seven study"),
    ('Ann Keld, "On Life," 1868 From this', "Ann Keld, On Life, eighteen sixty eight From this"),
    ("Ann Keld, A Life, 1776–1788\nKeld's view of it",
     "Ann Keld, A Life, seventeen seventy six to seventeen eighty eight. Keld's view of it"),
    ("0.2 cal/g\\bulletCdeg.", "zero point two calories per gram per degree Celsius."),
    ("The Asst. Keeper met the Atty. General of S. Korea.",
     "The Assistant Keeper met the Attorney General of South Korea."),
    ("The speed is given by\n$$\n\\sqrt{2}\n$$\nIf it", "The speed is given by the square root of two. If it"),
    ("Our [main] lake, as \"pikes [were] fed\", has a weir [dam] here",
     "Our main lake, as pikes were fed, has a weir, dam, here"),
    ("Load = 20 psi Pump power = 3 hp",
     "Load equals twenty pounds per square inch, Pump power equals three horsepower"),
    ("Between dc and ac lies little.", "Between d c and A C lies little."),
    # bounds before their sign, arrows after their letter, stars, pairs
    ("the field D^\\ding{217} is weak", "the field vector D is weak"),
    ("an acceleration g\\ding{217}, then", "an acceleration vector g, then"),
    ("\\int_0^1 |h(t)|dt", "the integral from zero to one of the absolute value of h of t, d t"),
    ("Q = D(P) = 80 - 40P", "Q equals D of P equals eighty minus forty P"),
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
    # particles, isotopes, ions
    ("the ${ }^6 \\mathrm{Li}^2 \\mathrm{H}$ state", "the lithium six hydrogen two state"),
    ("an SO3- radical", "an S O three minus radical"),
    ("a 131I scan, Rh-negative", "a iodine one hundred thirty one scan, R H negative"),
    ("filled in the order 6d = 6f > 5g", "filled in the order six d equals six f is greater than five g"),
    # units
    ("a rate in m/s^2, a density in kg/m^3",
     "a rate in meters per second squared, a density in kilograms per cubic meter"),
    ("a gap in µs here", "a gap in microseconds here"),
    ("cells per cm^3.", "cells per cubic centimeter."),
    ("of section $12.0 \\mathrm{~cm}^2$", "of section twelve point zero square centimeters"),
    ("a depth (in m) of", "a depth, in meters, of"),
    ("the H2PO4- ion", "the H two P O four minus ion"),
    ("It gains 12.5eu.", "It gains twelve point five entropy units."),
    ("a pump of 2.5gpm", "a pump of two point five gallons per minute"),
    ("c = 0.03 Btu/lbm-°R[0.2 kJ/kg-°K]",
     "c equals zero point zero three B T U per pound mass per degree Rankine, or zero point two kilojoules per "
     "kilogram per kelvin"),
    ("held at 1atm(above 90°K)", "held at one atmosphere, above ninety kelvin"),
    ("a gap of $8 \\mathrm{pm}$ for an electron, at 8 pm",
     "a gap of eight picometers for an electron, at eight in the evening"),
    ("A = 3 m × 4 m", "A equals three meters times four meters"),
    ("It has 0.5 mm thick glass and is 2 mm thick.",
     "It has zero point five millimeter thick glass and is two millimeters thick."),
    ("A current of 2.5 A is sent.", "A current of two point five amps is sent."),
    ("§2. The land, under § 3 of it", "Section two. The land, under section three of it"),
    ("9kwhr at 4.5psf through 30 cu cm, a force of 12 Nt",
     "nine kilowatt hours at four point five pounds per square foot through thirty cubic centimeters, "
     "a force of twelve newtons"),
    ("an area of 20π cm^2, at the point (1, 4) cm",
     "an area of twenty pi square centimeters, at the point, one, four; centimeters"),
    ("A charge of 1 C flows.", "A charge of one coulomb flows."),
    ("in kVA and kVAR", "in kilovolt amperes and kilovars"),
    ("3 inches * 4 inches = 12", "three inches times four inches equals twelve"),
    ("a cost of 4 m^2 + 3m, a floor of 4 m^2 and 3 m of rope",
     "a cost of four m squared plus three m, a floor of four square meters and three meters of rope"),
    ("NO and O_2 form here, 2NO is left", "N O and O two form here, two N O is left"),
    ("He said NO to it.", "He said no to it."),
    ("an energy in eV for copper, a mass in GeV",
     "an energy in electron volts for copper, a mass in giga electron volts"),
    ("r = 710lb/ft^3 h_f = 20 J The pikes, of 3 ft^2 The hens, and 5°F k = 2",
     "r equals seven hundred ten pounds per cubic foot, h f equals twenty joules The pikes, of three square feet. "
     "The hens, and five degrees Fahrenheit, k equals two"),
    ("an acceleration of 3 g or 4 g, a turn at 5 g, in g units",
     "an acceleration of three g or four g, a turn at five g, in g units"),
    ("a force of $(20 \\hat{\\mathrm{i}}+5 \\hat{\\mathrm{j}}) \\mathrm{N} / \\mathrm{s}$ acts",
     "a force of, twenty i hat plus five j hat, newtons per second acts"),
    ("k = 0.6 Btu/lbm-°Fm = 0.2 lb",
     "k equals zero point six B T U per pound mass per degree Fahrenheit, m equals zero point two pounds"),
    # roots, products with an x, functions of two letters
    ("x = \\sqrt{3}", "x equals the square root of three"),
    ("y = [2z + 3cos40z.] with it", "y equals open bracket two z plus three cosine of forty z close bracket with it"),
    ("y = 2 i^2(t) Is this wave slow?", "y equals two i squared of t. Is this wave slow?"),
    # events, functions, what letters stand for
    ("k = {change in cost}/{change in size}", "k equals change in cost over change in size"),
    ("where g' stands for it and S' moves", "where g prime stands for it and S prime moves"),
    ("K -> U <- W", "K to U from W"),
    # labels, digits, names
    ("strings of 1's and 0's", "strings of ones and zeros"),
    ("found there in 1931 within 9 years", "found there in nineteen thirty one within nine years"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "said"), READINGS)
def test_an_unusual_form_is_read_as_the_usual_one(written: str, said: str) -> None:
    assert speak(written) == said


def test_a_factor_after_a_fraction_of_an_angle_is_not_below_the_line() -> None:
    assert speak("3 sin (x/r) π") == "three sine of x over r, pi"
    assert speak("3 sin (x) π") == "three sine of x pi"
    assert speak("log(x/y) = 3") == "log of x over y equals three"


def test_sizes_of_atoms_are_in_angstroms() -> None:
    with reading_about("What is the diameter of a helium atom?"):
        assert speak("3.1 A") == "three point one angstroms"
    with reading_about("What current flows through a wire of this diameter?"):
        assert speak("3.1 A") == "three point one amps"


@pytest.mark.parametrize(
    "written",
    [
        "y = x^5/2",
        "v0^2/(2μg) where g is gravity",
        "Pt/H_2/HCl (1M)",
        "K = {[NO]^2 [O_2]} / {[NO_2]^2}",
        "the cell Pt/Ag(s)/Ag Br(s)",
        "he was purcIiasing that",
    ],
)
def test_what_may_be_two_things_is_refused(written: str) -> None:
    with pytest.raises(Unspeakable):
        speak(written)


def test_premises_in_symbols_are_refused() -> None:
    with pytest.raises(NotAskable, match="needs_writing"):
        check_wording("Which is an immediate consequence in PL of these premises? P ∨ Q", "P")
