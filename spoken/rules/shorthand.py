"""Short forms that are read in full only beside a number or a name: pages, dates, years, millions, ages, scales."""

import re
from typing import Final

from spoken.rules.abbreviations import MONTH_NAMES
from spoken.rules.elements import NAMES
from spoken.rules.money import END, START
from spoken.rules.numerals import NUM, cardinal, ordinal, written_number, year
from spoken.rules.rule import Match, Rule, after, before, refusal, rule
from spoken.spoken_text import Unspeakable

PLACES: Final = {
    "p": "page", "pp": "pages", "pg": "page", "fig": "figure", "figs": "figures", "vol": "volume", "vols": "volumes",
    "ch": "chapter", "chap": "chapter", "sec": "section", "sect": "section", "eq": "equation", "eqs": "equations",
    "no": "number", "nos": "numbers", "ex": "example",
}  # fmt: skip
"""Where something stands in a book; "sec. 2" after a number is no section but seconds."""

_PLACE: Final = "|".join(sorted(PLACES, key=len, reverse=True))
_SCALES: Final = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion"}
_COUNTED: Final = (
    "people|users|customers|dollars|residents|inhabitants|citizens|workers|employees|subscribers|viewers|views|votes"
    "|voters|copies|records|units|downloads|visitors|followers|barrels|shares|homes|households|jobs|players|students"
    "|tourists|parameters|images|samples|tokens|tons|miles|steps|cars|books|streams|likes|soldiers|immigrants|cells"
)
_DATED: Final = (
    "model|movie|film|novel|book|album|song|story|play|painting|essay|paper|article|study|report|survey|speech|case"
    "|decision|ruling|law|statute|amendment|constitution|convention|conference|treaty|agreement|mortgage|will|deed"
    "|edition|version|census|election|campaign|season|war|battle|invasion|revolution|revolt|uprising|rebellion|riot"
    "|strike|coup|crisis|crash|depression|recession|earthquake|eruption|flood|fire|famine|epidemic|pandemic|outbreak"
    "|massacre|expedition|harvest|vintage|reform|baseball season|net income|budget|interview|translation"
)
"""What a year stands before; other nouns after four digits may be counted."""

_SHARES: Final = {"w": "weight", "v": "volume"}
_EARLY_CUE: Final = r"(?:(?<=\b[Ii]n )|(?<=[Ss]ince )|(?<=[Uu]ntil )|(?<=[Bb]efore )|(?<=[Cc]irca )|(?<=[Yy]ear ))"
_NUMBERED: Final = r"(?:(?<=\bForm )|(?<=\bRoom )|(?<=\bFlight )|(?<=\bModel )|(?<=\bSection )|(?<=\bRoute ))"
"""What has a number for its name, whose four digits are said in pairs: "Form 1041"."""

_FREE: Final = (
    r"(?=[,;:?)]|\.(?!\d)|$| (?:[A-Z][a-z]{3}|(?:the|an|and|or|by|at|to|when|while|he|she|it|they|was|were|is|did|had"
    r"|as|on|with|for|but|after|before|until|that|which|who|how|what|where|why|led|made|brought|marked)\b))"
)


def _place(match: Match) -> str:
    word = PLACES[match[1].lower()]
    number = match.groupdict().get("number")
    return (word.capitalize() if match[1][0].isupper() else word) + (f" {written_number(number)}" if number else "")


_ERA: Final = r"(?:B\.? ?C(?:\.? ?E)?|C\.? ?E|A\.? ?D)\b"
_YEARS_OF: Final = {"c": "circa", "b": "born", "d": "died", "fl": "flourished"}
_BEFORE_CIRCA: Final = re.compile(
    r"(?:^|[,;(—-] ?|\b(?:born|died|made|built|written|painted|composed|founded|dated|dates|from|in|since|until"
    r"|and|to) )$",
    re.IGNORECASE,
)


def _beside_year(match: Match) -> str:
    """ "c. 1750" after a comma, "(b. 1950)"; elsewhere it may be a variable, and where "a." stands the next of a list.

    Of a year that is told with its era, or of a decade, this reads the letter alone.

    Raises:
        Unspeakable: `number`: it may be one or the other.
    """
    letter, left = match[1], before(match)
    if re.search(r"(?<![A-Za-z.])a\. ", match.string[:4000]):
        return f"{letter} . {cardinal(int(match['year']))}" if match["year"] else f"{letter} ."
    is_circa = letter == "c" and (match["year"] is None or _BEFORE_CIRCA.search(left) is not None)
    if is_circa or re.search(r"\((?:[^()]*[,;] ?)?$|[A-Z][a-z]+, $|\d{3}[,;-] ?$", left):
        to = " to " if match["to"] else ""
        return f"{_YEARS_OF[letter]} {year(int(match['year']))}{to}" if match["year"] else _YEARS_OF[letter]
    raise Unspeakable("number", match.string[max(0, match.start() - 10) : match.end() + 10])


def _slashed_date(match: Match) -> str:
    """Month first, as American speakers write; the day first where the first number can be no month."""
    month, day = int(match["first"]), int(match["second"])
    if month > len(MONTH_NAMES):
        month, day = day, month
    if not (1 <= month <= len(MONTH_NAMES) and 1 <= day <= 31):
        raise Unspeakable("number", match[0])
    return f"{MONTH_NAMES[month - 1]} {ordinal(day)}, {year(int(match['year']))}"


def _iso_date(match: Match) -> str:
    return f"{MONTH_NAMES[int(match['month']) - 1]} {ordinal(int(match['day']))}, {year(int(match['year']))}"


def _scaled(match: Match) -> str:
    """ "2M people", unless the letter stands alone elsewhere, as a variable does."""
    if re.search(rf"(?<![A-Za-z\d&]){match[2]}(?![A-Za-z\d&'])", match.string[:4000]):
        raise Unspeakable("number", match[0])
    return f"{written_number(match[1])} {_SCALES[match[2]]}"


def _age(match: Match) -> str:
    amount = cardinal(int(match[1]))
    attributive = re.match(r" (?!and|or|with|who|in|at|is|was|but|now)[a-z]", after(match)) or re.search(
        r"\b(?:an?|the|this|that|her|his|their|our|my) $", before(match)
    )
    return f"{amount} year old" if attributive or amount == "one" else f"{amount} years old"


def _about_year(match: Match) -> str:
    """ "about 1840" is a year where the text has another one after "in" or "from"."""
    has_year = re.search(r"\b(?:[Ii]n|[Ff]rom|[Ss]ince|[Uu]ntil) 1[4-9]\d\d\b", match.string[:4000]) is not None
    return year(int(match[0])) if has_year else cardinal(int(match[0]))


def _capitals(match: Match) -> str:
    """ "AT&T" is "A T and T", "M&Ms" "M and M's"."""
    first, second = " ".join(match[1]), " ".join(match[2])
    return f"{first} and {second}" + ("'s" if match[3] else "")


def _shells(match: Match) -> str:
    """ "[He] 2s^2 2p^2", where electrons are, is "helium, two s two, two p two"."""
    shells = re.findall(r"([1-7]) ?([spdf])[ ^{]*(\d{1,2}?)(?=\}| ?[1-7] ?[spdf]|$)", match["shells"])
    core = [NAMES[match["core"]]] if match["core"] else []
    return " , ".join(core + [f"{cardinal(int(level))} {letter} {cardinal(int(n))}" for level, letter, n in shells])


SHORTHAND_RULES: Final[list[Rule]] = [
    rule("word", rf"(?<![A-Za-z.'])(?<!\d )(?i:({_PLACE}))\. ?(?=\d)", _place),
    rule("word", r"(?<![A-Za-z.'])(?i:(eqs?|figs?))\. ?\((?P<number>\d{1,3}(?:\.\d{1,3})?)\)", _place),
    rule("word", rf"(?<![\w.'])(c|b|d|fl)\.(?:(?= ?(?:\d{{1,4}} ?{_ERA}|\d{{3}}0s\b))"
         r"| ?(?P<year>1[0-9]\d\d|20[0-2]\d)(?![\d%]|[.,]\d)(?P<to>[-–](?=1\d\d\d|20[0-2]\d))?)", _beside_year),
    rule("word", r"(?:(?<=%)|(?<=% )|(?<=percent )|(?<=\())([wv])/([wv])(?![\w/^])",
         lambda m: f"{_SHARES[m[1]]} per {_SHARES[m[2]]}"),
    rule("number", r"(?:(?<=#)|(?<=# ))(\d{1,4})([A-Z])(?![\w-])", lambda m: f"{cardinal(int(m[1]))} {m[2]}"),
    rule("word", r"(?<![A-Za-z.'])Mts\.(?= [A-Z])", "Mounts"),
    rule("word", r"(?<![A-Za-z.'])Mt\.?(?= [A-Z][a-z])", "Mount"),
    rule("quantity", rf"{START}(?P<first>\d{{1,2}})/(?P<second>\d{{1,2}})/(?P<year>1[5-9]\d\d|20\d\d)"
         r"(?![\d/]|[.,]\d| ?[=+*])", _slashed_date),
    rule("quantity", rf"{START}(?P<year>1[5-9]\d\d|20\d\d)-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])"
         r"(?![\d-]|[.,]\d)", _iso_date),
    rule("quantity", rf"{START}({NUM})([kKMB])(?= (?:{_COUNTED})\b)",
         _scaled),
    rule("quantity", rf"{START}(\d{{1,3}})(?: |-)?y/o\b", _age),
    rule("quantity", rf"{START}(1) ?: ?(\d{{5,9}}|\d{{1,3}}(?:,\d{{3}})+)(?![\d:]|[.,]\d)",
         lambda m: f"one to {written_number(m[2])}"),
    rule("word", r"(?<![A-Za-z\d&])([A-Z]{1,3})&([A-Z]{1,3})(s?)(?![A-Za-z\d&])", _capitals),
    rule("number", rf"{_EARLY_CUE}10\d\d{_FREE}(?!,\d)", lambda m: year(int(m[0]))),
    rule("number", rf"{START}(?<=[a-z] )(?:1[5-9]|20)\d\d(?= (?:{_DATED})s?\b)", lambda m: year(int(m[0]))),
    rule("number", r"(?<=\()(?:1[89]|20)\d\d(?= ?= ?100\b)", lambda m: year(int(m[0]))),  # of an index
    rule("number", r"(?<=\b[Aa]bout )1[4-9](?!00)\d\d(?= (?:are|were|was|the|by|and|when|as)\b|[,;.])", _about_year),
    rule("number", rf"{_NUMBERED}[1-9](?!000)\d{{3}}{END}", lambda m: year(int(m[0]))),
    rule("number", r"(?<=Boeing )7\d7", lambda m: f"seven {cardinal(int(m[0][1:]))}"),
    rule("number", r"(?<![\w.])80[58][0-9](?= ?(?:micro|[Aa]ssembl|chips?|instruct|CPU|process))",
         lambda m: f"eighty {cardinal(int(m[0][2:]))}"),
    rule("word", r"(?<![\w.,^])(?P<core>)(?P<shells>[1-7] ?[spdf] ?(?:\^ ?\{?\d{1,2}\}? ?[1-7] ?[spdf] ?)+"
         r"\^ ?\{?\d{1,2}\}?)(?![\w^])", _shells),
    rule("word", r"(?<![\w.,^])(?P<core>)(?P<shells>[1-7]s[12](?: ?[1-7][spdf]\d{1,2})+)(?![\w^])", _shells),
    rule("word", r"\[ ?(?P<core>He|Ne|Ar|Kr|Xe|Rn) ?\] ?(?P<shells>[1-7][spdf](?:\^?\{?\d{1,2}\}? ?[1-7][spdf])*"
         r"\^?\{?\d{1,2}\}?)(?![\w^])", _shells),
    rule("word", r"(?<=[Tt]ype[ -])I([ab])\b", lambda m: f"one {m[1].upper()}"),
    rule("word", r"(?<![A-Za-z])(di|tri|tetra|bi)-(?= ?(?:or|and|to)\b)", lambda m: m[1]),
    refusal("formula", r"\[ ?\[|\{ ?_|(?<= )_ ?\*"),
    refusal("formula", r"(?<![A-Za-z])(?:Pt|Ag|Zn|Cu|Hg|Cd|Fe) ?(?:\(s\) ?)?/ ?[A-Z][\w ^+/-]*\("),  # a cell
]  # fmt: skip
"""Tried before all others that begin with a digit or a letter."""
