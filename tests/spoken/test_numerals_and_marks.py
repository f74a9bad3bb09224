"""Roman numerals, marks of inches, powers of programs, years with a letter, times of day, addresses: what is said."""

import pytest

from spoken.reader import Unspeakable, speak
from spoken.rules.abbreviations import ROMAN_VALUES
from spoken.rules.numerals import ordinal

READINGS = [
    # Roman numerals: ordinals of rulers and centuries, numbers elsewhere, letters where they are no numerals
    ("early in the XIXth century", "early in the nineteenth century"),
    ("the XVIIth and XVIIIth centuries", "the seventeenth and eighteenth centuries"),
    ("a IIIrd nerve palsy", "a third nerve palsy"),
    ("the Vth, the X and the XX century", "the fifth, the tenth and the twentieth century"),
    ("Louis XVIII's heir", "Louis the Eighteenth's heir"),
    ("Pope John XXII met Pope Benedict XVI.", "Pope John the Twenty Second met Pope Benedict the Sixteenth."),
    ("King Njoya I of Bamum", "King Njoya the First of Bamum"),
    ("Paul I met, and Peter V", "Paul I met, and Peter the Fifth"),
    ("Volume XXIV and factor XI", "Volume twenty four and factor eleven"),
    ("an IV drip, IV fluids and lane IV", "an I V drip, I V fluids and lane four"),
    ("two XL coats and XX chromosomes", "two XL coats and XX chromosomes"),
    # inches: a double quote at a number where no quote is open
    ('an extra 3" of cloth', "an extra three inches of cloth"),
    ('A 15" ruler', "A fifteen inch ruler"),
    ('18" pipe cut into 6" pieces', "eighteen inch pipe cut into six inch pieces"),
    ('a 5/8" bolt', "a five eighths inch bolt"),
    ('a 2 1/2" nail and 2 1/2" of rain', "a two and one half inch nail and two and one half inches of rain"),
    ('1" of snow, 0.5″ of rain', "one inch of snow, zero point five inches of rain"),
    ("her 30” tall goat is 9” shorter", "her thirty inch tall goat is nine inches shorter"),
    ('boards of 2"x4"', "boards of two inches by four inches"),
    ('3"-5" of snow on 8½"x11" paper',
     "three to five inches of snow on eight and one half inches by eleven inches paper"),
    ("5'4\" and 6' 2''", "five feet four inches and six feet two inches"),
    ('"I am 5\'4" tall," he said.', "I am five feet four inches tall, he said."),
    ("an angle of 12° 30' 15''", "an angle of twelve degrees thirty minutes fifteen seconds"),
    ("the ``year 1984'' and f''(x) and g″(x)",
     "the year nineteen eighty four and f double prime of x and g double prime of x"),
    ('y" + 3y = 0', "y double prime plus three y equals zero"),
    # quotes are not said
    ('There are 12 "Lost Lake" books at the "All $5" shop.',
     "There are twelve Lost Lake books at the All five dollars shop."),
    ('He wrote "Pikes.\n\n"Carps."', "He wrote Pikes. Carps."),
    # powers as programs write them, and bold letters
    ("2**3 + 4**2", "two cubed plus four squared"),
    ("x ** n = 5 ** (k+1)", "x to the power of n equals five to the k plus one power"),
    ("**Note:** she has **5** eggs", "Note: she has five eggs"),
    # a letter before a year, places in a book
    ("Old Songs, c. 1750", "Old Songs, circa seventeen fifty"),
    ("born c. 1750-1800 in Rome", "born circa seventeen fifty to eighteen hundred in Rome"),
    ("Born c. 1750 in Rome", "Born circa seventeen fifty in Rome"),
    ("carved c. 900 BCE", "carved circa nine hundred B C E"),
    ("(b. 1950), (c. 1590s), (1710, d. 1782)",
     "born nineteen fifty, circa fifteen nineties, seventeen ten, died seventeen eighty two"),
    ("a. 1940 b. 1950", "a. one thousand nine hundred forty b. one thousand nine hundred fifty"),
    ("By Eq. (2) and fig. (1.3), it", "By Equation two and figure one point three, it"),
    ("the # 12A lamp and #7B", "the number twelve A lamp and number seven B"),
    # times of day
    ("Meet at 14:30 GMT or 7:05 Monday.", "Meet at fourteen thirty GMT or seven oh five Monday."),
    ("at 00:15, not at 00:00", "at fifteen minutes past midnight, not at midnight"),
    ("It's 21 Mar.", "It's the twenty first of March."),
    # a unit before the noun that it describes
    ("45° angle", "forty five degree angle"),
    ("two 60 W bulbs and a 10 Ω resistor", "two sixty watt bulbs and a ten ohm resistor"),
    # addresses
    ("See https://www.lake.org/fish/old-pike.", "See lake dot org slash fish slash old dash pike."),
]  # fmt: skip

REFUSALS = [
    ('"A 5" board," he said.', "symbol"),
    ('He paid "5" of it", she said.', "symbol"),
    ("a star subtends 2''", "number"),
    ("a 6' board", "number"),
    ("the value of c. 1450 people", "number"),
    ("in b. 1950", "number"),
    ("0:15 and 24:15", "number"),
    ("at 00:15 hours", "number"),
    ("What is **bold**here", "markup"),
    ("see lake.org/a?b=1", "markup"),
]


@pytest.mark.parametrize(("written", "said"), READINGS)
def test_it_is_said(written: str, said: str) -> None:
    assert speak(written) == said


@pytest.mark.parametrize(("written", "reason"), REFUSALS)
def test_it_is_refused(written: str, reason: str) -> None:
    with pytest.raises(Unspeakable) as refused:
        speak(written)
    assert refused.value.reason == reason


@pytest.mark.parametrize("numeral", ROMAN_VALUES)
def test_every_numeral_is_an_ordinal_before_a_century_and_after_a_ruler(numeral: str) -> None:
    said = ordinal(ROMAN_VALUES[numeral])
    assert speak(f"the {numeral} century") == speak(f"the {numeral}th century") == f"the {said} century"
    assert speak(f"Louis {numeral} ruled.") == f"Louis the {said.title()} ruled."
