"""The texts of a dataset that a vocabulary is made from."""

from collections.abc import Container, Iterator
from typing import Any

from data_schemas.flags import flagged
from data_schemas.manifest import DATA, ORACLE
from data_schemas.reader import DatasetReader

_SPLIT = "train"


def training_texts(reader: DatasetReader) -> Iterator[str]:
    """What is said in a dataset's training split, and the different answers of each dialogue's oracles.

    Validation and test stay unseen, flagged dialogues are left out, and no sound is read.

    Raises:
        StoreError: a file is missing or damaged.
    """
    left_out = flagged(reader.store)
    for entry in reader.manifest.of_kind(DATA):
        for row in _rows(reader, entry.path, "turns", left_out):
            yield from (turn["spoken_text"] for turn in row["turns"])
    for entry in reader.manifest.of_kind(ORACLE):
        if entry.oracle_version == reader.oracle_version:
            for row in _rows(reader, entry.path, "events", left_out):
                yield from sorted({event["text"] for event in row["events"] if event["text"] is not None})


def _rows(reader: DatasetReader, path: str, column: str, left_out: Container[str]) -> Iterator[dict[str, Any]]:
    table = reader.store.read_table(path, ["dialogue_id", "split", column])
    for row in table.to_pylist():
        if row["split"] == _SPLIT and row["dialogue_id"] not in left_out:
            yield row
