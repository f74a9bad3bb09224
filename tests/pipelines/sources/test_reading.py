"""Files of question sets: their rows, and what is wrong with the file or with a line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.errors import SourceError
from pipelines.sources.reading import NotARow, read_file

ROWS: list[dict[str, Any]] = [{"question": f"What is {n}?", "options": ["a", "b"], "answer": None} for n in range(5)]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


def rows(file: Path) -> list[Any]:
    return list(read_file(str(file)))


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz", "a.json.gz"])
def test_json_lines_plain_and_packed_and_parquet(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(LINES) if name.endswith(".gz") else LINES)
    assert rows(file) == ROWS
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet") == ROWS


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n\n  \n"))
    assert rows(tmp_path / "a.jsonl") == ROWS


@pytest.mark.parametrize(
    "line",
    [
        b'{"question": "cut o', b"[1, 2]", b'"text"', b"null", b'{"question": "\xff\xfe"}',
        b'{"question": "half a pair \\ud800"}', b"9" * 5_000, b"[" * 100_000, b"\x00\x01",
    ],
    ids=["cut", "list", "text", "null", "not UTF-8", "half a surrogate pair", "number", "nested", "binary"],
)  # fmt: skip
def test_a_line_that_is_no_row_is_kept_as_such_beside_the_good_ones(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES + line + b"\n" + LINES)
    found = rows(tmp_path / "a.jsonl")
    assert [isinstance(row, NotARow) for row in found] == [False] * 5 + [True] + [False] * 5
    assert found[5].detail


@given(line=st.binary(min_size=1, max_size=40).filter(lambda line: b"\n" not in line and line.strip()))
def test_any_line_is_a_row_or_no_row(tmp_path_factory: pytest.TempPathFactory, line: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    file.write_bytes(line)
    (found,) = rows(file)
    assert isinstance(found, dict | NotARow)
    file.write_bytes(b'{"question": "\\ud83d\\ude00"}')
    assert rows(file) == [{"question": "😀"}], "a pair of surrogates is a character"


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere.jsonl", r"no file .*nowhere.jsonl"), (".", "no file"), ("a.csv", "neither JSONL")]
)
def test_what_is_no_file_of_rows_is_named(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "a.csv").write_text("question,answer", encoding="utf-8")
    with pytest.raises(SourceError, match=why):
        rows(tmp_path / name)


@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[: len(data) // 2], lambda data: data[:-4] + b"\0\0\0\0", lambda data: b"plain" + data],
    ids=["truncated", "wrong sum", "not gzip"],
)
def test_a_damaged_gzip_is_said_to_be_so(tmp_path: Path, spoil: Any) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(spoil(gzip.compress(LINES * 100)))
    with pytest.raises(SourceError, match=r"damaged or truncated.*Download it again"):
        rows(tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize("keep", [0, 50, -9])
def test_a_damaged_parquet_is_said_to_be_so(tmp_path: Path, keep: int) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:keep])
    with pytest.raises(SourceError, match=r"not a complete Parquet file.*Download it again"):
        rows(tmp_path / "a.parquet")
