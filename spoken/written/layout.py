"""Signs, months, numbers and lines that are written in several ways, and the one way in which the rules read them."""

import re
from typing import Final

from spoken.rules.abbreviations import MONTH_FORMS
from spoken.rules.units import UNIT
from spoken.written.rewrite import Rewrite, rewrite

_TIED: Final = (
    r"(?<=[\w.)}( ])~ ?(?=(?:mol|[kKmgsJLMTVWNCF]|kg|cm|dm|nm|Hz|GHz|MHz|THz|kJ|mm|eV|keV|MeV|Pa|kPa|ms|h|aq)\b"
    r"(?:\^|[^\w(]|$))"
)
_BEFORE_SCRIPT: Final = (
    r"(?<=[\w)\]}α-ωΑ-Ω∑∫∏]) (?=[_^] ?[\w{(+-])(?!_[_ ])(?!(?<=[a-z]{2} )[_^]\{?\d{1,3}\}?(?:_\{?\d{1,2}\}?)?[A-Z])"
)
_QUESTIONS: Final = "The|Which|What|According|This|In|How|Who|Based|All|It|Why"


_COMPASS: Final = {"N": "North", "S": "South", "E": "East", "W": "West"}
_LEADS_TO_PLACE: Final = "[Ii]n|of|from|to|and|[Tt]he|across|for|throughout|between"
_PLACES: Final = "Africa|America|Asia|Europe|Korea|Vietnam|Germany|Carolina|Dakota|Virginia|Ireland|Australia"


def _listed_numbers(match: re.Match[str]) -> str:
    """ "1,2,3" is a list and "1,250" a number; "5,41" may be either and stays."""
    text = match[0]
    is_grouped = re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", text)
    left, right = match.string[match.start() - 1 : match.start()], match.string[match.end() : match.end() + 1]
    if is_grouped or (text.count(",") < 2 and not (left in "([{=<,-" and left) and right != ","):
        return text
    return text.replace(",", ", ")


LABELS: Final = (
    rewrite("label of a statement", r"\b(Statement|Sentence|Claim) ?(\d|I{1,2}) ?\|", r"\1 \2:",
            "Statement 1| Pikes swim.", "Statement 1: Pikes swim."),
    rewrite("line of a name and its amount",
            r"(?<=\n)([A-Za-z(][^|\n\\$]{2,60}?) ?\| ?([$£€]?\d[\d,.]*[^|\n]{0,15}?) *(?=\n|$)",
            r"\1, \2.", "Sales:\nFresh pikes | $3 million\nCarps | 5", "Sales:\nFresh pikes, $3 million.\nCarps, 5."),
)  # fmt: skip
"""Bars that are no cells of a table."""

SIGNS: Final = (
    rewrite("at most", "< ?=", "≤", "x <= 3", "x ≤ 3"),
    rewrite("at least", r"> ?=|=>(?=[ ]?[\d$][\d.]*[,.?)])", "≥", "x >= 3", "x ≥ 3"),
    rewrite("unequal", "!=|=/=|<>", "≠", "x != 3", "x ≠ 3"),
    rewrite("both ways", "<-+>|< - >|<=>", "↔", "A <--> B", "A ↔ B"),
    rewrite("arrow back", "(?<=[A-Z] )<-+(?= [A-Z](?![A-Za-z]))", "←", "A <- B", "A ← B"),
    rewrite("arrow", "-+ ?>", "→", "A -> B", "A → B"),
    rewrite("double arrow", "= ?>", "⇒", "A => B", "A ⇒ B"),
    rewrite("much greater", "> ?>", "≫", "x >> y", "x ≫ y"),
    rewrite("much less", "< ?<", "≪", "x << y", "x ≪ y"),
    rewrite("plus or minus", r"\+ ?/ ?-", "±", "5 +/- 1", "5 ± 1"),
    rewrite("minus before its caret", r"(?<=\d)-\^(?=\d)", "^-", "10-^3", "10^-3"),
)
"""Signs typed as several characters."""

FIGURES: Final[tuple[Rewrite, ...]] = (
    rewrite("article of a word to be guessed", r"\b([Aa])\(n\)", r"\1", "a(n) egg", "a egg"),
    rewrite("micro apart from its unit", r"(?<=\d) *μ +(?=[CFmgsTVAW]\b)", " μ", "5 μ C", "5 μC"),
    rewrite("tied unit", _TIED, " ", "5~kg", "5 kg"),
    rewrite("compass", rf"\b({_LEADS_TO_PLACE}) ([NSEW])\. (?=(?:{_PLACES})\b)",
            lambda m: f"{m[1]} {_COMPASS[m[2]]} ",
            "in W. Africa with Ann N. Korea", "in West Africa with Ann N. Korea"),
    rewrite("month", rf"\b({'|'.join(MONTH_FORMS)})\.? (?=\d)", lambda m: f"{MONTH_FORMS[m[1]]} ",
            "on Sept. 3", "on September 3"),
    rewrite("month after its day", rf"\b([1-9]|[12]\d|3[01]) ({'|'.join(MONTH_FORMS)})\b(?:\.(?! [A-Z]|$))?",
            lambda m: f"{m[1]} {MONTH_FORMS[m[2]]}",
            "On 21 Mar. it rained until 3 Sept.", "On 21 March it rained until 3 September."),
    rewrite("numbers in a list", r"(?<![\d,])\d+(?:,\d+)+", _listed_numbers,
            "1,2,3 and 1,250 and 5,41", "1, 2, 3 and 1,250 and 5,41"),
    rewrite("norm", r"\| ?\|", "‖", "||x||", "‖x‖"),
    rewrite("thousands apart", r"(?<!\d)\d{1,3}(?: \d{3})* 000(?!\d)|(?<!\d)\d{1,3}(?: \d{3}){2,}(?!\d)",
            lambda m: m[0].replace(" ", ","), "25 000 or 1 234 567", "25,000 or 1,234,567"),
    rewrite("decimals apart", r"(?<!\d)(\d\.\d{3}) (\d{1,3})(?= [a-zA-Z])", r"\1\2", "3.141 59 m", "3.14159 m"),
    rewrite("script apart", _BEFORE_SCRIPT, "", "x ^2 + y _1", "x^2 + y_1"),
    rewrite("unit in brackets", rf"(?<![\w.])(\.?\d[\d,.]*) ?\( ?(?!T ?/)({UNIT}) ?\)", r"\1 \2", "5 (kg)", "5 kg"),
    rewrite("quoted number", r"(?<![\w'])'(\d{1,3})'(?![\w'])", r"\1", "the digit '7'", "the digit 7"),
    rewrite("comma of a list", r"(?<=\d/\d),(?=\d+/\d)|(?<=\d, \d),(?=\d{1,2}[)}\]])", ", ",
            "1/2,3/4 and (1, 2,3)", "1/2, 3/4 and (1, 2, 3)"),
    rewrite("comma of a list with signs or decimals",
            r",(?=-\d)|(?<=\.\d),(?=\d)|(?<=\.\d\d),(?=\d)|(?<=\d),(?=\d{1,2}\.\d)", ", ",
            "2,-3 and 0.5,1", "2, -3 and 0.5, 1"),
)  # fmt: skip
"""Numbers and what stands with them."""

LINES: Final[tuple[Rewrite, ...]] = (
    rewrite("blank line before a joining word",
            r"(?<=[a-z]) *\n\s*\n\s*(?=(?:between|of|and|or|in|to|for|with|by|on|at|from|that|which|than)\b)", ", ",
            "a lake\n\nwith fish", "a lake, with fish"),
    rewrite("blank line after a joining word",
            r"\b(to|of|the|an?|in|by|for|with|other|and|or|that|is|are|at|on|from|this|its) *\n\s*\n\s*(?=[a-z])",
            r"\1 ",
            "a lake with\n\nfish", "a lake with fish"),
    rewrite("formula on a line of its own",
            r"\b(of|by|is|are|as|equals) *\n\s*\n\s*(?=[√∫∑∏(]|[A-Za-zα-ω](?:_\{?\w+\}?|\([a-z]\))? ?=)", r"\1 ",
            "is given by\n\n√2 m", "is given by √2 m"),
    rewrite("blank line", r"([^\s.?!:;,]) *\n\s*\n\s*", r"\1. ", "A lake\n\nIt is deep.", "A lake. It is deep."),
    rewrite("line after a date", r"(?:(?<=, \d{4})|(?<=, \d{4}[-–]\d{4})) *\n\s*(?=[A-Z])", ". ",
            "May 3, 1850\nDear Ann", "May 3, 1850. Dear Ann"),
    rewrite("question after a number", rf"(?<=\d) *\n\s*(?=(?:{_QUESTIONS})\b)", ". ",
            "k is 3\nWhat is m?", "k is 3. What is m?"),
    rewrite("question after a word", r"(?<=[a-z)]) *\n\s*(?=(?:Which|What|How|Based on|According to|Who|Why)\b)", ". ",
            "a deep lake\nWho owns it?", "a deep lake. Who owns it?"),
    rewrite("line that goes on", r"(?<=[a-z]) *\n\s*(?=That (?:there|he|she|they|we|I|it|you)\b)", " ",
            "to understand\nThat there is", "to understand That there is"),
    rewrite("line of a list", r"([^\s.?!:;,]) *\n\s*(?='?[A-Z0-9\ue100-\uf8ff][^\n]*\n|[•*-] )", r"\1. ",
            "pikes\n- carps", "pikes. - carps"),
    rewrite("space", r"\s{2,}|[^\S ]", " ", "a \n lake", "a lake"),
    rewrite("space at an end", "^ | $", "", " a lake ", "a lake"),
)  # fmt: skip
"""Line ends as pauses: a blank line ends a sentence, a single one only where the next line starts a new one."""
