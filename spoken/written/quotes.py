"""Which double quotes are marks of inches, or of seconds of an arc, and which are quotes, that nobody says.

A double quote at a number closes what was quoted where a quote is open, and else measures: `a 5" board`. Where both are
possible the text is refused, for a unit would be lost or made up. A quote left open or closed twice elsewhere is a slip
without a second reading: it is dropped as the others are.
"""

import re
from typing import Final

from spoken.spoken_text import Unspeakable
from spoken.written.traced import Traced

INCH: Final = "″"
"""The sign that stands for inches or seconds of an arc, and nothing else, after `with_inch_marks`."""

_PRIMED: Final = re.compile(r"(?<=[A-Za-z)])″|(?<![\w\"'])[a-z]\"(?= ?[-+=(])")
_NO_MEASURE: Final = re.compile(r"(?<!\d)(?<!\d )″")
_TWO_SINGLE: Final = re.compile(r"(?<![\w)\]'])''(?=[A-Za-z\d])|(?<=\d)''(?![\w'])|(?<=\d) ''(?![\w'])")
_AFTER_FEET: Final = re.compile(r"(\d ?' ?-?\d{1,2}(?:\.\d+)?) ?\"")
"""The inches of a height, and the seconds of an angle, are sure wherever they stand."""

_MARK: Final = re.compile(r"(?<=\d)\"|(?<=\d) \"(?![\w$(])|(?<=\d/\d )\"(?=x ?\d)")
_OPENING: Final = re.compile(r"(?<![^\s(\[{/=:—-])\"(?=[^\s\"])")


def with_inch_marks(text: Traced) -> Traced:
    """The text whose marks of inches and seconds are `INCH`, whose second derivatives are `''`, and whose quotes `"`.

    Raises:
        Unspeakable: `symbol`: a double quote at a number may be either.
    """
    if not re.search("[\"″]|''", text.text):
        return text
    text = text.sub(_PRIMED, lambda m: m[0][:-1] + "''").sub(_NO_MEASURE, '"').sub(_TWO_SINGLE, _as_quote)
    text = text.sub(_AFTER_FEET, rf"\1{INCH}")
    measuring = _measuring(text.text)
    text = text.sub('"', lambda m: INCH if m.start() in measuring else '"')
    text = text.sub(rf"{INCH}(?= ?- ?\d[\d./]*{INCH})", "")  # both ends of a range
    return text.sub(rf"{INCH} ?[xX×] ?(?=\d)", f"{INCH} x ").sub(rf"{INCH}[ -]?(?=[A-Za-z])", f"{INCH} ")


def _as_quote(match: re.Match[str]) -> str:
    return match[0].replace("''", '"')


def _measuring(text: str) -> set[int]:
    """The places of double quotes that measure."""
    at_number = {match.end() - 1 for match in re.finditer(_MARK, text)}
    opening = {match.start() for match in re.finditer(_OPENING, text)}
    measuring = set[int]()
    is_open = closed_at_number = False
    for place in (match.start() for match in re.finditer('"', text)):
        if place in at_number and not is_open:
            measuring.add(place)
        elif place in opening:
            is_open, closed_at_number = True, False
        elif not is_open and closed_at_number:
            raise Unspeakable("symbol", text[max(0, place - 30) : place + 10])
        else:
            is_open, closed_at_number = False, place in at_number
    return measuring
