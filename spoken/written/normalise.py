"""Text normalization before text is read: one form for each mark, no LaTeX, no formatting, one line."""

import re
from typing import Final

from spoken.rules.rule import apply_rewritings
from spoken.spoken_text import Unspeakable
from spoken.written.characters import replace_characters, strip_accents
from spoken.written.everyday import EVERYDAY
from spoken.written.latex import convert_latex
from spoken.written.layout import FIGURES, LINES
from spoken.written.markup import MARKUP, check_markup, check_table
from spoken.written.traced import TracedText

REWRITINGS: Final = (*MARKUP, *EVERYDAY, *FIGURES, *LINES)
"""All rewritings, in the order in which they are applied."""

_UNREADABLE: Final = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ufffd]|\b[?]{2,}\w|(?<![A-Za-z\\])(?:ext(?:phi|theta|bullet)|lpha|ullet|heta)(?![a-z])"
    r"|[\u202a-\u202e\u2066-\u2069]|‚Ä|â€|Ã[©¨¼¶¤±¡³§ª´¢]|Â[ °]|[a-z]Õ[a-z]"
    r"|\A[^=]*\d\u2212\d[^=]*\Z"
)
"""Control characters, LaTeX that lost its backslash, wrongly decoded text, and "10−14 m", which was a power of ten."""

_TOO_LONG: Final = re.compile(r"\d{25}|\d(?:,\d{3}){8}")
"""Numbers that are too long to read out or to convert."""


def normalise(written: TracedText) -> TracedText:
    """Returns a written text in the notation that the rules read: straight quotes, plain letters, no LaTeX, one line.

    Raises:
        Unspeakable: broken text, markup, a table, LaTeX without a reading, or a number of 25 digits or more.
    """
    if broken := _UNREADABLE.search(written.text.replace("\t", " ").replace("\r", " ")):
        raise Unspeakable("symbol", written.text[max(0, broken.start() - 10) : broken.end() + 10])
    text = replace_characters(convert_latex(apply_rewritings(written, MARKUP)))
    if long := _TOO_LONG.search(text.text):
        raise Unspeakable("number", long[0][:40])
    text = apply_rewritings(text, EVERYDAY)
    check_markup(text.text)
    check_table(text.text)
    return apply_rewritings(strip_accents(apply_rewritings(text, FIGURES)), LINES)
