"""Slips of typing, scanning and layout that have one right reading each, put right before any rule reads them."""

import re
from typing import Final

from spoken.written.traced import Traced

_SMALL: Final = "is|and|of|to|by|if|that|when|where|with|for|are|has"
_LENGTHS: Final = "min|sec|hrs?|hours?|lbs?|oz|ft|foot|feet|inch|inches|in|miles?|mi|yd|gal|cm|mm|km|m"
_MEASURED: Final = r"(?:cm|mm|km|m|kg|mg|g|mL|ml|L|K|°C|[Tt]orr|atm|kPa|kJ|J|mol|mmol|nm)"

_SLIPS: Final = tuple(
    (re.compile(pattern), form)
    for pattern, form in (
        (r"[^\S\n]{2,}", " "),
        (r"(?<=\d)( ?)μ ?m(to|and|at|is|in)\b", r"\1μm \2"),
        (r"(?<=\d) ?μ ?([WVAF])(?!olt|att|arad|mp)(?=[a-z]{2})", r" μ\1 "),
        (r"(?<=[\d.)])(cos|sin)t(?= ?[-+]|$)", r" \1 t"),
        (r"\b([Gg]iven|[Ff]ind|[Ll]et|[Aa]ssume|[Ee]valuate|[Dd]etermine|where)(?=[a-zA-Z]\([a-z]\))", r"\1 "),
        # dots that tell of words left out: a pause inside a sentence, its end before a capital
        (r"&(?= ?\.{3})", ""),
        (r"(?<=[a-z]{2}) ?(?:\. ?){3,}(?=[a-z]{2})", ", "),
        (r"(?<=[a-z]{2}) ?(?:\. ?){3,}(?=[A-Z][a-z])", ". "),
        (r"(?<=[a-z]{2}) ?\.\. (?=[a-z]{2})", ", "),
        (r"(?<![\w\\])_([A-Za-z]{2,}(?: [a-z]+){0,4})_(?!\w)", r"\1"),  # emphasis
        (
            r"(?<![\w\\*)])(?<![\d)=] )\*((?:[A-Za-z]{2,}|[A-Za-z](?= [a-z]{2}))(?:[ -][A-Za-z']+){0,5})\*(?![\w*(])",
            r"\1",
        ),
        # small words run into a symbol: "ism_A", "m_Bwhen", "oft^n"
        (rf"(?<![A-Za-z])({_SMALL})(?=[A-Za-z][_^][\dA-Za-z{{(-])", r"\1 "),
        (rf"(?<=_[A-Za-z\d])({_SMALL})(?![A-Za-z])", r" \1"),
        (r"\b(on|had|is|in|has|was|of|as|for|with|by|from)a(?= [a-z$\d])", r"\1 a"),
        (r"(?<=_[a-z]{2})(the|and|when)(?![A-Za-z])", r" \1"),
        (r"(?<=[a-z]{2}'s)(?=[a-z]{3})", " "),
        (r"(?<=[a-z]) - (?=like (?:ions?|atoms?|orbitals?|species)\b)|(?<=[A-Za-z]) - (?=shaped\b)", "-"),
        (rf"(?<=_)(max|min)({_SMALL})(?=[A-Z]_|[^A-Za-z]|$)", r"\1 \2 "),
        (r"(?<=[A-Za-z\d)]tu)\(t\)|(?<=\dtu)\(t\)", "(t)"),
        (r"(?<=\^-\dt)u\(t\)", " u(t)"),
        (r"(?<![A-Za-z])ln ?(?=e ?\^|\d)", "ln "),
        (r"(?<=\d)(?=sqrt\()", " "),
        # the natural log taken for the word, the digit one for the letter
        (r"(?<![A-Za-z]{2} )(?<=[\w)}\]] )In(?= ?[\[(])", "ln"),
        (r"(?<![\w.])leV\b", "1 eV"),
        # the state of a substance lowered with its count, a small word run into a variable
        (r"_?\(_? ?\{?(g|l|s|aq)\}?_\)_?|_\((g|l|s|aq)\)_|(?<=[A-Za-z\d}])_?\(_\{?(g|l|s|aq)\}?\)_?", r"(\1\2\3)"),
        (r"(?<![A-Za-z])(for|if|when|where|with|and|of|that|find|let|[Aa]t(?!m\b)|For|If|When|Find|Let)([a-zA-Z])"
         r"(?= ?= ?[-\d(])", r"\1 \2"),
        (r"(?<=\))(?=(?:at|and|for|of|is|to|when)\b(?!\())", " "),
        # units: a dot, a space or capitals that do not belong to them
        (r"\b[Mm]\. ?[Pp]\. ?[Hh]\.(?= ?[,;)]| (?:[a-z]|\())", "mph"),
        (r"\b[Mm]\. ?[Pp]\. ?[Hh]\.", "mph."),
        (r"\b(positive|negative|horizontal|vertical)([xyz])(?=[ -]axis\b)", r"\1 \2"),
        (r"(?<=\d )J T ?-1(?!\w|\.\d)", "J/T"),
        (r"F°(?=/[a-z]+\b)", "°F"),
        (rf"(?<=\d) ?\. (?={_MEASURED}(?![\w.]))", " "),
        (r"(?<=\d) ?\. s(?=[,;)]| (?:and|at|in|is|to|after|before)\b)", " s"),
        (r"(?<=\d)(?:sec|s) ?\^ ?-1(?!\d)", " s^-1"),
        (r"(?<=\d)( ?[cm]?m) -(?=(?:long|thick|wide|high)\b)", r"\1 "),
        (r"(?<=\d )M(?=(?:HCl|HOAc|NaOAc|NaOH|NaCl|KOH|KCl|HNO_?3|H_?2SO_?4))", "M "),
        (r"(?<=\d) ?N (?=(?:acid|base|solutions?|alkali|[a-z]+ acid|NaOH|HCl|KOH|H_?2SO_?4|HNO_?3)\b)", " normal "),
        (r"(?<=\d) k cal\b", " kcal"),
        (r"(?<=\d)( ?(?:ml|mL|mg|kg|g|cm|mm|km|lb|sec))\. (?=[a-z]{2})", r"\1 "),
        (r"(\^[23])\.(?= [a-z])", r"\1"),
        (r"(?<=\d)( ?-?)in\.(?= (?:I|O)\. ?D\b)", r"\1inch"),
        (r"(?<=\d)° ([CFK])\b(?! (?:major|minor|sharp|flat))", r"°\1"),
        (r"(?<=\d) ?(?:degrees?|deg\.?) ([CF])\b(?! (?:major|minor|sharp|flat))", r"°\1"),
        (r"(?<=\d) ?μ ?\((microns?)\)", r" \1"),
        (r"(?<![\d.,])1 ?μ(?= (?:in|long|wide|thick|or|and|is)\b|[.,;?)])", "1 micron"),
        (r"(?<=\d) ?μ(?![\w^_(])(?! *(?:[CFmgsTVAW]\b|coul|[Ff]arad|[Aa]mp|[Vv]olt|[Ww]att|sec))", " microns"),
        (r"(?<=[A-Z]) ?Ω(?![\w^])", " ohms"),
        (r"(?<=\d )(henry|ohms?|volts?|amperes?|joules?|newtons?|farads?|coulombs?)(is|are|and|of|in|at)\b", r"\1 \2"),
        (r"(?<=\d/\d)(?=atm\b)", " "),
        (r"(?i)\b(atmospheres?) \(atm\)", r"\1"),
        (r"(?<=× 10)([1-9]) (\d)(?= ?(?:[kMG]?Hz|[kMG]?eV)\b)", r"^{\1\2}"),
        (r"(?i)\b(pounds per square inch|miles per hour|revolutions per minute|parts per million) "
         r"\((?:psi|mph|rpm|ppm)\)", r"\1"),
        (rf"(?<!\d )(?<![\w)])\((\d{{1,2}} ?/ ?\d{{1,3}})\) ?(?=(?:{_LENGTHS})\b)", r"\1 "),
        (r"\b[1I] 0(?=th\b)", "10"),
        (r"(?<=\d) ?\((\d{1,2}) / (\d{1,2})\) ?(?=in\b)", r"(\1/\2) "),
        (r"(?<![\w.,/-])(\d{1,2}) ?\((\d{1,2}/\d{1,2})\) ?(?=in\.?$)", r"\1 \2 "),
        # signs: a blank for a divisor, money that is none, a minus that touches one side only
        (r"(?<=\d) ?/ ?\?(?= ?=)", " ÷ ?"),
        (r"(?<== )Box (?=[a-z])", "____ "),
        (r"\$(?= ?\d[\d.]* ?[×x] ?10 ?\^)", ""),
        (r"(?<=[\dA-Za-z)\]])- (?=[(√∛∞∫∑])|(?<=[\d)])- (?=[α-ωΔ](?![a-z]))|(?<=\^-\d)- (?=\S)", " - "),
        (r"(?<=[∫∬∮∑∏])([^|\n]{0,14}?\S)\|", r"\1 |"),
        (r"(?<![\w.])j(?=\d)", "j "),
        (r"(?<= )- (?=j \d)", "-"),
        (r"([α-ω])- (?=[a-z]{3})", r"\1-"),
        (r"(?<=, )([a-z]+) - ([a-z]+)(?=,| and | or )", r"\1-\2"),
        (r"\b([Aa])\((?=\.?\d)", r"\1 ("),
        (r"(?<=\d) ?([NJCVTWA]|kg) × (?=(?:m|s|kg|V)(?:\^|\b))", r" \1×"),
        # what a sign says again: "the integral ∫"
        (r"\b[Tt]he (?:(?:double|line|contour|surface|following) )?integral:? ?(?=[∫∬∮])", ""),
        (r"\b[Tt]he square root of (?=√)", ""),
        (r"(?<=\ba\) )([A-Z]\w+)b\) ?([A-Z]\w+)c\) ?(?=[A-Z])", r"\1, b) \2, c) "),
        # letters that only their neighbours show to be apart: "aH = Ha", "coefficienth = 2"
        (r"(?<![A-Za-z])([A-Za-z])([A-Za-z]) ?= ?\2\1(?![A-Za-z])", r"\1 \2 = \2 \1"),
        (r"\b(coefficient|temperature|pressure|velocity|length|force|constant|current|voltage|resistance|factor|mass"
         r"|energy)([A-Za-zα-ω])(?= ?=|_)", r"\1 \2"),
        (r"(?<=\d) ?[x×] ?(?=\d+ (?:(?:real |square |identity )?matri|two-way |(?:contingency )?table))", " by "),
        (r"(?<=[Tt]he )K([ab])(?= (?:is|of|for|values?)\b)", r"K_\1"),
        (r"(?<![A-Za-zα-ω])χ2(?![\w.^])", "χ^2"),
        # a question that begins right after a number, an index year
        (r"(?<=\d) (?=(?:What|Which|How|Find|Calculate|Determine) [a-z])", ". "),
        (r"(?<=°[CFKR]) (?=(?:What|Which|How|Find|Calculate|Determine) [a-z])", ". "),
        # sums of money with their names in one line, and a row that goes on
        (r"(\$\d[\d,.]*) (?=[A-Z][a-z]+(?:'s)?(?: [a-z]+){0,8} \$\d)", r"\1, "),
        (r"(?<=[\d,]) ?\.\.\.(?= (?:and|where|for|be|is|are)\b)", " and so on"),
        (r"\blim(?= ?[-+]? ?[\d(])", "the limit of "),
        (r"[Tt]he limit:?\s*(?=lim\b)", ""),
    )
)  # fmt: skip


def without_slips(text: Traced) -> Traced:
    """The text with each of these put right."""
    for pattern, form in _SLIPS:
        text = text.sub(pattern, form)
    return text
