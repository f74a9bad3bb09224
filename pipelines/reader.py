"""The one reader of a dataset: dialogues joined with their oracles, and the figures of the whole."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from data_schemas.arrow import from_table
from data_schemas.errors import DatasetError
from data_schemas.records import AudioDialogue, OracleRow
from pipelines.figures import Figures, count
from pipelines.publish import read_manifest
from pipelines.shards import DATA, ORACLE
from pipelines.store import Store

_DIALOGUES_AT_ONCE = 16


class DatasetReader:
    """Reads a dataset through its manifest.

    Raises:
        DatasetError: there is none, or one of a newer schema.
    """

    def __init__(self, root: str, oracle_version: str | None = None) -> None:
        self.store = Store(root)
        self.manifest = read_manifest(self.store)
        self.oracle_version = oracle_version or self.manifest.oracle_version

    def dialogue(self, dialogue_id: str | None = None) -> tuple[AudioDialogue, OracleRow | None]:
        """One dialogue with its sound, and its oracles where it has any; None: the first of the dataset.

        Raises:
            DatasetError: no such dialogue.
        """
        for entry in self.manifest.of_kind(DATA):
            table = self.store.read_table(entry.path, ["dialogue_id"])
            row = 0 if dialogue_id is None else pc.index(table["dialogue_id"], dialogue_id).as_py()
            if row >= 0:
                found = self.store.read_table(entry.path).slice(row, 1)
                record = from_table(found, AudioDialogue)[0]
                return record, self.oracle(record.dialogue_id)
        raise DatasetError(
            f"{self.store.root} has no dialogue {dialogue_id}."
            if dialogue_id
            else f"{self.store.root} has no dialogues.",
            "`kame inspect DIR --json` shows an id; rejects/ tells what was refused.",
        )

    def dialogues(self) -> Iterator[AudioDialogue]:
        """All dialogues with their sound, shard by shard; only a few of them are in memory at a time."""
        for entry in self.manifest.of_kind(DATA):
            for table in self.store.read_batches(entry.path, _DIALOGUES_AT_ONCE):
                yield from from_table(table, AudioDialogue)

    def oracle(self, dialogue_id: str) -> OracleRow | None:
        """The oracles of a dialogue in this reader's version, or None where it has none."""
        for entry in self.manifest.of_kind(ORACLE):
            if entry.oracle_version == self.oracle_version:
                table = self.store.read_table(entry.path)
                found = table.filter(pc.equal(table["dialogue_id"], dialogue_id))
                if found.num_rows:
                    return from_table(found, OracleRow)[0]
        return None

    def figures(self) -> Figures:
        """The card's figures."""
        return count(self.store, self.manifest.shards, self.oracle_version)


def as_json(row: AudioDialogue, oracle: OracleRow | None) -> dict[str, Any]:
    """One dialogue with its oracles for programs; the sound itself is left out."""
    shown = {name: value for name, value in asdict(row).items() if name != "audio"}
    return {"dialogue": shown, "oracle": asdict(oracle) if oracle else None}
