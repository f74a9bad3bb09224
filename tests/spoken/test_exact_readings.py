"""What is written and exactly what is said: numbers, dates, units, money, ranges, fractions, chemistry, formulas."""

import pytest

from spoken.reader import Unspeakable, speak

READINGS = [
    # abbreviations with a stop: units after a number, places in a book, mountains
    ("The shelf is 6 ft. tall and 3 ft. wide.", "The shelf is six feet tall and three feet wide."),
    ("She lifts a 20 lb. crate.", "She lifts a twenty pound crate."),
    ("The rope is 5 ft. The pole is 2 in. thick.", "The rope is five feet. The pole is two inches thick."),
    ("a 12 in. ruler, 4 oz. of tea", "a twelve inch ruler, four ounces of tea"),
    ("It boils for 2 min. 30 sec. on the stove.", "It boils for two minutes thirty seconds on the stove."),
    ("It took 3 hr. to dry.", "It took three hours to dry."),
    ("a hedge of 6 ft., or more", "a hedge of six feet, or more"),
    ("a 6 ft. 3 in. guard", "a six feet three inches guard"),
    ("a 7 yr. old horse", "a seven year old horse"),
    ("see p. 23 and pp. 40-47", "see page twenty three and pages forty to forty seven"),
    ("Fig. 13.20 and fig. 4", "Figure thirteen point twenty and figure four"),
    ("vol. 3, ch. 4, sec. 2", "volume three, chapter four, section two"),
    ("Mt. Rainier is in sight.", "Mount Rainier is in sight."),
    ("He is in. The door is open.", "He is in. The door is open."),
    # factorials and exclamation marks
    ("What is the value of 5!?", "What is the value of five factorial?"),
    ("What is 6! divided by 4!?", "What is six factorial divided by four factorial?"),
    ("When 30! is written out", "When thirty factorial is written out"),
    ("$7!$ means $7\\cdot 6!$.", "seven factorial means seven times six factorial."),
    ("n! ways, (n-1)! = 6", "n factorial ways, open parenthesis n minus one close parenthesis factorial equals six"),
    ("100!/98! trailing", "one hundred factorial over ninety eight factorial trailing"),
    ("Stop! We won 5 games!", "Stop! We won five games!"),
    ("It costs $5! Buy it.", "It costs five dollars! Buy it."),
    ("15! / 13! and (k+1)! = 24",
     "fifteen factorial over thirteen factorial and open parenthesis k plus one close parenthesis factorial equals "
     "twenty four"),
    # differences
    ("What is 3 - 35?", "What is three minus thirty five?"),
    ("What is 8-15?", "What is eight minus fifteen?"),
    ("Calculate 3 - 12 + 4.", "Calculate three minus twelve plus four."),
    ("Find 4 - 9.", "Find four minus nine."),
    ("14 - 20 = -6", "fourteen minus twenty equals minus six"),
    ("The value of 2 - 11 is negative.", "The value of two minus eleven is negative."),
    # ranges
    ("pages 10 - 15 are torn", "pages ten to fifteen are torn"),
    ("It takes 5 - 10 minutes.", "It takes five to ten minutes."),
    ("5-10% of it", "five to ten percent of it"),
    ("between 3 - 5 of them", "between three and five of them"),
    ("in 1914 - 1918", "in nineteen fourteen to nineteen eighteen"),
    ("300-1200 nm", "three hundred to one thousand two hundred nanometers"),
    ("100-1000 people", "one hundred to one thousand people"),
    # dates, years, ages
    ("due on 12/25/2020.", "due on December twenty fifth, twenty twenty."),
    ("born 25/12/1999", "born December twenty fifth, nineteen ninety nine"),
    ("logged 2021-03-04 at noon", "logged March fourth, twenty twenty one at noon"),
    ("in 1066 the duke sailed", "in ten sixty six the duke sailed"),
    ("1066 sheep in 1066", "one thousand sixty six sheep in ten sixty six"),
    ("in 1050 cases", "in one thousand fifty cases"),
    ("the 1848 revolutions", "the eighteen forty eight revolutions"),
    ("the 1929 crash", "the nineteen twenty nine crash"),
    ("the 1500 students", "the one thousand five hundred students"),
    ("a 12 y/o girl who is 12 y/o", "a twelve year old girl who is twelve years old"),
    # scales and large numbers
    ("2M people in 40k homes", "two million people in forty thousand homes"),
    ("a 2M solution", "a two molar solution"),
    ("a map of 1:1000000", "a map of one to one million"),
    ("a map of 1:25,000", "a map of one to twenty five thousand"),
    ("a mass of 1000 g in 1000 K", "a mass of one thousand grams in one thousand kelvin"),
    ("in 1000 g of it", "in one thousand grams of it"),
    ("3 in. Hg", "three inches of mercury"),
    # powers of ten and units
    ("at 10−3 M", "at ten to the power of minus three molar"),
    ("at 10-3 M", "at ten to the power of minus three molar"),
    ("[H+] = 10−3 M", "the concentration of H plus equals ten to the power of minus three molar"),
    ("10-15 m of rope", "ten to fifteen meters of rope"),
    ("10-8 = 2", "ten minus eight equals two"),
    ("5000 Å", "five thousand angstroms"),
    ("5000 \u212b", "five thousand angstroms"),
    ("5000 A\u030a", "five thousand angstroms"),
    ("a 5 Å gap, 1 Å wide", "a five angstrom gap, one angstrom wide"),
    ("Ångström lived in Sweden", "Angstrom lived in Sweden"),
    ("5 m - s^-1", "five meters per second"),
    ("a beam of 3 TeV", "a beam of three tera electron volts"),
    ("the orbitals 1s and 2p", "the orbitals one s and two p"),
    ("He waits 3s between songs", "He waits three seconds between songs"),
    ("She rolled four 3s", "She rolled four threes"),
    # money, fractions
    ("£2.05 and $3 1/2", "two pounds and five pence and three and a half dollars"),
    ("3/8 in. wide", "three eighths inch wide"),
    ("2/3s of them", "two thirds of them"),
    ("1,002.5 and 0.05", "one thousand two point five and zero point zero five"),
    ("at 7:05 PM", "at seven oh five in the evening"),
    ("a ratio of 2:3", "a ratio of two to three"),
    ("$1.01 and $2M", "one dollar and one cent and two million dollars"),
    ("5/6 of 2 1/3", "five sixths of two and one third"),
    # chemistry
    ("Al(OH)3 and Ca(OH)_2", "A L, O H three, and C A, O H two"),
    ("(NH4)2SO4", "N H four twice, S O four"),
    ("Ca^2+ ions", "C A two plus ions"),
    # formulas and brackets
    ("x in [-1, 1]", "x in the interval minus one, one"),
    ("the vector [0, 2] points up", "the vector, zero, two; points up"),
    ("the pair [2, 0] is last", "the pair, two, zero; is last"),
    # acronyms
    ("AT&T bought it", "A T and T bought it"),
    ("R&D, Q&A and S&P 500", "R and D, Q and A and S and P five hundred"),
    ("20 M&Ms", "twenty M and M's"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), READINGS)
def test_exact_reading(written: str, spoken: str) -> None:
    assert speak(written) == spoken


REFUSALS = [
    ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "formula"),
    ("my number is 555-1234", "number"),
    ("dial 555-0199 today", "number"),
    ("a score of 3 - 12.", "formula"),
    ("She is 5!", "formula"),
    ("5!! is odd", "formula"),
    ("He had (x+1)!", "formula"),
    ("a rate of 10−14 in water", "number"),
    ("Max ran M miles and Ann 2M miles", "number"),
    ("due on 13/32/2020", "number"),
]


@pytest.mark.parametrize(("written", "reason"), REFUSALS)
def test_refused_where_two_readings_are_left(written: str, reason: str) -> None:
    with pytest.raises(Unspeakable) as refused:
        speak(written)
    assert refused.value.reason == reason
