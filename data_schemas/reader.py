"""The one reader of a dataset: its manifest, and dialogues joined with their oracles."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc
from pydantic import ValidationError

from data_schemas.arrow import from_table
from data_schemas.errors import DatasetError
from data_schemas.flags import FLAGS
from data_schemas.hub import fetch_dataset, is_on_hub, open_dataset
from data_schemas.manifest import DATA, MANIFEST, ORACLE, Manifest, ShardEntry
from data_schemas.records import SCHEMA_VERSION, AudioDialogue, OracleRow
from data_schemas.store import Store

_DIALOGUES_AT_ONCE = 16


def read_manifest(store: Store) -> Manifest:
    """The manifest of a dataset.

    Raises:
        DatasetError: there is none, it is damaged, or it is of another schema.
    """
    if not store.exists(MANIFEST):
        raise DatasetError(f"{store.root} is no dataset: it has no {MANIFEST}.", "Make one with `kame refresh`.")
    raw = store.read_bytes(MANIFEST)
    try:
        version = json.loads(raw).get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise DatasetError(
                f"{store.root} has schema {version}; this program knows up to {SCHEMA_VERSION}.",
                "Update kame-pipeline.",
            )
        if isinstance(version, int) and version < SCHEMA_VERSION:
            raise DatasetError(
                f"{store.root} has schema {version}, of an earlier kame-pipeline; this one reads {SCHEMA_VERSION}.",
                "Make it anew in another folder with --out.",
            )
        return Manifest.model_validate_json(raw)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DatasetError(
            f"{MANIFEST} of {store.root} is damaged: {str(error).splitlines()[0]}.",
            "Remove that file and run `kame refresh` with all the dataset's sources; nothing is made twice.",
        ) from error


def manifest_if_any(store: Store) -> Manifest | None:
    """The manifest of a dataset, or None where none has been published yet.

    Raises:
        DatasetError: it is damaged, or of another schema.
    """
    return read_manifest(store) if store.exists(MANIFEST) else None


class DatasetReader:
    """Reads a dataset through its manifest.

    Args:
        root: a folder, or `hf://datasets/owner/name[@revision]`.
        oracle_version: the oracles to read; None: those that the manifest names.
        in_place: read a dataset of the Hub where it is, of each file what is needed; else its files are fetched.

    Raises:
        DatasetError: there is none, or one of a newer schema.
        BackendError: the Hub does not answer.
    """

    def __init__(self, root: str, oracle_version: str | None = None, *, in_place: bool = False) -> None:
        on_hub = is_on_hub(root)
        if on_hub and in_place:
            self.store = open_dataset(root)
        else:
            self.store = Store(str(fetch_dataset(root, (MANIFEST, FLAGS))) if on_hub else root)
        self.manifest = read_manifest(self.store)
        self.oracle_version = oracle_version or self.manifest.oracle_version
        if on_hub and not in_place:
            fetch_dataset(root, tuple(each.path for each in self.manifest.shards if self._is_read(each)))

    def _is_read(self, entry: ShardEntry) -> bool:
        return entry.kind == DATA or (entry.kind == ORACLE and entry.oracle_version == self.oracle_version)

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

    def shards(self) -> list[ShardEntry]:
        """The files of dialogues, in the manifest's order."""
        return self.manifest.of_kind(DATA)

    def rows(self, shard: ShardEntry) -> Iterator[tuple[AudioDialogue, OracleRow | None]]:
        """A file's dialogues with their sound, each with its oracles in this reader's version where it has any.

        Raises:
            StoreError: the file, or the one of its oracles, is missing, damaged, or of another schema.
        """
        oracles = self._oracles_of(shard)
        for table in self.store.read_batches(shard.path, _DIALOGUES_AT_ONCE):
            for row in from_table(table, AudioDialogue):
                yield row, oracles.get(row.dialogue_id)

    def _oracles_of(self, shard: ShardEntry) -> dict[str, OracleRow]:
        return {
            row.dialogue_id: row
            for entry in self.manifest.of_kind(ORACLE)
            if entry.oracle_version == self.oracle_version and entry.data_path == shard.path
            for row in from_table(self.store.read_table(entry.path), OracleRow)
        }

    def oracle(self, dialogue_id: str) -> OracleRow | None:
        """The oracles of a dialogue in this reader's version, or None where it has none."""
        for entry in self.manifest.of_kind(ORACLE):
            if entry.oracle_version == self.oracle_version:
                table = self.store.read_table(entry.path)
                found = table.filter(pc.equal(table["dialogue_id"], dialogue_id))
                if found.num_rows:
                    return from_table(found, OracleRow)[0]
        return None


def as_json(row: AudioDialogue, oracle: OracleRow | None) -> dict[str, Any]:
    """One dialogue with its oracles for programs; the sound itself is left out."""
    shown = {name: value for name, value in asdict(row).items() if name != "audio"}
    return {"dialogue": shown, "oracle": asdict(oracle) if oracle else None}
