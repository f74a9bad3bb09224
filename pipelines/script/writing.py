"""Written text before it is read: one form for each mark, no LaTeX, no formatting, one line."""

import re
from typing import Final

from pipelines.script.broken import mend_words
from pipelines.script.characters import in_plain_characters, without_accents
from pipelines.script.latex import has_latex, open_latex
from pipelines.script.layout import FIGURES, LABELS, LINES, SIGNS
from pipelines.script.markup import FORMULA, MARKUP, check_markup, check_table
from pipelines.script.misprints import MISPRINTS, as_printed
from pipelines.script.notation import in_usual_notation
from pipelines.script.quotes import with_inch_marks
from pipelines.script.rewrites import rewritten
from pipelines.script.sentences import SENTENCES
from pipelines.script.slips import without_slips
from pipelines.script.spoken import Unspeakable
from pipelines.script.symbols import with_cases_told, with_fields_named, with_means_named, with_named_hypotheses
from pipelines.script.traced import Traced
from pipelines.script.typography import flattened_powers, in_one_form

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
