"""View of a table from a URL: filters, order, page, columns.

The URL holds the whole view, so that it can be shared: `source=gsm8k&duration_s=10..20&sort=-wer`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa

from dashboard.index import Index, fetch_records
from data_schemas.errors import ConfigError

PAGE_ROWS = 50
_N_BARS = 40
_RESERVED: Final = ("q", "sort", "page", "columns")
_LISTS: Final = ("level", "voice")
"""Columns with several values per row."""
_SHUFFLED: Final = re.compile(r"shuffle-\d{1,9}", re.ASCII)
"""A random order by seed, to listen to a fair sample."""
_PAGE: Final = re.compile(r"[1-9]\d{0,8}", re.ASCII)
"""The number of a page; more digits would be no page of any table."""


@dataclass(frozen=True, slots=True)
class Column:
    """A displayed column. `kind` is text, choice (few values, selected from a list) or number (a range).

    Args:
        sql: SQL expression of its value, if it is not the column of that name; a list if a row has several values.
        digits: number of decimal places.
        is_shown: whether it is displayed by default.
    """

    name: str
    title: str
    kind: str = "text"
    sql: str = ""
    digits: int = 0
    is_shown: bool = False

    @property
    def value(self) -> str:
        """Its SQL expression."""
        return self.sql or self.name


@dataclass(frozen=True, slots=True)
class TableKind:
    """A table of the index: columns, what free text is searched in, and the default order of rows."""

    name: str
    columns: tuple[Column, ...]
    searched: tuple[str, ...]
    order: str

    def get_column(self, name: str) -> Column:
        """Returns a column by name.

        Raises:
            ConfigError: there is none.
        """
        for each in self.columns:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.columns)
        raise ConfigError(f"Table `{self.name}` has no column {name!r}.", f"Choose one of: {names}.")


DIALOGUES: Final = TableKind(
    "dialogues",
    (
        Column("dialogue_id", "dialogue", is_shown=True),
        Column("source", "source", "choice", is_shown=True),
        Column("split", "split", "choice", is_shown=True),
        Column("form", "form", "choice", is_shown=True),
        Column("question", "question", is_shown=True),
        Column("answer", "answer", is_shown=True),
        Column("duration_s", "seconds", "number", digits=1, is_shown=True),
        Column("n_words", "words", "number", is_shown=True),
        Column("wer", "WER", "number", digits=3, is_shown=True),
        Column("mean_word_score", "word score", "number", digits=2, is_shown=True),
        Column("flag", "flag", "choice", is_shown=True),
        Column("level", "hint level", "choice", "levels::VARCHAR[]"),
        Column("voice", "voice", "choice", "voices"),
        Column("n_turns", "turns", "number"),
        Column("n_events", "oracle events", "number"),
        Column("answer_delay_s", "answer word after, s", "number", digits=2),
        Column("number_recall", "numbers heard", "number", digits=3),
        Column("name_recall", "names heard", "number", digits=3),
        Column("peak_dbfs", "peak, dBFS", "number", digits=1),
        Column("rms_dbfs_a", "RMS of A, dBFS", "number", digits=1),
        Column("rms_dbfs_b", "RMS of B, dBFS", "number", digits=1),
        Column("noise_dbfs", "noise, dBFS", "number", digits=1),
        Column("room_rt60_s", "room RT60, s", "number", digits=2),
        Column("language", "language", "choice"),
        Column("category", "category", "choice"),
        Column("licence", "licence", "choice"),
        Column("tts", "text-to-speech", "choice"),
        Column("asr", "listener", "choice"),
        Column("aligner", "aligner", "choice"),
        Column("script_method", "script", "choice"),
        Column("item_id", "item"),
    ),
    ("dialogue_id", "question", "answer", "spoken_text"),
    "file, file_row",
)
REJECTS: Final = TableKind(
    "rejects",
    (
        Column("item_id", "item", is_shown=True),
        Column("source", "source", "choice", is_shown=True),
        Column("stage", "stage", "choice", is_shown=True),
        Column("reason", "reason", "choice", is_shown=True),
        Column("detail", "what was found or tried", is_shown=True),
        Column("question", "written question", is_shown=True),
        Column("answer", "answer", is_shown=True),
        Column("dialogue_id", "dialogue"),
    ),
    ("item_id", "dialogue_id", "detail", "question", "answer"),
    "source, stage, reason, item_id, dialogue_id",
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram: start (inclusive), end (exclusive, except for the last bar), and count."""

    start: float
    end: float
    n: int


@dataclass(frozen=True, slots=True)
class View:
    """Filters, order and page of a table.

    Attributes:
        choices: for columns of kind choice, the accepted values.
        ranges: for columns of kind number, minimum and maximum, inclusive; None for an open end.
    """

    kind: TableKind
    text: str = ""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    sort: str = ""
    page: int = 1
    columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, kind: TableKind, pairs: Iterable[tuple[str, str]]) -> "View":
        """Parses the query of a URL.

        Empty values are ignored. Of several values of `q`, `sort`, `page` or a range, the last one counts; those of
        choices and of `columns` are joined.

        Raises:
            ConfigError: it names an unknown column or one without a filter, or an invalid range or page.
        """
        query: dict[str, list[str]] = {}
        for name, value in pairs:
            if value:
                query.setdefault(name, []).append(value)
        choices, ranges = {}, {}
        for name in (each for each in query if each not in _RESERVED):
            column = kind.get_column(name)
            if column.kind == "choice":
                choices[name] = tuple(dict.fromkeys(query[name]))
            elif column.kind == "number":
                ranges[name] = _parse_range(name, query[name][-1])
            else:
                raise ConfigError(f"Rows cannot be filtered by {name}.", "Search for its text with q=.")
        page, sort = query.get("page", ["1"])[-1], query.get("sort", [""])[-1]
        if _PAGE.fullmatch(page) is None:
            raise ConfigError(f"There is no page {page!r}.", "Pages are numbered from 1 to 999999999.")
        if sort and _SHUFFLED.fullmatch(sort) is None:
            kind.get_column(sort.removeprefix("-"))
        columns = tuple(dict.fromkeys(",".join(query.get("columns", [])).split(","))) if "columns" in query else ()
        for name in columns:
            kind.get_column(name)
        return cls(kind, query.get("q", [""])[-1], choices, ranges, sort, int(page), columns)

    def format_query(self, **changes: Any) -> str:
        """Returns the URL query of this view with some of its fields changed, such as `page=2`."""
        view = replace(self, **changes)
        pairs = [("q", view.text)] if view.text else []
        pairs += [(name, value) for name, values in view.choices.items() for value in values]
        pairs += [(name, format_range(bounds)) for name, bounds in view.ranges.items()]
        pairs += [("columns", ",".join(view.columns))] if view.columns else []
        pairs += [("sort", view.sort)] if view.sort else []
        pairs += [("page", str(view.page))] if view.page > 1 else []
        return urlencode(pairs, safe=",.:")

    @property
    def seed(self) -> int:
        """Seed of the random order; 0 if the order is not random."""
        return int(self.sort.partition("-")[2]) if _SHUFFLED.fullmatch(self.sort) else 0

    @property
    def shown(self) -> list[Column]:
        """The displayed columns: those of `columns`, or the default ones if it is empty, in the order of the table."""
        return [each for each in self.kind.columns if (each.name in self.columns if self.columns else each.is_shown)]


def _parse_range(name: str, text: str) -> tuple[float | None, float | None]:
    """Parses `1..2`, `1..` or `..2`; an open end is None.

    Raises:
        ConfigError: it is not such a range.
    """
    start, dots, end = text.partition("..")
    try:
        if dots:
            return (float(start) if start else None), (float(end) if end else None)
    except ValueError:
        pass
    raise ConfigError(f"{name}={text} is not a range.", f"Write it as {name}=1..2, {name}=1.. or {name}=..2.")


def format_range(bounds: tuple[float | None, float | None]) -> str:
    """Formats a range as in URLs and input fields: `1..2`, `1..` or `..2`; None is an open end."""
    return "..".join("" if bound is None else repr(bound).removesuffix(".0") for bound in bounds)


class TableReader:
    """Reads a view of a table from an index; must be closed.

    Text is searched once: the matching rows are a temporary table for all queries of the page.

    Args:
        flags: reasons of the flagged dialogues by id; not used for rejects.
    """

    def __init__(self, index: Index, view: View, flags: Mapping[str, str]) -> None:
        self._cursor = index.open_cursor()
        self._view = view
        self._from = view.kind.name
        self._from_parameters: list[object] = []
        if view.kind is DIALOGUES:
            self._from = (
                "(SELECT d.*, flagged.flag FROM dialogues d LEFT JOIN"
                " (SELECT unnest(?::VARCHAR[]) AS dialogue_id, unnest(?::VARCHAR[]) AS flag) flagged"
                " USING (dialogue_id))"
            )
            self._from_parameters = [list(flags), list(flags.values())]
        if words := view.text.lower().split():
            searched = " || ' ' || ".join(f"coalesce({name}, '')" for name in view.kind.searched)
            where = " AND ".join(f"contains(lower({searched}), ?)" for _ in words)
            found = f"CREATE TEMP TABLE found AS SELECT * FROM {self._from} WHERE {where}"  # noqa: S608
            self._cursor.execute(found, [*self._from_parameters, *words])
            self._from, self._from_parameters = "found", []

    def close(self) -> None:
        """Closes its connection."""
        self._cursor.close()

    def count(self) -> int:
        """Counts the rows of the view, over all pages."""
        where, parameters = self._make_where()
        return int(self._fetch_rows(f"SELECT count(*) FROM {self._from}{where}", parameters)[0][0])  # noqa: S608

    def read_page(self) -> list[dict[str, Any]]:
        """Returns the rows of the view's page: the displayed columns, and always the id, which links need."""
        first = (self._view.page - 1) * PAGE_ROWS
        sql, parameters = self._make_select()
        return fetch_records(self._cursor, f"{sql} LIMIT {PAGE_ROWS} OFFSET {first}", parameters)

    def export(self) -> pa.Table:
        """Returns all rows of the view, regardless of its page."""
        sql, parameters = self._make_select()
        return self._cursor.sql(sql, params=parameters).to_arrow_table()

    def find_neighbours(self, dialogue_id: str) -> tuple[str | None, str | None, int, int]:
        """Finds the neighbours of a dialogue in the view's order.

        Returns:
            The ids before and after it, or None; its position from 1, or 0 if the view does not have it; and the
            number of rows of the view.
        """
        where, parameters = self._make_where()
        order = f"OVER (ORDER BY {self._make_order()})"
        sql = (
            f"SELECT before, after, place, n FROM (SELECT dialogue_id, lag(dialogue_id) {order} AS before,"  # noqa: S608
            f" lead(dialogue_id) {order} AS after, row_number() {order} AS place, count(*) OVER () AS n"
            f" FROM {self._from}{where}) WHERE dialogue_id = ?"
        )
        found = self._fetch_rows(sql, [*parameters, dialogue_id])
        if not found:
            return None, None, 0, self.count()
        before, after, place, n = found[0]
        return before, after, place, n

    def count_choices(self, column: Column) -> list[tuple[str, int]]:
        """Returns pairs (value, number of rows) of a column under all other filters of the view.

        The most frequent value is first, but hint levels are sorted by level.
        """
        where, parameters = self._make_where(but=column.name)
        value = f"unnest({column.value})" if column.name in _LISTS else column.value
        sql = (
            f"SELECT value::VARCHAR, count(*) FROM (SELECT {value} AS value FROM {self._from}{where})"  # noqa: S608
            " WHERE value IS NOT NULL GROUP BY value ORDER BY count(*) DESC, value"
        )
        found = [(name, n) for name, n in self._fetch_rows(sql, parameters)]
        return sorted(found) if column.name == "level" else found

    def compute_histogram(self, column: Column) -> list[Bar]:
        """Returns the histogram of a column under all other filters; empty if the whole table has no number.

        Rows without a value are not counted. Bars cover the numbers of the whole table, so that they do not move when a
        filter changes.
        """
        bounds = f"SELECT min({column.value}), max({column.value}) FROM {self._view.kind.name}"  # noqa: S608
        low, high = self._fetch_rows(bounds, [])[0]
        if low is None:
            return []
        width = (high - low) / _N_BARS or 1.0
        where, parameters = self._make_where(but=column.name)
        sql = (
            f"SELECT least(floor(({column.value} - ?) / ?)::BIGINT, {_N_BARS - 1}) AS bar, count(*)"  # noqa: S608
            f" FROM {self._from}{where}{' AND' if where else ' WHERE'} ({column.value}) IS NOT NULL GROUP BY bar"
        )
        counted: dict[int, int] = dict(self._fetch_rows(sql, [low, width, *parameters]))
        return [Bar(low + i * width, low + (i + 1) * width, counted.get(i, 0)) for i in range(_N_BARS)]

    def _fetch_rows(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Executes a query on this reader's connection and returns its rows."""
        return self._cursor.execute(sql, list(parameters)).fetchall()

    def _make_select(self) -> tuple[str, list[object]]:
        """Returns the query of all rows of the view in its order, and its parameters."""
        columns = dict.fromkeys([f"{self._view.kind.columns[0].name}", *(each.name for each in self._view.shown)])
        values = ", ".join(f"{self._view.kind.get_column(name).value} AS {name}" for name in columns)
        where, parameters = self._make_where()
        return f"SELECT {values} FROM {self._from}{where} ORDER BY {self._make_order()}", parameters  # noqa: S608

    def _make_order(self) -> str:
        """Returns the ORDER BY expressions of the view, followed by the default order for rows with equal values."""
        sort = self._view.sort
        if not sort:
            return self._view.kind.order
        if _SHUFFLED.fullmatch(sort):
            return f"md5({self._view.kind.columns[0].name} || ' {sort}'), {self._view.kind.order}"
        column = self._view.kind.get_column(sort.removeprefix("-"))
        return f"{column.value} {'DESC' if sort.startswith('-') else 'ASC'} NULLS LAST, {self._view.kind.order}"

    def _make_where(self, but: str | None = None) -> tuple[str, list[object]]:
        """Returns the WHERE clause of all filters except those of column `but`, and all parameters of the query."""
        view = self._view
        conditions: list[str] = []
        parameters = list(self._from_parameters)
        for name, values in view.choices.items():
            if name != but:
                column = view.kind.get_column(name)
                if name in _LISTS:
                    conditions.append(f"list_has_any({column.value}, ?::VARCHAR[])")
                else:
                    conditions.append(f"list_contains(?::VARCHAR[], {column.value})")
                parameters.append(list(values))
        for name, (start, end) in view.ranges.items():
            for bound, sign in ((start, ">="), (end, "<=")):
                if name != but and bound is not None:
                    conditions.append(f"{view.kind.get_column(name).value} {sign} ?")
                    parameters.append(bound)
        return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters
