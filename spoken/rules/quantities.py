"""Rules for tokens with digits: fractions, powers of ten, ordinals, quantities with units, plain numbers."""

import re
from functools import lru_cache
from typing import Final

from spoken.rules.dates import is_year
from spoken.rules.money import FUNCTION_WORDS, describes_next_noun, is_before_noun
from spoken.rules.numerals import (
    END,
    NUM,
    START,
    is_one,
    spell_cardinal,
    spell_fraction,
    spell_number,
    spell_ordinal,
    spell_power,
    spell_year,
)
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
from spoken.rules.unit_names import WORDS_AS_UNITS
from spoken.rules.units import UNIT, UNIT_BEYOND, read_unit
from spoken.spoken_text import Unspeakable


def _read_ordinal(match: Match) -> str:
    """Reads "22nd" as "twenty second"."""
    return spell_ordinal(int(match[1].replace(",", "")))


def _spell_parts(top: int, bottom: int) -> str:
    """Returns a fraction in words: "three quarters" if people say it like that, else "three over seventy"."""
    is_proper = 0 < top < bottom and (bottom <= 20 or (top == 1 and (bottom <= 100 or bottom in {1000, 10_000})))
    is_improper = 1 < bottom <= 10 and bottom < top <= 20 and top % bottom
    return (
        spell_fraction(top, bottom)
        if is_proper or is_improper
        else f"{spell_cardinal(top)} over {spell_cardinal(bottom)}"
    )


def _read_fraction(match: Match) -> str:
    """Reads "3/4", "2 1/2" or "7/12 %" as parts or as one number over the other ("divided by" before "=").

    Raises:
        Unspeakable: it has leading zeros, or a whole number before a fraction that is not less than one.
    """
    whole, top, bottom = match["whole"], int(match["top"]), int(match["bottom"])
    if match["top"].startswith("00") or match["bottom"].startswith("0") or (whole and not 0 < top < bottom):
        raise Unspeakable("number", match[0])
    percent = " percent" if match["percent"] else ""
    if re.search(r"(?i)\bgrade $", get_text_before(match)):
        return f"{spell_cardinal(top)} over {spell_cardinal(bottom)}"  # a grade on a scale: "a grade 3/6 murmur"
    if whole:
        return f"{spell_number(whole)} and {_spell_parts(top, bottom)}{percent}"
    is_part = top == 1 < bottom and get_text_after(match).startswith(" of ")
    if (match["end"] or is_part) and 0 < top < bottom:
        return spell_fraction(top, bottom)
    said = _spell_parts(top, bottom)
    if re.match(r" ?=", get_text_after(match)):
        said = said.replace(" over ", " divided by ")
    return said + percent


def _read_power_of_ten(match: Match) -> str:
    """Reads a number times a power of ten, with its unit; the sign between them may be missing."""
    exponent = match["exponent"].replace(" ", "").lstrip("+").strip("{}()")
    said = (
        "to the power of two"
        if exponent == "2"
        else "to the power of three"
        if exponent == "3"
        else spell_power(exponent)
    )
    amount = match["amount"] or match["bare"]
    times = f"{spell_number(amount)} times " if amount else ""
    unit = f" {_read_unit(match, plural=True)}" if match["unit"] else ""
    return f"{times}ten {said}{unit}"


def _read_coefficient(match: Match) -> str:
    """Reads a number with variables after it, "2xy"; "3x as many" is "three times"."""
    if match[2] == "x" and re.match(
        r" (?:as|more|the|faster|larger|bigger|magni\w+|zoom|objective|lens)\b", get_text_after(match)
    ):
        return f"{spell_number(match[1])} times"
    letters = "pi" if match[2] == "pi" else " ".join(match[2])
    return f"{spell_number(match[1])} {letters}"


def _read_number(match: Match) -> str:
    """Reads a number: in pairs if it is a year or part of a name, refused if it may be a price without its sign."""
    is_name = re.fullmatch(r"[1-9]\d{3}", match[0]) is not None and _NAMED_BY.search(get_text_before(match)) is not None
    if match[0].endswith(".00") and _OF_MONEY.search(get_topic(match)):
        raise Unspeakable("number", get_text_before(match)[-15:] + match[0])  # a price without its sign
    return spell_year(int(match[0])) if is_name or is_year(match) else spell_number(match[0])


_NAMED_BY: Final = re.compile(r"\b(?:Form|Section|Rule|Title|Room|Route|Highway) $")
"""Words after which four digits are a name, read in pairs: "Form 1041"."""

_OF_MONEY: Final = re.compile(r"\$ ?\d|\bdollars?\b|\bcosts?\b")
_OF_HEAT: Final = re.compile(
    r"(?i)temperature|°|\b(?:boil|melt|heat|cool|warm|oven|freez|steam)|water|bath\b|kelvin|thermal|entrop|gas\b"
    r"|isotherm|adiabat|blackbody|\batm|[/-]K\b|supercond|radiat|pressure|\bT(?:_\w+)? ?=|\bstars?\b"
    r"|\b\d{3}(?:\.\d+)? K\b"
)
_OF_CHARGE: Final = re.compile(r"(?i)charge|capacit|coulomb|electric|induct|circuit|field|volt|flux")
_OF_MAGNETS: Final = re.compile(
    r"(?i)magnet|tesla|\bfield|NMR|flux|coil|solenoid|induct|wire|\bB ?=|cyclotron|MRI|spin|proton|electron"
)
_OF_TIME: Final = re.compile(r"(?i)second|veloc|accelerat|speed|/s\b|time|puls|half-li|\bms\b|s\^|\bt ?=")
_OF_PULL: Final = re.compile(r"\baccelerat|\bgravit|\bmass m\b")
_OF_ACIDS: Final = re.compile(
    r"(?i)\bsolutions?\b|acid|titrat|\bbase needed\b|\bnormality\b|\bHCl\b|\b(?:Na|K)OH\b|\bH_?2SO"
)
_OF_ATOMS: Final = re.compile(r"(?i)\b(?:diameter|radius|radii|bond lengths?|lattice|wavelengths?|angstroms?)\b|λ")
_OF_SOLUTIONS: Final = re.compile(
    r"(?i)solution|dilute|molar|concentrat|acid|\bmol|\bpH\b|titrat|buffer|reaction|ions?\b"
)
_TELLS: Final = {"K": _OF_HEAT, "T": _OF_MAGNETS, "M": _OF_SOLUTIONS}
"""Topics that a text must have for a letter after a number to be a unit."""

_DENIES: Final = {"N": _OF_ACIDS, "A": _OF_ATOMS, "g": _OF_PULL, "mg": _OF_PULL, "μg": _OF_PULL}
"""Topics that it must not have: normal solutions, sizes in angstroms, and grams that may be mass times gravity."""

_AMBIGUOUS: Final = {"C": ("degree Celsius", "coulomb"), "F": ("degree Fahrenheit", "farad")}


def _read_unit(match: Match, plural: bool) -> str:
    """Returns the unit in the match's group `unit`; that of a single letter depends on the topic.

    Raises:
        Unspeakable: the topic does not decide it.
    """
    unit, topic = match["unit"], get_topic(match)
    needed = _TELLS.get(unit)
    denied = _DENIES.get(unit)
    if (denied is not None and denied.search(topic)) or (needed is not None and not needed.search(topic)):
        raise Unspeakable("formula", get_text_before(match)[-10:] + match[0])
    letter = re.match(r"[CF](?![A-Za-z°])", unit)
    if letter is None:
        return read_unit(unit, plural)
    if len(unit) > 1:
        return read_unit(unit, plural)  # coulombs per square meter
    is_hot, is_electric = _OF_HEAT.search(topic) is not None, _OF_CHARGE.search(topic) is not None
    if is_hot == is_electric:
        raise Unspeakable("number", match[0])
    first, space, rest = _AMBIGUOUS[unit][is_electric].partition(" ")
    return f"{first}{'s' if plural else ''}{space}{rest}"


@lru_cache(maxsize=256)
def _is_quantity_symbol(letter: str, text: str) -> bool:
    """Returns whether a text uses a letter as the symbol of a quantity: "mass m", "a voltage V", "V = 3"."""
    named = (
        r"\b(?:mass(?:es)?|voltage|difference|lengths?|force|weight|area|width|period|volume|radius|distance|height"
        rf"|time) \$?{letter}(?![\w'°])"
    )
    return re.search(rf"{named}|(?<![\d.)\]}}^/] )(?<![\w.^/\]]){letter} ?=", text) is not None


_MEASURED: Final = re.compile(
    r" (?:(?:steel|copper|iron|wooden|metal|plastic|light|round|square) )?(?:angles?|bulbs?|lamps?|resistors?"
    r"|capacitors?|inductors?|batter(?:y|ies)|suppl(?:y|ies)|heaters?|motors?|pipes?|tubes?|rulers?|pieces|boards?"
    r"|bolts?|nails?|screws?|planks?|tiles?|strips?|cubes?|pizzas?|bottles?|jars?|bags?|jugs?|pans?|race|speed limits?)"
    r"(?![\w-])"
)
"""Nouns that a quantity before them describes, with or without an article: "two 60 W bulbs"."""

_SIDE: Final = r"\d[\d.]* ?-?(?:[ckm]?m|ft|in|inch|foot|yd)\.?"
_OF_ONE: Final = re.compile(rf"(?i)\b(?:an?|the|each|this|one) (?:{_SIDE} ?(?:by|x|×) ?)*$")
_BY_SIDES: Final = re.compile(rf"((?: ?(?:by|x|×) ?{_SIDE})*) ([a-z]{{3,}})")


def _is_side(match: Match) -> bool:
    """Returns whether a length is the side of something, as in "a 4 m by 3 m room"."""
    sides, beyond = _OF_ONE.search(get_text_before(match)), _BY_SIDES.match(get_text_after(match))
    if sides is None or beyond is None or not (beyond[1] or re.search("by|x|×", sides[0])):
        return False
    return beyond[2] not in FUNCTION_WORDS and not beyond[2].endswith(("ed", "ing", "ly"))


def _describes_noun(match: Match) -> bool:
    """Returns whether a quantity describes the noun after it, so that its unit is in the singular."""
    if re.match(r" ?[x×] ?\d", get_text_after(match)):
        return _is_side(match)
    return (
        _is_side(match)
        or is_before_noun(match)
        or describes_next_noun(match)
        or _MEASURED.match(get_text_after(match)) is not None
        or (
            re.search(r"\ban? $", get_text_before(match)) is not None
            and re.match(" [A-Z][A-Za-z]", get_text_after(match)) is not None
        )
    )


def _read_amount(match: Match) -> str:
    """Reads the number of a quantity, which may be a fraction or a whole number with a fraction.

    Raises:
        Unspeakable: the fraction has a denominator of 0 or above 100, or is not less than one after a whole number.
    """
    if match["bottom"] is None:
        return spell_number(match["amount"])
    whole, top, bottom = match["whole"], int(match["top"]), int(match["bottom"])
    if not 0 < bottom <= 100 or (whole and top >= bottom):
        raise Unspeakable("number", match[0])
    said = (
        spell_fraction(top, bottom)
        if top < bottom and bottom > 1
        else f"{spell_cardinal(top)} over {spell_cardinal(bottom)}"
    )
    return f"{spell_number(whole)} and {said}" if whole else said


_LETTER: Final = re.compile(r"([A-Za-z])(?: ?\^? ?\{? ?([23]) ?\}?)?")


def _read_quantity(match: Match) -> str:
    """Reads a number and what follows it, as a quantity if that is a unit.

    Raises:
        Unspeakable: it may be one of two units, or no unit.
    """
    unit, is_tight = match["unit"], not match["gap"]
    letter = _LETTER.fullmatch(unit)
    if letter and (not letter[2] or is_tight) and _is_quantity_symbol(letter[1], get_topic(match)):
        if not is_tight or re.search(rf"(?<![A-Za-z]){letter[1]} ?= ?$", get_text_before(match)):
            raise Unspeakable("formula", get_text_before(match)[-10:] + match[0])
        raised = {"2": " squared", "3": " cubed"}.get(letter[2] or "", "")
        return f"{_read_amount(match)} {letter[1]}{raised}"
    if unit == "G" and is_tight and not _OF_MAGNETS.search(get_topic(match)):
        return f"{_read_amount(match)} G"  # a network
    if is_tight and unit == "s" and not _OF_TIME.search(get_topic(match)):
        raise Unspeakable("number", get_text_before(match)[-10:] + match[0])  # several threes
    part = match["bottom"] is not None and match["whole"] is None and int(match["top"]) < int(match["bottom"])
    is_single = part or is_one(match["amount"]) or match["gap"] == "-" or _describes_noun(match)
    stop = "." if unit.endswith(".") and starts_sentence(get_text_after(match)) else ""
    return f"{_read_amount(match)} {_read_unit(match, plural=not is_single)}{stop}"


_WORDS: Final = "|".join(name for name in WORDS_AS_UNITS if name != "amp")
_NO_UNIT: Final = (
    r"(?![A-Z]\. ?[A-Z]\.)"
    rf"(?!A (?!is\b|was\b|has\b|passes\b|flows\b)[a-z]+s\b|A['-]|[A-Za-z]&|H[_\d]|A (?:student|grade|paper)"
    rf"|in\b(?!\.? ?(?:x|by|wide|long|tall|Hg|high|thick|diameter|closer|[OI]\.?D)\b"
    rf"|[;,]|$|[.)] ?(?:$|[a-z),])|\^|\. [a-z]|-lb)|[AHKMNTVWJLGC] (?:atom|ion|bond|cell|nucle|molecule|people|subject)"
    rf"|M(?: (?!sol|[A-Z]|in\b|of\b|and|at\b|or\b)|[.,]? ?$)(?<=\d )|deg\b(?!\.)|(?:{_WORDS})\b(?! ?[/^]|-atm)|h\(|s's)"
)
"""Exclusions: not amps but grades ("5 A students"), not inches but a word ("5 in the morning")."""

_NOUN: Final = "(?!and|the|for|when|where|then|with|from|but|plus|minus)[a-z]{3}"
_ANY_UNIT: Final = (
    rf"(?:{UNIT}|C ?/ ?[cm]?m\^?[23](?![A-Za-z\d])"
    r"|[CF](?![A-Za-z\d'^_(/-]| ?[×*]| (?!(?:is|was|flows|passes)\b)[a-z]+s\b))"
)
_TEN: Final = r"10 ?\^ ?(?P<exponent>\{ ?[-+]? ?\d{1,3} ?\}|\([-+]? ?\d{1,3}\)|[-+]?\d{1,3})"

QUANTITY_RULES: Final[list[Rule]] = [
    make_rule("unit without a number", "word",
         rf"(?:(?<=\bin )(?=[A-Za-z°μ]{{1,5}}[/^]|[kMG]?eV\b|μ[A-Za-z])|(?<=nit: )|(?<=nits: )"
         r"|(?<=π )(?=(?:ft|yd|[ckm]?m)\b)"
         r"|(?<![\w/^×*'.-])(?=(?:km|cm|mm|kg|mg|mi|ft|lb|k?J|mol)/|m ?/ ?s\b|W/\(?m\b))"
         rf"({UNIT})(?=[ ,.?;:)]|$)", lambda m: read_unit(m[1], plural=True),
         "its speed in km/h", "its speed in kilometers per hour"),
    make_refusal("terms of payment", "number", r"\d/\d+\)?, ?\(?n/\d", "terms of 2/10, n/30"),
    make_refusal("time in parts", "number", r"\d ?m ?\d+ ?s(?![\w/^])", "after 2 m 30 s"),
    make_refusal("square of amps or of a letter", "formula",
            rf"{START}{NUM} ?A\^\{{?2|{START}(?:{NUM} ?×? ?)?10 ?\^ ?\{{? ?-?\d+ ?\}}? *C ?× ?m\b",
            "a value of 0.01A^2"),
    make_refusal("units of an enzyme", "formula", rf"{START}{NUM} ?I?U/", "20-40 U/L"),
    make_refusal("power without its caret", "number",
            r"\d\.\d+ ?[x×] ?10(?:[2-9]|[1-3]\d)(?![\d.,]| ?=)", "1.36 × 108 m"),
    make_refusal("electrons in a shell", "formula",
            r"(?<![\w.])[1-7](?:[spdf]\^| ?[spdf]\^ ?\{?\d+\}? ?[1-7] ?[spdf]\b)", "1s^2 2p^3"),
    make_rule("ordinal", "number", rf"{START}(\d[\d,]*) ?\^?\{{?(?:st|nd|rd|th)\b\}}?", _read_ordinal,
         "the 22nd and the 50^{th}", "the twenty second and the fiftieth"),
    make_refusal("unit below a slash by its power", "formula",
            r"(?<![A-Za-z\d_])[A-Za-z]{0,3}?(?:kg|mol|cm|deg|K|s|m|g|J)\^ ?\{? ?-[1-4](?!\d)"
            r"|(?<= )(?:mol|K|s|kg|T)-[12](?!\w|-|\.\d)",
            "in mol-1"),
    make_refusal("misprinted unit", "formula",

            r"\d[\d.]* ?(?:m ?μ(?!\w)|μ(?!\w| ?[=+*/^_-])|r/min|v/m|[a-z] [WVJN][ /]|J T(?!\w)|\w+/k?g mol\b)"
            r"|\d\.\d+o\b", "at 1100 r/min"),
    make_refusal("ordinal of a formula", "formula", r"(?<=\))\^?\{?(?:st|nd|rd|th)\b", "the (n+1)th term"),
    make_rule("percentage", "quantity", rf"{START}({NUM})[ -]?%(?: percent\b)?",
         lambda m: f"{spell_number(m[1])} percent",
         "2.5 %", "two point five percent"),
    make_rule("power of ten", "quantity",
         rf"{START}(?:(?P<amount>{NUM}) ?[x×*X•] ?|(?P<bare>\d+\.\d+|\d) )?{_TEN}(?:[ ~]*(?P<unit>{_ANY_UNIT}))?"
         r"(?!\d|\.\d)", _read_power_of_ten, "3 × 10^8 m/s", "three times ten to the power of eight meters per second"),
    make_rule("quantity", "quantity",
         rf"{START}(?P<amount>(?:(?:(?P<whole>\d+)[ -])?(?P<top>\d+) ?/ ?(?P<bottom>\d+)(?= |-|[ckm]?m(?!\w)))"
         rf"|{NUM})(?P<gap>[ -]?)"
         rf"{_NO_UNIT}(?P<unit>{_ANY_UNIT})", _read_quantity,
         "a 5 kg bag at 60 km/h and 2 1/2 in.",
         "a five kilogram bag at sixty kilometers per hour and two and one half inches."),
    make_rule("fraction", "number",
         rf"{START}(?:(?P<whole>\d+)(?: |-| and ))?(?P<top>\d+)/(?P<bottom>\d+)"
         r"(?P<end>st|nd|rd|ths?|rds|s)?(?![\d/A-Za-z_']|[.,]\d)(?P<percent> ?%)?", _read_fraction,
         "2 1/2 cups, 3/4 of it and 24/4 = 6",
         "two and one half cups, three quarters of it and twenty four divided by four equals six"),
    make_refusal("telephone number", "number", r"(?<!\d)\d{3}\)?[ -]\d{2,3}-\d{4}(?!\d)", "on 555 12-4567"),
    make_refusal("normal range", "number", r"(?:(?<=N=)|(?<=N = ))\d+ ?- ?\d+\)", "a pulse of 60 (N=22-198)"),
    make_refusal("numbers with a space", "number", r"(?<!\d)\d{1,3} \d{3}(?![\d-])|\d*\.\d+ \d", "2 132 contracts"),
    make_refusal("unknown unit", "formula",
            rf"{START}{NUM} ?(?!in\b|A\b|as?\b|h\b|s\b|m\b|T\b|C\b|N\b|V\b|K\b|min\b){UNIT_BEYOND}", "38 kg/xy"),
    make_rule("number times letters", "variable",
         rf"{START}({NUM})(?!e-?\d|[kKMB] {_NOUN}|[HONFI]_)([a-z]{{1,2}}|[A-Z])(?![\dA-Za-z(])",
         _read_coefficient, "2x as many, 3x + 1", "two times as many, three x plus one"),
    make_rule("number", "number",
         rf"{START}{NUM}(?:{END}|(?=[A-Za-zα-ωΔ]\(|(?:sin|cos|tan|log|ln|exp|sqrt)"
         rf"|(?:[A-Z][a-z]?_?\{{?\d*\}}?){{2,8}}(?=[ +→⇌(.,)^]|$)|[A-Z][a-z](?= ?[+→⇌(])|[HONFI]_|[α-ωΔ]))",
         _read_number,
         "in 1914, not 1,234.5", "in nineteen fourteen, not one thousand two hundred thirty four point five"),
]  # fmt: skip
"""Rules for tokens with digits, in the order in which they are tried."""
