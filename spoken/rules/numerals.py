"""Spells numbers as American speakers say them: no hyphens, no commas, no "and" inside a number."""

from typing import Final

from num2words import num2words

from spoken.spoken_text import Unspeakable

MAX_DIGITS: Final = 13
"""Maximum number of digits of a whole number: ten trillion. Longer ones are not understood by ear."""

MAX_DECIMALS: Final = 12
"""Maximum number of decimals, which are read one by one."""

NUM: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
"""Pattern of a number as written, with thousands commas or a decimal point."""

_NAMED_DENOMINATORS: Final = {1: ("over one", "over one"), 2: ("half", "halves"), 4: ("quarter", "quarters")}


def _strip_hyphens(words: str) -> str:
    """Returns number words without hyphens, commas and "and"."""
    return " ".join(word for word in words.replace("-", " ").replace(",", "").split() if word != "and")


def spell_cardinal(number: int) -> str:
    """Returns a whole number, 0 or more, in words: "one thousand two hundred thirty four" for 1234.

    Raises:
        Unspeakable: `number`: it has more than `MAX_DIGITS` digits.
    """
    if len(str(number)) > MAX_DIGITS:
        raise Unspeakable("number", str(number))
    return _strip_hyphens(num2words(number))


def spell_ordinal(number: int) -> str:
    """Returns an ordinal in words: "first" for 1, "twenty second" for 22.

    Raises:
        Unspeakable: `number`: it has more than `MAX_DIGITS` digits.
    """
    if len(str(number)) > MAX_DIGITS:
        raise Unspeakable("number", str(number))
    return _strip_hyphens(num2words(number, to="ordinal"))


def spell_year(number: int) -> str:
    """Returns a year in words: "nineteen fourteen" for 1914, "nineteen oh five", "two thousand eight"."""
    return _strip_hyphens(num2words(number, to="year"))


def spell_decade(number: int) -> str:
    """Returns a decade in words: "nineteen sixties" for 1960, "twenties" for 20; `number` must end in zero."""
    words = spell_year(number)
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def spell_number(text: str) -> str:
    """Returns a written number, also with thousands commas or decimals, in words: "twenty five point three" for "25.3".

    Raises:
        Unspeakable: `number`: it begins with a needless zero, or has too many digits or decimals.
    """
    whole, _, decimals = text.replace(",", "").partition(".")
    if (len(whole) > 1 and whole.startswith("0")) or len(decimals) > MAX_DECIMALS:
        raise Unspeakable("number", text)
    spoken = spell_cardinal(int(whole or "0"))
    if not decimals:
        return spoken
    return f"{spoken} point {' '.join(spell_cardinal(int(digit)) for digit in decimals)}"


def is_one(text: str) -> bool:
    """Returns whether the singular follows a written number: only after "1", not after "1.0" or "0.5"."""
    return text == "1"


def spell_fraction(numerator: int, denominator: int) -> str:
    """Returns a fraction in words: "three quarters", "one twentieth"; the denominator must be at least 2."""
    one, many = _NAMED_DENOMINATORS.get(denominator, (spell_ordinal(denominator), spell_ordinal(denominator) + "s"))
    return f"{spell_cardinal(numerator)} {one if numerator == 1 else many}"


def spell_power(exponent: str) -> str:
    """Returns the words for an exponent, a number or letter: "squared", "to the power of minus four"."""
    if exponent in {"2", "3"}:
        return "squared" if exponent == "2" else "cubed"
    sign = "minus " if exponent.startswith("-") else ""
    size = exponent.lstrip("-+")
    return f"to the power of {sign}{size if size.isalpha() else spell_number(size)}"


START: Final = r"(?<![A-Za-z\d._^])"
"""Lookbehind: what may precede a number."""

END: Final = r"(?![\dA-Za-z_°]|[.,]\d|')"
"""Lookahead: what may follow a number."""
