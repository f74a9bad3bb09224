"""Forms in which a sign, a bracket, a unit or a word was once lost or read as another: what is said of them now."""

import pytest

from pipelines.script.askable import NotAskable, check_wording
from spoken.reader import Unspeakable, speak
from spoken.rules.rule import reading_about

READINGS = [
    # a minus before a fraction, between calls, before indexed letters, after a colon or a comma
    ("-\\frac{1}{2}", "minus one half"),
    ("-\\dfrac{\\pi}{3}", "minus pi over three"),
    ("It is $-\\frac{k-2}{7}$.", "It is minus open parenthesis k minus two close parenthesis over seven."),
    ("$4-\\frac{1}{3}$", "four minus one third"),
    ("$2\\frac{1}{3}$", "two and one third"),
    ("1 - 1/k", "one minus one over k"),
    ("a 30 - 30 split", "a thirty thirty split"),
    ("The answer is: -(k+2)/3.", "The answer is: minus open parenthesis k plus two close parenthesis over three."),
    ("ReLU(z) - ReLU(z+2)", "ReLU z minus ReLU of open parenthesis z plus two close parenthesis"),
    ("(V_2 - V_1) is", "V two minus V one, is"),
    (
        "Loss: - 2.00 Pa (a valve), - 3.50 Pa",
        "Loss: minus two point zero zero pascals, a valve, minus three point five zero pascals",
    ),
    ("Bring: - 2 pears - 3 plums", "Bring: two pears, three plums"),
    # brackets after a letter: an argument or a factor
    ("y(2-y)/5", "y open parenthesis two minus y close parenthesis over five"),
    ("g(g(x)) = 1", "g of g of x equals one"),
    ("P(1+i)^3", "P open parenthesis one plus i close parenthesis cubed"),
    ("$k \\delta(t-3)$", "k delta of open parenthesis t minus three close parenthesis"),
    ("time $\\Theta(n^3)$", "time theta of n cubed"),
    ("in [2, 7) of it", "in the interval two, seven, without seven, of it"),
    ("the interval (0, 4]", "the interval zero, four, without zero"),
    (
        "v = (RT/P) - (c/RT)",
        "v equals open parenthesis RT over P close parenthesis minus open parenthesis c over RT close parenthesis",
    ),
    ("the tRNA = 5 test", "the transfer R N A equals five test"),
    # reactions, ions, isotopes, shells
    ("2H2 + O2 = 2H2O", "two H two plus O two equals two H two O"),
    ("N2 + 3H2 → 2NH3", "N two plus three H two yields two N H three"),
    ("2KClO_3 \\rightarrow 2KCl + 3O_2 (g)", "two K C L O three yields two K C L plus three O two, gas"),
    ("4CO (g) + 2O_2 (g)", "four C O, gas, plus two O two, gas"),
    ("PAT → PET → PEN", "PAT to PET to PEN"),
    ("Au^197 and C^14 and x^12", "gold one hundred ninety seven and carbon fourteen and x to the power of twelve"),
    ("1 s^2 2 s^2 2 p^3", "one s two, two s two, two p three"),
    ("G^{\\ominus}(400 K)", "G naught, four hundred kelvin"),
    # units that are other things
    ("She earns 4K a month.", "She earns four thousand a month."),
    ("It cools to 4K.", "It cools to four kelvin."),
    ("2K + Br2 → 2KBr", "two K plus B R two yields two K B R"),
    ("a slope of 0.3T + 0.02T^2", "a slope of zero point three T plus zero point zero two T squared"),
    ("a field of 0.3T", "a field of zero point three tesla"),
    ("3 x 10^5 T-1 s-1", "three times ten to the power of five per tesla per second"),
    ("2 cal g^-1 C deg^-1", "two calories per gram per degree Celsius"),
    ("width = 5 in; height = 7 in, or", "width equals five inches; height equals seven inches, or"),
    ("a rate in kbps", "a rate in kilobits per second"),
    ("2.5 \\mathrm{C} \\cdot \\mathrm{m} of charge", "two point five coulomb meters of charge"),
    ("a note at 9V2 percent", "a note at nine and one half percent"),
    ("It is 2.5 10^{-2} %.", "It is two point five times ten to the power of minus two percent."),
    # years and dates
    ("a 1962 Beetle, a 1500 Watt stove", "a nineteen sixty two Beetle, a one thousand five hundred Watt stove"),
    ("The Old Ballad, 1643", "The Old Ballad, sixteen forty three"),
    ("a March 3 visit, in March 3 came", "a March third visit, in March three came"),
    ("March 31, 1968 $500", "March thirty first, nineteen sixty eight, five hundred dollars"),
    # streets, titles, exclamations, factorials
    ("He lives at 12 Main Dr. in town.", "He lives at twelve Main Drive in town."),
    ("He lives on Main Dr. She works.", "He lives on Main Drive. She works."),
    ("Ask Dr. Who at 4 Elm St. today.", "Ask Doctor Who at four Elm Street today."),
    ("5!", "five factorial."),
    ("What is 6!", "What is six factorial."),
    ("We won 6! Hooray.", "We won six! Hooray."),
    # spaces that were lost, and hyphens
    ("a co-owner of bi-convex lenses", "a co owner of bi convex lenses"),
    ("an $n$-sided tile", "an n sided tile"),
    ("\\alpha-particles", "alpha particles"),
    ("$\\vec{E}=(3 \\hat{\\mathrm{i}}-6 \\hat{\\mathrm{j}})$", "vector E equals, three i hat minus six j hat"),
    ("a count of $1 / 2$ left", "a count of one half left"),
    ("It has speed v. The car, in Roe v. Wade", "It has speed v. The car, in Roe versus Wade"),
    ("the 68-95-99.7 rule", "the sixty eight ninety five ninety nine point seven rule"),
    ("Which product is 9x80?", "Which product is nine times eighty?"),
    ("a 4x6 card", "a four by six card"),
    ("bromate, BrO3- here", "bromate, B R O three minus here"),
    ("(– 5, –3)", "minus five, minus three"),
    ("one corner of P' is here", "one corner of P prime is here"),
    ("0.2|v|", "zero point two the absolute value of v"),
    ("$\\dbinom{9}{4}$", "nine choose four"),
    ("a spell from it to\n\nother places", "a spell from it to other places"),
    ("a half-life of ${ }^{234} \\mathrm{U}$ is", "a half life of uranium two hundred thirty four is"),
    ("y = - kt can be", "y equals minus k t can be"),
    ("between the years 1641 and 1660", "between the years sixteen forty one and sixteen sixty"),
    ("for one gas, - 515 kJ for another", "for one gas, minus five hundred fifteen kilojoules for another"),
    ("the residual u-hat", "the residual u hat"),
    ("Calculate its size: 2 in x 6 in.", "Calculate its size: two inches by six inches."),
    # decoded wrongly, short forms, possessives, stops that end no sentence
    ("a pike‚Äìno more‚Äîand the carp‚Äôs ‚Äúold‚Äù lake", "a pike, no more, and the carp's old lake"),
    ("the fianc\u00c3\u00a9e\u00e2\u20ac\u2122s carp", "the fiancee's carp"),
    ("by Ann Lake, Esq. to the town", "by Ann Lake, Esquire to the town"),
    ("Find Mr. Reeves' share.", "Find Mister Reeves's share."),
    ("'We like Mr. Reeves' she said", "We like Mister Reeves she said"),
    ("See Form 1041 in Room 2305.", "See Form ten forty one in Room twenty three oh five."),
    ("subject to $9,000 liability", "subject to nine thousand dollar liability"),
    ("The law says 3 over 8 = 9 over ? is so.", "The law says three over eight equals nine over what is so."),
    ("the Marine Corps. of today. and more", "the Marine Corps of today, and more"),
    ("due on May 1. and paid", "due on May first, and paid"),
    (
        "2H_2 + O_2 → 2H_2O Assume the rest is lost.",
        "two H two plus O two yields two H two O. Assume the rest is lost.",
    ),
    (
        "Sales:\nPikes | $3 million\nCarps | $5\nWhat is due?",
        "Sales: Pikes, three million dollars. Carps, five dollars. What is due?",
    ),
    # numerals, years, sums, answers in a row
    ("They part in meiosis I. In photosystem I it", "They part in meiosis one. In photosystem one it"),
    ("a type I error, the type I like", "a type one error, the type I like"),
    (
        "The Pike Act of 1933 set limits. Sales of 1933 pikes fell.",
        "The Pike Act of nineteen thirty three set limits. Sales of one thousand nine hundred thirty three pikes fell.",
    ),
    (
        "Ann Lake, Old Pikes (speech), 1873. The income for 1978. In 1990 then it fell on May 2 [1914].",
        "Ann Lake, Old Pikes, speech, eighteen seventy three. The income for nineteen seventy eight. In nineteen "
        "ninety then it fell on May second, nineteen fourteen.",
    ),
    ("He claimed the $9,000 reward.", "He claimed the nine thousand dollar reward."),
    ("30% $700 K = 5", "thirty percent, seven hundred dollars, K equals five"),
    (
        "Mending the old net $60 Line and hooks to catch the pikes $30 Fisher's fee $95 is paid",
        "Mending the old net sixty dollars, Line and hooks to catch the pikes thirty dollars, Fisher's fee ninety five "
        "dollars is paid",
    ),
    ("It holds five blue pikes How many of them swim?", "It holds five blue pikes. How many of them swim?"),
    ("They asked him how. The essay What is it all for", "They asked him how. The essay What is it all for"),
    ("an H_2SO_4, solution of it", "an H two S O four solution of it"),
    ("the acf, pacf and more", "the A C F, P A C F and more"),
    ("taught the pike to see\nThat there is a lake,\nnow", "taught the pike to see That there is a lake, now"),
    ("Of Lakes\n'Twas night here,\nand cold", "Of Lakes. Twas night here, and cold"),
    # logic
    ("A ∨ (B • C)", "A or open parenthesis B and C close parenthesis"),
    ("F = q • E", "F equals q times E"),
]


@pytest.mark.parametrize(("written", "said"), READINGS)
def test_nothing_is_lost(written: str, said: str) -> None:
    assert speak(written) == said


def test_a_short_text_is_read_by_what_it_is_about() -> None:
    with reading_about("It falls a distance h in the first second. How far in the next?"):
        assert speak("3h") == "three h"
    with reading_about("To what temperature is it heated?"):
        assert speak("30 C") == "thirty degrees Celsius"
    with reading_about("What charge is on it?"):
        assert speak("30 C") == "thirty coulombs"
    with pytest.raises(Unspeakable):
        speak("30 C")


@pytest.mark.parametrize("written", ["She is 5!", "It takes 2K of it.", "extphi_0 = 3 ullet 4"])
def test_what_may_be_two_things_is_refused(written: str) -> None:
    with pytest.raises(Unspeakable):
        speak(written)


@pytest.mark.parametrize(
    "question",
    [
        "Cost of each lot: May 1 700 $.31 June 4 900 $.28 July 6 500 $.27. What is the average?",
        "In the program below, y counts. REPEAT 4 TIMES { z ← z + 1 } What is z?",
        "Blood types P Q R Total 21 8 30 59 were found. How frequent is P?",
    ],
)
def test_tables_and_programs_in_a_line_are_refused(question: str) -> None:
    with pytest.raises(NotAskable, match="needs_writing"):
        check_wording(question, "5")
    check_wording("The marks were 5, 7, 7 and 9 on May 3, 1990. What is the mean?", "7")
