"""Rewrites Markdown, tags and dollar signs around formulas before LaTeX is converted; other markup is refused."""

import re
from typing import Final

from spoken.rules.rule import Rule, make_rewriting
from spoken.spoken_text import Unspeakable

_MATHS: Final = (
    r"\$\$?( ?\d+ ?/ ?\d+(?: ?, ?\d+ ?/ ?\d+)* ?(?=\$)| ?\d[\d.]* ?[-+] ?\d[^$a-z]{0,20}[a-z] ?(?=\$)"
    r"|[^$]{0,400}?[\\^_={}(+<>][^$]{0,400}?"
    r"|-?[A-Za-z(|][^$]{0,160}?|-?\d[\d.,]*"
    r"|(?![^$]*[a-z]{3})\d[^$]{0,40}?[A-Za-zÅ|!)}])\$\$?(?!\d)"
)
MARKUP: Final[tuple[Rule, ...]] = (
    make_rewriting("formulas run together", r"(?<=[^$\s])\$\$(?=[^$\s.,;:?)])", "$ $", "$x$$y$", "$x$ $y$"),
    make_rewriting("formula between dollars", _MATHS, r" \1 ", "if $x = 2$ holds", "if  x = 2  holds"),
)  # fmt: skip
"""Applied to the text as written."""

_MARKUP: Final = re.compile(
    r"https?:|www\.|\w@\w+\.|\w\.(?:com|org|net|edu|gov|io)\b|__[A-Za-z][^_\n]*__|</?[a-zA-Z][^<>]{0,200}>|<!--|```|#include|</|/\*|\*/|\*\*|<<|&#?[a-z\d]{2,8};"
)
_NOT_MARKUP: Final = re.compile(r"<[A-Za-z]\w?(?:, ?[A-Za-z]\w?)*>")
_TABLE: Final = re.compile(r"\|[^|\n]{0,60}\n[^|\n]{0,60}\||\|[^|]{0,40} \| [^|]{0,40}\|(?=\s|$)")


def check_markup(text: str) -> None:
    """Checks that a text has no markup, such as tags, addresses or programs, that no rewriting has removed.

    Raises:
        Unspeakable: `markup`: it has some.
    """
    for markup in _MARKUP.finditer(text):
        if not _NOT_MARKUP.fullmatch(markup[0]):
            raise Unspeakable("markup", markup[0])


def check_table(text: str) -> None:
    """Checks that a text has no table: cells between vertical bars.

    Raises:
        Unspeakable: `table`: it has one.
    """
    if _TABLE.search(text):
        raise Unspeakable("table", text[text.index("|") :][:40])
