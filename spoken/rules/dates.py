"""Readings of clock times, dates, years and ratios."""

import re
from typing import Final

from spoken.rules.abbreviations import MONTHS
from spoken.rules.money import FUNCTION_WORDS
from spoken.rules.numerals import START, spell_cardinal, spell_decade, spell_number, spell_ordinal, spell_year
from spoken.rules.rule import (
    Match,
    Rule,
    get_text_after,
    get_text_before,
    get_topic,
    make_refusal,
    make_rule,
    starts_sentence,
)
from spoken.spoken_text import Unspeakable

_YEAR_CUE: Final = re.compile(
    r"\b(?:in|since|until|till|years?|during|before|after|by|from|between|to|and|of|early|late|mid|circa|spring|summer"
    rf"|autumn|fall|winter|the|born|died|Q[1-4]|{MONTHS})[ -]$|[(]$",
    re.IGNORECASE,
)
_NAME_AND_VERB: Final = re.compile(r" (?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)[A-Z][a-z]+ [a-z]+s\b")
"""What begins a sentence after "6 P.M.": "Anna takes", but neither "Monday" nor "Eastern time"."""

_BEARS_YEAR: Final = re.compile(
    r"\b(?:Acts?|Laws?|Amendments?|Treaty|Treaties|Constitution|Convention|Code|Compromise|Proclamation|Declaration"
    r"|Agreement|Ordinance|Decree|Revolution|War|Panic|Crash|Election) of $"
    r"|\b(?:income|taxes|tax returns?|budget|expenses|profits?) for $"
)
"""Things that are named after their year, "the Act of 1933", or counted by year."""

_DATED: Final = re.compile(
    r" (?:model|movie|film|novel|book|album|song|paper|article|study|report|case|decision|ruling|constitution|treaty"
    r"|election|campaign|season|war|revolution|crash|depression|earthquake)s?\b"
)
"""Nouns after a year; four digits before other nouns may be a count."""

_MADE: Final = re.compile(
    r" (?!Watt|Hertz|Hz|Ohm|Calorie|Kelvin|Pound|Euro|Dollar|Joule|Newton|Pascal|BTU|Btu|MHz|GHz|MW|KW)[A-Z][a-z]+"
)
"""Capitalised words after a year: "a 1957 Chevy", "the 1787 Convention"."""

_HALF: Final = r"(?P<half>[ap]\. ?m\.|[ap]m\b|[AP]\. ?M\.|[AP]M\b)"


_OF_ATOMS: Final = re.compile(r"(?i)\b(?:electron|atom|molecul|lattice|bond|nucle|wavelength|ion)")
"""Texts in which "10 pm" may be a time or picometers."""


def _read_clock(match: Match) -> str:
    """Reads a time of day: "5:30 p.m." is "five thirty in the evening".

    Raises:
        Unspeakable: it is no time of day, or may be picometers.
    """
    hour, minute = int(match["hour"]), int(match["minute"] or "0")
    half = (match.groupdict().get("half") or "").lower()[:1]
    if half == "p" and match["half"] == "pm" and ":" not in match[0] and _OF_ATOMS.search(get_topic(match)):
        raise Unspeakable("number", match[0])
    if not 1 <= hour <= (12 if half else 23) or minute > 59:
        raise Unspeakable("number", match[0])
    is_last = starts_sentence(get_text_after(match)) or _NAME_AND_VERB.match(get_text_after(match)) is not None
    stop = "." if half and match["half"].endswith(".") and is_last else ""
    if half and hour == 12 and not minute:
        return ("midnight" if half == "a" else "noon") + stop
    if not minute:
        if hour > 12:
            raise Unspeakable("number", match[0])
        said = spell_cardinal(hour) + ("" if half or re.match(" ?o'clock", get_text_after(match)) else " o'clock")
    else:
        said = f"{spell_cardinal(hour)} {'oh ' if minute < 10 else ''}{spell_cardinal(minute)}"
    if not half:
        return said
    if half == "a":
        return f"{said} in the morning{stop}"
    part = " in the afternoon" if hour in {12, 1, 2, 3, 4} else " in the evening" if hour < 9 else " at night"
    return said + part + stop


_OF_RATIOS: Final = re.compile(r"\bratios?\b|\bproportion|\bodds\b|\bscale\b|\bmix", re.IGNORECASE)


def _read_colon(match: Match) -> str:
    """Reads numbers around a colon: a ratio, or a time of day.

    Raises:
        Unspeakable: it may as well be a duration.
    """
    parts = re.split(r" ?: ?", match[0])
    is_ratio = _OF_RATIOS.search(get_topic(match)) is not None
    could_be_time = match["hour"].isdigit() and len(match["minute"]) == 2 and " " not in match[0]
    could_be_time = could_be_time and int(match["minute"]) < 60 and int(match["hour"]) <= 24
    if re.fullmatch(r"\d{1,2}:[0-5]\d(?::[0-5]\d|\.\d+)", match[0]) and not is_ratio:
        raise Unspeakable("number", match[0])  # a time of day, or how long something took
    if is_ratio or match["third"] or not could_be_time:
        return " to ".join(spell_number(part) for part in parts)
    return _read_clock(match)


def _read_date(match: Match) -> str:
    """Reads "May 5, 1990" as "May fifth, nineteen ninety".

    Raises:
        Unspeakable: the number may count what follows ("in May 5 girls").
    """
    if re.search(r"\b(?:[Ii]n|[Dd]uring|[Ll]ast|[Nn]ext|[Tt]his|[Ee]very) $", get_text_before(match)) and re.match(
        " [a-z]", get_text_after(match)
    ):
        raise Unspeakable("number", match[0] + get_text_after(match)[:15])  # "in May 5 girls"
    if match["month"]:
        day = f"{match['month']} {spell_ordinal(int(match['day']))}"
    else:
        day = f"the {spell_ordinal(int(match['first']))} of {match['later']}"
    return f"{day}, {spell_year(int(match['year']))}" if match["year"] else day


_ONLY_YEARS: Final = re.compile(
    r".*(?:\b[Ii]n \|(?:[,.;)]|,? (?:[A-Z]|(?:the|an?|he|she|they|it|there|and|at|by|when|was|after|as)\b))"
    r"|[A-Z][a-z]+ \(\|\)).*"
)
"""Context of a year before 1100, at the place of the bar: fewer words than for other years, because most such numbers
are counts."""


def is_year(match: Match) -> bool:
    """Returns whether matched digits are a year, by the text on both sides; only 1001 to 2049 may be."""
    if not re.fullmatch(r"1\d\d\d|20[0-4]\d", match[0]):
        return False
    left, right = get_text_before(match), get_text_after(match)
    if match[0].startswith("10"):
        return match[0] != "1000" and _ONLY_YEARS.fullmatch(f"{left}|{right}") is not None
    earlier, later = re.search(r"\b(1[1-9]\d\d) ?- ?$", left), re.match(r" ?- ?((?:1[1-9]|20)\d\d)\b(?! ?=)", right)
    if (earlier and earlier[1] < match[0] and not re.match(" ?=", right)) or (later and match[0] < later[1]):
        return True
    if re.search(r"[A-Z][a-z]{2,}(?:,?|,[\"']|[\"'],) $", left) and re.match(
        r"[,.;:?)]|$| (?:[A-Z]|(?:in|at|on|by|the|and|was|is)\b)", right
    ):
        return True
    if re.search(r"\b(?:an?|his|her|their|my|your|the) $", left) and _MADE.match(right) and match[0][2:] != "00":
        return True
    if re.search(r"[a-z]{2}'?s?\)?, $", left) and re.match(r"\. |$", right):
        return True  # the date of a title
    if re.search(r"[A-Za-z]\($", left):
        return False  # the argument of a function
    if _BEARS_YEAR.search(left) or (_DATED.match(right) and re.search("[a-z] $", left) and not match[0].endswith("00")):
        return True
    noun = re.match(r"\s+([A-Za-z$%]+)", right)
    goes_on = (
        noun is None or noun[1].lower() in FUNCTION_WORDS or noun[1] in {"leaving", "having", "being", "then", "alone"}
    )
    is_free = goes_on or (noun is not None and noun[1][0].isupper())
    return is_free and bool(_YEAR_CUE.search(left)) and not re.match(r" ?[-+*/=×÷%<>]", right)


DATE_RULES: Final[list[Rule]] = [
    make_refusal("date in figures", "number",
            rf"{START}(?:\d+/\d+/\d+|(?:1[6-9]|20)\d\d/\d\d(?!\d)|\d+-\d+-\d+(?! ?[-+=*/×\d]))", "due on 5/6/2020"),
    make_refusal("year with a letter", "code", r"(?<![\w.'])(?:b|d|fl)\. ?\d{3,4}(?!\d)", "Old Songs, d. 1750"),
    make_refusal("letter with a slash", "code", r"(?<![A-Za-z.])(?:w|c|y)/(?:o\b|(?=[ \da-z]))", "tea w/milk"),
    make_rule("time of day", "quantity",
         rf"{START}(?!(?:1[3-9]|[2-9]\d) ?pm)(?P<hour>\d{{1,2}})(?:[:.](?P<minute>[0-5]\d))? ?{_HALF}", _read_clock,
         "at 3:05 PM or 12 AM", "at three oh five in the afternoon or midnight"),
    make_rule("ratio or time", "quantity",
         rf"{START}(?P<hour>\d{{1,4}}(?:\.\d+)?) ?: ?(?P<minute>\d{{1,4}}(?:\.\d+)?)(?P<third>(?: ?: ?\d{{1,3}})*)"
         r"(?![\d:]|[.,]\d|(?<!\d:\d\d) [A-Z])", _read_colon, "at 12:00 o'clock", "at twelve o'clock"),
    make_rule("date", "quantity",
         rf"(?:(?<![A-Za-z])(?P<month>{MONTHS}) (?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
         rf"|{START}(?P<first>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)? (?P<later>{MONTHS})(?=[,.;]| [12]\d{{3}}|$))"
         r"(?:,? ?(?P<year>1[0-9]\d\d|20[0-4]\d))?(?![\d:/%]|[.,]\d)"
         r"(?! (?:people|men|women|students|days|weeks|times|more|new)\b)", _read_date,
         "on July 4, 1776 and June 3rd", "on July fourth, seventeen seventy six and June third"),
    make_rule("decade", "quantity", rf"(?:{START}|(?<= ))(?<![=<≤>≥])(?<![=<≤>≥] )'?(\d{{1,3}}0)(?:' ?)?s\b(?![\^/])",
         lambda m: spell_decade(int(m[1])), "in the 1960s", "in the nineteen sixties"),
    make_refusal("parts about a colon", "number", r"\d ?: ?\d", "a map of 1:1000000"),
]  # fmt: skip
"""Tried before plain numbers."""
