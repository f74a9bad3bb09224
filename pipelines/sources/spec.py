"""What a source file says of its question set, and what it makes of a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pydantic import Field

from backends.options import Options
from data_schemas.errors import ConfigError

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

    def with_options(self, options: tuple[str, ...], index: int) -> Self:
        """The same with options, of which one is the answer."""
        return replace(self, options=options, answer_index=index, answer=options[index])


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


class HubOptions(Options):
    """Which rows of its data set on the Hugging Face Hub are read: what a source without options of its own takes."""

    hub_config: str = Field(default="", description="Subset of the data set on the Hub; empty: the usual one.")
    hub_split: str = Field(default="", description="Split of the data set on the Hub; empty: the usual one.")


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
    `package` is that of a source from elsewhere; `renamed` maps our columns to those of a file that has other ones.
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
    package: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)

    def with_columns(self, renamed: Mapping[str, str]) -> Self:
        """The same set in a file whose columns are called otherwise; the rest keep their names.

        Raises:
            ConfigError: a column that the set does not have.
        """
        known = (*self.columns, *self.more_columns)
        if unknown := sorted(set(renamed) - set(known)):
            raise ConfigError(
                f"The source {self.name!r} has no column {', '.join(unknown)} to be mapped.",
                f"Its columns: {', '.join(known)}.",
            )
        return replace(self, renamed=renamed)

    def rename_row(self, row: Row) -> Row:
        """A row of the file under the set's own column names."""
        return {**row, **{ours: value_of(row, theirs) for ours, theirs in self.renamed.items()}}

    def list_file_columns(self) -> tuple[str, ...]:
        """The columns that are read, as the file calls them."""
        ours = (*self.columns, *self.more_columns)
        return tuple(self.renamed.get(name, name).split(".")[0] for name in ours)


def value_of(row: Row, column: str) -> Any:
    """What a column holds; `a.b` is what the column `a` holds under `b`, where no column has that very name."""
    if column in row or "." not in column:
        return row.get(column)
    outer, _, inner = column.partition(".")
    held = row.get(outer)
    return value_of(held, inner) if isinstance(held, Mapping) else None


def text_of(row: Row, column: str) -> str:
    """A column's text without white space around it.

    Raises:
        BadRowError: missing, not text, or empty.
    """
    value = value_of(row, column)
    if value is None:
        raise BadRowError("missing_field", f"no {column!r}")
    if not isinstance(value, str):
        raise BadRowError("wrong_type", f"{column!r} is {type(value).__name__}, not text")
    if not value.strip():
        raise BadRowError("empty_field", f"{column!r} is empty")
    return value.strip()


def optional_text(row: Row, column: str) -> str | None:
    """A column's text, or None where there is none; numbers are written out (ids often are numbers)."""
    value = value_of(row, column)
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
