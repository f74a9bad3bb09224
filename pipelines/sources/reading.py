"""Reads the rows of a question set from a JSONL(.gz) or Parquet file, or from the Hugging Face Hub with `datasets`."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_schemas.errors import SourceError

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NotARow:
    """A line that is not a row; it becomes a reject."""

    detail: str


def read_file(path: str) -> Iterator[Row | NotARow]:
    """Yields the rows of a file in order, without blank lines; a line of JSONL that is no object is a `NotARow`.

    Raises:
        SourceError: the file is missing, truncated, not text, or neither JSONL(.gz) nor Parquet.
    """
    check_file(path)
    yield from _read_parquet(path) if path.endswith(".parquet") else _read_jsonl(path)


def check_file(path: str) -> None:
    """Checks that a file exists and has a supported type, by its name.

    Raises:
        SourceError: it does not.
    """
    if not Path(path).is_file():
        raise SourceError(f"There is no file {path}.", "Give --source NAME=FILE with a JSONL(.gz) or Parquet file.")
    if not path.endswith((".parquet", ".jsonl", ".jsonl.gz", ".json.gz", ".ndjson")):
        raise SourceError(f"{path} is neither JSONL(.gz) nor Parquet by its name.", "Rename or convert it.")


def read_hub(
    hub_id: str, config: str | None, split: str, revision: str | None, columns: Sequence[str]
) -> Iterator[Row]:
    """Yields the rows of a data set on the Hub, streamed.

    Only the named columns are read, so that no picture is downloaded, if the Hub lists the columns; names that are not
    among them are ignored.

    Raises:
        SourceError: the data set cannot be read.
    """
    import datasets  # slow to import (1 s)

    with _translate_hub_errors(hub_id):
        rows = datasets.load_dataset(hub_id, config, split=split, revision=revision, streaming=True)
        if rows.column_names is not None:
            rows = rows.select_columns([name for name in rows.column_names if name in columns])
        yield from rows


def resolve_hub_revision(hub_id: str, revision: str | None) -> str | None:
    """Returns the commit of a revision of a data set on the Hub (None: the newest), as provenance.

    For a folder in place of a Hub id, which has no commits, it is the given revision.

    Raises:
        SourceError: the Hub cannot be reached or has no such revision.
    """
    if Path(hub_id).is_dir():
        return revision
    from huggingface_hub import HfApi

    with _translate_hub_errors(hub_id):
        sha: str | None = HfApi().dataset_info(hub_id, revision=revision).sha
        return sha


@contextmanager
def _translate_hub_errors(hub_id: str) -> Iterator[None]:
    """Converts every error in a `with` block to a `SourceError` that names the data set."""
    try:
        yield
    except Exception as error:  # the Hub's clients raise errors of many libraries
        first = str(error).strip().split("\n")[0][:300]
        raise SourceError(
            f"Cannot read {hub_id} from the Hugging Face Hub: {type(error).__name__}: {first}.",
            "Check the network and HF_TOKEN, or download the file and give --source NAME=FILE.",
        ) from error


def _read_jsonl(path: str) -> Iterator[Row | NotARow]:
    """Yields the rows of a JSONL file, compressed or not, without blank lines; a line that is no row is a `NotARow`.

    Raises:
        SourceError: the file cannot be read or decompressed.
    """
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as lines:
            for line in lines:
                if line.strip():
                    yield _parse_row(line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(f"{path} is damaged or truncated: {error}.", "Download it again.") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}.", "Check its permissions.") from error


def _parse_row(line: bytes) -> Row | NotARow:
    """Returns the object in a line of JSON; `NotARow` if the line is not valid JSON or no object."""
    try:
        row = json.loads(line)
        if b"\\u" in line:
            json.dumps(row, ensure_ascii=False).encode()  # an unpaired surrogate is valid JSON, but not text
    # ValueError: invalid JSON or Unicode, or a number with thousands of digits
    except (ValueError, RecursionError) as error:
        return NotARow(f"{error}: {line[:80].decode(errors='replace')}")
    return row if isinstance(row, dict) else NotARow(f"a JSON {type(row).__name__}, not an object")


def _read_parquet(path: str) -> Iterator[Row]:
    """Yields the rows of a Parquet file, with 1024 of them in memory at a time.

    Raises:
        SourceError: it cannot be read, or is not a complete Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} is not a complete Parquet file: {error}.", "Download it again.") from error
