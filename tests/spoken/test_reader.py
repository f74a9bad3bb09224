"""Readings, one a line; refusals; and the closed set, for any text at all."""

import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spoken.reader import REASONS, SPOKEN, Unspeakable, speak
from spoken.spoken_text import spoken_words

READINGS = [
    # numbers
    ("She has 7 cats.", "She has seven cats."),
    ("1,234 votes", "one thousand two hundred thirty four votes"),
    ("3.05 or .5", "three point zero five or zero point five"),
    ("the 1st, 22nd and 103rd", "the first, twenty second and one hundred third"),
    ("It was -5 outside", "It was minus five outside"),
    ("it froze at - 2°C", "it froze at minus two degrees Celsius"),
    ("ages 60+ only", "ages sixty plus only"),
    ("#1 on the list", "number one on the list"),
    # years and dates
    ("in 1914, not in 2008", "in nineteen fourteen, not in two thousand eight"),
    ("the war (1914-1918)", "the war, nineteen fourteen to nineteen eighteen"),
    ("from 1861-65", "from eighteen sixty one to sixty five"),
    ("He walked 1914 steps", "He walked one thousand nine hundred fourteen steps"),
    ("after 1200 meters", "after one thousand two hundred meters"),
    ("the 1960s and the 20s", "the nineteen sixties and the twenties"),
    ("July 4, 1776", "July fourth, seventeen seventy six"),
    ("on Jan. 3rd.", "on January third."),
    # ranges and differences
    ("5-10 minutes", "five to ten minutes"),
    ("89 - 45 = 44 left", "eighty nine minus forty five equals forty four left"),
    ("100-94=6", "one hundred minus ninety four equals six"),
    ("a 20-ounce cup", "a twenty ounce cup"),
    ("COVID-19", "COVID nineteen"),
    # money
    ("$5.50 or $0.05", "five dollars and fifty cents or five cents"),
    ("$1 and $1.01", "one dollar and one dollar and one cent"),
    ("$1.2 million", "one point two million dollars"),
    ("$20k", "twenty thousand dollars"),
    ("a $20 bill", "a twenty dollar bill"),
    ("two $15 gifts for $5 each", "two fifteen dollar gifts for five dollars each"),
    ("so 20 pounds / 4 pounds = 5", "so twenty pounds divided by four pounds equals five"),
    ("four $5 bills", "four five dollar bills"),
    ("$5/hour", "five dollars per hour"),
    ("$100-$94=$6", "one hundred dollars minus ninety four dollars equals six dollars"),
    ("£3.20, 5€ and 50¢", "three pounds and twenty pence, five euros and fifty cents"),
    ("-$5", "minus five dollars"),
    # percent, fractions, ratios
    ("10% of 2.5 %", "ten percent of two point five percent"),
    ("what % is it?", "what percent is it?"),
    ("1/2, 3/4 and 2/3", "one half, three quarters and two thirds"),
    ("2 1/2 cups or 2½ cups", "two and one half cups or two and one half cups"),
    ("1/20 of it", "one twentieth of it"),
    ("so 24/4 = 6", "so twenty four divided by four equals six"),
    ("7/30 of them", "seven over thirty of them"),
    ("a ratio of 3:5.", "a ratio of three to five."),
    ("in a ratio of 1:2:1", "in a ratio of one to two to one"),
    # times
    ("at 3:30 PM", "at three thirty in the afternoon"),
    ("8:00 a.m. or 9:05 pm", "eight in the morning or nine oh five at night"),
    ("at 12 PM or 12:00 AM", "at noon or midnight"),
    ("until 7:00 and at 7:05", "until seven o'clock and at seven oh five"),
    # units
    ("5 kg at 60 km/h", "five kilograms at sixty kilometers per hour"),
    ("1 ft and 2 lbs.", "one foot and two pounds."),
    ("25°C or 1 °F", "twenty five degrees Celsius or one degree Fahrenheit"),
    ("an angle of 45°", "an angle of forty five degrees"),
    ("9.8 m/s^2", "nine point eight meters per second squared"),
    ("10 cm^2 and 3 ft³", "ten square centimeters and three cubic feet"),
    ("275 kJ mol^-1", "two hundred seventy five kilojoules per mole"),
    ("5 in the morning", "five in the morning"),
    ("6.0 \\mu \\mathrm{C}", "six point zero microcoulombs"),
    ("40A each", "forty amps each"),
    ("5 A students", "five A students"),
    ("How fast? (Unit: m/s)", "How fast? in meters per second"),
    ("its speed in km/hr", "its speed in kilometers per hour"),
    ("from 4 pm - 6 pm", "from four in the afternoon to six in the evening"),
    ("5 - 10 people, 9 - 4 apples", "five to ten people, nine minus four apples"),
    ("One kg is called a(n) unit", "One kilogram is called a unit"),
    ("2 × 10^2 m", "two times ten to the power of two meters"),
    ("how many km", "how many kilometers"),
    ("7 stickers/page * 6 pages", "seven stickers per page times six pages"),
    ("50 ml/dose", "fifty milliliters per dose"),
    ("half a kg, per km", "half a kilogram, per kilometer"),
    ("$5 per lb, twenty kg, 20 kg", "five dollars per pound, twenty kilograms, twenty kilograms"),
    ("What is its length in mm?", "What is its length in millimeters?"),
    ("ten more lbs and 8 more oz", "ten more pounds and eight more ounces"),
    ("8 cubic cm of it (in kg)", "eight cubic centimeters of it, in kilograms"),
    ("1/2 lb of mass (kg)", "one half pound of mass, kilograms"),
    ("a 1/50-hp motor and 0.7 kW-hr", "a one fiftieth horsepower motor and zero point seven kilowatt hours"),
    ("60 ft-lb and 9 cu. ft", "sixty foot pounds and nine cubic feet"),
    ("13.2 m·s^{-1}", "thirteen point two meters per second"),
    ("13.2 m s^-1, 2 m·s⁻²", "thirteen point two meters per second, two meters per second squared"),
    ("3 m/s^2", "three meters per second squared"),
    ("40 s^-1", "forty per second"),
    ("1 J·K^{-1}·mol^{-1}", "one joule per kelvin per mole"),
    ("8.3 J·K^{-1}·mol^{-1}", "eight point three joules per kelvin per mole"),
    ("5 W m^-2 K^-1", "five watts per square meter per kelvin"),
    ("3 \\mathrm{kg} \\cdot \\mathrm{m}^{-3}", "three kilograms per cubic meter"),
    ("10^-4 mol·L^{-1}·s^{-1}", "ten to the power of minus four moles per liter per second"),
    ("20 N·m and 5 kg·m/s", "twenty newton meters and five kilogram meters per second"),
    ("2 kg·m^2", "two kilogram square meters"),
    # formulas
    ("x^2 + 3 = 7", "x squared plus three equals seven"),
    ("2^10 and n^k", "two to the power of ten and n to the power of k"),
    ("5 × 3 ÷ 2", "five times three divided by two"),
    ("5 x 3 = 15", "five times three equals fifteen"),
    ("a 5 x 3 photo", "a five by three photo"),
    ("a 4x6 photo", "a four by six photo"),
    ("6.0 × 10^-4", "six point zero times ten to the power of minus four"),
    ("3.5e-8", "three point five times ten to the power of minus eight"),
    ("x < 5 and y ≥ 3", "x is less than five and y is greater than or equal to three"),
    ("> 50 people", "more than fifty people"),
    ("~5 miles", "about five miles"),
    ("√2", "the square root of two"),
    ("2π", "two pi"),
    ("$x^2$ and \\frac{1}{2}", "x squared and one half"),
    ("\\( v_0 = 5 \\mathrm{~m} \\)", "v zero equals five meters"),
    ("2x as many, 3x + 1", "two times as many, three x plus one"),
    ("f(x)", "f of x"),
    # words, letters, short forms
    ("an eBay sale and apoB", "an eBay sale and apoB"),
    ("McDonald's iPhone at pH 7", "McDonald's iPhone at P H seven"),
    ("MacArthur's mRNA and LaTeX", "MacArthur's messenger R N A and LaTeX"),
    ("deinstitutionalization and absinthe", "deinstitutionalization and absinthe"),
    ("DNA in the U.S. Senate", "DNA in the U S Senate"),
    ("H2O, CO_2 and NaCl", "H two O, C O two and N A C L"),
    ("He took vitamin C. A day later", "He took vitamin C. A day later"),
    ("vitamin B12", "vitamin B twelve"),
    ("World War II", "World War two"),
    ("Henry VIII", "Henry the Eighth"),
    ("Mr. and Mrs. Lee vs. Dr. No", "Mister and Missus Lee versus Doctor No"),
    ("dogs, e.g. mine, etc.", "dogs, for example mine, et cetera."),
    ("a U. S. citizen, Larry P. v. Riles", "a U S citizen, Larry P versus Riles"),
    ("John F. Kennedy's café", "John F Kennedy's cafe"),
    ("R&D @ $5 each", "R and D at five dollars each"),
    ("This is NOT it", "This is not it"),
    ("well-known – but “quoted”", "well known, but quoted"),
    ("he (or she) and/or they", "he, or she, and or they"),
    ("his/her friend(s)", "his or her friends"),
    ("The _____ is called...", "The blank is called."),
    ("The students' work", "The students work"),
    ("first line\n\nsecond line", "first line. second line"),
    ("6 * 7 = <<6*7=42>>42", "six times seven equals forty two"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), READINGS)
def test_reading(written: str, spoken: str) -> None:
    assert speak(written) == spoken


REFUSALS = [
    ("", "blank"),
    ('"..."', "blank"),
    ("5 + = 3", "formula"),
    ("score 10-5", "formula"),
    ("\\somecommand{x}", "formula"),
    ("\\begin{array}{cc} 1 & 2 \\end{array}", "formula"),
    ("a load of 6g that accelerates", "formula"),
    ("a mass m pulled with 2 mg", "formula"),
    ("a | b | c |\nd | e | f |", "table"),
    ("see https://example.org/a/b.html", "markup"),
    ("<script>alert(1)</script>", "markup"),
    ("мир", "non_latin"),
    ("مرحبا", "non_latin"),
    ("x\x01y", "symbol"),
    ("well done \U0001f600", "symbol"),
    ("a \u202eb", "symbol"),
    ("1,04 and", "number"),
    ("2 132 contracts", "number"),
    ("call 555-123-4567 now", "number"),
    ("at 75 F", "number"),
    ("12345678901234567890", "number"),
    ("38 oz-foo at most", "code"),
    ("Xannvomqdiyfthis first", "broken_text"),
    ("DNAaseis it", "broken_text"),
]


@pytest.mark.parametrize(("written", "reason"), REFUSALS)
def test_refusal(written: str, reason: str) -> None:
    with pytest.raises(Unspeakable) as refused:
        speak(written)
    assert refused.value.reason == reason


PIECES = st.sampled_from(
    ["$", "5", "1/2", ".", ",", " ", "-", "x", "A", "II", "in 1914", "%", "(", ")", "'", '"', "e.g.", "U.S.", "°C",
     "kg", "=", "+", "3:30", " PM", "Dr.", "_", "^", "2", "\\frac{1}{2}", "the", "H2O", "é", "½", "\n", "/", "Jr.", "?",
     "J."]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
@settings(max_examples=600, deadline=None)
@example("a. A. Inc. B")
@example("St. Mr. 5's")
@pytest.mark.full
def test_only_words_and_marks_come_out_and_speaking_again_changes_nothing(text: str) -> None:
    try:
        spoken = speak(text)
    except Unspeakable:
        return
    assert SPOKEN.fullmatch(spoken)
    assert speak(spoken) == spoken


@given(st.integers(min_value=0, max_value=10**12))
def test_thousands_commas_do_not_change_a_number(number: int) -> None:
    assert speak(f"{number:,} things") == speak(f"{number} things")


def test_words_are_counted_without_their_marks() -> None:
    assert spoken_words("It's ten o'clock, isn't it?") == ["It's", "ten", "o'clock", "isn't", "it"]


def test_a_refusal_crosses_process_borders() -> None:
    refusal = pickle.loads(pickle.dumps(Unspeakable("formula", "x_{12}")))
    assert (refusal.reason, refusal.detail) == ("formula", "x_{12}")


def test_an_unknown_reason_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="no reason"):
        Unspeakable("whatever", "x")


@pytest.mark.parametrize(
    "piece", ["the cat ", "1", "5 C ", "(", "^{", "\\frac{", "$a ", "a@b.", "A.", "m^", "H2O ", "\n"]
)
@pytest.mark.full
def test_ten_thousand_characters_are_read_or_refused(piece: str) -> None:
    try:
        outcome = speak((piece * 10_000)[:10_000])
    except Unspeakable as refusal:
        outcome = refusal.reason
    assert outcome in REASONS or SPOKEN.fullmatch(outcome)
