"""Datasets that earlier versions wrote are read as they were meant; a schema without such a dataset is none."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data_schemas.errors import DatasetError
from data_schemas.manifest import MANIFEST
from data_schemas.reader import DatasetReader
from data_schemas.records import SCHEMA_VERSION
from tests.support.golden_dataset import ROWS, golden_folder, read_rows

pytestmark = pytest.mark.full

FIRST = 2
"""Schema 1 was never part of a version that others have."""


@pytest.mark.parametrize("version", range(FIRST, SCHEMA_VERSION + 1))
def test_a_dataset_of_each_schema_is_of_it_and_read_as_it_was_meant(version: int) -> None:
    folder = golden_folder(version)
    expected = json.loads((folder / ROWS).read_text(encoding="utf-8"))
    found = json.loads(json.dumps(list(read_rows(folder))))
    for row, meant in zip(found, expected, strict=True):
        for part, fields in meant.items():  # later versions may add fields, which are null in older files
            got = row[part] if not isinstance(fields, dict) else {name: row[part][name] for name in fields}
            assert got == fields
    assert json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["schema_version"] == version
    for file in folder.rglob("*.parquet"):
        assert pq.read_schema(file).metadata[b"kame_schema_version"] == str(version).encode()


@pytest.mark.parametrize(
    ("version", "remedy"), [(1, "Make the dataset again"), (SCHEMA_VERSION + 1, "Update kame-pipeline")]
)
def test_other_schemas_are_refused_with_a_way_out(version: int, remedy: str, tmp_path: Path) -> None:
    shutil.copytree(golden_folder(SCHEMA_VERSION), tmp_path / "data")
    manifest = json.loads((tmp_path / "data" / MANIFEST).read_text(encoding="utf-8"))
    (tmp_path / "data" / MANIFEST).write_text(json.dumps(manifest | {"schema_version": version}), encoding="utf-8")
    with pytest.raises(DatasetError, match=remedy):
        DatasetReader(str(tmp_path / "data"))
