"""Options in columns under headings at the question's end, told heading by heading.

"… What happens? PRICE    QUANTITY" with the option "Rises    Falls" is "… What happens?" and "price: rises; quantity:
falls".
"""

import re
from collections.abc import Container
from dataclasses import replace
from typing import Final

from data_schemas.records import Item
from pipelines.script.choices import lower_start
from spoken.meaning import is_common

_GAP: Final = re.compile(r"[ \t\u00a0]{3,}")
_HEADINGS: Final = re.compile(r"(?s)(.*?[.?!:])\s*((?=[A-Z])(?:[A-Z]\.[A-Z]\.|[^.?!:\n])+)")
_LONGEST_SHORT_FORM: Final = 4
"""Letters of "GDP" or "NATO", which stay capitals where no common word."""

_MAX_HEADING_WORDS: Final = 5
_MOST_COLUMNS: Final = 4
_FEWEST_COLUMNS: Final = 2


def with_columns_told(item: Item) -> Item:
    """The item with each cell of its options after the heading of its column; as it is where they do not fit."""
    found = _HEADINGS.fullmatch(item.question.strip())
    if found is None or item.answer_index is None:
        return item
    headings = _cells(found[2])
    rows = [_cells(re.sub(r"^\([A-J]\) +", "", option.strip())) for option in item.options]
    is_table = _FEWEST_COLUMNS <= len(headings) <= _MOST_COLUMNS and all(len(row) == len(headings) for row in rows)
    if not is_table or max(len(heading.split()) for heading in headings) > _MAX_HEADING_WORDS:
        return item
    options = tuple(
        "; ".join(
            f"{_heading(heading, found[1])}: {lower_start(cell)}" for heading, cell in zip(headings, row, strict=True)
        )
        for row in rows
    )
    return replace(item, question=found[1], options=options, answer=options[item.answer_index])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _GAP.split(line.strip()) if cell.strip()]


def _heading(heading: str, question: str) -> str:
    """A heading inside a sentence: common words, and those that the question has so, in small letters."""
    told = set(question.split())
    return lower_start("".join(_in_small_letters(word, told) for word in re.split(r"([ -])", heading)))


def _in_small_letters(word: str, told: Container[str]) -> str:
    if is_common(word.lower()) or word.lower() in told:
        return word.lower()
    return word.capitalize() if word.isalpha() and len(word) > _LONGEST_SHORT_FORM else word
