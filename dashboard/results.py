"""Results of queries as text and as files: SQL queries, and tables as CSV or Parquet."""

import io
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from data_schemas.errors import ConfigError, KameError

N_ROWS_SHOWN: Final = 200
N_ROWS_EXPORTED: Final = 1_000_000
N_MIB_EXPORTED: Final = 256
_SECONDS: Final = 10
_AT_ONCE: Final = 2
_WAIT_S: Final = 5.0
_SQL_PROCESS: Final = Path(__file__).with_name("sql_process.py")
MEDIA_TYPES: Final = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class QueryError(KameError):
    """A query is wrong, not allowed, or too large; HTTP 400."""


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a query; `is_cut`: there were more than the maximum."""

    table: pa.Table
    is_cut: bool


class SqlBox:
    """Executes SQL queries of users, each in its own process, a few at a time.

    Args:
        seconds: timeout of a query, in seconds.
    """

    def __init__(self, seconds: int = _SECONDS) -> None:
        self._seconds = seconds
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def run(self, index: Path, query: str, n_rows: int) -> Result:
        """Executes a query on an index in another process, and returns its first rows: `n_rows` and 256 MiB at most.

        If two other queries are running, it waits up to 5 s for their end. A statement without a result gives a table
        without columns.

        Raises:
            QueryError: it is wrong, not allowed, needs too much time or memory, or too many others are running.
        """
        if not query.strip():
            raise QueryError("There is no query.", "Write one, for instance: select count(*) from dialogues")
        if not self._places.acquire(timeout=_WAIT_S):
            raise QueryError(f"{_AT_ONCE} other queries are running.", "Try again in a few seconds.")
        limits = [str(n_rows), str(N_MIB_EXPORTED << 20), str(self._seconds)]
        command = [sys.executable, "-I", str(_SQL_PROCESS), str(index), *limits]
        try:
            done = subprocess.run(  # noqa: S603
                command, input=query.encode(), capture_output=True, timeout=self._seconds, env={}
            )
        except subprocess.TimeoutExpired:
            raise QueryError(
                f"The query took more than {self._seconds} s and was stopped.",
                "Select fewer rows, or query the Parquet files themselves.",
            ) from None
        finally:
            self._places.release()
        if done.returncode == 1:
            raise QueryError(done.stderr.decode(errors="replace"))
        if done.returncode != 0:
            raise QueryError(
                f"The query was stopped (exit code {done.returncode}): it took too much time or memory.",
                "Select fewer rows or columns.",
            )
        table = pa.ipc.open_stream(done.stdout).read_all()
        return Result(table, (table.schema.metadata or {}).get(b"truncated") == b"1")


def to_file(table: pa.Table, form: str) -> bytes:
    """Returns the content of a file with a table; in CSV, lists and structures are JSON.

    Args:
        form: csv or parquet.

    Raises:
        ConfigError: there is no such format.
    """
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, sink, compression="zstd")
    elif form == "csv":
        pa_csv.write_csv(_convert_nested_columns(table), sink)
    else:
        raise ConfigError(f"There is no file format {form!r}.", f"Choose one of: {', '.join(MEDIA_TYPES)}.")
    return sink.getvalue()


def _convert_nested_columns(table: pa.Table) -> pa.Table:
    """Returns a table with JSON texts in place of lists and structures, which CSV does not have."""
    for number, column in enumerate(table.schema):
        if pa.types.is_nested(column.type):
            texts = [None if value is None else json.dumps(value, ensure_ascii=False, default=str)
                    for value in table.column(number).to_pylist()]  # fmt: skip
            table = table.set_column(number, column.name, pa.array(texts, pa.string()))
    return table


def to_cells(table: pa.Table) -> list[list[str]]:
    """Converts a table's rows to texts; null becomes an empty text, and floats get six significant digits."""
    columns = (column.to_pylist() for column in table.columns)  # not by name, which two columns may share
    return [list(map(_format_cell, row)) for row in zip(*columns, strict=True)]


def _format_cell(value: Any) -> str:
    """Formats a value as text: None as an empty one, and floats with six significant digits."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
