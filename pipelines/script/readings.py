"""Readings of words, letters and short forms, and the order in which all rules are tried."""

import re
from typing import Final

from pipelines.script import abbreviations as short
from pipelines.script.broken import is_run_together
from pipelines.script.formulas import OPERATORS
from pipelines.script.numerals import cardinal
from pipelines.script.quantities import QUANTITY_RULES, Match, Rule
from pipelines.script.spoken import Unspeakable, word_set
from pipelines.script.units import NUMBERED_UNITS, PLAIN_UNITS, say_unit

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
_COUNTS: Final = word_set(
    "many two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million few several half dozen more fewer extra "
    "additional total cubic square"
)
"""Words before a unit that say how many there are."""

_ONE_OF: Final = re.compile(
    r"\b(?:a|an|one|per|each|every) (?:(?:cubic|square) )?$|/ ?$|(?<!\d )\b\d+/\d+[ -]$", re.IGNORECASE
)
"""What stands before a unit in the singular."""

_NO_VOWEL_WORDS: Final = frozenset({"hmm", "nth", "th", "Mc", "St", "Mt", "tv"})


def _word(match: Match) -> str:
    word = match[0]
    if word in short.FULL_WITHOUT_DOT:
        return short.FULL_WITHOUT_DOT[word]
    if word == "NO" and re.search(r"\b(?:of|for|with|and|from|to|the) $", match.string[: match.start()]):
        raise Unspeakable("code", word)  # nitric oxide, or "no" with emphasis
    if word in short.EMPHASISED:
        return word.lower()
    if word in PLAIN_UNITS or word in NUMBERED_UNITS:
        return _unit_alone(match)
    is_mixed = not word.isupper() and sum(char.isupper() for char in word) > 1
    if is_mixed and _COMPOUND.fullmatch(word):
        return " ".join(word.upper())
    letters = word.replace("'", "")
    is_initials = re.fullmatch(r"[A-Z]+'?s?", word) is not None
    if len(letters) > 1 and not is_initials and not re.search(r"[aeiouyAEIOUY]", word) and word not in _NO_VOWEL_WORDS:
        raise Unspeakable("code", word)
    is_stutter = re.search(r"(.)\1\1", word.lower()) and (len(word) > 3 or not word.isupper())
    if is_stutter:
        raise Unspeakable("code", word)
    if is_run_together(letters):
        raise Unspeakable("broken_text", word)
    return word


def _unit_alone(match: Match) -> str:
    """A unit without digits before it; mg may be mass times gravity, so such a one needs a word that counts it."""
    unit, before, after = match[0], match.string[: match.start()], match.string[match.end() :]
    one = _ONE_OF.search(before)
    counted = re.search(r"([A-Za-z]+)[ -]$", before)
    is_counted = re.search(r"\d ?$", before) or (counted is not None and counted[1].lower() in _COUNTS)
    is_asked = re.search(r"(?:\b[Ii]n |\()$", before) and re.match(r"\s*(?:[.,;:?)]|$)", after)
    goes_on = re.match(r"-[A-Za-z]", after) or (unit == "mph" and before.endswith("/"))
    if (unit in PLAIN_UNITS or one or is_counted or is_asked) and not goes_on:
        return say_unit(unit, plural=not one)
    raise Unspeakable("code", f"{before[-15:]}{unit}{after[:15]}")


def _rate(match: Match) -> str:
    if re.search(r"(?:\d|\b(?:in|of|many)) ?$|\($|\bUnits?: $", match.string[: match.start()]):
        return say_unit(match[0], plural=True)
    raise Unspeakable("code", match[0])


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
    _refusal("number", r"(?<![\d.])\d\.\d+ ?[x×] ?10[1-9]\d?(?![\d.,]| ?=)"),  # the exponent was lost
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
