"""Quantities whose unit is a letter that may be another unit, a variable or a scale: what the text is about decides.

"3 C" are degrees or coulombs, "2K" kelvin or thousands, "3s" seconds or threes, "0.8T" teslas or a variable.
"""

import re
from functools import lru_cache
from typing import Final

from spoken.rules.money import FUNCTION_WORDS, follows_as_noun, measures_noun
from spoken.rules.numerals import is_one, written_number
from spoken.rules.rule import Match, after, before, starts_sentence, topic
from spoken.rules.units import say_unit
from spoken.spoken_text import Unspeakable


@lru_cache(maxsize=64)
def _speaks_of(text: str) -> tuple[bool, bool, bool]:
    """Whether a text is about temperature, about electricity, about gravity."""
    return (
        bool(re.search(r"(?i)temperature|°|boil|melt|heat|cool|warm|oven|freez|steam|water|bath\b", text)),
        bool(re.search(r"(?i)charge|capacit|coulomb|electric|induct|circuit|field|volt|flux", text)),
        bool(re.search(r"\baccelerat|\bgravit|\bmass m\b", text)),
    )


_IN_G: Final = re.compile(r"\b(?:in|of) g ?'?s?[ -]units?\b|\bunits of g\b|\bg[- ](?:forces?|LOC|induced)\b")
_ACCELERATES: Final = re.compile(
    r"\baccelerat(?:ion|es|ing|e|ed)(?: (?:of|is|at|to|about|was|up))* (?:\d+ ?g (?:or|to|and) )?$"
)
"""What is measured in the earth's pull; no acceleration is in grams."""

_OF_ATOMS: Final = re.compile(
    r"\b(?:diameter|radius|bond length|size) of (?:an? |the )?(?:[\w-]+ )?(?:molecules?|atoms?|ions?)\b"
    r"|\b(?:atomic|ionic|covalent|molecular|van der Waals) (?:radius|radii|diameter)\b|\bbond lengths?\b"
)
_OF_CURRENT: Final = re.compile(r"\bcurrents?\b|\bamp(?:ere)?s?\b|\bcharges?\b|\bcircuits?\b")
"""Of the one a number with an A tells in angstroms, of the other in amps."""

_LETTER_UNITS: Final = {"C": ("degrees Celsius", "coulombs"), "F": ("degrees Fahrenheit", "farads")}


def say_unit_of(match: Match, plural: bool) -> str:
    """The unit of a match with the group `unit`; a single letter by what the text is about.

    Raises:
        Unspeakable: the text does not tell.
    """
    unit = match["unit"]
    hot, electric, heavy = _speaks_of(topic(match))
    if unit == "T" and not _MAGNETIC.search(topic(match)):
        return "T"
    if unit == "A" and _OF_ATOMS.search(topic(match)) and not _OF_CURRENT.search(topic(match)):
        return say_unit("Å", plural)
    if unit == "g" and heavy and (_IN_G.search(topic(match)) or _ACCELERATES.search(before(match))):
        return "g"
    if unit in {"g", "mg", "μg"} and heavy:
        raise Unspeakable("formula", match[0])  # (milli)grams, or (mass) times the earth's pull
    first = re.match(r"[CF](?![A-Za-z°])", unit)
    if first is None:
        return say_unit(unit, plural)
    if unit[0] == "C" and match.groupdict().get("exponent") is not None:
        hot, electric = False, True  # nobody writes a temperature as a power of ten
    if hot and electric and re.search(r"(?i)temperature", topic(match)):
        electric = False
    if hot == electric:
        raise Unspeakable("number", match[0])
    if electric and unit[1:2] in {"-", "×", "*", "."}:
        return say_unit(unit, plural)  # coulomb meters
    name = _LETTER_UNITS[unit[0]][electric]
    name = name if plural else name.replace("degrees", "degree").removesuffix("s" if electric else "")
    return " ".join([name, *([say_unit(unit[1:], plural=True)] if len(unit) > 1 else [])])


_OF_TIME: Final = re.compile(r"(?i)second|veloc|accelerat|speed|/s\b|time|puls|half-li|\bms\b|\(s\)|s\^")


def _plural_number(amount: str) -> str:
    """Several of a number: "3s" on dice or cards are "threes"."""
    words = written_number(amount)
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("six") else "s")


_SEVERAL: Final = re.compile(
    r"(?i)\b(?:by|of|all|many|the|two|three|four|five|six|several|any|more|less|and|gets|as|in) $|\d $|, $|^$"
)
_LASTS: Final = re.compile(
    r"(?i)\b(?:for|takes?|took|lasts?|lasted|waits?|waited|every|after|within|at|under|last) $|\bt ?[=<≤>≥] ?$"
    r"|\b(?:ran|runs?|swam|swims?|raced?|laps?)\b"
)


def _bare_s(match: Match) -> str:
    """ "3s" where nothing else tells of time: after "waits" seconds, after "four" or "by" several threes."""
    if _LASTS.search(before(match)):
        return f"{written_number(match['amount'])} {say_unit_of(match, plural=not is_one(match['amount']))}"
    if re.search(r"\d[pdf]\b", match.string[:2000]):
        return f"{written_number(match['amount'])} s"  # an orbital
    if _SEVERAL.search(before(match)):
        return _plural_number(match["amount"])
    raise Unspeakable("number", before(match)[-10:] + match[0])


@lru_cache(maxsize=256)
def _is_variable(letter: str, text: str) -> bool:
    """Whether a letter stands for a quantity somewhere in a text: "mass m", "a voltage V", "V = 3"."""
    if not re.fullmatch("[VmMWLTNAhdsg]", letter):
        return False
    named = (
        r"\b(?:mass(?:es)?|voltage|difference|lengths?|force|weight|area|width|period|volume|radius|distance"
        r"|height) \$?"
        rf"{letter}(?![\w'°])"
    )
    return re.search(rf"{named}|(?<![\w.)\]}}^/] )(?<![\w.^/\]]){letter} ?=", text) is not None


_THOUSANDS: Final = re.compile(
    r"(?i)\b(?:earns?|earned|pays?|paid|costs?|sal(?:ary|aries)|spends?|spent|saved?|owes?|dollars?|runs?|race"
    r"|followers|subscribers|views)\b"
)
_OF_HEAT: Final = re.compile(
    r"(?i)kelvin|thermal|entrop|gas\b|isotherm|adiabat|blackbody|\batm|\d K\b|[/-]K\b|supercond|radiat|pressure"
    r"|\bT ?=|\bT_|star|spectr"
)


_MAGNETIC: Final = re.compile(
    r"(?i)magnet|tesla|\bfield|NMR|flux|coil|solenoid|induct|wire|\bB ?=|cyclotron|MRI|spin|proton|electron"
)


def _bare_kelvin(match: Match) -> str:
    """ "2K": kelvin where the text is about heat, thousands of money or people, potassium in a reaction."""
    if re.match(r" ?(?:\+|→|⇌|=)", after(match)) or re.search(r"[+→] $", before(match)):
        return f"{written_number(match['amount'])} K"
    is_hot = _speaks_of(topic(match))[0] or _OF_HEAT.search(topic(match)) is not None
    if is_hot == (_THOUSANDS.search(topic(match)) is not None):
        is_hot = re.search(r"\d{3}|\.", match["amount"]) is not None
        if not is_hot:
            raise Unspeakable("number", before(match)[-10:] + match[0])
    return f"{written_number(match['amount'])} {'kelvin' if is_hot else 'thousand'}"


_MEASURED: Final = re.compile(
    r" (?:(?:steel|copper|iron|wooden|metal|plastic|light|round|square) )?(?:angles?|bulbs?|lamps?|resistors?"
    r"|capacitors?|inductors?|batter(?:y|ies)|suppl(?:y|ies)|heaters?|motors?|pipes?|tubes?|rulers?|pieces|boards?"
    r"|bolts?|nails?|screws?|planks?|tiles?|strips?|cubes?|pizzas?|bottles?|jars?|bags?|jugs?|pans?|race|speed limits?)"
    r"(?![\w-])"
)
"""What a quantity stands before to describe it, with or without an article: "two 60 W bulbs"."""

_OWNER: Final = re.compile(r"\b(?:his|her|my|our|your|their) $")
_HOW_LARGE: Final = re.compile(r" (?:long|tall|wide|high|deep|thick) [a-z]{3,}")
_SIDE: Final = r"\d[\d.]* ?-?(?:[ckm]?m|ft|in|inch|foot|yd)\.?"
_OF_ONE: Final = re.compile(rf"(?i)\b(?:an?|the|each|this|one) (?:{_SIDE} ?(?:by|x|×) ?)*$")
_BY_SIDES: Final = re.compile(rf"((?: ?(?:by|x|×) ?{_SIDE})*) ([a-z]{{3,}})")
_HAS_SIZE: Final = re.compile(r"\b(?:has|have|having|with|of|through|by) $")
_ON_THE_SKY: Final = re.compile(r"(?i)\barc\b|\barc-?sec|parallax|telescop|subtend|angular (?:size|diam|res|sep)")
"""Of such a text nobody can tell inches from seconds of an arc."""


def _is_noun(word: str) -> bool:
    return word not in FUNCTION_WORDS and not word.endswith(("ed", "ing", "ly"))


def _is_side(match: Match) -> bool:
    """Whether a length is a side of what "a 4 m by 3 m room" describes."""
    sides, beyond = _OF_ONE.search(before(match)), _BY_SIDES.match(after(match))
    if sides is None or beyond is None or not (beyond[1] or re.search("by|x|×", sides[0])):
        return False
    return _is_noun(beyond[2])


def _is_thick(match: Match) -> bool:
    """ "has 0.2 mm thick glass": how large what follows is."""
    thing = re.match(r" (?:long|wide|high|deep|thick) ([a-z]{3,})", after(match))
    return thing is not None and _is_noun(thing[1]) and not re.search("[^s]s$", thing[1])


def describes(match: Match) -> bool:
    """Whether a quantity stands before the noun that it describes, so that its unit is said in the singular."""
    if _is_side(match):
        return True
    if re.match(r" ?[x×] ?\d", after(match)):
        return False
    return (
        follows_as_noun(match)
        or measures_noun(match)
        or _MEASURED.match(after(match)) is not None
        or (re.search(r"\ban? $", before(match)) is not None and re.match(" [A-Z][A-Za-z]", after(match)) is not None)
        or (_OWNER.search(before(match)) is not None and _HOW_LARGE.match(after(match)) is not None)
        or (_HAS_SIZE.search(before(match)) is not None and _is_thick(match))
    )


_SQUARE: Final = re.compile(r"([A-Za-z]) ?\^? ?\{? ?([23]) ?\}? ?")
"""A letter in whose powers a sum goes on is no unit: "3 m^2 + m"."""


def say_quantity(match: Match) -> str:
    """A number and what follows it, as a quantity if that is a unit there.

    Raises:
        Unspeakable: it may be one of two units, or none.
    """
    if match["unit"] == "″" and _ON_THE_SKY.search(topic(match)):
        raise Unspeakable("number", before(match)[-10:] + match[0])
    if (term := _SQUARE.fullmatch(match["unit"])) and re.match(rf" ?[-+] ?[\d.]* ?{term[1]}(?![\w/^°'])", after(match)):
        return f"{written_number(match['amount'])} {term[1]} {'squared' if term[2] == '2' else 'cubed'}"
    if len(match["unit"]) == 1 and re.search(rf"\d ?{match['unit']}\^[23] ?[-+] ?$", before(match)):
        return f"{written_number(match['amount'])} {match['unit']}"
    if match["unit"] == "K" and not match["gap"]:
        return _bare_kelvin(match)
    if match["unit"] == "s" and not match["gap"] and not re.search(_OF_TIME, topic(match)):
        return _bare_s(match)
    if match["unit"] == "s" and not match["gap"] and re.search(r"\(s\)|s\^2", topic(match)):
        return f"{written_number(match['amount'])} s"  # the Laplace transform's variable
    if (absolute := re.fullmatch(r"T(?:\^?([23]))?", match["unit"])) and not _MAGNETIC.search(topic(match)):
        raised = {"2": " squared", "3": " cubed"}.get(absolute[1] or "", "")
        return f"{written_number(match['amount'])} T{raised}"
    if not match["gap"] and _is_variable(match["unit"], topic(match)):
        return f"{written_number(match['amount'])} {match['unit']}"
    if match["unit"] == "g" and not match["gap"] and re.search(r"\d[spdf] ?[<=>] ?$", before(match)):
        return f"{written_number(match['amount'])} g"  # a shell of electrons
    singular = is_one(match["amount"]) or match["gap"] == "-" or describes(match)
    stop = "." if match["unit"].endswith(".") and starts_sentence(after(match)) else ""
    return f"{written_number(match['amount'])} {say_unit_of(match, plural=not singular)}{stop}"
