"""What a source file says of its question set, and what it makes of a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
ENGLISH = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An item before it has ids: what a source file reads out of one row."""

    question: str
    answer: str
    native_id: str | None = None
    explanation: str | None = None
    options: tuple[str, ...] = ()
    answer_index: int | None = None
    category: str | None = None
    picture: str | None = None


class BadRowError(Exception):
    """A row that is no item; becomes a reject with this reason.

    Args:
        reason: short and countable, in snake_case.
        detail: what is wrong with this one.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def only_english(row: Row) -> tuple[str, ...]:
    """The languages of a row of a set that is in English."""
    return (ENGLISH,)


def as_it_is(row: Row, language: str) -> Row:
    """The row of a set that is in one language."""
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """A question set: where it is, what it may be used for, and how to read a row.

    A row must have `columns`; `draft` looks at `more_columns` too, and at nothing else. Where rows hold their texts in
    several languages, `languages_of` tells in which, and `draft` reads the row that `in_language` makes of one.
    """

    name: str
    hub_id: str | None
    hub_config: str | None
    hub_split: str
    licence: str | None
    columns: tuple[str, ...]
    more_columns: tuple[str, ...] = ()
    draft: Callable[[Row], Draft]
    languages_of: Callable[[Row], tuple[str, ...]] = only_english
    in_language: Callable[[Row, str], Row] = as_it_is


def text_of(row: Row, column: str) -> str:
    """A column's text without white space around it.

    Raises:
        BadRowError: missing, not text, or empty.
    """
    value = row.get(column)
    if value is None:
        raise BadRowError("missing_field", f"no {column!r}")
    if not isinstance(value, str):
        raise BadRowError("wrong_type", f"{column!r} is {type(value).__name__}, not text")
    if not value.strip():
        raise BadRowError("empty_field", f"{column!r} is empty")
    return value.strip()


def optional_text(row: Row, column: str) -> str | None:
    """A column's text, or None where there is none; numbers are written out (ids often are numbers)."""
    value = row.get(column)
    return str(value).strip() or None if isinstance(value, str | int) else None


def chosen(options: tuple[str, ...], letter: str) -> int:
    """The index of the option that a letter names.

    Raises:
        BadRowError: not one letter, or no such option, or that option is empty.
    """
    index = ord(letter.upper()) - ord("A") if len(letter) == 1 and letter.isascii() else -1
    if not 0 <= index < len(options):
        raise BadRowError("answer_out_of_range", f"answer {letter!r} of {len(options)} options")
    if not options[index]:
        raise BadRowError("empty_field", f"option {letter!r} is empty")
    return index


def option_texts(values: object) -> tuple[str, ...]:
    """Options as texts, two at least.

    Raises:
        BadRowError: not a list of texts, or fewer than two.
    """
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadRowError("wrong_type", "the options are not a list of texts")
    if len(values) < 2:
        raise BadRowError("too_few_options", f"{len(values)} option(s)")
    return tuple(value.strip() for value in values)
