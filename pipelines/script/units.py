"""Units of measure after a number: "5 kg" is "five kilograms", "3 m/s^2" is "three meters per second squared"."""

import re
from typing import Final

from pipelines.script.spoken import Unspeakable, word_set

_REGULAR: Final = {
    "mm": "millimeter", "cm": "centimeter", "dm": "decimeter", "m": "meter", "km": "kilometer", "nm": "nanometer",
    "um": "micrometer", "mg": "milligram", "g": "gram", "gm": "gram", "kg": "kilogram", "ug": "microgram",
    "ng": "nanogram", "ml": "milliliter", "mL": "milliliter", "cl": "centiliter", "l": "liter", "L": "liter",
    "kL": "kiloliter", "s": "second", "sec": "second", "secs": "second", "ms": "millisecond", "ns": "nanosecond",
    "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "wk": "week", "yr": "year",
    "yrs": "year", "yd": "yard", "yds": "yard", "mi": "mile", "lb": "pound", "lbs": "pound", "lbm": "pound",
    "kgs": "kilogram", "Ω": "ohm", "kΩ": "kilohm", "Å": "angstrom", "μm": "micrometer", "μg": "microgram",
    "μs": "microsecond", "μC": "microcoulomb", "nC": "nanocoulomb", "mH": "millihenry", "μF": "microfarad",
    "pF": "picofarad", "coul": "coulomb", "amu": "atomic mass unit", "oz": "ounce", "pt": "pint", "qt": "quart",
    "qts": "quart", "gal": "gallon", "tsp": "teaspoon", "tbsp": "tablespoon", "J": "joule", "kJ": "kilojoule",
    "MJ": "megajoule", "cal": "calorie", "kcal": "kilocalorie", "eV": "electron volt", "keV": "kilo electron volt",
    "MeV": "mega electron volt", "W": "watt", "mW": "milliwatt", "kW": "kilowatt", "MW": "megawatt",
    "kWh": "kilowatt hour", "V": "volt", "mV": "millivolt", "kV": "kilovolt", "mA": "milliamp", "A": "amp",
    "amps": "amp", "N": "newton", "kN": "kilonewton", "Pa": "pascal", "kPa": "kilopascal", "MPa": "megapascal",
    "GPa": "gigapascal", "atm": "atmosphere", "mol": "mole", "moles": "mole", "mmol": "millimole", "kmol": "kilomole",
    "rad": "radian", "dyn": "dyne", "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
    "TB": "terabyte", "ohm": "ohm", "ohms": "ohm",
}  # fmt: skip
_UNCHANGING: Final = {
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "K": "kelvin", "kW-h": "kilowatt hours",
    "mph": "miles per hour", "MPH": "miles per hour", "hp": "horsepower", "fps": "feet per second", "T": "tesla",
    "psia": "pounds per square inch absolute", "Mbps": "megabits per second", "sq ft": "square feet",
    "sq. ft": "square feet", "cu ft": "cubic feet", "cu. ft": "cubic feet", "ft-lb": "foot pounds",
    "ft-lbs": "foot pounds", "kW-hr": "kilowatt hours",
    "mpg": "miles per gallon", "rpm": "revolutions per minute", "torr": "torr", "bar": "bar",
    "kph": "kilometers per hour", "psi": "pounds per square inch", "mmHg": "millimeters of mercury", "dB": "decibels",
    "ppm": "parts per million", "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "°K": "kelvin",
    "bps": "bits per second", "°": "degrees",
}  # fmt: skip
_IRREGULAR: Final = {"ft": ("foot", "feet"), "in": ("inch", "inches"), "inch": ("inch", "inches")}
_FULL_NAMES: Final = sorted(
    word_set(
        "meter liter gram kilogram second minute hour day week month year mile foot inch pound ounce mole joule volt "
        "watt gallon person page box bag piece kilometer centimeter unit item night cup quart bottle bushel share "
        "student game class lesson acre book ticket kilowatt"
    )
)
_LENGTHS: Final = frozenset({"mm", "cm", "dm", "m", "km", "nm", "ft", "in", "inch", "yd", "mi"})

_ABBREVIATIONS: Final = sorted({*_REGULAR, *_UNCHANGING, *_IRREGULAR}, key=len, reverse=True)
_ONE: Final = "(?:" + "|".join(map(re.escape, _ABBREVIATIONS)) + ")"
_POWER: Final = r"(?:\^?\{?[23]\}?)?"
_JOINT: Final = r"(?: ?[×*] ?| )"
_UNDER: Final = rf"{_JOINT}{_ONE}\^(?:-[1-3]|\{{ ?-[1-3] ?\}})"
_DENOMINATOR: Final = rf"(?: ?/ ?(?:{_ONE}|{'|'.join(_FULL_NAMES)}){_POWER}(?![A-Za-z])|(?:{_UNDER}){{1,3}})"
_PRODUCT: Final = rf"(?:k?N|kg|[mk]?W|m?A|Pa|J|C){_JOINT}(?:hr?|m|s)"
_INVERSE: Final = r"(?:s|min|hr?|yr|[ckmn]m|mol)\^(?:-1|\{ ?-1 ?\})"
_NO_MORE: Final = (
    r"(?![A-Za-z0-9^({]|-[0-9A-Za-z]| ?/ ?(?:[A-Za-z]{1,2}\b|\d)"
    rf"| ?/ ?{_ONE}(?![A-Za-z])| {_ONE}(?:\^|-\d| ?/)| ?[×*] ?{_ONE}(?![A-Za-z]))"
)
UNIT: Final = rf"(?:{_PRODUCT}|{_ONE}){_POWER}(?![A-Za-z]){_DENOMINATOR}?{_NO_MORE}|(?<= ){_INVERSE}{_NO_MORE}"
"""Pattern of a unit as it may stand after a number: alone, times another, or over one by a slash or powers below zero.

Only products in use are taken ("N·m", "kW h"); one over a unit needs a space before it ("3 s^-1", but not "3s^-1").
"""

UNIT_BEYOND: Final = (
    rf"{_ONE}(?:\^|/| ?/ ?[A-Za-z]{{1,2}}\b| ?[×*] ?{_ONE}(?![A-Za-z])| {_ONE}(?:\^|-\d| ?/ ?[A-Za-z]{{1,3}}\b))"
)
"""Start of a unit that `UNIT` did not match as a whole."""

_PARTS: Final = re.compile(r"(?P<name>[^\d^{}]+)\^?\{?(?P<power>[23]?)\}?")


def _name(abbreviation: str, plural: bool) -> str:
    if abbreviation in _UNCHANGING:
        words = _UNCHANGING[abbreviation]
        return words if plural else re.sub(r"^(degree|feet|mile)s?\b", lambda m: m[1].replace("feet", "foot"), words)
    if abbreviation in _IRREGULAR:
        return _IRREGULAR[abbreviation][plural]
    return _REGULAR.get(abbreviation, abbreviation) + ("s" if plural else "")


def _factor(text: str, plural: bool) -> str:
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise Unspeakable("formula", text)
    name, exponent = parts["name"], parts["power"]
    if not exponent:
        return _name(name, plural)
    if name in _LENGTHS:
        return f"{'square' if exponent == '2' else 'cubic'} {_name(name, plural)}"
    return f"{_name(name, plural)} {'squared' if exponent == '2' else 'cubed'}"


def say_unit(text: str, plural: bool) -> str:
    """The words of a unit that matched `UNIT`, in the singular or the plural."""
    text = re.sub(
        rf"(?:^|{_JOINT})({_ONE})\^\{{? ?-([1-3])(?: ?\}})?", lambda m: f"/{m[1]}{m[2] if m[2] != '1' else ''}", text
    )
    over, *under = (part.strip() for part in text.split("/"))
    factors = re.split(r" ?[×*] ?| (?=(?:hr?|m|s)\b)", over) if re.match(_PRODUCT, over) else [over]
    first = [_factor(factor, plural=False) for factor in factors[:-1]]
    last = [_factor(factors[-1], plural)] if over else []
    return " ".join([*first, *last, *(f"per {_factor(factor, plural=False)}" for factor in under)])


PLAIN_UNITS: Final = word_set("lbs hrs kgs mins mL mph kWh kJ kPa kW yds")
"""Units said in full even without a number before them, for they can be nothing else."""

NUMBERED_UNITS: Final = word_set("km cm mm kg mg lb hr hp nm ml ft oz")
"""Units said in full only where something counts them, as in "how many km": alone they may be two variables."""
