"""All rules, in the order in which they are tried at each position of a text; the first that matches is used."""

import re
from typing import Final

from spoken.formulas.signs import SIGNS
from spoken.rules.chemistry import CHEMISTRY_RULES
from spoken.rules.dates import DATE_RULES
from spoken.rules.maths import MATHS_RULES
from spoken.rules.money import MONEY_RULES
from spoken.rules.quantities import QUANTITY_RULES
from spoken.rules.rule import Match, Rule, get_text_after, get_text_before, get_topic, make_refusal, make_rule
from spoken.rules.words import WORD_RULES
from spoken.spoken_text import Unspeakable


def _read_marks(match: Match) -> str:
    """Reads several punctuation marks as the strongest of them."""
    return next(mark for mark in "?!.;:," if mark in match[0])


def _read_quote(match: Match) -> str:
    """Reads a quotation mark as nothing.

    Raises:
        Unspeakable: it is after a number and closes no quotation, so that it may be an inch mark.
    """
    left, is_open = get_text_before(match), match.string.count('"', 0, match.start()) % 2 == 1
    is_closed = is_open and match.string.count('"') % 2 == 0
    opens = left.endswith(" ") and re.match(r"\w", get_text_after(match)) is not None
    measures = re.search(r"\d ?$|(?<![A-Za-z'])[a-z]$", left) is not None and not opens
    if match[0] == '"' and measures and not is_closed:
        raise Unspeakable("symbol", get_text_before(match)[-15:] + match[0])
    return ""


_OF_FACTORIALS: Final = re.compile(r"(?i)factorial|permut|combinat|arrange|\bways\b|\d!.*\d!|[=×*/] ?\d+!")


def _read_exclamation(match: Match) -> str:
    """Reads an exclamation mark after a number; raises `Unspeakable` if the topic suggests a factorial."""
    if _OF_FACTORIALS.search(get_topic(match)):
        raise Unspeakable("formula", get_text_before(match)[-15:] + match[0])
    return "!"


_LAST: Final[list[Rule]] = [
    make_rule("factorial", "suffix", r"(?<=\d)(?<![.,]\d)!(?= ?[=×*/]| (?:is|equals|ways)\b)", "factorial",
         "5! is 120.", "five factorial is one hundred twenty."),
    make_rule("end of an exclamation", "mark", r"(?<=\d)!(?= [A-Z]|$)", _read_exclamation, "We won 5! Hurray.",
         "We won five! Hurray."),
    make_refusal("exclamation or factorial", "formula",
            r"(?:(?<=[^$£€\d,.]\d)|(?<=^\d)|(?<=[^$£€,.\d]\d\d)|(?<=^\d\d)|(?<=\d\))|(?<=[^A-Za-z'][a-z])|(?<=^[a-z])"
            r"|(?<=[^A-Za-z][a-z]\)))!", "What is n! now"),
    make_refusal("stray question mark", "symbol", r"(?<= )\?(?= [a-z\d=+*/-])", "What is 5 + ? = 7"),
    make_refusal("dots in place of terms", "formula", r"(?<=[,+*×<] )\.\.\.", "1, 2, ..., n"),
    make_refusal("ending in brackets", "code", r"(?<=[a-z]{3})\((?!s\)|es\)|n\)|an\))[a-z]{1,3}\)", "cyber(ed) war"),
    make_rule("sign", "operator", f"[{re.escape(SIGNS)}]", r"\g<0>", "2 + 3", "two plus three"),
    make_rule("opening bracket", "open", r"[(\[{]", r"\g<0>", "he (or she)", "he, or she"),
    make_rule("closing bracket", "close", r"[)\]}]", r"\g<0>", "he (or she)", "he, or she"),
    make_rule("mark", "mark", r"[,.;:?!]+", _read_marks, "What?!", "What?"),
    make_rule("quote", "nothing", r"[\"']", _read_quote, 'the "old" pike', "the old pike"),
]  # fmt: skip

RULES: Final[list[Rule]] = [
    make_rule("blank", "word", r"(?<!\w)_(?:[_ ]*_)(?!\w)|_{3,}|\.{5,}", "blank",
         "It is called____.", "It is called blank."),
    *MONEY_RULES, *MATHS_RULES[:-1], *DATE_RULES, *QUANTITY_RULES, *CHEMISTRY_RULES,
    *MATHS_RULES[-1:], *WORD_RULES, *_LAST,
]  # fmt: skip
"""Money before formulas, formulas before plain numbers, and words after all rules for letters and digits."""
