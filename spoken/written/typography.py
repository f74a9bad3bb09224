"""One form for units and fractions that are written in several, before any rule reads them."""

import re
from typing import Final

from spoken.rules.rule import after, before
from spoken.spoken_text import Unspeakable
from spoken.written.traced import Traced

_BELOW: Final = "(?:kg|g|mol|[cd]?m|K|s|L|V)"
_FORMS: Final = tuple(
    (re.compile(pattern), form)
    for pattern, form in (
        # an abbreviation's dot that ends no sentence: "a 4 in. pipe", "6 in.^3", "40 ft. long"
        (r"(?<=\d)[ -]?yr\.?[ -]old\b", " year old"),
        (r"(?<=\d)( ?-?)in\.(?= [a-z(])(?! (?:the|a|an|each|its|which)\b)", r"\1inch"),
        (r"(?<=\d)( ?-?(?:ft|lbs?|oz|sec|min|hrs?|yds?|mi|gal|kg|cm|mm|amps?|deg|mol|atm))\.(?= [a-z(]|\^)", r"\1"),
        (r"(?<=\d)( ?-?(?:yrs?|qts?|pts?|tbsp|tsp|cal|kcal|rev))\.(?= [a-z(])", r"\1"),
        (r"(?<=\d)( ?-?)in\.(?=,|/)", r"\1inch"),
        (r"(?<=\d)( ?(?:ft|lbs?|oz|sec|min|hrs?|yds?|gal|deg|cm|mm|kg|yrs?))\.(?=,|/)", r"\1"),
        (
            r"(?<=\d)( ?(?:ft|hrs?|min|lbs?|yds?|gal))\.(?= \d[\d./]* ?(?:in|inch|min|sec|oz|ft|hrs?|lbs?|qts?)\b)",
            r"\1",
        ),
        (r"(?<=\d )(kg|[kcmμn]?m|[kM]?[JNW]|mol|g|L) - (?=(?:s|K|m|mol|kg|L|min|h)\^ ?\{? ?-)", r"\1×"),
        (r"(?<!\d)(?<!\d )\((\d{1,2}/\d{1,2})\) ?in\.(?= [a-z])", r"\1 inch"),
        (r"(?<=/\d\)) ?in\.(?= [a-z])|(?<=/\d\d\)) ?in\.(?= [a-z])", " inch"),
        (r"(?<=\d\(\d/\d\)) ?in\.(?=,)|(?<=\d\(\d/\d\d\)) ?in\.(?=,)", " inches"),
        (r"(?<=[a-z] )(lb|oz|gal)\.(?= (?:of|per|and|is)\b)", r"\1"),
        (r"(?<=[a-z°\d.][/-])(ft|lb|in|sec|min|hr)\.(?= [a-z(])", r"\1"),
        (r"(?<=[ \d])in\.(?=\^)", "in"),
        (r"(?<=\d)( ?)in\.(?= (?!Hg)[A-Z][a-z]* )", r"\1inch."),
        # powers below zero without their caret, and words run into a power: "5 J mol-1 K-1", "3 ft^2at"
        (r"(?<=[A-Za-z\d] )(mol|s|m|cm|dm|kg)-([1-3])(?!\.?\d|[\w-])", r"\1^-\2"),
        (r"(?<=\d )(mol|s|m|K|T|A|V|kg|C|J)-([1-3])(?= (?:mol|s|m|K|T|A|V|kg|C)\^?-[1-3](?![\w.-]))", r"\1^-\2"),
        # units that run together: "5 Wm^-2K^-1"
        (rf"(?<![A-Za-z])(W|k?J|N|kg|mol|V|Pa|g(?=[cd]m))(?={_BELOW}\^\{{?-)", r"\1 "),
        (rf"(?<=\^-\d)(?={_BELOW}\^\{{?-)", " "),
        (r"(?<=[\w×•] )C ?deg ?\^-1(?!\d)", "°C^-1"),
        (r"(?<=[/×*•-])C ?deg(?![a-z])| [×•] C ?deg(?![a-z])", "°C"),
        (r"([A-Z][a-z]{2,8} \d\d?, [12]\d{3}) (?=\$)", r"\1, "),
        (r"(?<=× 10)- ?(?=[1-9]\d? ?(?:m|cm|s|J|kg|C|N|g|eV|V|A)\b)", "^-"),
        (r"(?<=mol\^-1 )K-1(?!\.?\d|[\w-])", "K^-1"),
        (r"(?<=[a-z]\^[23])(at|of|and|is|in|when|with|from)(?![A-Za-z])", r" \1"),
        # what is below a slash, told apart by a dot, a space or nothing: "W/m -°K", "Btu/hr. ft^2. °F"
        (r"(?<=/)hr(?: ?\.)? ?(?=(?:sq )?ft)|(?<=/)hr(?=ft)", "hr-"),
        (r"(?<=/hr)°Fft\b", "-ft-°F"),
        (r"(?<=[/-]ft)(\^2)?\.? ?(?=°[FR])", r"\1-"),
        (r"(?<=/)(lbm?|g|m|mole|mol|kg|lb mole)(?: ?- ?| )(?=°[CFKR](?![\w/]))", r"\1-"),
        (r"/ ?1bm\b", "/lbm"),
        (r"(?<=\d) ?\. (?=(?:K|bar|J|atm|Pa|mL|g|kJ)(?![A-Za-z_]| ?[=<>]))", " "),
        (r"(?<=\d) ?U/L\b", " units per liter"),
        (r"(?<=\d) ?U/mL\b", " units per milliliter"),
        (r"(?<=\d)( ?)in\.(?=[,;)])", r"\1inch"),
        (r"(?<=\d) ?mμ(?![\w])", " nm"),  # millimicrons
        (r"(?<=\d)-μ ?[fF]\b", "-μF"),
        (r"(?<=\$)( ?\d[\d.,]*) +(?=(?:m|b|tr)illion\b)", r"\1 "),
        (r"\bmm Hg\b", "mmHg"),
        (r"(?<![A-Za-z'])([a-z])([a-z])('{1,2})(?= ?[-+=])", r"\1 \2\3"),
        (r"(?<=[-+(\[/])( ?)([a-z])([a-z])'(?= ?[)\]/])", r"\1\2 \3'"),
        (r"(?<![\w^])([A-Z][a-z]?\d?)([+-])(?=\((?:aq|g|s|l)\))", r"\1^\2"),
        (
            r"(?<![\w.])(\d{1,2})V([24])(?= ?(?:%|percent\b|per cent\b|inch|feet|years?|months?|days?|hours?\b))",
            r"\1 1/\2",
        ),
        (r"(?<=[\d}]) *C *[×*] *m(?![\w^])", " C-m"),
        (r"([α-ωΔ]) -(?=[a-z]{3})", r"\1-"),
        (r"(?<=\bin )m / s(?![\w^])", "m/s"),
        (r"(?<![\w-])a-c(?= [a-z])", "A C"),
        (r"(?<![\w-])d-c(?= [a-z])", "D C"),
        (r"(?<![\w-])ac(?= (?:circuit|current|voltage|motor|generator|source|supply|and dc\b|or dc\b))", "A C"),
        (r"(?<=\bdc and )ac\b|(?<=\bdc or )ac\b", "A C"),
        (r"(?<=[dm]m\^6) atm(?= mol)", "×atm"),
        (r"&c\.", "etc."),
        (r"(?<=/)([CF])°", r"°\1"),
        (r"(?<=[(/](?:gm|kg|lb))([CF])°|(?<=[(/]g)([CF])°", r" °\1\2"),
        (r"(°[CF])\(", r"\1 ("),
        (r"(?<=\d) ?A ?\^ ?\{?[°o]\}?(?![\w^])", " Å"),
        # a share in brackets, a space lost beside a number or a function
        (r"(?<!\d )(?<![\w)])\((\d{1,2}) ?/ ?(\d{1,2})\) ?%", r"\1/\2%"),
        (r"(?<![A-Za-z])(sin|cos|tan|ln|exp)(?=\d)", r"\1 "),
        (r"(?<![A-Za-z])log2\(", "log_2("),
        (r"(?<=[-+] )j(?=\d)", "j "),
        (r"(?<=\d)(and|or|to)(?=\d)", r" \1 "),
    )
)
_FLATTENED: Final = re.compile(
    r"(?<![\w.,$^])(?<![-+×*/·])(?<![-+×*/·] )10(?P<minus>[-–−])(?P<exponent>\d{1,2})(?![\d%:^/]|[.,]\d| ?[-+×*/])"
    r"(?=(?P<unit> ?(?:[munμkMG]?(?:[MmsgJCNTVFWLΩ]|Pa|Hz|mol|eV)|cm|kg|Å)(?![A-Za-z'\d]))?)"
    r"(?=(?P<noun> [a-z]{4,}| (?:to|of|is|and) \d)?)"
)
_FALLS: Final = 10
"""A range rises: below it "10-3" is none."""

_SPACED_FRACTION: Final = re.compile(r"(?<![\d.)/^] )(?<![\w.)/^])(\d{1,2}) / (\d{1,3})(?!\.?\d|[\w^(/]| ?[-+*/=])")


_PLURAL_DIGITS: Final = {"0": "zeros", "1": "ones", "2": "twos", "3": "threes", "4": "fours", "5": "fives",
                         "6": "sixes", "7": "sevens", "8": "eights", "9": "nines"}  # fmt: skip
_PLURAL_DIGIT: Final = re.compile(r"(?<![\w.,'$-])(\d)'s(?![\w'])")


def in_one_form(text: Traced) -> Traced:
    """The text with these forms made one."""
    for pattern, form in _FORMS:
        text = text.sub(pattern, form)
    return text.sub(_SPACED_FRACTION, _tight_fraction).sub(_PLURAL_DIGIT, lambda m: _PLURAL_DIGITS[m[1]])


def flattened_powers(text: Traced) -> Traced:
    """Powers of ten that lost their raised exponent, "10−3 M", with a caret again; asked before minus signs are folded.

    Raises:
        Unspeakable: `number`: it may be a power or a difference.
    """
    return text.sub(_FLATTENED, _raised) if "10" in text.text else text


def _raised(match: re.Match[str]) -> str:
    around = re.split(r"[.?!] ", before(match))[-1] + re.split(r"[.?!] ", after(match))[0]
    is_molar = match["unit"] is not None and match["unit"].strip() in {"M", "mol"}
    if ("=" in around and not is_molar) or match["noun"] is not None:
        return match[0]
    is_sure = int(match["exponent"]) < _FALLS or match["minus"] == "−"
    if match["unit"] is not None and is_sure:
        return f"10^-{match['exponent']}"
    if match["minus"] == "−":
        raise Unspeakable("number", match[0])
    return match[0]


def _tight_fraction(match: re.Match[str]) -> str:
    """ "1 / 36" as "1/36", so that it is read as a fraction; "6 / 3" stays a division."""
    return f"{match[1]}/{match[2]}" if int(match[1]) < int(match[2]) else match[0]
