"""Written text before it is read: one form for each mark, no LaTeX, no formatting, one line."""

import re
from typing import Final

from spoken.spoken_text import Unspeakable
from spoken.written.broken import mend_words
from spoken.written.characters import in_plain_characters, without_accents
from spoken.written.latex import has_latex, open_latex
from spoken.written.layout import FIGURES, LABELS, LINES, SIGNS
from spoken.written.markup import FORMULA, MARKUP, check_markup, check_table
from spoken.written.misprints import MISPRINTS, as_printed
from spoken.written.notation import in_usual_notation
from spoken.written.quotes import with_inch_marks
from spoken.written.rewrite import rewritten
from spoken.written.sentences import SENTENCES
from spoken.written.slips import without_slips
from spoken.written.symbols import with_cases_told, with_fields_named, with_means_named, with_named_hypotheses
from spoken.written.traced import Traced
from spoken.written.typography import flattened_powers, in_one_form

REWRITES: Final = (*MARKUP, FORMULA, *LABELS, *SIGNS, *MISPRINTS, *SENTENCES, *FIGURES, *LINES)
"""All rewritings that have a name."""

_UNREADABLE: Final = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ufffd]|\b[?]{2,}\w|(?<![A-Za-z\\])(?:ext(?:phi|theta|bullet)|lpha|ullet|heta)(?![a-z])"
    r"|[\u202a-\u202e\u2066-\u2069]"
)
_TOO_LONG: Final = re.compile(r"\d{25}|\d(?:,\d{3}){8}")
"""Numbers that nobody reads out, and that Python would not convert."""


def _check(text: str) -> None:
    if broken := _UNREADABLE.search(text):
        raise Unspeakable("symbol", text[max(0, broken.start() - 10) : broken.end() + 10])
    if long := _TOO_LONG.search(text):
        raise Unspeakable("number", long[0][:40])
    check_markup(text)


def normalise(written: str | Traced) -> Traced:
    """Written text in one form: straight quotes, plain letters, no LaTeX, one line.

    Raises:
        Unspeakable: broken text, markup, a table, or LaTeX without a reading.
    """
    text = rewritten(Traced.of(written) if isinstance(written, str) else written, MARKUP)
    is_latex = has_latex(text.text)
    text = FORMULA(text)
    if is_latex:
        text = open_latex(text)
    text = in_plain_characters(flattened_powers(with_means_named(text)))
    _check(text.text)
    text = rewritten(with_inch_marks(text), LABELS)
    check_table(text.text)
    text = rewritten(text, SIGNS)
    text = without_slips(rewritten(text, (*MISPRINTS, *SENTENCES)))
    text = with_cases_told(with_named_hypotheses(with_fields_named(in_usual_notation(text))))
    text = rewritten(in_one_form(text), FIGURES)
    return rewritten(as_printed(mend_words(without_accents(text))), LINES)
