"""Rewrites signs, units, months, numbers and lines with several notations to the one form that the rules read."""

import re
from typing import Final

from spoken.rules.abbreviations import MONTHS
from spoken.rules.rule import Match, Rule, make_rewriting
from spoken.rules.units import is_unit

_BEFORE_SCRIPT: Final = (
    r"(?<=[\w)\]}α-ωΑ-Ω∑∫∏])(?<!\bof)(?<!\bthe)(?<!\bis)(?<!\band)(?<!\bin)(?<!\bfor)(?<!\bto)"
    r" (?=[_^] ?[\w{(+-])(?!_[_ ])(?!(?<=[a-z]{2} )[_^]\{?\d{1,3}\}?(?:_\{?\d{1,2}\}?)?[A-Z])"
)
_DAYS: Final = "Mondays?|Tuesdays?|Wednesdays?|Thursdays?|Fridays?|Saturdays?|Sundays?"
_OPENED_QUOTE: Final = re.compile(r"(?:^|[\s(])'\w")


def _rewrite_number_list(match: Match) -> str:
    """Rewrites "1,2,3" as "1, 2, 3".

    "1,250" is a number and unchanged. So is "5,41", unless a bracket, sign or comma beside it shows that it is a list.
    """
    text = match[0]
    is_grouped = re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", text)
    left, right = match.string[match.start() - 1 : match.start()], match.string[match.end() : match.end() + 1]
    if is_grouped or (text.count(",") < 2 and not (left in "([{=<,-" and left) and right != ","):
        return text
    return text.replace(",", ", ")


def _rewrite_fraction(match: Match) -> str:
    """Rewrites "1 / 36" as "1/36", so that it is read as a fraction; "6 / 3" remains a division."""
    return f"{match[1]}/{match[2]}" if int(match[1]) < int(match[2]) else match[0]


def _rewrite_possessive(match: Match) -> str:
    """Rewrites "Mr. Atlas' car" with "Atlas's"; after an opening quotation mark it is kept, since it may close that."""
    return match[0] if _OPENED_QUOTE.search(match.string[: match.start()]) else f"{match[1]}'s"


def _remove_brackets(match: Match) -> str:
    """Rewrites "5 (kg)" as "5 kg"; brackets around other texts than units are kept."""
    return f"{match[1]} {match[2]}" if is_unit(match[2]) else match[0]


def _rewrite_inches(match: Match) -> str:
    """Rewrites "in." after a number as "inch", and keeps its dot if that also ends the sentence."""
    ends = re.match(r" (?![IO]\. ?D)[A-Z]", match.string[match.end() :])
    return f"{match[1]}inch{'.' if ends else ''}"


def _remove_initials(match: Match) -> str:
    """Rewrites "positron emission tomography (PET)" without its abbreviation.

    It is kept if its letters are not in the words before it, in order, or if the text uses it again.
    """
    is_short = re.search(rf"\b{'.*'.join(match[2].lower())}", match[1].lower())
    is_used_again = re.search(rf"\b{match[2]}", match.string[match.end() :]) is not None
    return match[0] if is_short is None or is_used_again else match[1]


def _replace_dots(match: Match) -> str:
    """Returns what replaces dots for omitted words: a comma inside a sentence, a full stop before a capital."""
    return ". " if match.string[match.end()].isupper() else ", "


FIGURES: Final[tuple[Rule, ...]] = (
    make_rewriting("spaces", r"[^\S\n]{2,}", " ", "a  lake", "a lake"),
    make_rewriting("arrow as it is typed", r"(?<![-=<>])-{1,2}>(?!>)", "→", "H2 + Cl2 -> 2HCl", "H2 + Cl2 → 2HCl"),
    make_rewriting("power of a length below a slash", r"(?<=/)([cmkμ]?m)([23])(?!\w)", r"\1^\2",
              "9,000/mm3", "9,000/mm^3"),
    make_rewriting("fraction in brackets",
              r"(?:(?<=\d) ?(?=\(\d+ ?/ ?\d+ ?\)(?! ?[-+*/^=(\d]))|(?<!\w)(?=\(\d+ ?/ ?\d+ ?\)(?: ?%| ?in\b)))"
              r"\( ?(\d{1,3}) ?/ ?(\d{1,3}) ?\)",
              lambda m: f"{' ' * (m.start() > 0 and not m.string[m.start() - 1].isspace())}{m[1]}/{m[2]}",
              "66(2/3)%, (1/4)% and 7 (1/2) in", "66 2/3%, 1/4% and 7 1/2 in"),
    make_rewriting("unit's dot inside a sentence",
              r"(?<=[\d/])( ?-?(?:[AVW]|ft|lbs?|oz|sec|min|hrs?|yds?|yrs?|mi|gal|qts?|pts?|kg|mg|m[lL]|cm|mm|mol|atm"
              r"|tbsp|tsp|cal))\."
              r"(?= [a-z(]|,|\^| \d[\d./]* ?(?:in|inch|min|sec|oz|ft|hrs?|lbs?)\b)", r"\1",
              "40 ft. long", "40 ft long"),
    make_rewriting("inches with a dot",
              r"(?<=\d)( ?-?)in\.(?= (?!(?:the|a|an|each|its|which|Hg)\b)[A-Za-z(]|[,;)])", _rewrite_inches,
              "a 4 in. pipe of 2 in. The box", "a 4 inch pipe of 2 inch. The box"),
    make_rewriting("initials behind their words",
              r"\b([A-Za-z]+(?:[ -][A-Za-z\d]+){1,5}) ?\(([A-Z][A-Z\d]{1,5})\)", _remove_initials,
              "a magnetic resonance imaging (MRI) scan", "a magnetic resonance imaging scan"),
    make_rewriting("span of days or months", rf"\b({_DAYS}|{MONTHS}) ?- ?(?=(?:{_DAYS}|{MONTHS})\b)", r"\1 to ",
              "each day, Monday - Friday", "each day, Monday to Friday"),
    make_rewriting("dots for words left out", r"(?<=[a-z]{2})&? ?(?:\. ?){3,}(?=[A-Za-z][a-z])", _replace_dots,
              "roads . . . lead here....Then she left", "roads, lead here. Then she left"),
    make_rewriting("degrees apart",
              r"(?<=\d) *° +([CFK]\b(?! (?:major|minor|sharp|flat))|[NSEW]\b(?= (?:lat|long|and)|[,.;)?]|$))",
              r"°\1", "20° C", "20°C"),
    make_rewriting("point without decimals", r"(?<=\d) ?\. (?=(?:K|[Tt]orr|bar|atm|mL|kPa)(?![\w.])|cm ?\^)", " ",
              "at 303 . K", "at 303 K"),
    make_rewriting("spaced fraction", r"(?<![\d.)/^] )(?<![\w.)/^])(\d{1,2}) / (\d{1,3})(?!\.?\d|[\w^(/]| ?[-+*/=])",
              _rewrite_fraction, "odds of 1 / 36", "odds of 1/36"),
    make_rewriting("possessive of a name",
              r"\b((?:Mr|Ms|Mrs|Dr)\.? [A-Z][a-z]*s|[A-Z][a-z]+(?:us|is|as))'(?= [a-z])", _rewrite_possessive,
              "Mr. Reeves' car and Erasmus' books", "Mr. Reeves's car and Erasmus's books"),
    make_rewriting("possessive after a space", r"(?<=[a-z]) '(?=s\b)|(?<=[a-z]s) '(?= [a-z])", "'",
              "John 's book and the pikes ' lake", "John's book and the pikes' lake"),
    make_rewriting("micro apart from its unit", r"(?<=\d) *μ +(?=[CFmgsTVAW]\b)", " μ", "5 μ C", "5 μC"),
    make_rewriting("numbers in a list", r"(?<![\d,])\d+(?:,\d+)+", _rewrite_number_list,
              "1,2,3 and 1,250 and 5,41", "1, 2, 3 and 1,250 and 5,41"),
    make_rewriting("unit in brackets", r"(?<![\w.])(\.?\d[\d,.]*) ?\( ?([A-Za-zμΩÅ°][^()]{0,20}?) ?\)",
              _remove_brackets,
              "5 (kg) or 5 (of it)", "5 kg or 5 (of it)"),
    make_rewriting("script apart", _BEFORE_SCRIPT, "", "x ^2 + y _1", "x^2 + y_1"),
)  # fmt: skip
"""Units, numbers and their context."""

_ASKS: Final = "Which|What|How|Based on|According to|Who|Why"
LINES: Final[tuple[Rule, ...]] = (
    make_rewriting("line that ends a sentence",
              rf"([^\s.?!:;,]) *\n\s*(?:\n\s*|(?=(?:{_ASKS})\b|'?[A-Z0-9\ue100-\uf8ff][^\n]*\n|[•*-] ))", r"\1. ",
              "A lake\n\nIt is deep\nWho owns it?", "A lake. It is deep. Who owns it?"),
    make_rewriting("space", r"\s{2,}|[^\S ]", " ", "a \n lake", "a lake"),
    make_rewriting("space at an end", "^ | $", "", " a lake ", "a lake"),
)  # fmt: skip
"""Rewrites line ends as pauses: a blank line ends a sentence, a single line end only before a new sentence."""
