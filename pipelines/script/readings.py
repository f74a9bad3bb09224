"""Readings of words, letters and short forms, and the order in which all rules are tried."""

import re
from typing import Final

from pipelines.script import abbreviations as short
from pipelines.script.formulas import OPERATORS
from pipelines.script.numerals import cardinal
from pipelines.script.quantities import QUANTITY_RULES, Match, Rule
from pipelines.script.spoken import Unspeakable
from pipelines.script.units import BARE_UNITS, say_unit

_GREEK: Final = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "θ": "theta", "λ": "lambda", "μ": "mu",
    "ν": "nu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "χ": "chi", "ω": "omega", "Δ": "delta",
    "Σ": "sigma", "Ω": "omega", "Θ": "theta", "Φ": "phi", "∞": "infinity",
}  # fmt: skip
_ELEMENTS: Final = (
    "He|Li|Be|Ne|Na|Mg|Al|Si|Cl|Ar|Ca|Ti|Cr|Mn|Fe|Co|Ni|Cu|Zn|As|Se|Br|Kr|Rb|Sr|Ag|Cd|Sn|Sb|Xe|Cs|Ba|Pt|Au|Hg|Pb|Bi"
    "|Ra|H|B|C|N|O|F|P|S|K|V|I|U"
)
_COMPOUND: Final = re.compile(rf"(?:(?:{_ELEMENTS})\d{{0,2}}){{2,}}|(?:H|O|N|F|Cl|Br|I)2|O3")
_TWO_CAPITALS: Final = re.compile(
    r"(?:Mc|Mac|De|La|Le|Di|Da|Du|Van|Von|Fitz|You|Pay|Face|Go|Java|Play|Micro|Star|Air)[A-Z]"
)
"""Names with a capital inside; other words with one have lost a space."""

_NO_VOWEL_WORDS: Final = frozenset({"hmm", "nth", "th", "Mc", "St", "Mt", "tv"})


def _word(match: Match) -> str:
    word = match[0]
    if word in short.FULL_WITHOUT_DOT:
        return short.FULL_WITHOUT_DOT[word]
    if word in short.EMPHASISED:
        return word.lower()
    if word in BARE_UNITS:
        before = match.string[: match.start()]
        return say_unit(word, plural=not re.search(r"(?i)\b(?:a|an|one|per|each|every)[ -]$", before))
    is_mixed = not word.isupper() and sum(char.isupper() for char in word) > 1
    if is_mixed and _COMPOUND.fullmatch(word):
        return " ".join(word.upper())
    letters = word.replace("'", "")
    is_initials = re.fullmatch(r"[A-Z]+'?s?", word) is not None
    if len(letters) > 1 and not is_initials and not re.search(r"[aeiouyAEIOUY]", word) and word not in _NO_VOWEL_WORDS:
        raise Unspeakable("code", word)
    is_stutter = re.search(r"(.)\1\1", word.lower()) and (len(word) > 3 or not word.isupper())
    is_glued = re.search(r"[a-z]{2}[A-Z][a-z]{2}", word) and not _TWO_CAPITALS.match(word)
    if is_stutter or is_glued:
        raise Unspeakable("code", word)
    return word


def _rate(match: Match) -> str:
    return say_unit(match[0], plural=True)


def _compound(match: Match) -> str:
    """Letters and digits: a chemical formula or a name such as B12; "H2O" is "H two O"."""
    text = match[0].replace("_", "").replace("{", "").replace("}", "")
    if not _COMPOUND.fullmatch(text) and not re.fullmatch(r"[A-Z]{1,4}\d{1,3}", text):
        raise Unspeakable("code", match[0])
    pieces = re.findall(r"[A-Za-z]|\d+", text) if _COMPOUND.fullmatch(text) else re.findall(r"[A-Za-z]+|\d+", text)
    if any(piece.startswith("0") and len(piece) > 1 for piece in pieces):
        raise Unspeakable("code", match[0])
    return " ".join(cardinal(int(piece)) if piece.isdigit() else piece.upper() for piece in pieces)


def _subscript(match: Match) -> str:
    index = match[2]
    return f"{match[1]} {cardinal(int(index)) if index.isdigit() else index}"


def _abbreviation(match: Match) -> str:
    full = short.FULL[match[1]]
    rest = match.string[match.end() :]
    ends_sentence = match[1] in {"etc", "et al", "Inc", "Corp", "Ltd", "Jr", "Sr"} and re.match(r"\s*$|\s+[A-Z]", rest)
    return full + ("." if ends_sentence else "")


def _initials(match: Match) -> str:
    letters = " ".join(match[1].replace(".", "").replace(" ", "").upper())
    return letters + ("." if not match.string[match.end() :].strip() else "")


def _roman_after_title(match: Match) -> str:
    return f"{match[1]} {short.ROMAN[match[2]]}"


def _monarch(match: Match) -> str:
    return f"{match[1]} the {short.ROMAN_ORDINALS[match[2]]}"


def _function(match: Match) -> str:
    argument = match[2]
    return f"{match[1]} of {cardinal(int(argument)) if argument.isdigit() else argument}"


def _lone_roman(match: Match) -> str:
    if match[0] in {"II", "III"}:
        return short.ROMAN[match[0]]
    raise Unspeakable("number", match[0])


def _refusal(reason: str, pattern: str) -> Rule:
    def refuse(match: Match) -> str:
        raise Unspeakable(reason, match.string[max(0, match.start() - 15) : match.end() + 15])

    return "refused", re.compile(pattern), refuse


def _rule(kind: str, pattern: str, say: object) -> Rule:
    return kind, re.compile(pattern), (say if callable(say) else lambda match: str(say))


_ROMANS: Final = "|".join(sorted(short.ROMAN, key=len, reverse=True))

RULES: Final[list[Rule]] = [
    _rule("word", r"(?<!\w)_{2,}(?!\w)|\.{5,}", "blank"),
    _refusal("formula", r"\b(?:sin|cos|tan|log|ln|exp|lim|max|min|arcsin|arccos|arctan|sqrt|det|dim)(?:\(|_|\^)"),
    _refusal("formula", r"[\[(][\d.]+ ?, ?-?[\d.]+[)\]](?= ?[-+=×*]|\()"),
    _refusal("number", r"(?<!\d)\d{1,3} \d{3}(?![\d-])|\d*\.\d+ \d|(?<=[\d}] )[CFH]\b(?![-'])"),
    _refusal("formula", r"\bn/\d|\d/\d+\)?, ?\(?n/"),
    _refusal("number", r"\d'(?= ?\d|\d|$| [a-z])|\d ?''|\d\" ?(?:x|by|tall|long|wide)\b|\d!(?! [A-Z]| *$)"),
    *QUANTITY_RULES,
    _rule("word", r"(?<![A-Za-z\d])(?:N/m|(?:km|mi|m|cm|ft|kg|mg|g|lb)/(?:h|hr|sec|s|min|L|ml|mL|kg))"
          r"(?![A-Za-z\d^/])", _rate),
    _refusal("code", r"(?<=[A-Za-z] )(?:s|m|K|mol|kg|g|h|cm|dm|L|min)-[1-3]\b"),
    _rule("variable", r"(?<![\w(])([fghuvyFGH])\(([a-z]|\d{1,3})\)(?![\w(^])", _function),
    _rule("word", rf"\b({short.TITLED})s? ({_ROMANS})(?![A-Za-z\d'])", _roman_after_title),
    _rule("word", rf"\b({short.MONARCHS}) ({short.ROMAN_ORDINAL_PATTERN})(?![A-Za-z\d'])", _monarch),
    _rule("word", r"(?<![A-Za-z])(?:VIII|III|VII|XIII|XII|XIV|XVI|XIX|XVIII|II|IV|VI|IX|XI|XV|XX)(?![A-Za-z\d'])",
          _lone_roman),
    _rule("variable", r"(?<![A-Za-z\d_])([A-Za-z])_\{?(\d|[A-Za-z])\}?(?![\w^{(])", _subscript),
    _rule("word", r"(?<![A-Za-z\d_])[A-Z][A-Za-z]{0,4}_?\{?\d[A-Za-z\d_{}]*(?![\w^(])", _compound),
    _rule("word", short.ABBREVIATION.pattern, _abbreviation),
    _rule("word", r"(?<![A-Za-z.])Ph\.? ?D(?:\.(?! [A-Z]|$)|\b)", "P H D"),
    _rule("word", r"(?<![A-Za-z.])St\.(?= [A-Z])", "Saint"),
    _rule("word", r"(?<![A-Za-z.])No\.(?= \d)", "number"),
    _rule("word", r"(?<![A-Za-z.])w/o(?![A-Za-z])", "without"),
    _rule("word", r"(?<![A-Za-z.])w/ ?(?=[a-z\d])", "with"),
    _rule("word", r"(?<= )v\.(?= [A-Z])", "versus"),
    _rule("word", r"(?<![A-Za-z.])((?:[A-Za-z]\.){2,}"
          r"|(?:[A-Z]\. )+[A-Z]\.|(?:[A-Z]\.)+[A-Z]\b)(?![A-Za-z])", _initials),
    _rule("word", r"(?:(?<=^)|(?<=[A-Z]\. )|(?<=[A-Z] )|(?<=[A-Z][a-z] )|(?<=[A-Z][a-z]{2} )|(?<=[A-Z][a-z]{3} )"
          r"|(?<=[A-Z][a-z]{4} )|(?<=[A-Z][a-z]{5} ))([A-Z])\.(?= [A-Za-z])", _initials),
    _rule("word", r"(?<![A-Za-z])([A-Za-z]+)\((?:s|es)\)", lambda m: m[0].replace("(", "").replace(")", "")),
    _rule("variable", r"(?<![A-Za-z\d'])[B-HJ-Zb-z](?![A-Za-z\d_^]|'[a-z])", lambda m: m[0]),
    _rule("word", r"(?<![\d_])[A-Za-z]+(?:'[A-Za-z]+)*(?![\d_^])", _word),
    _rule("variable", f"[{''.join(_GREEK)}](?![_^\\d])", lambda m: _GREEK[m[0]]),
    _rule("variable", r"(?<=\d)x(?=\d)", "x"),
    _rule("operator", f"--+|[{re.escape(OPERATORS)}]", lambda m: "—" if len(m[0]) > 1 else m[0]),
    _rule("open", r"[(\[]", "("),
    _rule("close", r"[)\]]", ")"),
    _refusal("number", r"(?:(?<=\d)|(?<=\d )):(?= ?\d)"),
    _rule("mark", r"[,.;:?!]+", lambda m: next(mark for mark in "?!.;:," if mark in m[0])),
    _rule("nothing", r"[\"']", ""),
]  # fmt: skip
"""Tried in this order at each position; the first that matches reads it, and nothing is read twice."""
