"""Reads units of measure after a number: "5 kg" is "five kilograms", "3 m/s^2" is "three meters per second squared"."""

import re
from typing import Final

from spoken.rules.unit_names import IRREGULAR, LENGTHS, REGULAR, UNCHANGING
from spoken.spoken_text import Unspeakable, make_word_set

_FULL_NAMES: Final = make_word_set(
    "meter liter gram kilogram second minute hour day week month year mile foot inch pound ounce mole joule volt "
    "watt gallon person page box bag piece kilometer centimeter unit item night cup quart bottle bushel share "
    "student game class lesson acre book ticket kilowatt cycle revolution molecule degree atom slice pack can dozen "
    "set jar room car tree ton plant child bar pair row head employee customer trip sec yard yd shirt hr"
)
"""Words besides the units that may follow "per"."""

_ABBREVIATIONS: Final = sorted({*REGULAR, *UNCHANGING, *IRREGULAR}, key=len, reverse=True)
_ONE: Final = "(?:" + "|".join(map(re.escape, _ABBREVIATIONS)) + ")"
_POWER: Final = r"(?:\^ ?\{? ?[2-6] ?\}?|[23](?!\d|\.\d))"
_INVERSE: Final = r"\^ ?\{? ?- ?[1-4] ?\}?"
_ENDS: Final = r"(?![A-Za-z])"
_TIMES: Final = r"(?: ?[×*•] ?|-|\.(?! ))"
_UNDER: Final = rf"(?:{_ONE}|C(?![A-Za-z°])|{'|'.join(sorted(_FULL_NAMES, key=len, reverse=True))}){_POWER}?{_ENDS}"
_PRODUCT: Final = (
    r"(?:[kM]?N|kg|[mkM]?W|m?A|[km]?Pa|k?J|C|ft\.?|lb\.?|lbf|in\.?|oz|mol|eV|MeV|g|L|l|liter|atm|Pa|T|V|m)"
    r"(?: |\. |-|\.-)(?:hr?|m|s|ft|lbf?|K|atm|sec|mol)|(?:lb|oz|kg|lbf|dyn|N)s?\.?-(?:in|cm)"
)
_FACTOR: Final = rf"(?:{_PRODUCT}{_ENDS}|{_ONE}){_POWER}?{_ENDS}"
_TOP: Final = rf"{_FACTOR}(?:{_TIMES}{_ONE}{_POWER}?{_ENDS})*"
_UNDERS: Final = rf"{_UNDER}(?:(?:{_TIMES}| (?=°|[Ks]\b(?! ?=)| ?{_ONE}[\^²])){_UNDER}|(?=°){_UNDER})*"
_SLASH: Final = rf" ?/ ?(?:{_UNDERS}|\( ?{_UNDER}(?:(?:{_TIMES}| ){_UNDER})* ?\))"
_LOWERED: Final = rf"(?:{_TIMES}| | ?~ ?|){_ONE}{_INVERSE}"
_NO_MORE: Final = (
    r"(?![A-Za-z0-9^{_]|\.\w|\((?![a-z]{4,} )|-[0-9A-Za-z]| ?/ ?(?:[A-Za-z]{1,2}\b|\d)"
    rf"| ?/ ?{_ONE}{_ENDS}| {_ONE}(?:\^|-\d| ?/)| ?[×*] ?{_ONE}{_ENDS})"
)
UNIT: Final = (
    rf"(?:{_TOP}(?:(?:{_SLASH})+(?! (?:C|min|hr?|sr)\b)|(?:{_LOWERED}){{1,4}})?"
    rf"|(?<= ){_ONE}{_INVERSE}(?:{_LOWERED}){{0,3}}){_NO_MORE}"
)
"""Pattern of a unit after a number: alone, multiplied, or divided by slashes or negative powers.

The inverse of a unit needs a space before it ("3 s^-1", but not "3s^-1"). After a slash, factors joined by a
sign are all in the denominator, and so are kelvins and seconds after a space: "J/kg•K" and "J/kg K" are "joules per
kilogram per kelvin".
"""

UNIT_BEYOND: Final = (
    rf"{_ONE}(?:\^|/| ?/ ?[A-Za-z]{{1,2}}\b| ?[×*] ?{_ONE}{_ENDS}| {_ONE}(?:\^|-\d| ?/ ?[A-Za-z]{{1,3}}\b))"
)
"""Start of a unit that `UNIT` did not match as a whole."""

_NAMES: Final = f"{_ONE}|C|{'|'.join(sorted(_FULL_NAMES, key=len, reverse=True))}"
_NAMED: Final = re.compile(
    rf"(?P<name>{_NAMES}){_ENDS}(?P<inverse>{_INVERSE})?(?P<power>{_POWER})?|(?P<odd>{_ONE})(?P<oddpower>[23])"
)
_COUNTED_WORD: Final = re.compile(r"\b(?:feet|[a-z]+s)\b(?= per | of | [A-Z]| (?:north|south|east|west)$|$)")
"""The word of a unit that is in the plural: "miles per hour", "square feet"."""

_POWERS: Final = {"2": "squared", "3": "cubed", "4": "to the fourth", "5": "to the fifth", "6": "to the sixth"}


def _name_unit(abbreviation: str, plural: bool) -> str:
    """Returns the name of an abbreviated unit, without its power, in singular or plural."""
    if abbreviation in UNCHANGING:
        words = UNCHANGING[abbreviation]
        return words if plural else _COUNTED_WORD.sub(_make_word_singular, words, count=1)
    if abbreviation in IRREGULAR:
        return IRREGULAR[abbreviation][plural]
    name = "coulomb" if abbreviation == "C" else REGULAR.get(abbreviation, abbreviation)
    if not plural:
        return name
    first, space, rest = name.partition(" ")
    if rest in {"mass", "force", "absolute"}:
        return f"{first}s{space}{rest}"
    if name.endswith("henry"):
        return name.removesuffix("y") + "ies"
    return {"foot": "feet", "child": "children"}.get(name, name + "s")


def _make_word_singular(match: re.Match[str]) -> str:
    """Returns the singular of a matched word: "foot" for "feet"."""
    return {"feet": "foot", "inches": "inch"}.get(match[0], match[0].removesuffix("s"))


def _name_factor(name: str, exponent: str, plural: bool) -> str:
    """Returns the name of a unit with its power: "square meters", "seconds squared"."""
    if not exponent or exponent == "1":
        return _name_unit(name, plural)
    if name in LENGTHS and exponent in {"2", "3"}:
        return f"{'square' if exponent == '2' else 'cubic'} {_name_unit(name, plural)}"
    return f"{_name_unit(name, plural)} {_POWERS[exponent]}"


def is_unit(text: str) -> bool:
    """Returns whether a text as a whole is the notation of a unit, such as "kg" or "m/s^2"."""
    return re.fullmatch(UNIT, text) is not None


def read_unit(text: str, plural: bool) -> str:
    """Returns the words of a unit that matched `UNIT`, in singular or plural.

    Raises:
        Unspeakable: `formula`: it did not match.
    """
    over, *under = text.split("/")
    tops, bottoms = [], list[tuple[str, str]]()
    for found in _split_units(over):
        if found["inverse"]:
            bottoms.append((found["name"], re.sub(r"\D", "", found["inverse"])))
        else:
            tops.append((found["name"] or found["odd"], re.sub(r"\D", "", found["power"] or found["oddpower"] or "")))
    for part in under:
        bottoms += [(each["name"] or each["odd"], re.sub(r"\D", "", each["power"] or each["oddpower"] or ""))
                    for each in _split_units(part)]  # fmt: skip
    words = [_name_factor(*each, plural=False) for each in tops[:-1]]
    words += [_name_factor(*each, plural=plural) for each in tops[-1:]]
    words += [f"per {_name_factor(*each, plural=False)}" for each in bottoms]
    return " ".join(words)


def _split_units(text: str) -> list[re.Match[str]]:
    """Returns a match of `_NAMED` for each unit of a product.

    Raises:
        Unspeakable: `formula`: there are letters or digits besides the units.
    """
    found = list(_NAMED.finditer(text))
    rest = _NAMED.sub("", text)
    if re.search(r"[A-Za-z\d°]", rest):
        raise Unspeakable("formula", text)
    return found


PLAIN_UNITS: Final = make_word_set(
    "lbs hrs kgs mins mL mph kWh kJ kPa kW yds Hz kHz MHz GHz kcal mmHg atm kVA kVAR MB GB TB"
)
"""Units that are read in full even without a number, because they are unambiguous."""

NUMBERED_UNITS: Final = make_word_set(
    "km cm mm kg mg lb hr hp nm ml ft oz kw kbps Mbps Gbps lbf lbm cc rpm mL dB cfm mol psi dm"
)
"""Units that are read in full only if something counts them, as in "how many km"; alone they may be two variables."""
