"""Chemical formulas, ions, states, isotopes, and the letters of genes: "H2SO4" is "H two S O four"."""

import re
from typing import Final

from spoken.rules.elements import NAMES, masses_of
from spoken.rules.maths import charge
from spoken.rules.numerals import cardinal
from spoken.rules.rule import Match, Rule, after, before, rule
from spoken.spoken_text import Unspeakable

_ELEMENT: Final = f"(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})"
_TWO: Final = f"(?:{'|'.join(name for name in NAMES if len(name) > 1 and name not in {'He', 'In', 'As', 'At', 'Be'})})"
_COUNT: Final = r"(?:_ ?\{? ?\d{1,3} ?\}?|\d{1,3})"
_ATOMS: Final = rf"(?:{_ELEMENT}{_COUNT}?)"
_GROUP: Final = rf"(?:\({_ATOMS}{{1,8}}\)_?\{{?\d{{1,2}}\}}?)"
_FORMULA: Final = rf"(?:{_ATOMS}|{_GROUP} ?){{1,14}}"
COMPOUND: Final = re.compile(rf"(?:{_ATOMS}{{2,14}}|(?:H|O|N|F|Cl|Br|I|D|S|P)_?\{{?[2348]\}}?)")
_CHARGE: Final = (
    r"(?:\^(?P<brace>\{ ?)?(?P<size>[1-7]?)(?P<sign>[+-])(?P<sign2>[+-])?(?(brace) ?\})|\^\{?(?P<sign3>[+-])"
    r"(?P<size3>[1-7])\}?)"
    r"(?! ?[\d{]| [a-z]\b| \(|\((?! ?~?(?:aq|[gsl] ?\))))"
)
_STATE: Final = r"(?P<state> ?\( ?~? ?(?:g|s|l|aq|solution|gas|solid|liquid)\.? ?\))"
_STATES: Final = {"g": "gas", "s": "solid", "l": "liquid", "aq": "aqueous", "solution": "in solution"}
_IONS: Final = (
    "Cl|Br|I|F|OH|CN|SH|NO_?[23]|HS?CO_?3|HSO_?[34]|MnO_?4|ClO_?[34]?|SCN|CH_?3COO|NH_?2|BrO_?3|IO_?[34]|HCO_?3|X|Cl_?2"
    "|A|RO|H_?2PO_?4|HPO_?4|PO_?[34]|SO_?[34]|PF_?6|BF_?4"
)
_CATIONS: Final = "H|Na|K|Li|Ag|H_?3O|NH_?4|NADP?|Rb|Cs|Cu|FAD"
_DIVALENT: Final = r"(?:Ca|Mg|Zn|Fe|Cu|Mn|Ba|Sr|Ni|Co|Sn|Pb|Hg|Cd|Al|Cr|Ce|Ti|V)[234]"


def spell_compound(text: str) -> str:
    """The letters and counts of a chemical formula; a group in brackets is said with how often it stands there."""
    spoken: list[str] = []
    for piece in re.findall(rf"\({_ATOMS}+\)_?\{{?\d*\}}?|{_ELEMENT}|\d+", text):
        if piece.startswith("("):
            inner, _, count = piece[1:].partition(")")
            n_times = re.sub(r"\D", "", count)
            said = spell_compound(inner)
            times = [cardinal(int(n_times))] if n_times not in {"", "1"} and inner.isalpha() else _times(n_times)
            spoken += [",", said, *times, ","]
        elif piece.isdigit():
            if piece.startswith("0"):
                raise Unspeakable("code", text)
            spoken.append(cardinal(int(piece)))
        else:
            spoken += list(piece.upper())
    return " ".join(spoken)


def _times(count: str) -> list[str]:
    if not count or count == "1":
        return []
    return ["twice"] if count == "2" else [f"{cardinal(int(count))} times"]


def _compound(match: Match) -> str:
    """A formula with digits, brackets, charge or state; a bare capital before a state is an element."""
    said = spell_compound(match["formula"])
    groups = match.groupdict()
    sign = groups.get("sign") or groups.get("sign3")
    if sign:
        size = groups.get("size") or groups.get("size3") or ("2" if groups.get("sign2") else "")
        said += f" {charge(size, sign)}"
    if groups.get("state"):
        said = said.rstrip(" ,") + f", {_STATES.get(re.sub(r'[^a-z]', '', groups['state']), '')},"
    return said


def _plain_ion(match: Match) -> str:
    body = match[1]
    size = body[-1] if re.fullmatch(_DIVALENT, body) else ""
    name = body[:-1] if size else body
    letters = spell_compound(name) if re.fullmatch(_FORMULA, name) else " ".join(name.replace("_", ""))
    return f"{letters} {charge(size, match[2])}"


def _isotope(match: Match) -> str:
    return f"{NAMES[match['symbol']]} {cardinal(int(match['mass']))}"


def _stereo(match: Match) -> str:
    """ "(2R,3S)-" before the name of a substance: letters and places, no brackets and no minus."""
    names = {"+": "plus", "-": "minus", "±": "plus minus"}
    marks = [names.get(mark, mark) for mark in re.findall(r"\d+|[A-Z]|[-+±]|,", match["marks"])]
    said = [cardinal(int(mark)) if mark.isdigit() else mark for mark in marks]
    return " ".join([*said, ","] if "," in said else said)


def _substitution(match: Match) -> str:
    """ "Asp235Phe": the two amino acids letter by letter, as their codes are written, with the place between."""
    return f"{' '.join(match[1].upper())} {cardinal(int(match[2]))} {' '.join(match[3].upper())}"


def _told_isotope(match: Match) -> str:
    symbol, _, mass = match[1].partition("-")
    return f"{NAMES[symbol]} {cardinal(int(mass))}{' M' if match[2] else ''}"


def _element(match: Match) -> str:
    return NAMES[match[0]]


def _symbol_named(match: Match) -> str:
    """A symbol that could be a word, in letters where its element is named in the text."""
    is_named = NAMES[match[0]] in match.string[:4000].lower()
    return spell_compound(match[0]) if is_named else match[0]


def _listed_element(match: Match) -> str:
    """The last of a list of elements: "Al, Co"; a person's name after other words."""
    is_listed = re.search(rf"(?<![A-Za-z]){_ELEMENT}(?:_?\d)?(?:,| [<>]) $", before(match)) is not None
    return NAMES[match[0]] if is_listed else match[0]


def _allele(match: Match) -> str:
    """Genes in letters: "Bb" is "big B little b"."""
    return " ".join(f"{'big' if char.isupper() else 'little'} {char}" for char in match[0])


def _mixed_letters(match: Match) -> str:
    """Letters and digits that are a name: "B12", "CD4", "p53", "G6PD", "Asp235Phe"."""
    text = match[0].replace("_", "")
    pieces = re.findall(r"[A-Z]?[a-z]{2,}|[A-Za-z]+|\d+", text)
    if len(pieces) > 6 or any(len(piece) > 1 and piece.startswith("0") for piece in pieces):
        raise Unspeakable("code", match[0])
    said = []
    for piece in pieces:
        if piece.isdigit():
            said.append(cardinal(int(piece)))
        elif len(piece) > 1 and (piece.isupper() or not re.search("[aeiouy]", piece)):
            said.append(piece if piece.isupper() and text.startswith(piece) and len(piece) > 2 else " ".join(piece))
        else:
            said.append(piece)
    return " ".join(said)


_SPOKEN_OF: Final = [symbol for symbol in NAMES if len(symbol) > 1 or symbol in "CIKU"]
_ISOTOPES: Final = "|".join(f"{symbol}-(?:{'|'.join(map(str, masses_of(symbol)))})" for symbol in _SPOKEN_OF)
"""Of the other single letters there are more models, vitamins and cells: "F-18", "B-12", "H-2"."""

_AMINO_ACID: Final = "(?:Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val)"
_NOT_A_WORD: Final = (
    r"(?![ABD-Z]\(s\)|C\(s\)(?! ?[+→=]))(?!(?:I|In|As|At|He|Be|No|Y|U|V|W|D|Po|Co|La|S|C|N|B|P|K|H|O|F)(?![\w^(]))"
)
_STANDS: Final = r"(?<![A-Za-z\d_.])"
_FOLLOWS: Final = r"(?<![A-Za-z_.])(?<!\.\d)(?<!\.\d\d)"
_UNITS: Final = r"\d{1,2}(?:NC|PC|CC|HP|Hz|Pa|PM|V|W|K|N|C|F|BC|BP|CPU|In|IN|NOS)\b"

ISOTOPE_RULES: Final[list[Rule]] = [
    rule("word", rf"(?<![A-Za-z\d)])_\{{?\d{{1,2}}\}}?(?P<symbol>{_ELEMENT})\^?\{{?(?P<mass>\d{{1,3}})\}}?"
         rf"(?![A-Za-z\d])", _isotope),
    rule("word", rf"(?<![A-Za-z\d)])_\{{?\d{{1,2}}\}}?\^?\{{?(?P<mass>\d{{1,3}})\}}?(?P<symbol>{_ELEMENT})"
         rf"(?![A-Za-z\d])", _isotope),
    rule("word", rf"(?<![A-Za-z\d)])\(?\^ ?\{{? ?(?P<mass>\d{{1,3}}) ?\}}?(?: ?_ ?\{{?\d{{1,2}}\}}?)?\)?"
         rf"(?P<symbol>{_ELEMENT})"
         r"(?![A-Za-z\d])", _isotope),
    rule("word", r"(?<![A-Za-z\d])Rh(?=[- ](?:neg|pos|factor|antigen|type|blood|incompat|immun|disease|D\b|status))",
         "R H"),
    rule("word", r"(?<![\w.,$])(?P<mass>12[3-9]|131)(?P<symbol>I)(?= ?[a-z-])", _isotope),
    rule("word", r"(?<![\w.,$])(?<![-+=×] )"
         r"(?P<mass>(?:3|4|1[1-9]|2[1-9]|3[1-9]|4[0-9]|5[0-9]|6[0-9]|9[09]|1[0-9]\d|2[0-4]\d))"
         r"(?P<symbol>He|Li|Na|Cl|Mn|Fe|Co|Xe|Kr|Sr|Cs|Ra|Rn|Po|Pb|U|P|N|C(?= (?:NMR|nucl|isotop|dating|atom))|Ar"
              r"|Mg|Al|Si|Ni|Cu|Zn)"
         r"(?![\w^'_(]| ?[-+=])", _isotope),
    rule("word", r"(?<![\w.,$])(?P<mass>1|2|3|6|7|9|1[0-9])(?P<symbol>H|C|N|O|F|B|Li|Be)(?= (?:NMR|nucl|isotop"
         r"|magnet|Larmor|spect|hyperf"
         r"|spin|signal|atom|chemical shift|and (?:\d{1,2})(?:H|C|N|F|P)\b))", _isotope),
]  # fmt: skip
"""Tried before quantities, which begin with a number too."""

CHEMISTRY_RULES: Final[list[Rule]] = [
    rule("word", rf"{_STANDS}(?P<symbol>{_TWO}|U|C|H|N|O)\^\{{?(?P<mass>\d{{2,3}})\}}?(?![\w^+-])", _isotope),
    rule("word", r"(?<![\w)])\((?P<marks>\d{0,2}[RSEZ](?:, ?\d{0,2}[RSEZ])*|[-+±])\)-(?=\d[\d, ]*-[a-z]|[a-z]{5})",
         _stereo),
    rule("word", rf"{_STANDS}({_ISOTOPES})(m?)(?![\w^])", _told_isotope),
    rule("word", rf"{_STANDS}({_DIVALENT})([+-])(?![\w(+]| ?\d)", _plain_ion),
    rule("word", rf"{_STANDS}({_CATIONS}) ?(\+)(?=$|[,.;:)\]/?]| (?![A-Z\d(+=]|[a-z] ))", _plain_ion),
    rule("word", rf"{_STANDS}({_IONS})(-)(?=$|[\s,.;:)\]?](?! ?[\d(]))", _plain_ion),
    rule("word", rf"{_STANDS}(HPO|SO|CO|PO|C2O|Cr2O|CrO|S2O|SiO)(\d)([23])([-+])(?![\w(])",
         lambda m: f"{spell_compound(m[1] + m[2])} {charge(m[3], m[4])}"),
    rule("variable", r"(?<![A-Za-z\d_.])([B-DF-HJ-NP-Z])(?=_ ?(?:1?\d|\{ ?1?\d ?\})"
         r"(?![A-Za-z\d^]| [A-Z][a-z]?(?:_|\()| ?\( ?~? ?(?:aq|[gsl]) ?\)))",
         lambda m: m[1]),
    rule("word", rf"{_FOLLOWS}{_NOT_A_WORD}(?P<formula>(?=[^\s]*[\d)])(?:{_ATOMS}|{_GROUP}){{1,14}})"
         rf"(?:{_CHARGE})?{_STATE}?"
         r"(?![A-Za-z_]|\()", lambda m: _checked(m)),
    rule("variable", r"(?<![A-Za-z\d_.])([A-Z])\(s\)(?! ?[\u2192+])(?<!C\(s\))", lambda m: f"{m[1]} of s"),
    rule("word", rf"{_FOLLOWS}(?P<formula>{_ATOMS}{{1,8}})(?=\^| ?\()(?:{_CHARGE}?)?{_STATE}?(?<=[)}}+\-\d])"
         rf"(?![A-Za-z\d^_])",
         _compound),
    rule("number", rf"(?<![\w.,])[1-9]\d?(?=(?:{_ATOMS}{{2,10}}|{_GROUP}|(?:H|O|N|F|Cl|Br|I)_?2){{1,4}}(?:[ ^(]|$))"
         rf"(?!{_UNITS})", lambda m: cardinal(int(m[0]))),
    rule("word", r"(?<![A-Za-z\d])([A-Z])(?=[a-z](?![A-Za-z\d^_']))(?i:\1)(?<!Aa)(?<!Mm)(?<!Ee)(?<!Oo)(?<!Ii)"
         r"(?![A-Za-z\d])",
         _allele),
    rule("word", rf"(?<![\w.,]){_TWO}(?=(?:,| >| <|,? and) {_ELEMENT}(?:_?\d)?(?:[,.;:?]| [<>]| and\b|$))", _element),
    rule("word", r"(?<![\w.])(?:Si|Al|Ar|Ni|Ti|Se|Te|Ge|Ga)(?![\w'(])", _symbol_named),
    rule("word", r"(?<=\d)(?:Al|Fe|Mg|Na|Cu|Zn|Ag|Ca|Li|Mn|Si|Pb)(?= ?[+→])", lambda m: spell_compound(m[0])),
    rule("word", rf"(?:(?<=, )|(?<= [<>] )){_TWO}(?=[,.;:?]| [<>.]|$)", _listed_element),
    rule("word", r"(?<![A-Za-z\d_])(?:Na|Fe|Cu|Ag|Ca|Mn|Hg|Pt|Sn|Zn|Cd|Rb|Cs|Rn|Rh|Pb|Mg|Br|Cl|Kr|Sr|Pd)"
         r"(?![A-Za-z\d_^'(])", _element),
    rule("word", rf"(?<![A-Za-z\d_])({_AMINO_ACID})(\d{{1,4}})({_AMINO_ACID})(?![\w^(])", _substitution),
    rule("word", r"(?<![A-Za-z\d_])(?:[A-Z][A-Za-z]{0,4}|[a-z]{1,3})\d{1,4}(?:[A-Z][A-Za-z]{0,3}\d{0,2})?[a-z]?"
         r"(?![\w^(/])",
         _mixed_letters),
    rule("word", r"(?<![A-Za-z\d_.,])\d{1,2}[A-Z]{2,4}(?![\w^(])", _mixed_letters),
]  # fmt: skip
"""Tried before words."""


def _checked(match: Match) -> str:
    """A formula, unless it is a letter with a number ("B12", "P1"), which is read as a name."""
    if re.fullmatch(r"[A-Z]_?\{?\d+\}?", match["formula"]) and not COMPOUND.fullmatch(match["formula"]):
        letter, index = match["formula"][0], re.sub(r"\D", "", match["formula"])
        if match["formula"] != match[0] or (len(index) > 1 and index.startswith("0")):
            raise Unspeakable("code", f"{before(match)[-10:]}{match[0]}{after(match)[:10]}")
        return f"{letter} {cardinal(int(index))}"
    return _compound(match)
