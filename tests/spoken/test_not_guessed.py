"""Forms that look like others: what each is said as by what stands about it, and what is refused as unsure."""

import pytest

from spoken.reader import Unspeakable, speak

READINGS = [
    # a letter with a number: an isotope only where an element has atoms of that mass
    ("Grades K-12 are free.", "Grades K twelve are free."),
    ("Take I-95 to a K-8 school.", "Take I ninety five to a K eight school."),
    ("a C-130 beside a C-17", "a C one hundred thirty beside a C seventeen"),
    ("He-4, Li-7 and Tc-99m", "helium four, lithium seven and technetium ninety nine M"),
    ("I-131, C-14 and U-235", "iodine one hundred thirty one, carbon fourteen and uranium two hundred thirty five"),
    ("In-111 and the K-40 clock", "indium one hundred eleven and the potassium forty clock"),
    ("an F-16, vitamin K-2, form I-9", "an F sixteen, vitamin K two, form I nine"),
    # one bar: a condition, what a set holds, both sides of a size
    ("the set {x | x > 0}", "the set x such that x is greater than zero"),
    ("{(a, b) | a < b}", "the set, a, b; such that a is less than b"),
    ("P(A | B) = 0.5 and E[X | Y]", "P of A given B equals zero point five and E of X given Y"),
    ("p(0|1) is small", "p of zero given one is small"),
    ("P(X = 3 | Y = 2)", "P of X equals three given Y equals two"),
    ("P{X | Y}", "P of X given Y"),
    ("the mean of Y | X", "the mean of Y given X"),
    ("|y - 3| + |x|", "the absolute value of y minus three, plus the absolute value of x"),
    ("Find | y - 3 | now.", "Find the absolute value of y minus three, now."),
    # how long something lasts
    ("It took 2h 30m to dry.", "It took two hours thirty minutes to dry."),
    ("She ran it in 5m 30s.", "She ran it in five minutes thirty seconds."),
    ("a film of 1h 5m 10s", "a film of one hour five minutes ten seconds"),
    ("a wall 2m high and 5m 30cm wide", "a wall two meters high and five meters thirty centimeters wide"),
    ("a ratio of 1:30:45", "a ratio of one to thirty to forty five"),
    ("mixed 1:2:3 by weight", "mixed one to two to three by weight"),
    # letters after an equals sign are a product, no numeral and no word
    ("P = IV and V=IR, P = MC.", "P equals I V and V equals I R, P equals MC."),
    ("By F = ma, ma = F.", "By F equals m a, m a equals F."),
    ("E_1 = AQ_2", "E one equals A Q two"),
    ("See Chapter IV, Type = II", "See Chapter four, Type equals two"),
    ("W = mg and x = no", "W equals m g and x equals no"),
    # money of other countries, shares by weight
    ("It costs R$ 20.", "It costs twenty reais."),
    ("A$50, C$30, NZ$5 and HK$1", "fifty Australian dollars, thirty Canadian dollars, five New Zealand dollars and one "
     "Hong Kong dollar"),
    ("a S$7 ticket, US$40", "a seven Singapore dollar ticket, forty dollars"),
    ("R$ 2.50 and A$1.05", "two reais and fifty centavos and one Australian dollar and five cents"),
    ("20% w/v of it, 5% (w/w)", "twenty percent weight per volume of it, five percent, weight per weight"),
    ("tea w/ milk, w/o sugar, w/ a spoon", "tea with milk, without sugar, with a spoon"),
    ("the share w/v of it", "the share w over v of it"),
    # saints and streets, stars
    ("He lives on St. Louis St.", "He lives on Saint Louis Street."),
    ("St. Paul, 4 Elm St., St. Helena", "Saint Paul, four Elm Street, Saint Helena"),
    ("an *important* note, *a priori* true", "an important note, a priori true"),
    ("2 * 3 * 4 and x*y*z", "two times three times four and x times y times z"),
    # units run together, of one, over another, after a power of ten
    ("5 Wm^-2K^-1", "five watts per square meter per kelvin"),
    ("3 Jkg^-1K^-1, 2 ms^-1", "three joules per kilogram per kelvin, two per millisecond"),
    ("R in J/mol·K, or kJ/mol", "R in joules per mole per kelvin, or kilojoules per mole"),
    ("(J/mol·K)", "joules per mole per kelvin"),
    ("[Ar]4s2 and [Ne] 3s^2 3p^5", "argon, four s two and neon, three s two, three p five"),
    ("[Ar]4s23d10 or 1s2 2s1", "argon, four s two, three d ten or one s two, two s one"),
    ("a charge of 1.6e-19 C", "a charge of one point six times ten to the power of minus nineteen coulombs"),
    ("3e8 m/s, 6.02e23 atoms", "three times ten to the power of eight meters per second, six point zero two times ten "
     "to the power of twenty three atoms"),
    ("1 Mbps, 2 Mbps, 1 rpm", "one megabit per second, two megabits per second, one revolution per minute"),
    ("1 psi, 1 sq ft, 1 IU, 1 Hz", "one pound per square inch, one square foot, one international unit, one hertz"),
    ("€45,000/yr and $5/wk, $6/mo", "forty five thousand euros per year and five dollars per week, six dollars per "
     "month"),
    ("(R)-2-butanol, (2R,3S)-2,3-butanediol", "R two butanol, two R, three S, two three butanediol"),
    ("(Z)-9-tricosene and (+)-carvone", "Z nine tricosene and plus carvone"),
    ("an H-1B visa and an F-1 visa", "an H one B visa and an F one visa"),
    ("2A-2B and x-1", "two A minus two B and x minus one"),
    # functions
    ("t(24) = 2.1, x(3) = 4", "t of twenty four equals two point one, x of three equals four"),
    ("3x(4) = 12 and 2(3) = 6", "three x times four equals twelve and two times three equals six"),
    ("It is O(n log n), (O(1)) not.", "It is O of n log of n, O of one, not."),
    ("O(n + m) and Θ(n^2)", "O of open parenthesis n plus m close parenthesis and theta of n squared"),
    ("H_2O(g) + H_2O(steam, 9 bar)", "H two O, gas, plus H two O, steam, nine bar"),
    ("L{1} = 1/s", "L of one equals one over s"),
    ("a rpm of 90 at 1 rpm", "a revolutions per minute of ninety at one revolution per minute"),
    ("A shaft of 7(1/2) in., the widest.", "A shaft of seven and one half inches, the widest."),
    ("a 7(1/2) in. shaft", "a seven and one half inch shaft"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "said"), READINGS)
def test_the_neighbours_decide(written: str, said: str) -> None:
    assert speak(written) == said


REFUSALS = [
    ("Does 3 | 12?", "formula"),
    ("1 | 2 | 3", "formula"),
    ("{x : 3 | x}", "formula"),
    ("{x : d | x}", "formula"),
    ("Show that 4 | n^2.", "formula"),
    ("If a | b and b | c then", "formula"),
    ("It lasted 1:30:45.", "number"),
    ("It costs XY$ 20.", "number"),
    ("an H-1B form", "code"),
]


@pytest.mark.parametrize(("written", "reason"), REFUSALS)
def test_what_may_be_two_things_is_refused(written: str, reason: str) -> None:
    with pytest.raises(Unspeakable) as refused:
        speak(written)
    assert refused.value.reason == reason
