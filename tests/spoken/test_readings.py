"""What is written and exactly what is said; and what is refused, since it would be garbled or guessed."""

import pytest

from spoken.reader import Unspeakable, speak
from spoken.rules.rule import Rule, record_fired_rules, use_topic
from spoken.rules.table import RULES
from spoken.written.normalise import REWRITINGS
from spoken.written.traced import TracedText

PROSE = [
    ("it froze at - 2°C", "it froze at minus two degrees Celsius"),
    ("ages 60+ only", "ages sixty plus only"),
    ("#1 on the list", "number one on the list"),
    ("in 1914, not in 2008", "in nineteen fourteen, not in two thousand eight"),
    ("the war (1914-1918)", "the war, nineteen fourteen to nineteen eighteen"),
    ("He walked 1914 steps", "He walked one thousand nine hundred fourteen steps"),
    ("after 1200 meters", "after one thousand two hundred meters"),
    ("the 1960s and the 20s", "the nineteen sixties and the twenties"),
    ("July 4, 1776", "July fourth, seventeen seventy six"),
    ("on Jan. 3rd.", "on January third."),
    ("5-10 minutes", "five to ten minutes"),
    ("89 - 45 = 44 left", "eighty nine minus forty five equals forty four left"),
    ("100-94=6", "one hundred minus ninety four equals six"),
    ("a 20-ounce cup", "a twenty ounce cup"),
    ("COVID-19", "COVID nineteen"),
    ("on Form 1041 of 1041 pages", "on Form ten forty one of one thousand forty one pages"),
    ("as Kendall (1999) and March (1988) say", "as Kendall nineteen ninety nine and March nineteen eighty eight say"),
    ("Osman v UK (1998) and a speed v of 5", "Osman versus U K nineteen ninety eight and a speed v of five"),
    ("1450-1750 C.E.", "fourteen fifty to seventeen fifty C E."),
    ("a home office/gym and HIV/AIDS", "a home office or gym and HIV slash AIDS"),
    ("a 20% pet/cleaning fee", "a twenty percent pet or cleaning fee"),
    ("five mani/pedis and 24 legs/paws", "five mani or pedis and twenty four legs or paws"),
    ("6 × 10^23 formula units/cube", "six times ten to the power of twenty three formula units per cube"),
    ("1/1000 of it and 1/360 of a circle", "one one thousandth of it and one three hundred sixtieth of a circle"),
    ("$5.50 or $0.05", "five dollars and fifty cents or five cents"),
    ("$1 and $1.01", "one dollar and one dollar and one cent"),
    ("$1.2 million", "one point two million dollars"),
    ("$20k", "twenty thousand dollars"),
    ("two $15 gifts for $5 each", "two fifteen dollar gifts for five dollars each"),
    ("so 20 pounds / 4 pounds = 5", "so twenty pounds divided by four pounds equals five"),
    ("four $5 bills", "four five dollar bills"),
    ("$5/hour", "five dollars per hour"),
    ("$100-$94=$6", "one hundred dollars minus ninety four dollars equals six dollars"),
    ("£3.20, 5€ and 50¢", "three pounds and twenty pence, five euros and fifty cents"),
    ("10% of 2.5 %", "ten percent of two point five percent"),
    ("what % is it?", "what percent is it?"),
    ("1/2, 3/4 and 2/3", "one half, three quarters and two thirds"),
    ("2 1/2 cups or 2½ cups", "two and one half cups or two and one half cups"),
    ("so 24/4 = 6", "so twenty four divided by four equals six"),
    ("a ratio of 3:5.", "a ratio of three to five."),
    ("in a ratio of 1:2:1", "in a ratio of one to two to one"),
    ("until 7:00 and at 7:05", "until seven o'clock and at seven oh five"),
    ("5 kg at 60 km/h", "five kilograms at sixty kilometers per hour"),
    ("1 ft and 2 lbs.", "one foot and two pounds."),
    ("25°C or 1 °F", "twenty five degrees Celsius or one degree Fahrenheit"),
    ("an angle of 45°", "an angle of forty five degrees"),
    ("9.8 m/s^2", "nine point eight meters per second squared"),
    ("10 cm^2 and 3 ft³", "ten square centimeters and three cubic feet"),
    ("275 kJ mol^-1", "two hundred seventy five kilojoules per mole"),
    ("5 in the morning", "five in the morning"),
    ("40A each", "forty amps each"),
    ("5 A students", "five A students"),
    ("its speed in km/hr", "its speed in kilometers per hour"),
    ("from 4 pm - 6 pm", "from four in the afternoon to six in the evening"),
    ("5 - 10 people, 9 - 4 apples", "five to ten people, nine minus four apples"),
    ("2 × 10^2 m", "two times ten to the power of two meters"),
    ("how many km", "how many kilometers"),
    ("50 ml/dose", "fifty milliliters per dose"),
    ("half a kg, per km", "half a kilogram, per kilometer"),
    ("$5 per lb, twenty kg, 20 kg", "five dollars per pound, twenty kilograms, twenty kilograms"),
    ("8 cubic cm of it (in kg)", "eight cubic centimeters of it, in kilograms"),
    ("1/2 lb of mass (kg)", "one half pound of mass, kilograms"),
    ("40 s^-1", "forty per second"),
    ("5 W m^-2 K^-1", "five watts per square meter per kelvin"),
    ("20 N·m and 5 kg·m/s", "twenty newton meters and five kilogram meters per second"),
    ("a 5 x 3 photo", "a five by three photo"),
    ("x < 5 and y ≥ 3", "x is less than five and y is greater than or equal to three"),
    ("> 50 people", "more than fifty people"),
    ("~5 miles", "about five miles"),
    ("√2", "the square root of two"),
    ("2π", "two pi"),
    ("$x^2$ and \\frac{1}{2}", "x squared and one half"),
    ("\\( v_0 = 5 \\mathrm{~m} \\)", "v zero equals five meters"),
    ("2x as many, 3x + 1", "two times as many, three x plus one"),
    ("f(x)", "f of x"),
    ("an eBay sale and apoB", "an eBay sale and apoB"),
    ("McDonald's iPhone at pH 7", "McDonald's iPhone at P H seven"),
    ("MacArthur's mRNA and LaTeX", "MacArthur's messenger R N A and LaTeX"),
    ("deinstitutionalization and absinthe", "deinstitutionalization and absinthe"),
    ("DNA in the U.S. Senate", "DNA in the U S Senate"),
    ("He took vitamin C. A day later", "He took vitamin C. A day later"),
    ("vitamin B12", "vitamin B twelve"),
    ("World War II", "World War two"),
    ("Mr. and Mrs. Lee vs. Dr. No", "Mister and Missus Lee versus Doctor No"),
    ("dogs, e.g. mine, etc.", "dogs, for example mine, et cetera."),
    ("a U. S. citizen, Larry P. v. Riles", "a U S citizen, Larry P versus Riles"),
    ("well-known – but “quoted”", "well known, but quoted"),
    ("he (or she) and/or they", "he, or she, and or they"),
    ("his/her friend(s)", "his or her friends"),
    ("The _____ is called...", "The blank is called."),
    ("The students' work", "The students work"),
    ("first line\n\nsecond line", "first line. second line"),
    ("-\\frac{1}{2}", "minus one half"),
    ("-\\dfrac{\\pi}{3}", "minus pi over three"),
    ("It is $-\\frac{k-2}{7}$.", "It is minus open parenthesis k minus two close parenthesis over seven."),
    ("$2\\frac{1}{3}$", "two and one third"),
    ("1 - 1/k", "one minus one over k"),
]  # fmt: skip

MEASURES_AND_SENTENCES = [
    ("The shelf is 6 ft. tall and 3 ft. wide.", "The shelf is six feet tall and three feet wide."),
    ("The rope is 5 ft. The pole is 2 in. thick.", "The rope is five feet. The pole is two inches thick."),
    ("2 hr(s) and 10 min(s), 1 hr(s), 5 lb(s)", "two hours and ten minutes, one hour, five pounds"),
    ("3 cm(s) and how many kg(s) of min(s)", "three centimeters and how many kilograms of the minimum of s"),
    ("4186 J/kg K, 1 kg/m s and 60 km/h N", "four thousand one hundred eighty six joules per kilogram per kelvin, "
     "one kilogram per meter per second and sixty kilometers per hour N"),
    ("500 lx, 1 lx, 5 mH and 2 H", "five hundred lux, one lux, five millihenries and two henries"),
    ("at 1°N, 2°N and 1 °E", "at one degree north, two degrees north and one degree east"),
    ("a 6 ft 2 in man, an 8 ft 2 in board", "a six foot two man, an eight foot two board"),
    ("An rpm of 90, an lb, an oz and an hr",
     "A revolutions per minute of ninety, a pound, an ounce and an hour"),
    ("It boils for 2 min. 30 sec. on the stove.", "It boils for two minutes thirty seconds on the stove."),
    ("a hedge of 6 ft., or more", "a hedge of six feet, or more"),
    ("a 6 ft. 3 in. guard", "a six feet three inches guard"),
    ("see p. 23 and pp. 40-47", "see page twenty three and pages forty to forty seven"),
    ("vol. 3, ch. 4, sec. 2", "volume three, chapter four, section two"),
    ("He is in. The door is open.", "He is in. The door is open."),
    ("Stop! We won 5 games!", "Stop! We won five games!"),
    ("It costs $5! Buy it.", "It costs five dollars! Buy it."),
    ("Calculate 3 - 12 + 4.", "Calculate three minus twelve plus four."),
    ("300-1200 nm", "three hundred to one thousand two hundred nanometers"),
    ("the 1848 revolutions", "the eighteen forty eight revolutions"),
    ("the 1500 students", "the one thousand five hundred students"),
    ("a 2M solution", "a two molar solution"),
    ("3 in. Hg", "three inches of mercury"),
    ("10-15 m of rope", "ten to fifteen meters of rope"),
    ("a 5 Å gap, 1 Å wide", "a five angstrom gap, one angstrom wide"),
    ("Ångström lived in Sweden", "Angstrom lived in Sweden"),
    ("a beam of 3 TeV", "a beam of three tera electron volts"),
    ("Algorithm I beats Algorithm II", "Algorithm one beats Algorithm two"),
    ("a ratio of 1:30:45", "a ratio of one to thirty to forty five"),
    ("mixed 1:2:3 by weight", "mixed one to two to three by weight"),
    ("(J/mol·K)", "joules per mole per kelvin"),
    ("1 Mbps, 2 Mbps, 1 rpm", "one megabit per second, two megabits per second, one revolution per minute"),
    ("€45,000/yr and $5/wk, $6/mo",
     "forty five thousand euros per year and five dollars per week, six dollars per month"),
    ("2A-2B and x-1", "two A minus two B and x minus one"),
    ("3x(4) = 12 and 2(3) = 6", "three x times four equals twelve and two times three equals six"),
    ("O(n + m) and Θ(n^2)", "O of open parenthesis n plus m close parenthesis and theta of n squared"),
    ("H_2O(g) + H_2O(steam, 9 bar)", "H two O gas plus H two O, steam, nine bar"),
    ('There are 12 "Lost Lake" books at the "All $5" shop.',
     "There are twelve Lost Lake books at the All five dollars shop."),
    ('He wrote "Pikes.\n\n"Carps."', "He wrote Pikes. Carps."),
    ("two 60 W bulbs and a 10 Ω resistor", "two sixty watt bulbs and a ten ohm resistor"),
    ("for even k > 4, find it", "for even k greater than four, find it"),
    ("There is a constant c > 0.", "There is a constant c greater than zero."),
    ("If y > 0, then z < 2.", "If y is greater than zero, then z is less than two."),
    ("y = - kt can be", "y equals minus k t can be"),
    ("'We like Mr. Reeves' she said", "We like Mister Reeves she said"),
    ("subject to $9,000 liability", "subject to nine thousand dollar liability"),
    ("a type I error, the type I like", "a type one error, the type I like"),
    ("The Pike Act of 1933 set limits. Sales of 1933 pikes fell.",
     "The Pike Act of nineteen thirty three set limits. Sales of one thousand nine hundred thirty three pikes fell."),
    ("They asked him how. The essay What is it all for", "They asked him how. The essay What is it all for"),
    ("the acf, pacf and more", "the A C F, P A C F and more"),
]  # fmt: skip

FORMULAS = [
    ("20 M&Ms", "twenty M and M's"),
    ("2 × (3 + 4)", "two times open parenthesis three plus four close parenthesis"),
    ("at 6(1/2)% a year", "at six and one half percent a year"),
    ("f'(2) = 6", "f prime of two equals six"),
    ("Age: N/A. Height: N/A.", "Age: N A. Height: N A."),
    ("a stress N/A, of N over A", "a stress N over A, of N over A"),
    ("F = N/A", "F equals N over A"),
    ("the points (1,5) and (2,3)", "the points, one, five; and, two, three"),
    ("x_1 + x_2", "x one plus x two"),
    ("x^{n+1}", "x to the n plus one power"),
    ("log_2 8 = 3", "log base two of eight equals three"),
    ("\\int_0^1 x dx", "the integral from zero to one of x d x"),
    ("\\frac{a+b}{2}", "open parenthesis a plus b close parenthesis over two"),
    ("\\sqrt{x} and \\sqrt[3]{8}", "the square root of x and the cube root of eight"),
    ("\\DeltaH at 5\\%", "delta H at five percent"),
    ("5 \\mathrm{~kJ} \\mathrm{~mol}^{-1}", "five kilojoules per mole"),
    ("12 Btu/hr-ft^2-°F", "twelve B T U per hour per square foot per degree Fahrenheit"),
    ("blood pressure is 110/70 mm Hg", "blood pressure is one hundred ten over seventy millimeters of mercury"),
    ("heated to 80 C", "heated to eighty degrees Celsius"),
    ("a charge of 3 C", "a charge of three coulombs"),
    ("2H_2 + O_2 → 2H_2O", "two H two plus O two yields two H two O"),
    ("CD4 cells and p53", "C D four cells and p fifty three"),
    ("sets of 1,2,3 or 1,250", "sets of one, two, three or one thousand two hundred fifty"),
    ("70 Nm/rad", "seventy newton meters per radian"),
    ("at 9 A.M. The bus left the U.S. It is old.", "at nine in the morning. The bus left the U S. It is old."),
    ("Grades K-12 are free.", "Grades K twelve are free."),
    ("2 * 3 * 4 and x*y*z", "two times three times four and x times y times z"),
    ("A shaft of 7(1/2) in., the widest.", "A shaft of seven and one half inches, the widest."),
    ("a 7(1/2) in. shaft", "a seven and one half inch shaft"),
    ("Louis XVIII's heir", "Louis the Eighteenth's heir"),
    ("Pope John XXII met Pope Benedict XVI.", "Pope John the Twenty Second met Pope Benedict the Sixteenth."),
    ("the k for which k > 3", "the k for which k is greater than three"),
    ("Here u = 3.", "Here u equals three."),
    ("a force R at a radius r", "a force R at a radius r"),
    ("an energy of 2.0 kT in a magnetic field at this temperature",
     "an energy of two point zero k T in a magnetic field at this temperature"),
    ("b_12 = 2 and b_13 = 3", "b twelve equals two and b thirteen equals three"),
    ("It was -5 outside", "It was minus five outside"),
    ("a 30 - 30 split", "a thirty thirty split"),
    ("(V_2 - V_1) is", "V two minus V one, is"),
    ("Loss: - 2.00 Pa (a valve), - 3.50 Pa",
     "Loss: minus two point zero zero pascals, a valve, minus three point five zero pascals"),
    ("y(2-y)/5", "y open parenthesis two minus y close parenthesis over five"),
    ("g(g(x)) = 1", "g of g of x equals one"),
    ("P(1+i)^3", "P open parenthesis one plus i close parenthesis cubed"),
    ("$k \\delta(t-3)$", "k delta of open parenthesis t minus three close parenthesis"),
    ("time $\\Theta(n^3)$", "time theta of n cubed"),
    ("v = (RT/P) - (c/RT)",
     "v equals open parenthesis RT over P close parenthesis minus open parenthesis c over RT close parenthesis"),
    ("the tRNA = 5 test", "the transfer R N A equals five test"),
    ("2KClO_3 \\rightarrow 2KCl + 3O_2 (g)", "two K C L O three yields two K C L plus three O two gas"),
    ("PAT → PET → PEN", "PAT to PET to PEN"),
    ("a rate in kbps", "a rate in kilobits per second"),
    ("An mRNA and an emf of an mRNAse", "A messenger R N A and an E M F of an mRNAse"),
    ("at t=10s it stops", "at t equals ten seconds it stops"),
    ("t = 20s later", "t equals twenty seconds later"),
    ("in the 90s, five 20s", "in the nineties, five twenties"),
    ("a co-owner of bi-convex lenses", "a co owner of bi convex lenses"),
    ("$\\vec{E}=(3 \\hat{\\mathrm{i}}-6 \\hat{\\mathrm{j}})$", "vector E equals, three i hat minus six j hat"),
    ("It has speed v. The car, in Roe v. Wade", "It has speed v. The car, in Roe versus Wade"),
    ("(– 5, –3)", "minus five, minus three"),
    ("between the years 1641 and 1660", "between the years sixteen forty one and sixteen sixty"),
    ("for one gas, - 515 kJ for another", "for one gas, minus five hundred fifteen kilojoules for another"),
    ("Calculate its size: 2 in x 6 in.", "Calculate its size: two inches by six inches."),
    ("Find Mr. Reeves' share.", "Find Mister Reeves's share."),
    # forms that were once read wrongly
    ("the 50^{th} percentile", "the fiftieth percentile"),
    ("at 12:00 o'clock", "at twelve o'clock"),
    ("the students ' work and John 's book", "the students work and John's book"),
    ("House A. House C is blue", "House A. House C is blue"),
    ("In point B. In May it rained", "In point B. In May it rained"),
    ("N_2 + 3H_2 \\rightleftharpoons 2NH_3", "N two plus three H two in equilibrium with two N H three"),
    ("on 3 May 2005", "on the third of May, two thousand five"),
    ("24/7 on an A.T. Cross", "twenty four seven on an A T Cross"),
    ("M&M's", "M and M's"),
    ("a lo-fi tape of the Hang-t'u", "a lo fi tape of the Hang t'u"),
    ("a grade 3/6 murmur", "a grade three over six murmur"),
    ("a fixed $30 fee, a $900 2-year plan", "a fixed thirty dollar fee, a nine hundred dollar two year plan"),
    ("paid in $5, $10 and $50 bills", "paid in five dollar, ten dollar and fifty dollar bills"),
    ("a 30° or 60° turn", "a thirty degree or sixty degree turn"),
    ("a $5 off coupon, an additional $5 every day",
     "a five dollar off coupon, an additional five dollars every day"),
    ("their original 20 kg load", "their original twenty kilogram load"),
    ("1/3m", "one third meter"),
    ("1 sq mm of it", "one square millimeter of it"),
    ("at latitude 30° N, in winter", "at latitude thirty degrees north, in winter"),
    ("the time (in μs) and how many GB", "the time, in microseconds, and how many gigabytes"),
    ("glucose-6-phosphate isomerase (G6PI) loss", "glucose six phosphate isomerase loss"),
    ("the tip-of-the-nose(TON) state", "the tip of the nose state"),
    ("it was late . . . and dark", "it was late, and dark"),
]  # fmt: skip

REFUSED = {
    "blank": ["", '"..."'],
    "broken_text": ["Xannvomqdiyfthis first"],
    "code": ["Ha: μ > 9", "4 Elm Dr. in town", "38 oz-foo at most"],
    "formula": [
        "5 K of Na", "as r → ∞", "a 4 m × 3 m room", "He-6", "^{14}C", "1, 2, ..., n", "x <= 3", "5~kg",
        "the (100p)th percentile", "the n^{th} root", "p ↔ q", "t_{1/2} is 5 years", "t_1/2 = 5", "x^{1/2}", "e^{x/2}",
        "If g = 1.08 g then", "V = 3V", "the ion SO42-", "BrO3- here", "the Na+(aq) ion", "Tc-99m", "Au^197",
        "a 60Co source", "1 s^2 2 s^2 2 p^3", "(R)-2-butanol", "the Bb parent", "where r < R", "a score of 3 - 12.",
        "1.36 × 10-11", "5 Wm^-2K^-1", "5 m - s^-1", "a value of 212 g mol-1.", "CH_3(CH_2)_2CH_3", "the H—Cl bond",
        "3 \\times 10^{-5} \\mathrm{C} \\cdot \\mathrm{m}", "0.2 cal/g × Cdeg", "[A] > [B]", "a density f()",
        "oz/gal flows", "a field of 2 v/m", "a power of 30n W/m^2", "a heat of 400 (J / mole at most",
        "4.0 kg lakewater/lakeair", "Ann ran 2M miles", "She earns 4K", "ty' - 2y = 0", "x_1' = 5", "What is 5!?",
        "(n-1)! = 6", "0 < u < 1", "Zn > Sn > Cu", "x in [-1, 1]", "{1, 2, 3}", "P(A|B)", "a | b", "5 + = 3",
        "1, 2, 3, ... where", "A ∨ B", "\\lim_{x \\to 0} f(x)", "\\somecommand{x}", "a \\equiv 5 \\pmod{13}",
        "\\begin{array}{cc} 1 & 2 \\end{array}", "\\vec{F} \\cdot d\\vec{r}", "a load of 6g that accelerates",
        "a mass m pulled with 2 mg", "the 0.3 N acid", "4.18 J/g C", "3 mL/kg min", "\\langle v \\rangle",
    ],
    "symbol": [
        "at 10−3 M", 'A 15" ruler', '"A 5" board," he said.', 'y" + 3y = 0', "5 + ? = 7", "x\x01y",
        "well done \U0001f600", "a \u202eb", "the fiancÃ©e", "extphi_0 = 3",
    ],
    "markup": [
        "$$y$$ &amp; 2", "see https://example.org/a.html", "<script>alert(1)</script>", "x<sup>2</sup>",
        "What is **bold**here",
    ],
    "non_latin": ["мир"],
    "number": [
        "25 000", "terms of 2/10, n/30", "a map of 1:1000000", "555-1234", "7 × 10- 3 m", "4.2 x 106 joules", "four 3s",
        "A pen cost 3.00 and a book $5.", "the 8's", "DSM-IV", "$3 1/2", "R$ 20", "in May 5 girls", "24:15", "1:30:45",
        "at 75 F", "1,04 and", "2 132 contracts", "Room 0101", "Section 0042 applies", "12345678901234567890",
    ],
    "table": ["a | b | c |\nd | e | f |"],
}  # fmt: skip


@pytest.mark.parametrize(("written", "said"), PROSE + MEASURES_AND_SENTENCES + FORMULAS)
def test_it_is_said(written: str, said: str) -> None:
    assert speak(written) == said


@pytest.mark.parametrize(("reason", "written"), [(reason, text) for reason in REFUSED for text in REFUSED[reason]])
def test_it_is_refused(reason: str, written: str) -> None:
    with pytest.raises(Unspeakable) as refused:
        speak(written)
    assert refused.value.reason == reason


def test_a_short_text_is_read_by_what_it_is_about() -> None:
    with use_topic("It falls a distance h in the first second. How far in the next?"):
        assert speak("3h") == "three h"
    with use_topic("To what temperature is it heated?"):
        assert speak("30 C") == "thirty degrees Celsius"
    with use_topic("What charge is on it?"):
        assert speak("30 C") == "thirty coulombs"
    with pytest.raises(Unspeakable):
        speak("30 C")


@pytest.mark.parametrize("rule", REWRITINGS, ids=lambda rule: rule.name)
def test_a_rewriting_makes_of_its_example_what_it_says(rule: Rule) -> None:
    made = rule.rewrite(TracedText.from_written(rule.example))
    assert made.text == rule.expected != rule.example
    assert all(0 <= start <= end <= len(rule.example) for start, end in made.origins)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_reads_its_example_as_it_says(rule: Rule) -> None:
    with record_fired_rules() as fired:
        try:
            said = speak(rule.example)
        except Unspeakable as refused:
            assert rule.kind == "refused"
            said = refused.reason
    assert said == rule.expected
    assert rule.name in fired


def test_no_two_rules_have_one_name() -> None:
    names = [rule.name for rule in (*REWRITINGS, *RULES)]
    assert len(set(names)) == len(names)
