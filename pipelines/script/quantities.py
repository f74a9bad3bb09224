"""Readings of what has digits: money, times, dates, fractions, powers, quantities with their unit."""

import re
from collections.abc import Callable
from typing import Final

from pipelines.script.numerals import cardinal, decade, fraction, is_one, ordinal, power, written_number, year
from pipelines.script.spoken import Unspeakable, word_set
from pipelines.script.units import UNIT, UNIT_BEYOND, say_unit

Match = re.Match[str]
Rule = tuple[str, re.Pattern[str], Callable[[Match], str]]
"""Kind of the token, pattern tried at a position, reading of the match."""

NUM: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_START: Final = r"(?:(?<![A-Za-z\d._^])|(?<=\dx))"
_END: Final = r"(?![\dA-Za-z_^°]|[.,]\d|\(|'(?!s\b))"
_MONTHS: Final = "January|February|March|April|May|June|July|August|September|October|November|December"
_FUNCTION_WORDS: Final = word_set(
    "a about after although among an and are as at because before but by can could did does during each for from "
    "had has have he her his how if in is it its many may no not of on or people she should since so than that "
    "the their there they this through to until was we were what when where which while who why will with would "
    "you left less minus more per plus worth"
)
_SMALL_NUMBERS: Final = "one|two|three|four|five|six|seven|eight|nine|ten"
_CURRENCIES: Final = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", "")}
_SCALES: Final = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "b": "billion", "B": "billion",
                  "bn": "billion"}  # fmt: skip
_YEAR_CUE: Final = re.compile(
    r"\b(?:in|since|until|till|year|during|before|after|by|from|between|to|and|of|early|late|mid|circa|spring|summer"
    rf"|autumn|fall|winter|the|{_MONTHS})[ -]$|[(]$",
    re.IGNORECASE,
)


def _plural(name: str) -> str:
    return {"penny": "pence", "yen": "yen"}.get(name, name + "s")


def _follows_as_noun(match: Match) -> bool:
    """Whether "a $5 ..." or "a 5 kg ..." goes on with the noun that it describes."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    noun = re.match(r"[ -]([a-z]+)", after)
    if noun is None or noun[1] in _FUNCTION_WORDS:
        return False
    return bool(re.search(rf"\b(?:a|an|another|\d+|{_SMALL_NUMBERS})\s$", before, re.IGNORECASE)) or bool(
        re.match(r"(?:bill|note|coupon|voucher|gift card|coin)s?\b", noun[1])
    )


def _money(match: Match) -> str:
    amount, scale = match["amount"], match["scale"]
    unit, small = _CURRENCIES[match["sign"]]
    attributive = _follows_as_noun(match)
    if scale:
        name = unit if attributive else _plural(unit)
        return f"{written_number(amount)} {_SCALES.get(scale, scale)} {name}"
    whole, _, decimals = amount.partition(".")
    one = is_one(amount)
    if not decimals or not int(decimals) or len(decimals) > 2 or not small:
        spoken = written_number(amount if decimals and int(decimals) else whole)
        singular = attributive or one or (whole == "1" and not int(decimals or "0"))
        return f"{spoken} {unit if singular else _plural(unit)}"
    n_small = int(decimals.ljust(2, "0"))
    cents = f"{cardinal(n_small)} {small if n_small == 1 or attributive else _plural(small)}"
    if not int(whole.replace(",", "") or "0"):
        return cents
    return f"{written_number(whole)} {unit if whole == '1' or attributive else _plural(unit)} and {cents}"


def _cents(match: Match) -> str:
    name = "cent" if is_one(match["amount"]) or _follows_as_noun(match) else "cents"
    return f"{written_number(match['amount'])} {name}"


def _clock(match: Match) -> str:
    hour, minute, half = int(match["hour"]), match["minute"], (match["half"] or "").lower()[:1]
    if hour > 24 or (minute and int(minute) > 59) or (half and not 1 <= hour <= 12):
        raise Unspeakable("number", match[0])
    if half and hour == 12 and not int(minute or "0"):
        return "midnight" if half == "a" else "noon"
    if not minute or not int(minute):
        spoken = cardinal(hour) + ("" if half or hour > 12 else " o'clock")
        if hour > 12:
            spoken += " hundred hours"
    else:
        spoken = f"{cardinal(hour)} {'oh ' if minute.startswith('0') else ''}{cardinal(int(minute))}"
    if not half:
        return spoken
    if half == "a":
        return f"{spoken} in the morning"
    return spoken + (
        " in the afternoon" if hour in {12, 1, 2, 3, 4} else " in the evening" if hour < 9 else " at night"
    )


def _colon(match: Match) -> str:
    """Two numbers about a colon without morning or afternoon: a ratio, a time of day, or refused."""
    if re.search(r"\bratios?\b|\bproportion|\bodds\b|\bscale\b", match.string, re.IGNORECASE) or match["third"]:
        return " to ".join(cardinal(int(part)) for part in match[0].split(":"))
    before = match.string[: match.start()]
    if len(match["minute"]) == 2 and re.search(
        r"\b(?:at|from|to|until|till|by|before|after|around|and|between|past)\s$", before, re.IGNORECASE
    ):
        return _clock(match)
    raise Unspeakable("number", match[0])


def _date(match: Match) -> str:
    day = f"{match['month']} {ordinal(int(match['day']))}"
    return f"{day}, {year(int(match['year']))}" if match["year"] else day


def _ordinal(match: Match) -> str:
    return ordinal(int(match[1].replace(",", "")))


def _fraction(match: Match) -> str:
    whole, numerator, denominator = match["whole"], int(match["numerator"]), int(match["denominator"])
    if (numerator, denominator) in {(24, 7), (9, 11)}:
        return f"{cardinal(numerator)} {cardinal(denominator)}"
    proper = 0 < numerator < denominator and (denominator <= 20 or (numerator == 1 and denominator <= 100))
    improper = 1 < denominator <= 10 and denominator < numerator <= 20 and numerator % denominator
    if proper or (improper and not whole):
        spoken = fraction(numerator, denominator)
        return f"{cardinal(int(whole))} and {spoken}" if whole else spoken
    if whole or "=" not in match.string:
        if whole or not denominator or numerator > denominator:
            raise Unspeakable("number", match[0])
        return f"{cardinal(numerator)} over {cardinal(denominator)}"
    return f"{cardinal(numerator)} divided by {cardinal(denominator)}"


def _power(match: Match) -> str:
    base, exponent = match["base"], match["exponent"]
    said = "to the power of two" if (base, exponent) == ("10", "2") else power(exponent)
    unit = f" {say_unit(match['unit'], plural=True)}" if match["unit"] else ""
    return f"{base if base.isalpha() else written_number(base)} {said}{unit}"


def _exponent(match: Match) -> str:
    return f"{written_number(match[1])} times ten {power(match[2].lstrip('+'))}"


def _quantity(match: Match) -> str:
    if match["unit"] in {"g", "mg"} and re.search(r"\baccelerat|\bgravit|\bmass m\b", match.string):
        raise Unspeakable("formula", match[0])  # (milli)grams, or (mass) times the earth's pull
    singular = is_one(match["amount"]) or match["gap"] == "-" or _follows_as_noun(match)
    return f"{written_number(match['amount'])} {say_unit(match['unit'], plural=not singular)}"


def _no_unit(match: Match) -> str:
    raise Unspeakable("formula", match.string[match.start() : match.end() + 10])


def _coefficient(match: Match) -> str:
    if match[2] == "x" and re.match(r" (?:as|more|the|faster|larger|bigger)\b", match.string[match.end() :]):
        return f"{written_number(match[1])} times"
    return f"{written_number(match[1])} {match[2]}"


def _is_year(match: Match) -> bool:
    if not re.fullmatch(r"1[1-9]\d\d|20[0-4]\d", match[0]):
        return False
    before, after = match.string[: match.start()], match.string[match.end() :]
    if re.search(r"\b1[1-9]\d\d ?- ?$", before) or re.match(r" ?- ?1[1-9]\d\d\b", after):
        return True
    noun = re.match(r"\s+([A-Za-z$%]+)", after)
    is_free = noun is None or noun[1].lower() in _FUNCTION_WORDS or noun[1][0].isupper()
    return is_free and bool(_YEAR_CUE.search(before)) and not re.match(r" ?[-+*/=×÷%<>]", after)


def _years(match: Match) -> str:
    return f"{year(int(match[1]))} to {cardinal(int(match[2]))}"


def _number(match: Match) -> str:
    return year(int(match[0])) if _is_year(match) else written_number(match[0])


def _rule(kind: str, pattern: str, say: Callable[[Match], str]) -> Rule:
    return kind, re.compile(pattern), say


_HALF: Final = r"(?P<half>[ap]\.m\.|[ap]m\b|[AP]\.M\.|[AP]M\b)"

_NO_UNIT: Final = r"(?!A [a-z]+s\b|A['-]|A (?:student|grade|paper)|in\b(?!\.? ?(?:x|by|wide|long|tall)\b|\^))"
"""Not amps but marks ("5 A students"), not inches but a word ("5 in the morning")."""

QUANTITY_RULES: Final[list[Rule]] = [
    _rule("quantity", rf"(?P<sign>[$£€¥]) ?(?P<amount>{NUM})(?: ?(?P<scale>million|billion|trillion|thousand|hundred"
          rf"|(?<! )(?:k|K|m|M|bn|b|B))(?![A-Za-z]))?{_END}", _money),
    _rule("quantity", rf"{_START}(?P<amount>{NUM}) ?(?P<sign>[$€£])(?P<scale>)(?!\d)", _money),
    _rule("quantity", rf"{_START}(?P<amount>{NUM}) ?¢", _cents),
    _rule("quantity", rf"{_START}(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d))? ?{_HALF}", _clock),
    _rule("quantity", rf"{_START}(?P<hour>\d{{1,3}}):(?P<minute>\d{{1,3}})(?P<third>:\d{{1,3}})?(?P<half>)"
          r"(?![\d:]|[.,]\d)", _colon),
    _rule("quantity", rf"(?<![A-Za-z])(?P<month>{_MONTHS}) (?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
          r"(?:,? (?P<year>1[0-9]\d\d|20[0-4]\d))?(?![\d:/%]|[.,]\d)(?!\s(?!and\b|to\b|was\b|is\b|the\b|he\b|she\b|it\b"
          r"|in\b|at\b|of\b|with\b|for\b|if\b|when\b|a\b|as\b)[a-z])", _date),
    _rule("quantity", rf"(?:{_START}|(?<= ))'?(\d{{1,3}}0)'?s\b", lambda m: decade(int(m[1]))),
    _rule("number", rf"{_START}(\d[\d,]*)(?:st|nd|rd|th)\b", _ordinal),
    _rule("quantity", rf"{_START}({NUM})[ -]?%(?: percent\b)?", lambda m: f"{written_number(m[1])} percent"),
    _rule("number", rf"{_START}({NUM})[eE]([-+]?\d{{1,2}})(?![\dA-Za-z.])", _exponent),
    _rule("number", rf"{_START}(?P<base>{NUM}|(?<!\()[A-Za-z])\^ ?[{{(]?(?P<exponent>[-+]?\d{{1,3}}|[a-z])[}})]?"
          rf"(?: (?P<unit>{UNIT}))?(?![\dA-Za-z^]|\.\d| ?{UNIT_BEYOND})", _power),
    _rule("number", rf"{_START}(?:(?P<whole>\d+)(?: |-| and ))?(?P<numerator>\d+)/(?P<denominator>\d+)"
          r"(?:st|nd|rd|th|ths|rds)?(?![\d/A-Za-z_^]|[.,]\d)", _fraction),
    _rule("quantity", rf"{_START}(?P<amount>{NUM})(?P<gap>[ -]?){_NO_UNIT}(?P<unit>{UNIT})", _quantity),
    _rule("quantity", rf"{_START}{NUM} ?{UNIT_BEYOND}", _no_unit),
    _rule("number", rf"{_START}(\d+)\+(?=[ ,.)?](?! ?[-\d($.]))", lambda m: f"{written_number(m[1])} plus"),
    _rule("word", r"(?<![\w.,])([23])-?D(?![\w'])", lambda m: f"{cardinal(int(m[1]))} D"),
    _rule("variable", rf"{_START}({NUM})([a-z])(?![\dA-Za-z_^(])", _coefficient),
    _rule("number", rf"{_START}(1[1-9]\d\d)-([1-9]\d)(?![\d\w.%])", _years),
    _rule("number", rf"{_START}{NUM}(?=x\d|x \d)|{_START}{NUM}{_END}", _number),
]  # fmt: skip
"""What has digits, in the order in which it is tried."""
