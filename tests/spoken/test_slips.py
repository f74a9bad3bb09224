"""Slips of typing, scanning and layout, and what they are read as: exactly one reading a line."""

import pytest

from spoken.reader import Unspeakable, speak

SLIPS = [
    # words left out
    ("The old roads . . . lead to it . . . and end.", "The old roads, lead to it, and end."),
    ("It was late…..Then she left.", "It was late. Then she left."),
    ("a fine day&…. He slept.", "a fine day. He slept."),
    ("for x=1,2,... and y=3", "for x equals one, two, and so on and y equals three"),
    ("S=1/2+1/4+\\cdots", "S equals one half plus one quarter plus dot dot dot"),
    # small words run into symbols and names
    ("The load ism_Awhen it lies on R.", "The load is m A when it lies on R."),
    ("the transform oft^n", "the transform of t to the power of n"),
    ("v = v_0 In [(m_1 / m_2)]", "v equals v zero the natural log of, m one over m two"),
    ("f(t) = 3e^-2tu(t)", "f of t equals three e to the power of minus two t u of t"),
    ("aK = Ka and temperatureT = 5 K", "a K equals K a and temperature T equals five kelvin"),
    ("leV = 1.6 × 10^-19 J",
     "one electron volt equals one point six times ten to the power of minus nineteen joules"),
    ("a ball ona hill hada hole; FindA_maxwhen it rolls",
     "a ball on a hill had a hole; Find A max when it rolls"),
    ("after four years .. there were none", "after four years, there were none"),
    ("the firm'sboats are old", "the firm's boats are old"),
    ("a hydrogen - like ion in a U - shaped tube", "a hydrogen like ion in a U shaped tube"),
    # units
    ("a 9 . cm -long tube at 2 × 10^3sec^-1",
     "a nine centimeter long tube at two times ten to the power of three per second"),
    ("0.2 N acid and 3 N of force", "zero point two normal acid and three newtons of force"),
    ("2.5(T / \\text{K})", "two point five open parenthesis T over K close parenthesis"),
    ("a car at 60 M. P. H. passes", "a car at sixty miles per hour passes"),
    ("a flask of 100. mL", "a flask of one hundred milliliters"),
    ("6 k cal / mole and 9 KJ/mole", "six kilocalories per mole and nine kilojoules per mole"),
    ("a box of 40 in^3. is full", "a box of forty cubic inches is full"),
    ("a pipe of 2 in. I.D. leaks", "a pipe of two inches I D leaks"),
    ("20° C, 70 degrees F and $5^{\\circ} \\mathrm{C}$",
     "twenty degrees Celsius, seventy degrees Fahrenheit and five degrees Celsius"),
    ("a film 8\\mu thick", "a film eight microns thick"),
    ("a coil of R Ω and one of 2R Ω", "a coil of R ohms and one of two R ohms"),
    ("40 pounds per square inch (psi)", "forty pounds per square inch"),
    ("a (3/4) mile walk of (1/2) min", "a three quarters mile walk of one half minute"),
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
    ("80 ml. of oil, 7 mg. daily and a 9 g. weight",
     "eighty milliliters of oil, seven milligrams daily and a nine gram weight"),
    ("It is 3 (5 / 8) in", "It is three and five eighths inches"),
    ("a bore of 6 (1 / 2) in., all in all", "a bore of six and one half inches, all in all"),
    # signs
    ("a real 3 x 3 matrix", "a real three by three matrix"),
    ("$\\lim -\\frac{1}{n}$", "the limit of minus one over n"),
    ("What makes 24 / ? = 6 true?", "What makes twenty four divided by what equals six true?"),
    ("is $0.30 \\times 10^{-5} K^{-1}. Find it",
     "is zero point three zero times ten to the power of minus five per kelvin. Find it"),
    ("(1-\\frac{x^2}{4})", "one minus x squared over four"),
    ("2y - \\sqrt{3}", "two y minus the square root of three"),
    ("20 - 3 - 3 and a 50 - 50 chance", "twenty minus three minus three and a fifty fifty chance"),
    ("\\int_0^1|p(x)-q(x)| dx",
     "the integral from zero to one of the absolute value of p of x minus q of x, d x"),
    ("the integral $\\iint x dx$", "the double integral of x d x"),
    ("j20 ohms, -j50 ohms and - j5", "j twenty ohms, minus j fifty ohms and minus j five"),
    ("3 (1/2)^n u[n]", "three times one half to the power of n u of n"),
    ("5 ducks a(.02 m) ring", "five ducks a, zero point zero two meters, ring"),
    ("f is bounded as x \\rightarrow 0", "f is bounded as x approaches zero"),
    ("\\delta_D' is small", "delta D prime is small"),
    ("x_1(t) = 5", "x one of t equals five"),
    ("g(2012) = 4", "g of two thousand twelve equals four"),
    ("ionic, ionic - polar, and gas", "ionic, ionic polar, and gas"),
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
    ("1, 5, 9, 13 What comes next?", "one, five, nine, thirteen. What comes next?"),
    ("a way\n\nbetween hills", "a way, between hills"),
    ("6 pens in each box\nWhich is right?", "six pens in each box. Which is right?"),
    ("[x+1]^-1- \\infty < x",
     "open bracket x plus one close bracket to the power of minus one minus infinity is less than x"),
    # what tells of one thing twice, what is no product, years of works
    ("a word has 5 letters/signs and a row 3 apples/basket",
     "a word has five letters slash signs and a row three apples per basket"),
    ("a χ2 test of a 3 × 2 two-way table", "a chi squared test of a three by two two way table"),
    ("the work $\\vec{F} \\cdot d\\vec{r}$ of $\\mathbf{B} \\cdot d\\mathbf{a}$ and $4 \\cdot \\vec{r}$",
     "the work vector F dot d vector r of B dot d a and four times vector r"),
    ("write \\nearrow for it", "write arrow for it"),
    ("$\\limsup _{n \\rightarrow infty} X_n = 1$", "the limit superior as n approaches infinity of X n equals one"),
    ("[HNO2] > [NO2-] and [Ag+] = 3",
     "the concentration of H N O two is greater than the concentration of N O two minus and "
     "the concentration of A G plus equals three"),
    ("VarX = 3 + Var(Y)", "the variance of X equals three plus the variance of Y"),
    ("2E[{X - 1}{Y - 2}]",
     "two E of open parenthesis open brace X minus one close brace open brace Y minus two close brace "
     "close parenthesis"),
    ("a distance \\rho(p, q) = 3", "a distance rho of p, q equals three"),
    ("The Ka is 3", "The K a is three"),
    ("Keld's(1967) study", "Keld's nineteen sixty seven study"),
    ('Ann Keld, "On Life," 1868 From this', "Ann Keld, On Life, eighteen sixty eight From this"),
    ("Ann Keld, A Life, 1776–1788\nKeld's view of it",
     "Ann Keld, A Life, seventeen seventy six to seventeen eighty eight. Keld's view of it"),
    ("the 1 0th bid at 3 × 101 4Hz", "the tenth bid at three times ten to the power of fourteen hertz"),
    # units, labels and words that lost a space
    ("100\\muWsignal and 2\\muWof noise", "one hundred microwatts signal and two microwatts of noise"),
    ("0.2 cal/g\\bulletCdeg.", "zero point two calories per gram per degree Celsius."),
    ("30 m = Box mm", "thirty meters equals blank millimeters"),
    ("a rise to 2 atmos-pheres of 1 atmosphere (atm) or 1/4atm",
     "a rise to two atmospheres of one atmosphere or one quarter atmosphere"),
    ("0.5 henryis small and ought tobe so", "zero point five henry is small and ought to be so"),
    ("Mr. Kedoset up a shop", "Mister Kedo set up a shop"),
    ("a pike at 5 m. p. h. (or 6 m. p. h. ) overtook one at 4 m. p. h. It was grey.",
     "a pike at five miles per hour, or six miles per hour, overtook one at four miles per hour. It was grey."),
    ("a fee of $1,200. 00 for a pike and $7. 15 per hen, not $20. 12 hens swam for $30. 00.",
     "a fee of one thousand two hundred dollars for a pike and seven dollars and fifteen cents per hen, "
     "not twenty dollars. twelve hens swam for thirty dollars."),
    ("the negativey axis", "the negative y axis"),
    ("a moment of 3 J T-1.", "a moment of three joules per tesla."),
    ("The Asst. Keeper met the Atty. General of S. Korea.",
     "The Assistant Keeper met the Attorney General of South Korea."),
    ("The speed is given by\n$$\n\\sqrt{2}\n$$\nIf it", "The speed is given by the square root of two. If it"),
    ("Our [main] lake, as \"pikes [were] fed\", has a weir [dam] here",
     "Our main lake, as pikes were fed, has a weir, dam, here"),
    ("Load = 20 psi Pump power = 3 hp",
     "Load equals twenty pounds per square inch, Pump power equals three horsepower"),
    ("Its age maybe estimated, as it was maybe tagged.", "Its age may be estimated, as it was maybe tagged."),
    ("Name them:a) Penb) Inkc) Paper.", "Name them: a, Pen, b, Ink, c, Paper."),
    ("Between dc and ac lies little.", "Between d c and A C lies little."),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), SLIPS)
def test_slip_is_read_as_it_was_meant(written: str, spoken: str) -> None:
    assert speak(written) == spoken


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("the cell Pt/Ag(s)/Ag Br(s)", "formula"),
        ("he was purcIiasing that", "broken_text"),
        ("12 Btu/(ft^2 hr F°/in)", "formula"),
    ],
)
def test_a_slip_with_no_sure_reading_is_refused(written: str, reason: str) -> None:
    with pytest.raises(Unspeakable) as refused:
        speak(written)
    assert refused.value.reason == reason
