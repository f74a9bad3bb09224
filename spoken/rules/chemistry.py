"""Chemical formulas, ions, states and isotopes: "H2SO4" is "H two S O four"."""

import re
from typing import Final

from spoken.rules.elements import NAMES
from spoken.rules.maths import spell_charge
from spoken.rules.numerals import spell_cardinal
from spoken.rules.rule import Match, Rule, make_refusal, make_rule
from spoken.spoken_text import Unspeakable

_ELEMENT: Final = f"(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})"
_COUNT: Final = r"(?:_ ?\{? ?\d{1,3} ?\}?|\d{1,3})"
_ATOMS: Final = rf"(?:{_ELEMENT}{_COUNT}?)"
COMPOUND: Final = re.compile(rf"(?:{_ATOMS}{{2,14}}|(?:H|O|N|F|Cl|Br|I|D|S|P)_?\{{?[2348]\}}?)")
_CHARGE: Final = (
    r"(?:\^(?P<brace>\{ ?)?(?P<size>[1-7]?)(?P<sign>[+-])(?P<sign2>[+-])?(?(brace) ?\})|\^\{?(?P<sign3>[+-])"
    r"(?P<size3>[1-7])\}?)"
    r"(?! ?[\d{]| [a-z]\b| \(|\((?! ?~?(?:aq|[gsl] ?\))))"
)
_STATE: Final = r" ?\( ?(?:g|s|l|aq|gas|solid|liquid) ?\)"
_STATES: Final = {"g": "gas", "s": "solid", "l": "liquid", "aq": "aqueous"}
_IONS: Final = (
    "Cl|Br|I|F|OH|CN|SH|NO_?[23]|HS?CO_?3|HSO_?[34]|MnO_?4|ClO_?[34]?|SCN|CH_?3COO|NH_?2|H|Na|K|Li|Ag|H_?3O|NH_?4"
    "|Rb|Cs|Cu"
)


def spell_compound(text: str) -> str:
    """Returns the letters and counts of a chemical formula in words: "H2SO4" is "H two S O four".

    Raises:
        Unspeakable: `code`: a count begins with 0.
    """
    spoken: list[str] = []
    for piece in re.findall(rf"{_ELEMENT}|\d+", text):
        if piece.startswith("0"):
            raise Unspeakable("code", text)
        spoken += [spell_cardinal(int(piece))] if piece.isdigit() else list(piece.upper())
    return " ".join(spoken)


def _read_compound(match: Match) -> str:
    """Reads a chemical formula with its charge and state, if it has these."""
    said = spell_compound(match["formula"])
    if sign := match["sign"] or match["sign3"]:
        size = match["size"] or match["size3"] or ("2" if match["sign2"] else "")
        said += f" {spell_charge(size, sign)}"
    if match["state"]:
        state = re.sub(r"[^a-z]", "", match["state"])
        said += f" {_STATES.get(state, state)}"
    return said


def _read_ion(match: Match) -> str:
    """Reads an ion with a charge of one: "Na+" is "N A plus"."""
    return f"{spell_compound(match[1])} {spell_charge('', match[2])}"


def _read_name(match: Match) -> str:
    """Reads names of letters and digits: "B12", "CD4", "p53", "G6PD".

    Raises:
        Unspeakable: `code`: it has more than six pieces, or a number with a leading zero.
    """
    pieces = re.findall(r"[A-Z]?[a-z]{2,}|[A-Za-z]+|\d+", match[0])
    if len(pieces) > 6 or any(len(piece) > 1 and piece.startswith("0") for piece in pieces):
        raise Unspeakable("code", match[0])
    said = []
    for piece in pieces:
        if piece.isdigit():
            said.append(spell_cardinal(int(piece)))
        elif len(piece) > 1 and (piece.isupper() or not re.search("[aeiouy]", piece)):
            said.append(piece if piece.isupper() and match[0].startswith(piece) and len(piece) > 2 else " ".join(piece))
        else:
            said.append(piece)
    return " ".join(said)


_SURE: Final = "Na|Fe|Cu|Ag|Ca|Mn|Hg|Pt|Sn|Zn|Cd|Rb|Cs|Rn|Pb|Mg|Br|Cl|Kr|Sr|Pd"
"""Symbols that are neither words nor variables."""

_NOT_A_WORD: Final = (
    r"(?![ABD-Z]\(s\)|C\(s\)(?! ?[+→=]))(?!(?:I|In|As|At|He|Be|No|Y|U|V|W|D|Po|Co|La|S|C|N|B|P|K|H|O|F)(?![\w^(]))"
    r"(?![A-Z]_?\{?\d+\}?(?![\w^(]| ?\())"
)
_STANDS: Final = r"(?<![A-Za-z\d_.])"
_FOLLOWS: Final = r"(?<![A-Za-z_.])(?<!\.\d)(?<!\.\d\d)"

CHEMISTRY_RULES: Final[list[Rule]] = [
    make_refusal("isotope or unit", "formula",
            rf"(?<![\w.,$])\d{{2,3}}(?:{_SURE}|Co|Xe|Ra|Po|He|Li|Ar|Al|Si|Ni)(?![\w^'_(])"
            r"|(?<!\w)(?:He|In|As|At|Be|No)-\d", "a 60Co source"),
    make_refusal("alleles", "formula", r"(?<![A-Za-z\d'])([A-Z])(?=[a-z](?![A-Za-z\d'^_]))(?i:\1)(?<!Aa|Mm|Ee|Oo|Ii)",
            "the Bb parent"),
    make_refusal("charge behind a count", "formula",
            rf"{_STANDS}{_ATOMS}{{1,6}}(?:\d[1-4][+-](?![\w(])|[+-]\((?:aq|g|s|l)\))", "the ion SO42-"),
    make_refusal("mass behind its element", "formula",
            rf"{_STANDS}(?:(?:{_SURE}|[A-Z][a-z]|U|C)\^\{{?\d{{2,3}}(?![\d+-])|{_ELEMENT} ?\^ ?\{{?\d+\}}? ?[A-Z])",
            "Au^197"),
    make_refusal("label", "code", r"(?<![\w-])[A-Z]-\d{1,2}[A-Z](?!\w)|(?<!\w)Ha(?=:)", "an H-1B form"),
    make_refusal("isomer", "formula", rf"[RSEZ+-]\)-\d|{_STANDS}{_ELEMENT}-\d+m(?!\w)", "(R)-2-butanol"),
    make_refusal("letters told by their case", "formula",
            r"(?<![\w\\^'])([A-Za-z]) ?[<>≤≥/] ?(?!\1)(?i:\1)(?![\w'(^])", "where r < R"),
    make_rule("ion", "word", rf"{_STANDS}({_IONS})([+-])(?=$|[,.;:)\]/?]| (?![A-Z\d(+=]|[a-z] ))", _read_ion,
         "Na+ and Cl- ions", "N A plus and C L minus ions"),
    make_refusal("bond of two atoms", "formula", rf"{_STANDS}{_ELEMENT} [-—] {_ELEMENT} bond", "the C - H bond"),
    make_refusal("group of atoms", "formula", rf"{_ATOMS}{{1,6}}\({_ATOMS}{{1,8}}\)_?\{{?\d", "it has Al(OH)_3"),
    make_refusal("value behind a charge", "formula", rf"{_ATOMS}\^?\{{?[+-]\}}? ?\(\d", "the value of H_2^{+}(2.6 eV)"),
    make_refusal("charge that may be a hyphen", "formula", rf"{_STANDS}(?=[A-Za-z_]*\d){_ATOMS}{{2,6}}-(?=[ ,.;:)?]|$)",
            "the ion BrO3- here"),
    make_rule("chemical formula", "word",
         rf"{_FOLLOWS}{_NOT_A_WORD}(?P<formula>(?=[^\s]{{0,60}}\d|[A-Za-z()]{{1,60}}(?:\^\{{? ?\d?[+-]|{_STATE}))"
         rf"{_ATOMS}{{1,14}})"
         rf"(?:{_CHARGE})?(?P<state>{_STATE})?(?![A-Za-z_]|\()", _read_compound,
         "CO_2 (g) and Fe^{3+}", "C O two gas and F E three plus"),
    make_rule("element", "word",
         rf"(?<![A-Za-z\d_/])(?<!/\()(?<!/ )(?:{_SURE})(?![A-Za-z\d_^'(/])", lambda m: NAMES[m[0]],
         "Na and Zn", "sodium and zinc"),
    make_rule("name with a number", "word",
         r"(?<![A-Za-z\d_])(?:[A-Z][A-Za-z]{0,4}|[a-z]{1,3})\d{1,4}(?:[A-Z][A-Za-z]{0,3}\d{0,2})?[a-z]?(?![\w^(/])",
         _read_name, "vitamin B12 and p53", "vitamin B twelve and p fifty three"),
]  # fmt: skip
"""Tried before words."""
