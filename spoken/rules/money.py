"""Readings of money, clock times, dates and years."""

import re
from typing import Final

from spoken.rules.abbreviations import MONTHS
from spoken.rules.numerals import NUM, cardinal, decade, is_one, ordinal, written_number, year
from spoken.rules.rule import Match, Rule, after, before, refusal, rule, starts_sentence, topic
from spoken.spoken_text import Unspeakable, word_set

START: Final = r"(?:(?<![A-Za-z\d._^])|(?<=\dx))"
"""What may stand before a number; "3x4" has one on both sides."""

END: Final = r"(?![\dA-Za-z_°]|[.,]\d|'(?!s\b))"
FUNCTION_WORDS: Final = word_set(
    "a about after although among an and are as at because before but by can could did does during each for from "
    "had has have he her his how if in is it its many may no not of on or people she should since so than that "
    "the their there they this through to until was we were what when where which while who why will with within would "
    "you left less minus more per plus worth"
)
_SMALL_NUMBERS: Final = "one|two|three|four|five|six|seven|eight|nine|ten"
_CURRENCIES: Final = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", ""),
                      "₹": ("rupee", ""), "₱": ("peso", ""), "R$": ("real", "centavo"), "US$": ("dollar", "cent"),
                      "A$": ("Australian dollar", "cent"), "C$": ("Canadian dollar", "cent"),
                      "NZ$": ("New Zealand dollar", "cent"), "HK$": ("Hong Kong dollar", "cent"),
                      "S$": ("Singapore dollar", "cent")}  # fmt: skip
_SIGN: Final = "|".join(map(re.escape, sorted(_CURRENCIES, key=len, reverse=True)))
_SCALES: Final = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "b": "billion", "B": "billion",
                  "bn": "billion", "mil": "million"}  # fmt: skip
_YEAR_CUE: Final = re.compile(
    r"\b(?:in|since|until|till|years?|during|before|after|by|from|between|to|and|of|early|late|mid|circa|spring|summer"
    rf"|autumn|fall|winter|the|born|died|ca\.|{MONTHS})[ -]$|[(]$|(?:{MONTHS}) \d\d? \[$",
    re.IGNORECASE,
)
_NAME_AND_VERB: Final = re.compile(r" (?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)[A-Z][a-z]+ [a-z]+s\b")
"""What begins a sentence after "6 P.M.": "Anna takes", but not "Monday" nor "Eastern time"."""

_MAKE: Final = (
    r" (?!Watt|Hertz|Hz|Ohm|Calorie|Kelvin|Pound|Euro|Dollar|Joule|Newton|Pascal|BTU|Btu|MHz|GHz|MW|KW)[A-Z][a-z]+"
)
"""What a year stands before: "a 1957 Chevy", "the 1787 Convention"."""

_BEARS_YEAR: Final = re.compile(
    r"\b(?:Acts?|Laws?|Amendments?|Treaty|Treaties|Constitution|Convention|Code|Compromise|Proclamation|Declaration"
    r"|Agreement|Ordinance|Decree|Revolution|War|Panic|Crash|Election) of $"
    r"|\b(?:income|taxes|tax returns?|budget|expenses|profits?) for $"
)
"""What bears the year of its making for a name, "the Act of 1933", or is told by the year."""

_DESCRIBED: Final = re.compile(
    r"(?:bill|note|coupon|voucher|gift|coin|deposit|bond|pencil|pen|ticket|stamp|payment|installment|prize|share|token"
    r"|loan|mortgage|bet|reward|bonus|fine|rebate|scholarship)s?\b|par\b|liability\b|deductible\b"
)
"""What a sum of money stands before to describe it: "$50 par-value stock", "$1000 deposits"."""

_HALF: Final = r"(?P<half>[ap]\. ?m\.|[ap]m\b|[AP]\. ?M\.|[AP]M\b)"


def _plural(name: str) -> str:
    return {"penny": "pence", "yen": "yen", "real": "reais"}.get(name, name + "s")


def measures_noun(match: Match) -> bool:
    """Whether "the 5 kg ..." goes on with the noun that it describes; of "the 5 km covered" one cannot tell so."""
    noun = re.match(r" ([a-z]{3,})", after(match))
    is_one = re.search(r"\b(?:the|this|that|each|its|another) $", before(match), re.IGNORECASE) is not None
    return is_one and noun is not None and noun[1] not in FUNCTION_WORDS and not noun[1].endswith(("ed", "ing", "ly"))


def follows_as_noun(match: Match) -> bool:
    """Whether "a $5 ..." or "a 5 kg ..." goes on with the noun that it describes."""
    noun = re.match(r"[ -]([a-z]+)", after(match))
    if noun is None or noun[1] in FUNCTION_WORDS:
        return False
    return bool(re.search(rf"\b(?:a|an|another|\d+|{_SMALL_NUMBERS})\s$", before(match), re.IGNORECASE)) or bool(
        _DESCRIBED.match(noun[1])
    )


def _money(match: Match) -> str:
    amount, scale = match["amount"], match["scale"]
    unit, small = _CURRENCIES[match["sign"]]
    attributive = follows_as_noun(match)
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


def _mixed_money(match: Match) -> str:
    """ "$4 1/2" is four and a half dollars, not four dollars and a half of something."""
    from_digits = {"1/2": "a half", "1/4": "a quarter", "3/4": "three quarters"}[match["part"]]
    return f"{written_number(match['amount'])} and {from_digits} {_plural(_CURRENCIES[match['sign']][0])}"


def _cents(match: Match) -> str:
    amount = match["amount"] or match["after"]
    name = "cent" if is_one(amount) or follows_as_noun(match) else "cents"
    return f"{written_number(amount)} {name}"


_OF_ATOMS: Final = re.compile(
    r"(?i)\b(?:electrons?|atom(?:s|ic)?|molecules?|de broglie|lattice|crystals?|bond lengths?|nucle(?:us|i|ar)|ions?)\b"
)
"""What is measured in picometers; nobody tells the time of it."""


def _is_of_atoms(match: Match) -> bool:
    is_hour = re.search(r"\b(?:at|from|until|till|by|before|after|since) $", before(match)) is not None
    return not is_hour and _OF_ATOMS.search(topic(match)) is not None


def _clock(match: Match) -> str:
    hour, minute, half = int(match["hour"]), match["minute"], (match["half"] or "").lower()[:1]
    if match["half"] == "pm" and not minute and _is_of_atoms(match):
        return f"{cardinal(hour)} {'picometer' if hour == 1 or follows_as_noun(match) else 'picometers'}"
    if hour > 24 or (minute and int(minute) > 59) or (half and not 1 <= hour <= 12):
        raise Unspeakable("number", match[0])
    if hour in {0, 24}:
        return _after_midnight(match)
    is_last = starts_sentence(after(match)) or _NAME_AND_VERB.match(after(match)) is not None
    stop = "." if (match["half"] or "").endswith(".") and is_last else ""
    if half and hour == 12 and not int(minute or "0"):
        return ("midnight" if half == "a" else "noon") + stop
    if not minute or not int(minute):
        spoken = cardinal(hour) + ("" if half or hour > 12 else " o'clock")
        if hour > 12:
            spoken += " hundred hours"
    else:
        spoken = f"{cardinal(hour)} {'oh ' if minute.startswith('0') else ''}{cardinal(int(minute))}"
    if not half:
        return spoken
    if half == "a":
        return f"{spoken} in the morning{stop}"
    part = " in the afternoon" if hour in {12, 1, 2, 3, 4} else " in the evening" if hour < 9 else " at night"
    return spoken + part + stop


def _after_midnight(match: Match) -> str:
    """ "00:15" is a time of day; "0:15" may be one, or fifteen seconds, "24:15" and "00:15 hours" have no reading."""
    minute = int(match["minute"] or "0")
    if match["hour"] == "0" or (match["hour"] == "24" and minute) or re.match(r" ?h(?:rs?|ours?)?\b", after(match)):
        raise Unspeakable("number", match[0])
    if not minute:
        return "midnight"
    return f"{cardinal(minute)} {'minute' if minute == 1 else 'minutes'} past midnight"


def _colon(match: Match) -> str:
    """Two numbers about a colon without morning or afternoon: a ratio, or a time of day."""
    parts = re.split(r" ?: ?", match[0])
    is_clock = re.fullmatch(r"\d{1,2}:[0-5]\d:[0-5]\d", match[0]) is not None
    is_ratio = re.search(r"\bratios?\b|\bproportion|\bodds\b|\bscale\b|\bmix", topic(match), re.IGNORECASE)
    minute = match["minute"]
    is_tight = match["hour"].isdigit() and len(minute) == 2 and " " not in match[0]
    could_be_time = is_tight and int(minute) < 60 and int(match["hour"]) <= 24
    if is_clock and not is_ratio:
        raise Unspeakable("number", match[0])  # a time of day, or how long something took
    if is_ratio or match["third"] or not could_be_time:
        if any(len(part) > 1 and part.startswith("0") for part in parts):
            raise Unspeakable("number", match[0])
        return " to ".join(written_number(part) for part in parts)
    return _clock(match)


def _date(match: Match) -> str:
    day = f"{match['month']} {ordinal(int(match['day']))}"
    return f"{day}, {year(int(match['year']))}" if match["year"] else day


def _day_first(match: Match) -> str:
    day = f"the {ordinal(int(match['day']))} of {match['month']}"
    return f"{day}, {year(int(match['year']))}" if match["year"] else day


def _era(match: Match) -> str:
    number = int(match[1].replace(",", ""))
    said = year(number) if 1000 < number < 2100 and number % 1000 else written_number(match[1])
    return f"{said} {' '.join(match[2].replace('.', '').replace(' ', ''))}"


def is_year(match: Match) -> bool:
    """Whether four digits are read in pairs: a cue before, nothing counted after."""
    if not re.fullmatch(r"1[1-9]\d\d|20[0-4]\d", match[0]):
        return False
    left, right = before(match), after(match)
    text_ends_hundred = match[0].endswith("00")
    earlier, later = re.search(r"\b(1[1-9]\d\d) ?- ?$", left), re.match(r" ?- ?((?:1[1-9]|20)\d\d)\b(?! ?=)", right)
    if (earlier and earlier[1] < match[0] and not re.match(" ?=", right)) or (later and match[0] < later[1]):
        return True
    if re.search(r"[A-Z][a-z]{2,}(?:,?|,[\"']|[\"'],) $", left) and re.match(
        r"[,.;:?)]|$| (?:[A-Z]|(?:in|at|on|by|the|and|was|is)\b)", right
    ):
        return True
    if re.search(r"\b(?:an?|his|her|their|my|your|the) $", left) and re.match(_MAKE, right) and not text_ends_hundred:
        return True
    if re.match(r" to (?:1[1-9]|20)\d\d (?:[BC]\.? ?[CE]|A\.? ?D)", right):
        return True
    if re.search(r"[a-z]{2}'?s?\)?, $", left) and re.match(r"\. |$", right):
        return True  # the date of a title
    if re.search(r"'s ?\($", left) and right.startswith(")"):
        return True  # of somebody's work
    if re.search(r"[A-Za-z]\($", left):
        return False  # the argument of a function
    if _BEARS_YEAR.search(left):
        return True
    noun = re.match(r"\s+([A-Za-z$%]+)", right)
    is_free = (
        noun is None
        or noun[1].lower() in FUNCTION_WORDS
        or noun[1] in {"leaving", "having", "being", "then"}
        or noun[1][0].isupper()
    )
    return is_free and bool(_YEAR_CUE.search(left)) and not re.match(r" ?[-+*/=×÷%<>]", right)


def _years(match: Match) -> str:
    return f"{year(int(match[1]))} to {cardinal(int(match[2]))}"


MONEY_RULES: Final[list[Rule]] = [
    rule("quantity", r"(?P<sign>[$£€]) ?(?P<amount>\d+)(?: |-)(?P<part>1/2|1/4|3/4)(?![\d/])", _mixed_money),
    rule("quantity", rf"(?P<sign>{_SIGN}) ?(?P<amount>{NUM})(?:[ -]?(?P<scale>million|billion|trillion"
         rf"|thousand|hundred|mil\b|(?<! )(?:k|K|m|M|bn|b|B))(?![A-Za-z]))?{END}", _money),
    refusal("number", r"(?<![A-Za-z])[A-Z]{1,3}\$ ?\d"),
    rule("quantity", r"\$ ?([A-Za-z])(?![A-Za-z(])", lambda m: f"{m[1]} dollars"),
    rule("quantity", rf"\$ ?({NUM})([a-zA-Z])(?![A-Za-z])", lambda m: f"{written_number(m[1])} {m[2]} dollars"),
    rule("quantity", rf"{START}(?P<amount>{NUM}) ?(?P<sign>[$€£])(?P<scale>)(?!\d)", _money),
    rule("quantity", rf"{START}(?P<amount>{NUM}) ?¢|¢ ?(?P<after>{NUM})", _cents),
    rule("quantity", rf"{START}(?!(?:1[3-9]|[2-9]\d) ?pm)(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d))? ?{_HALF}", _clock),
    rule("quantity", rf"{START}(?P<hour>\d{{1,4}}(?:\.\d+)?) ?: ?(?P<minute>\d{{1,4}}(?:\.\d+)?)(?P<third>"
         rf"(?: ?: ?\d{{1,3}})*)"
         r"(?P<half>)(?![\d:]|[.,]\d|(?<!\d:\d\d) [A-Z])", _colon),
    rule("quantity", rf"(?<![Ii]n )(?<!uring )(?<!ast )(?<!ext )(?<!his )(?<!very )(?<!ach )(?<![A-Za-z])"
         rf"(?P<month>{MONTHS}) "
         r"(?P<day>[1-9]|[12]\d|3[01])(?P<year>)(?= [a-z])"
         r"(?! (?:people|men|women|students|of|days|weeks|times|more|new)\b)", _date),
    rule("quantity", rf"(?<![A-Za-z])(?P<month>{MONTHS}) (?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
         r"(?:,? ?(?P<year>1[0-9]\d\d|20[0-4]\d))?(?![\d:/%]|[.,]\d)(?!\s(?!and\b|to\b|was\b|is\b|the\b|he\b|she\b|it\b"
         r"|in\b|at\b|of\b|with\b|for\b|if\b|when\b|a\b|as\b|that\b|on\b|by\b|they\b|how\b|until\b|but\b|had\b)[a-z])",
         _date),
    rule("quantity", rf"{START}(?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)? (?P<month>{MONTHS})\b"
         r"(?:,? (?P<year>1[0-9]\d\d|20[0-4]\d))?(?![\d:/%]|[.,]\d)", _day_first),
    rule("quantity", rf"(?:{START}|(?<= ))(?<![=<≤>≥])(?<![=<≤>≥] )'?(\d{{1,3}}0)(?:' ?)?s\b(?![\^/])",
         lambda m: decade(int(m[1]))),
    rule("quantity", rf"{START}(\d[\d,]*) ?(B\.? ?C\.? ?E\b|C\. ?E\b|B\.? ?C\b|CE\b|BP\b|A\. ?D\b)", _era),
    rule("number", rf"{START}(1[1-9]\d\d)-([1-9]\d)(?![\d\w.%])", _years),
]  # fmt: skip
"""Tried before other quantities."""
