"""The specification of a source, and helpers that read the columns of its rows."""

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
    """An item before it has ids: what a source file reads from one row."""

    question: str
    answer: str
    native_id: str | None = None
    explanation: str | None = None
    options: tuple[str, ...] = ()
    answer_index: int | None = None
    category: str | None = None
    picture: str | None = None

    def with_options(self, options: tuple[str, ...], index: int) -> Self:
        """Returns the same draft with options, one of which is the answer."""
        return replace(self, options=options, answer_index=index, answer=options[index])


class BadRowError(Exception):
    """A row that is not an item; it becomes a reject with this reason.

    Args:
        reason: a short name in snake_case, by which rejects are counted.
        detail: what is wrong with this row.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class HubOptions(Options):
    """Which rows of a data set on the Hugging Face Hub are read; the options of a source without options of its own."""

    hub_config: str = Field(default="", description="Subset of the data set on the Hub; empty: the default one.")
    hub_split: str = Field(default="", description="Split of the data set on the Hub; empty: the default one.")


def list_only_english(row: Row) -> tuple[str, ...]:
    """Returns English alone as the languages of a row, for sources that have no others."""
    return (ENGLISH,)


def keep_row(row: Row, language: str) -> Row:
    """Returns the row unchanged, for a source in one language."""
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """A source of questions: where it is, its licence, and how to read a row.

    A row must have `columns`; `draft` also reads `more_columns`, and nothing else. If rows have texts in several
    languages, `languages_of` returns these, and `draft` reads the row that `in_language` makes for one of them.
    `package` is the package of a plugin; `renamed` maps our columns to those of a file that has other ones.
    """

    name: str
    hub_id: str | None
    hub_config: str | None
    hub_split: str
    licence: str | None
    columns: tuple[str, ...]
    more_columns: tuple[str, ...] = ()
    draft: Callable[[Row], Draft]
    languages_of: Callable[[Row], tuple[str, ...]] = list_only_english
    in_language: Callable[[Row, str], Row] = keep_row
    package: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)

    def with_columns(self, renamed: Mapping[str, str]) -> Self:
        """Returns the same source for a file with other column names; columns that are not named keep theirs.

        Raises:
            ConfigError: the source does not have such a column.
        """
        known = (*self.columns, *self.more_columns)
        if unknown := sorted(set(renamed) - set(known)):
            raise ConfigError(
                f"The source {self.name!r} has no column {', '.join(unknown)} to be mapped.",
                f"Its columns: {', '.join(known)}.",
            )
        return replace(self, renamed=renamed)

    def rename_row(self, row: Row) -> Row:
        """Returns a row of the file with the source's renamed columns added; the file's own columns stay in it."""
        return {**row, **{name: get_value(row, column) for name, column in self.renamed.items()}}

    def list_file_columns(self) -> tuple[str, ...]:
        """Returns the columns that are read, with the names of the file; for `a.b`, this name and the column `a`."""
        columns = [self.renamed.get(name, name) for name in (*self.columns, *self.more_columns)]
        return tuple(dict.fromkeys(part for name in columns for part in (name, name.split(".")[0])))


def get_value(row: Row, column: str) -> Any:
    """Returns the value of a column, or None; `a.b` is that under `b` in the column `a`, unless one is named `a.b`."""
    if column in row or "." not in column:
        return row.get(column)
    outer, _, inner = column.partition(".")
    held = row.get(outer)
    return get_value(held, inner) if isinstance(held, Mapping) else None


def read_text(row: Row, column: str) -> str:
    """Returns the text of a column without surrounding white space.

    Raises:
        BadRowError: it is missing, not text, or empty.
    """
    value = get_value(row, column)
    if value is None:
        raise BadRowError("missing_field", f"no {column!r}")
    if not isinstance(value, str):
        raise BadRowError("wrong_type", f"{column!r} is {type(value).__name__}, not text")
    if not value.strip():
        raise BadRowError("empty_field", f"{column!r} is empty")
    return value.strip()


def read_optional_text(row: Row, column: str) -> str | None:
    """Returns the text of a column, or a whole number as text; None if it is missing, empty or of another type."""
    value = get_value(row, column)
    return str(value).strip() or None if isinstance(value, str | int) and not isinstance(value, bool) else None


def find_chosen_option(options: tuple[str, ...], letter: str) -> int:
    """Returns the index of the option that a letter names.

    Raises:
        BadRowError: it is not one letter, there is no such option, or that option is empty.
    """
    index = ord(letter.upper()) - ord("A") if len(letter) == 1 and letter.isascii() else -1
    if not 0 <= index < len(options):
        raise BadRowError("answer_out_of_range", f"answer {letter!r} of {len(options)} options")
    if not options[index]:
        raise BadRowError("empty_field", f"option {letter!r} is empty")
    return index


def read_options(values: object) -> tuple[str, ...]:
    """Returns a row's options, which must be a list of texts, without surrounding white space.

    Raises:
        BadRowError: they are not a list of texts, or fewer than two.
    """
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadRowError("wrong_type", "the options are not a list of texts")
    if len(values) < 2:
        raise BadRowError("too_few_options", f"{len(values)} option(s)")
    return tuple(value.strip() for value in values)
