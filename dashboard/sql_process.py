"""Executes one SQL query in a sandboxed process: `python sql_process.py INDEX N_ROWS N_BYTES SECONDS`.

The query is read from standard input; its rows are written to standard output as an Arrow stream, whose schema says
`truncated` if there were more. An error is a text on standard error, with exit code 1. The process imports nothing of
the project and inherits no environment. DuckDB can read only the index (no other file, no network, no extension, no
setting), and the kernel limits memory and time and forbids writing files.
"""

import re
import resource
import sys

import duckdb
import pyarrow as pa

_MEMORY = 1 << 32
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "memory_limit": "512MB",
    "max_temp_directory_size": "0KB",
    "threads": 1,
    "lock_configuration": True,
}
_BATCH_ROWS = 2048
_AS_TEXT = re.compile(r"\b(BIGNUM|BIT|BLOB|INTERVAL|UNION|VARIANT)\b")
"""Types, also within others, that CSV or Parquet files cannot hold."""


def run(index: str, query: str, n_rows: int, n_bytes: int) -> pa.Table:
    """Executes the query and returns its first rows, at most `n_rows` and about `n_bytes`.

    Columns of types that CSV or Parquet files cannot hold, such as INTERVAL, are converted to text by DuckDB.
    `truncated` in the metadata of the schema is 1 if there were more. A statement without a result gives a table
    without columns.

    Raises:
        duckdb.Error: the query is wrong, or not allowed.
    """
    with duckdb.connect(index, read_only=True, config=_CONFIG) as connection:
        found = connection.sql(query)
        if found is None:
            return pa.table({})
        reader = _convert_columns(found).to_arrow_reader(_BATCH_ROWS)
        batches, left, is_cut, size = [], n_rows, False, 0
        for batch in reader:
            batches.append(batch.slice(0, left))
            size += batch.nbytes
            is_cut = batch.num_rows > left or size > n_bytes
            left -= min(left, batch.num_rows)
            if is_cut:
                break
        schema = reader.schema.with_metadata({"truncated": str(int(is_cut))})
        return pa.Table.from_batches(batches, reader.schema).cast(schema)


def _convert_columns(found: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Returns a result with columns of the types of `_AS_TEXT` as text; names, of which two may be equal, are kept."""
    is_text = [_AS_TEXT.search(str(each)) is not None for each in found.types]
    if not any(is_text):
        return found
    names = ['"' + name.replace('"', '""') + '"' for name in found.columns]
    casts = ["::VARCHAR" if each else "" for each in is_text]
    columns = (f"#{n}{cast} AS {name}" for n, (cast, name) in enumerate(zip(casts, names, strict=True), 1))
    return found.project(", ".join(columns))


def main() -> None:
    """Limits this process, executes the query of standard input, and writes its rows to standard output."""
    index, n_rows, n_bytes, seconds = sys.argv[1], *map(int, sys.argv[2:5])
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        table = run(index, sys.stdin.read(), n_rows, n_bytes)
    except (duckdb.Error, pa.ArrowException, MemoryError) as error:
        sys.stderr.write(str(error).strip() or type(error).__name__)
        raise SystemExit(1) from None
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as sink:
        sink.write_table(table)


if __name__ == "__main__":
    main()
