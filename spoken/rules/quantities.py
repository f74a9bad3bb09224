"""Readings of what has digits: fractions, powers of ten, angles, quantities with their unit, plain numbers."""

import re
from typing import Final

from spoken.rules.letter_units import describes, say_quantity, say_unit_of
from spoken.rules.money import END, START, is_year
from spoken.rules.numerals import NUM, cardinal, digits, fraction, is_one, ordinal, power, written_number, year
from spoken.rules.rule import Match, Rule, after, before, refusal, rule
from spoken.rules.unit_names import WORDS_AS_UNITS
from spoken.rules.units import UNIT, UNIT_BEYOND, say_unit
from spoken.spoken_text import Unspeakable


def _ordinal(match: Match) -> str:
    return ordinal(int(match[1].replace(",", "")))


def _fraction(match: Match) -> str:
    whole, numerator, denominator = match["whole"], match["numerator"], match["denominator"]
    top, bottom = int(numerator), int(denominator)
    if (top, bottom) in {(24, 7), (9, 11)} and "=" not in after(match)[:3]:
        return f"{cardinal(top)} {cardinal(bottom)}"
    if 0 < top < bottom and not whole and match[0].endswith(("th", "ths", "st", "nd", "rd", "rds")):
        return fraction(top, bottom)
    proper = 0 < top < bottom and (bottom <= 20 or (top == 1 and bottom <= 100))
    improper = 1 < bottom <= 10 and bottom < top <= 20 and top % bottom
    if proper or (improper and not whole):
        spoken = fraction(top, bottom)
        return f"{cardinal(int(whole))} and {spoken}" if whole else spoken
    if whole and 0 < top < bottom:
        return f"{cardinal(int(whole))} and {cardinal(top)} over {cardinal(bottom)}"
    if whole or numerator.startswith("00") or denominator.startswith("0"):
        raise Unspeakable("number", match[0])
    if re.match(r" ?=", after(match)):
        return f"{cardinal(top)} divided by {cardinal(bottom)}"
    return f"{cardinal(top)} over {cardinal(bottom)}"


def _percent_fraction(match: Match) -> str:
    return f"{_fraction(match)}{' percent' if match['percent'] else ''}"


def _mixed(match: Match) -> str:
    """ "66(2/3)", "5 (1 / 4)": a whole number and a fraction in brackets."""
    top, bottom = int(match["top"]), int(match["bottom"])
    said = fraction(top, bottom) if bottom <= 100 else f"{cardinal(top)} over {cardinal(bottom)}"
    return f"{written_number(match['whole'])} and {said}{' percent' if match['percent'] else ''}"


def _locants(match: Match) -> str:
    """Places in a chemical name: "1,4-dichlorobenzene" is "one four dichlorobenzene"."""
    return " ".join(cardinal(int(place)) for place in re.findall(r"\d+", match[0]))


def _latitude(match: Match) -> str:
    name = {"N": "north", "S": "south", "E": "east", "W": "west"}[match["point"]]
    return f"{written_number(match['amount'])} {'degree' if match['amount'] == '1' else 'degrees'} {name}"


def _terms(match: Match) -> str:
    return f"{cardinal(int(match[1]))} {cardinal(int(match[2]))}, net {cardinal(int(match[3]))}"


def _ten_to(match: Match) -> str:
    """A number times a power of ten, with its unit; the sign between them or the caret may be lost."""
    exponent = match["exponent"].replace(" ", "").lstrip("+").strip("{}()")
    said = "to the power of two" if exponent == "2" else "to the power of three" if exponent == "3" else power(exponent)
    times = f"{written_number(match['amount'])} times " if match["amount"] else ""
    unit = f" {say_unit_of(match, plural=True)}" if match["unit"] else ""
    return f"{times}ten {said}{unit}"


def _exponent(match: Match) -> str:
    unit = f" {say_unit_of(match, plural=True)}" if match.groupdict().get("unit") else ""
    return f"{written_number(match['amount'])} times ten {power(str(int(match['exponent'])))}{unit}"


def _fraction_of_unit(match: Match) -> str:
    top, bottom = int(match["top"]), int(match["bottom"])
    if not 0 < top < bottom <= 100:
        return f"{cardinal(top)} over {cardinal(bottom)} {say_unit(match['unit'], plural=True)}"
    whole = f"{cardinal(int(match['whole']))} and " if match["whole"] else ""
    unit = say_unit(match["unit"], plural=bool(match["whole"]) and not describes(match))
    return f"{whole}{fraction(top, bottom)} {unit}"


def _duration(match: Match) -> str:
    """ "2h 30m", "5m 30s": minutes, as nobody goes on from meters in hours or seconds."""
    parts = [(match[name], name) for name in ("hours", "minutes", "seconds") if match[name]]
    return " ".join(f"{written_number(size)} {name[:-1] if is_one(size) else name}" for size, name in parts)


def _coefficient(match: Match) -> str:
    if match[2] == "x" and re.match(
        r" (?:as|more|the|faster|larger|bigger|magni\w+|zoom|objective|eyepiece|lens)\b", after(match)
    ):
        return f"{written_number(match[1])} times"
    return f"{written_number(match[1])} {' '.join(match[2])}"


def _number(match: Match) -> str:
    text = match[0]
    if is_year(match):
        return year(int(text))
    if re.fullmatch(r"0\d{1,14}", text) and not re.search(r"[\d,] $", before(match)):
        return digits(text)
    return written_number(text)


def _angle(match: Match) -> str:
    minutes, seconds = int(match["minutes"]), match["seconds"]
    said = f"{written_number(match['degrees'])} {'degree' if match['degrees'] == '1' else 'degrees'}"
    said += f" {cardinal(minutes)} {'minute' if minutes == 1 else 'minutes'}"
    return f"{said} {written_number(seconds)} seconds" if seconds else said


def _height(match: Match) -> str:
    feet = f"{cardinal(int(match['feet']))} {'foot' if match['feet'] == '1' else 'feet'}"
    if not match["inches"]:
        return feet
    return f"{feet} {written_number(match['inches'])} {'inch' if match['inches'] == '1' else 'inches'}"


_WORDS: Final = "|".join(WORDS_AS_UNITS)
_NO_UNIT: Final = (
    rf"(?!A (?!is\b|was\b|has\b|passes\b|flows\b)[a-z]+s\b|A['-]|[A-Z]&|H[_\d]|A (?:student|grade|paper)"
    rf"|in\b(?!\.? ?(?:x|by|wide|long|tall|Hg|high|thick|diameter|closer|[OI]\.?D)\b"
    rf"|[;,]|$|[.)] ?(?:$|[a-z),])|\^|\. [a-z]|-lb)|[AHKMNTVWJLGC] (?:atom|ion|bond|cell|nucle|molecule|people|subject)"
    rf"|M(?: (?!sol|[A-Z]|in\b|of\b|and|at\b|or\b)|[.,]? ?$)(?<=\d )|deg\b(?!\.)|(?:{_WORDS})\b(?! ?[/^]|-atm)|h\(|s's)"
)
"""Not amps but marks ("5 A students"), not inches but a word ("5 in the morning")."""

_ANY_UNIT: Final = (
    rf"(?:{UNIT}|[CF](?![A-Za-z\d'^_(-]| (?!(?:is|was|flows|passes)\b)[a-z]+s\b)"
    r"(?:(?: ?/ ?[cm]?m\^?[23])(?![A-Za-z\d]))?)"
)
_SCIENTIFIC: Final = rf"(?P<amount>{NUM})[eE](?P<exponent>[-+]?\d{{1,2}})"
_TEN: Final = r"10 ?\^ ?(?P<exponent>\{ ?[-+]? ?\d{1,3} ?\}|\([-+]? ?\d{1,3}\)|[-+]?\d{1,3})"
_LOST: Final = r"10(?P<exponent>-[1-9]\d?|[2-9]|[1-3]\d)"

QUANTITY_RULES: Final[list[Rule]] = [
    rule("word", r"(?<=\bin )[kMG]?eV(?=[ ,.?;:)]|$)", lambda m: say_unit(m[0], plural=True)),
    rule("word", rf"(?<=\bin )(?=[A-Za-z°]{{1,5}}[/^]|μ[A-Za-z])({UNIT})(?=[ ,.?;:)]|$)",
         lambda m: say_unit(m[1], plural=True)),
    rule("word", rf"(?:(?<=π )(?=(?:ft|in|yd|[ckm]?m)(?:\^|/)|(?:cm|mm|km|ft)\b)|(?<=\d\) )(?=(?:ft|yd|[ckm]m)\^))"
         rf"({UNIT})(?=[ ,.?;:)]|$)",
         lambda m: say_unit(m[1], plural=True)),
    rule("word", rf"(?<=hat\) )(?=[A-Za-z]+ ?/)({UNIT})(?=[ ,.?;:)]|$)", lambda m: say_unit(m[1], plural=True)),
    rule("word", r"(?<=\(in )(cm|mm|km|nm|kg|Hz|kHz|m|eV|J|N|s|K|kJ|min)(?=\))", lambda m: say_unit(m[1], plural=True)),
    rule("word", rf"(?<=\bper )(?=[A-Za-z]{{1,2}}\^)({UNIT})(?=[ ,.?;:)]|$)", lambda m: say_unit(m[1], plural=False)),
    rule(
        "number",
        r"(?:(?<=[Ff]igure )|(?<=[Ff]ig\. )|(?<=[Ss]ec\. )|(?<=[Cc]h\. )|(?<=[Ee]q\. )|(?<=[Tt]able )"
        r"|(?<=[Ee]xhibit )|(?<=[Ss]ection )|(?<=[Ee]xample )|(?<=[Ee]xercise )|(?<=[Pp]roblem ))"
        r"(\d{1,2})[-.](\d{1,2})(?:[-.](\d{1,2}))?(?![\d%]| ?(?:[cmk]?m|in|ft)\b)",
        lambda m: " point ".join(cardinal(int(part)) for part in m.groups() if part),
    ),
    rule("number", rf"{START}(\d{{1,3}})-(\d{{1,3}})-(\d{{1,3}}(?:\.\d+)?)(?![\w-]|[.,]\d| ?[-+=*/×])",
         lambda m: " ".join(written_number(part) for part in m.groups())),
    rule("word", r"(?<![\w.,(])\d{1,2}(?:, ?\d{1,2})+-(?=[a-zA-Z]{3})", _locants),
    rule("quantity", rf"{START}(?P<amount>{NUM}) ?° ?(?P<point>[NSEW])(?![A-Za-z])", _latitude),
    rule("number", rf"{START}(\d+)/(\d+)\)?, ?\(?n/(\d+)", _terms),
    rule("quantity", rf"{START}(?P<degrees>{NUM}) ?° ?(?P<minutes>\d{{1,2}}) ?'(?!')(?: ?(?P<seconds>\d{{1,2}}"
         rf"(?:\.\d+)?) ?″)?", _angle),
    rule("quantity", rf"{START}(?P<feet>\d{{1,3}}) ?' ?-?(?P<inches>\d{{1,2}}(?:\.\d+)?) ?″", _height),
    rule("quantity", rf"{START}(?P<feet>\d{{1,3}}) ?'(?P<inches>)(?= ?(?:x|×|by|tall|long|wide|high|deep)\b"
         rf"| ?[x×])", _height),
    rule("number", r"(?:(?<![\w.])|(?<=[ACGTU] - ))([35])'"
         r"(?= ?(?:cap|end|-|to|UTR|[ACGTU]{2,}|region|strand|direction|splice|carbon|OH"
         r"|and)|(?<=[ACGTU] [35]')(?!\d))",
         lambda m: f"{cardinal(int(m[1]))} prime"),
    rule("number", rf"{START}(\d[\d,]*) ?(?:st|nd|rd|th)\b", _ordinal),
    rule("quantity", rf"{START}({NUM})[ -]?%(?: percent\b)?", lambda m: f"{written_number(m[1])} percent"),
    rule("quantity", rf"{START}{_SCIENTIFIC} ?{_NO_UNIT}(?P<unit>{_ANY_UNIT})", _exponent),
    rule("number", rf"{START}{_SCIENTIFIC}(?![\dA-Za-z]|\.\d)", _exponent),
    rule("quantity", rf"{START}(?:(?P<amount>{NUM}) ?[x×*X•] ?)?{_TEN}(?:[ ~]*(?P<unit>{_ANY_UNIT}))?(?![\d]"
         rf"|\.\d)", _ten_to),
    rule("quantity", rf"{START}(?P<amount>\d+\.\d+|\d) {_TEN}(?: ?~? ?(?P<unit>{_ANY_UNIT}))?(?![\dA-Za-z^]"
         rf"|\.\d)", _ten_to),
    rule("quantity", rf"{START}(?P<amount>\d\.\d+) ?[x×] ?{_LOST}(?![\d.,-]| ?=)(?: ?(?P<unit>{_ANY_UNIT}))?", _ten_to),
    rule("quantity", rf"{START}(?P<amount>\d(?:\.\d+)?) ?[x×] ?10(?P<exponent>-[1-9]\d?)(?![\d.,-]| ?=)"
         rf"(?: ?(?P<unit>{_ANY_UNIT}))?", _ten_to),
    rule("quantity", rf"{START}(?:(?P<whole>\d+)[ -])?(?P<top>\d+) ?/ ?(?P<bottom>\d+)(?P<gap>[ -]|(?=″))"
         r"(?!in\b(?!\.|$| (?:and|thick|diameter|wide|long|high|deep)\b)|A\b|a\b)"
         r"(?P<unit>(?:″|mm ?Hg|in\.?|ft\.?|lbs?\.?|oz\.?|cm|mm|km|mi|hr|hrs|min|sec|gal|tsp|tbsp|yd)(?![A-Za-z]))"
         r"(?!-[a-z])(?! ?[/^])",
         _fraction_of_unit),
    rule("number", rf"{START}(?P<whole>\d[\d,]*) ?\( ?(?P<top>\d+) ?/ ?(?P<bottom>\d+) ?\)(?! ?[-+*/^=])"
         r"(?P<percent> ?%)?", _mixed),
    rule("number", rf"{START}(?:(?P<whole>\d+)(?: |-| and ))?(?P<numerator>\d+)/(?P<denominator>\d+)"
         r"(?:st|nd|rd|th|ths|rds|s)?(?![\d/A-Za-z_]|[.,]\d)(?P<percent> ?%)?", _percent_fraction),
    refusal("number", r"(?<=[Cc]all )\d{3}-\d{4}(?![\d-])|\(?(?<!\d)\d{3}\)?[ -]\d{2,3}-\d{4}(?!\d)"),
    rule("quantity", rf"{START}(?P<hours>\d{{1,3}}) ?h ?(?P<minutes>[1-5]?\d) ?m(?: ?(?P<seconds>[1-5]?\d) ?s)?"
         r"(?![\w/^])", _duration),
    rule("quantity", rf"{START}(?P<hours>)(?P<minutes>\d{{1,3}}) ?m ?(?P<seconds>[1-5]?\d) ?s(?![\w/^])", _duration),
    rule("quantity", rf"{START}(?P<amount>{NUM})(?P<gap>[ -]?){_NO_UNIT}(?P<unit>{_ANY_UNIT})", say_quantity),
    refusal("number", r"(?<!\d)\d{1,3} \d{3}(?![\d-])|\d*\.\d+ \d"),
    refusal("formula", rf"{START}{NUM} ?(?!in\b|A\b|as?\b|h\b|s\b|m\b|T\b|C\b|N\b|V\b|K\b|min\b){UNIT_BEYOND}"),
    rule("number", rf"{START}(\d+)\+(?=[ ,.)?](?! ?[-\d($.A-Za-z]\b))", lambda m: f"{written_number(m[1])} plus"),
    rule("word", r"(?<![\w.,])([23])-?D(?![\w'])", lambda m: f"{cardinal(int(m[1]))} D"),
    rule("variable", rf"{START}({NUM})([a-z]{{1,2}})(?![\dA-Za-z(])", _coefficient),
    rule("variable", rf"{START}({NUM})(?![HONFI]_\{{?[234])([A-Z])(?![\dA-Za-z(])", _coefficient),
    rule("number", rf"{START}{NUM}(?=x\d|x \d)|{START}{NUM}{END}|{START}{NUM}(?=[A-Za-zα-ωΔ]\(|[a-zA-Z]{{1,3}}"
         rf"(?![A-Za-z])"
         r"|[α-ωΔ])", _number),
]  # fmt: skip
"""What has digits, in the order in which it is tried."""
