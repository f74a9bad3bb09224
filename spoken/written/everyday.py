"""Rewrites dates, times, sizes, addresses and lists, as people and chat models write them, to the form of the rules.

Chat answers have more of them than question sets, so these rules are kept though they apply to few rows of those.
"""

import re
from collections.abc import Callable
from typing import Final

from spoken.rules.abbreviations import MONTH_FORMS, MONTH_NAMES, MONTHS, ROMAN, ROMAN_VALUES
from spoken.rules.numerals import spell_cardinal, spell_ordinal
from spoken.rules.rule import Match, Rule, get_text_after, get_text_before, make_rewriting
from spoken.rules.unit_names import IRREGULAR, REGULAR, WORDS_AS_UNITS
from spoken.rules.units import NUMBERED_UNITS, PLAIN_UNITS

_DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY: Final = r"(?:Mon|Tues?|Wed|Thur?s?|Fri|Sat|Sun)"
_MONTH: Final = "|".join(sorted(MONTH_FORMS, key=len, reverse=True))
_YEAR: Final = r"(?:1[1-9]|20)\d\d(?!\d)"
_DAY_OF_MONTH: Final = r"(?:[12]\d|3[01]|[1-9])(?!\d)"
_BY: Final = r" ?(?:x|×|by) ?"
_LENGTH: Final = r"(?:\d+ \d/\d+|\d+/\d+|\d+(?:\.\d+)?)"
_ENDINGS: Final = "com|org|net|edu|gov|io|ai|md|py|txt|pdf|js|html|csv"
_NAME: Final = "[A-Za-z]+(?:-[A-Za-z]+)*"
_SCALE: Final = r"(?:[ -]?(?:thousand|million|billion|trillion)\b|[kKMB]\b)"
_UNCOUNTED: Final = r"(?:is|was|has|does|as|this|us|its|goes|less|plus)\b"
_SHORT_UNIT: Final = "|".join(
    name for name in sorted({*REGULAR, *IRREGULAR} - {*WORDS_AS_UNITS}) if re.fullmatch("[A-Za-zμ]{2,}", name)
)
_VALUED: Final = re.compile(r"(?i)\b(?:rat(?:e|ed|es|ing)|scor(?:e|ed|es)|grades?d?|reviews?|stars)\b|\b(?:an?|it) $")
"""Context in which an amount is "out of ten"."""


def _expand_name(short: str) -> str:
    """Returns the full name of a day or month that is cut short: "Mon", "Sept"."""
    return next(name for name in (*_DAY_NAMES, *MONTH_NAMES) if name.startswith(short[:3]))


def _rewrite_day_name(match: Match) -> str:
    """Rewrites "Mon." as "Monday"."""
    return _expand_name(match[1])


def _rewrite_range(match: Match) -> str:
    """Rewrites "Mon-Fri" as "Monday to Friday"; so for months."""
    first, last = filter(None, match.groups())
    return f"{_expand_name(first)} to {_expand_name(last)}"


def _rewrite_date(match: Match) -> str:
    """Rewrites "12/25/2020" and "2020-12-25" as "December 25, 2020", and "25/12/2020" as "25 December 2020".

    Dates with two possible readings, like "5/6/2020", are kept.
    """
    if match["iso"]:
        year, month, day = map(int, match[0].split("-"))
    else:
        month, day, year = map(int, match[0].split("/"))
    if not match["iso"] and 0 < day <= len(MONTH_NAMES) < month <= 31:
        return f"{month} {MONTH_NAMES[day - 1]} {year}"
    is_sure = 0 < month <= len(MONTH_NAMES) and 0 < day <= 31 and (match["iso"] or day > len(MONTH_NAMES))
    return f"{MONTH_NAMES[month - 1]} {day}, {year}" if is_sure else match[0]


def _make_parts_rewriting(large: str, small: str) -> Callable[[Match], str]:
    """Returns a function that rewrites a match such as "2h 5m" with the names of both units in full."""

    def read(match: Match) -> str:
        units = [name if match[group] == "1" else f"{name}s" for group, name in ((1, large), (2, small))]
        return f"{match[1]} {units[0]} {match[2]} {units[1]}"

    return read


def _rewrite_unit_plural(match: Match) -> str:
    """Rewrites "hr(s)" as "hrs" if that is a notation of its own, and "cm(s)" as "cm"."""
    unit = match[0].removesuffix("(s)")
    return f"{unit}s" if f"{unit}s" in PLAIN_UNITS else unit


def _rewrite_height(match: Match) -> str:
    """Rewrites feet and inches: 5'10" as "five foot ten", other lengths as "20 feet 3 inches".

    Those with 12 inches or more are kept.
    """
    feet, inches = int(match[1]), int(match[2])
    if inches >= 12:
        return match[0]
    return f"{spell_cardinal(feet)} foot {spell_cardinal(inches)}" if 2 < feet < 9 else f"{feet} feet {inches} inches"


def _rewrite_inches(match: Match) -> str:
    """Rewrites inch marks as "inch", unless they may close a quotation."""
    quoted = re.sub(r'(?<=\d)"', "", match.string[: match.start()]).count('"') % 2
    return match[0] if quoted else match[0].replace('"', " inch")


def _rewrite_out_of(match: Match) -> str:
    """Rewrites points of a scale: "8/10" as "8 out of 10", if the context shows that it is not a fraction."""
    is_valued = (
        match[1] == match[2] or _VALUED.search(get_text_before(match)) or re.match(" stars", get_text_after(match))
    )
    return f"{match[1]} out of {match[2]}" if is_valued and float(match[1]) <= int(match[2]) else match[0]


def _rewrite_shares(match: Match) -> str:
    """Rewrites "80/20" as "eighty twenty", if the shares add up to 100 or are equal."""
    first, second = int(match[1]), int(match[2])
    return f"{spell_cardinal(first)} {spell_cardinal(second)}" if first + second == 100 or first == second else match[0]


def _rewrite_version(match: Match) -> str:
    """Rewrites the version of a product; after other words, three numbers may be a date."""
    is_version = re.search(r"(?:\w*[A-Z]\w*|\b(?:version|release|v)) ?$", get_text_before(match)) is not None
    return match[0].replace(".", " point ") if is_version else match[0]


def _rewrite_power_of_ten(match: Match) -> str:
    """Rewrites "1e-5" as "1 × 10^-5"."""
    return f"{match[1]} × 10^{int(match[2])}"


def _rewrite_money_range(match: Match) -> str:
    """Rewrites "$20-30" as "20 to $30", unless it is a subtraction."""
    low, high = (float(match[group].replace(",", "")) for group in ("low", "high"))
    is_sum = low >= high or "=" in get_text_after(match) or "=" in get_text_before(match)
    return match[0] if is_sum else f"{match['low']} to {match['sign']}{match['high']}"


def _rewrite_digits(match: Match) -> str:
    """Rewrites a telephone number digit by digit in words, with commas between its parts."""
    return ", ".join(" ".join(spell_cardinal(int(digit)) for digit in part) for part in re.findall(r"\d+", match[0]))


def _rewrite_address(match: Match) -> str:
    """Rewrites an address or file as it is said: "help at example dot com"."""
    person = f"{match['person']} at " if match["person"] else ""
    return f"{person}{match['name'].replace('.', ' dot ')} dot {match['ending']}"


def _rewrite_list_number(match: Match) -> str:
    """Rewrites the number of a list's line with a pause after it ("1. Paris" as "1, Paris"); keeps other numbers.

    The first number of a list is at the start or after a colon; others follow the number before.
    """
    before = match.string[: match.start()]
    number = int(match[2])
    is_first = not before.strip() or before.rstrip(" ").endswith((":", ";", "\n"))
    goes_on = re.search(r"(?:^|[:;\n]) ?1[.)] ", before) and re.search(rf"(?<!\d){number - 1}[.)] ", before)
    return f"{', ' if match[1] and not is_first else match[1]}{number}, " if is_first or goes_on else match[0]


EVERYDAY: Final[tuple[Rule, ...]] = (
    make_rewriting("month cut short",
              rf"\b({_MONTH})(?:\.(?= \d)|(?= {_DAY_OF_MONTH}(?:st|nd|rd|th)?(?:[,.;:?!)]|$| {_YEAR})))"
              rf"|(?<=\d )(?<![\d.]\d\d )({_MONTH})\.?(?= {_YEAR})",
              lambda m: _expand_name(m[1] or m[2]), "on Jan. 5, Feb 3, and 5 Dec 2020",
              "on January 5, February 3, and 5 December 2020"),
    make_rewriting("span of days or months cut short",
              rf"\b(?:({_DAY})\.? ?- ?({_DAY})|({_MONTH}|{MONTHS})\.? ?- ?({_MONTH}))\b\.?", _rewrite_range,
              "open Mon-Fri, Jan.-Mar.", "open Monday to Friday, January to March"),
    make_rewriting("day cut short", rf"\b({_DAY})(?:\.(?=,| [a-z])|\.?(?=,? (?:{MONTHS}) \d))", _rewrite_day_name,
              "on Mon., January 5", "on Monday, January 5"),
    make_rewriting("date in figures that can be read in one way",
              r"(?<![\w/.-])(?:(?P<iso>(?:1[6-9]|20)\d\d-\d\d-\d\d)|\d\d?/\d\d?/(?:1[6-9]|20)\d\d)(?![\w/-])",
              _rewrite_date,
              "12/25/2020, 25/12/2020, 2020-03-04 and 5/6/2020",
              "December 25, 2020, 25 December 2020, March 4, 2020 and 5/6/2020"),
    make_rewriting("September 11", r"(?<![\w/.$])9/11(?= (?:[Aa]ttacks?|terror|[Cc]ommission|[Mm]emorial|[Mm]useum)"
              r"|(?<=[Ss]ince 9/11)(?! ?[=/\d])|(?<=[Aa]fter 9/11)(?! ?[=/\d]))", "nine eleven",
              "the 9/11 attacks", "the nine eleven attacks"),
    make_rewriting("year about", r"(?<![\w.'])ca?\. ?(?=\d{3,4}(?!\d))", "circa ",
              "written c. 1600", "written circa 1600"),
    make_rewriting("century in Roman numerals", rf"\b(?!I )({ROMAN})(?:th|st|nd|rd)?(?=[ -]centur)",
              lambda m: spell_ordinal(ROMAN_VALUES[m[1]]), "the XIX century", "the nineteenth century"),
    make_rewriting("ruler by title",
              rf"\b((?:King|Queen|Pope|Emperor|Empress|Tsar|Czar|Kaiser) [A-Z][a-z]+) ({ROMAN})(?![\w'])",
              lambda m: f"{m[1]} the {spell_ordinal(ROMAN_VALUES[m[2]]).title()}",
              "Queen Elizabeth I and King Haakon VII", "Queen Elizabeth the First and King Haakon the Seventh"),
    make_rewriting("years before Christ", r"(?<![\w.,-])(\d{1,4}) ?- ?(\d{1,4})(?= ?B\.?C)", r"\1 to \2",
              "(356-323 BC)", "(356 to 323 BC)"),
    make_rewriting("thousands by their letter",
              rf"(?<![\w.$£€])(\d{{1,3}}(?:\.\d)?)(?:(k)(?= (?:people|(?!{_UNCOUNTED})[a-z]+s)\b)"
              r"|(B)(?= parameters)| ?(bn)\b)",
              lambda m: f"{m[1]} {'thousand' if m[2] else 'billion'}", "10k fans and 70B parameters",
              "10 thousand fans and 70 billion parameters"),
    make_rewriting("with or without", r"(?<![\w./])[Ww]/(o?)(?= )", lambda m: f"with{m[1] and 'out'}", "w/ or w/o milk",
              "with or without milk"),
    make_rewriting("so many times",
              r"(?<![\w.])(\d+)x(?=(?:/| (?:a|per|each|every) )(?:day|week|month|year)\b)", r"\1 times",
              "2x/day", "2 times/day"),
    make_rewriting("symbol of an element",
              r"(\bsymbol(?: (?:for|of) [a-z]+)? is )\"?([A-Z][a-z]?)(?=\"?(?:[.,;:!?)]|$| \())\"?",
              lambda m: m[1] + " ".join(m[2].upper()), "The symbol for gold is Au.", "The symbol for gold is A U."),
    make_rewriting("grade with a minus", r"(?<![\w-])([A-D])-(?=[.,;!?](?: |$)|$)", r"\1 minus",
              "an A-.", "an A minus."),
    make_rewriting("plural of a unit in brackets",
              rf"(?:(?<=\d )(?:{_SHORT_UNIT})|(?<![A-Za-z])(?:{'|'.join(sorted(NUMBERED_UNITS))}))\(s\)",
              _rewrite_unit_plural, "2 hr(s) or 3 cm(s), many kg(s)", "2 hrs or 3 cm, many kgs"),
    make_rewriting("hours and minutes", r"(?<![\w.])(\d+) ?h(?:rs?)? ?(\d{1,2}) ?m(?:in)?s?(?![\w^/])",
              _make_parts_rewriting("hour", "minute"), "a flight of 3h 30m", "a flight of 3 hours 30 minutes"),
    make_rewriting("minutes and seconds", r"(?<![\w.])(\d+)m(?:in)? ?(\d{1,2})s(?:ec)?(?![\w^/])",
              _make_parts_rewriting("minute", "second"), "in 2m 1s", "in 2 minutes 1 second"),
    make_rewriting("feet and inches", r"""(?<![\w.'])(\d+)' ?(\d{1,2})(?:"|'')(?!\w)""", _rewrite_height,
              "5'10\" tall", "five foot ten tall"),
    make_rewriting("feet and inches by their letters",
              r"(?:(?<=\ba )|(?<=\ban ))(\d+) ft (\d{1,2}) in(?= (?!the )[a-z]{3})",
              _rewrite_height, "a 6 ft 2 in man", "a six foot two man"),
    make_rewriting("article before letters that are read as a name",
              r"\b([Aa])n(?= (?:rpm|mph|hp|lb|m[gLlm]|nm|MB|MHz)\b)", r"\1",
              "an rpm of 90", "a rpm of 90"),
    make_rewriting("feet by feet", rf"(?<![\w.'])({_LENGTH})'{_BY}({_LENGTH})'(?!\w| ?[x×])", r"\1 ft x \2 ft",
              "12' x 15'", "12 ft x 15 ft"),
    make_rewriting("inches",
              rf"""(?<![\w.]){_LENGTH}"{_BY}{_LENGTH}"(?:{_BY}{_LENGTH}")?|(?<![\w.]){_LENGTH}"(?= (?:wide|tall|long"""
              r"""|thick|deep|high|across|in (?:length|width|height|diameter|size))\b)"""
              r"""|(?<=\ba )\d+(?:\.\d)?"(?= [a-z])""",
              _rewrite_inches,
              "8.5\" x 11\" or 5\" wide", "8.5 inch x 11 inch or 5 inch wide"),
    make_rewriting("points of a scale", r"(?<![\w/.,$])(\d+(?:\.\d)?)/(5|10|100)(?=[,;:!?)]|\.(?!\d)| stars|$)",
              _rewrite_out_of, "I rate it 8/10.", "I rate it 8 out of 10."),
    make_rewriting("shares of a hundred",
              r"(?<![\w/.,$])([1-9]\d)/([1-9]\d)(?:(?<=50/50)(?! ?[=*×/+-]|[\w/]|[.,]\d)"
              r"|(?= (?:split|rule|mix|ratio|principle|chance|vision)\b))", _rewrite_shares,
              "a 50/50 chance, the 80/20 rule", "a fifty fifty chance, the eighty twenty rule"),
    make_rewriting("short name of a version", r"(?<![\w.])v(?=\d+\.\d)", "version ", "in v2.0", "in version 2.0"),
    make_rewriting("version of three numbers",
              r"(?<![\w.])(?:0|[1-9]\d{0,2})(?:\.(?:0|[1-9]\d{0,2})){2}(?!\w|\.\d)", _rewrite_version,
              "iOS 17.2.1, not on 12.5.98", "iOS 17 point 2 point 1, not on 12.5.98"),
    make_rewriting("size", r"(?<=[A-Za-z] )([1-9]\d*(?:\.\d+)?)x(?=[1-9]\d*(?:\.\d+)?(?![\w^]| ?\^))", r"\1 x ",
              "a 2x4 board", "a 2 x 4 board"),
    make_rewriting("power of ten by its letter",
              r"(?<![\w.])(\d(?:\.\d+)?)(?:e(?=[-+\d])|E(?=[-+]))([-+]?\d{1,3})(?![\w.]*\w)",
              _rewrite_power_of_ten, "a rate of 1e-5", "a rate of 1 × 10^-5"),
    make_rewriting("span of money",
              r"(?P<sign>[$£€])(?P<low>\d[\d,]*(?:\.\d\d)?) ?- ?(?:(?P=sign))?(?P<high>\d[\d,]*(?:\.\d+)?)(?![\d:-])",
              _rewrite_money_range, "for $20-30 or $5-$10 million", "for 20 to $30 or 5 to $10 million"),
    make_rewriting("number to call", r"(?<=[Cc]all )(?:911|999|112)(?!\d)|(?<=[Dd]ial )(?:911|999|112)(?!\d)",
              _rewrite_digits,
              "Call 911.", "Call nine one one."),
    make_rewriting("telephone number with its area",
              r"(?<![\w.-])(?:1[ -])?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}(?![\w-])", _rewrite_digits,
              "on (555) 123-4567", "on five five five, one two three, four five six seven"),
    make_rewriting("address or file", rf"(?<![\w./@:-])(?:https?://)?(?:www\.)?(?:(?P<person>{_NAME})@)?"
              rf"(?P<name>{_NAME}(?:\.{_NAME})?)\.(?P<ending>{_ENDINGS})/?(?![\w/@?&#=-]|\.\w)", _rewrite_address,
              "https://www.example.com or help@example.com", "example dot com or help at example dot com"),
    make_rewriting("ending of addresses", rf"(?<![\w.])\.(?=(?:{_ENDINGS})\b)", "dot ",
              "the .com domain", "the dot com domain"),
    make_rewriting("number of a list's line", r"(^|(?<=\n)|(?<=[:;] )| )(\d{1,2})[.)] (?=[\"']?[A-Z])",
              _rewrite_list_number, "Three: 1. Paris 2. Rome. Then 5. And", "Three: 1, Paris, 2, Rome. Then 5. And"),
)  # fmt: skip
"""Applied to plain characters, before the other rewritings."""
