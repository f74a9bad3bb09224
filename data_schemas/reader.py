"""Reader of datasets: the manifest, and dialogues joined with their oracles."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc
from pydantic import ValidationError

from data_schemas.arrow import from_table
from data_schemas.buckets import Bucket, is_in_bucket
from data_schemas.errors import DatasetError
from data_schemas.flags import FLAGS
from data_schemas.hub import fetch_dataset, is_on_hub, open_dataset
from data_schemas.manifest import DATA, MANIFEST, ORACLE, Manifest, ShardEntry
from data_schemas.records import SCHEMA_VERSION, AudioDialogue, OracleRow
from data_schemas.store import Store

_DIALOGUES_AT_ONCE = 16


def read_manifest(store: Store) -> Manifest:
    """Reads the manifest of a dataset.

    Raises:
        DatasetError: if there is none, or it is damaged or has another schema version.
        StoreError: if it cannot be read.
    """
    if not store.exists(MANIFEST):
        raise DatasetError(f"{store.root} is not a dataset: it has no {MANIFEST}.", "Make one with `kame refresh`.")
    raw = store.read_bytes(MANIFEST)
    try:
        version = json.loads(raw).get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise DatasetError(
                f"{store.root} has schema version {version}; this program reads up to {SCHEMA_VERSION}.",
                "Update kame-pipeline.",
            )
        if isinstance(version, int) and version < SCHEMA_VERSION:
            raise DatasetError(
                f"{store.root} has schema version {version}, of an older kame-pipeline; this reads {SCHEMA_VERSION}.",
                "Make the dataset again in another folder with --out.",
            )
        return Manifest.model_validate_json(raw)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DatasetError(
            f"{MANIFEST} of {store.root} is damaged: {str(error).splitlines()[0]}.",
            "Remove that file and run `kame refresh` with all sources of the dataset; finished parts are reused.",
        ) from error


def read_manifest_if_any(store: Store) -> Manifest | None:
    """Reads the manifest of a dataset; None if none has been written yet.

    Raises:
        DatasetError: if it is damaged or has another schema version.
    """
    return read_manifest(store) if store.exists(MANIFEST) else None


def open_store(root: str) -> Store:
    """Opens the files of a dataset in a folder or bucket, to be read in place; whether there are any is not checked.

    Raises:
        ConfigError: if it is neither a folder nor in a bucket, or the bucket's client library is not installed.
    """
    return Bucket(root) if is_in_bucket(root) else Store(root)


class DatasetReader:
    """Reads a dataset through its manifest, flagged dialogues (`flags.py`) included.

    Args:
        root: a folder, `hf://datasets/owner/name[@revision]`, or `s3://` or `gs://` with bucket and prefix.
        oracle_version: version of the oracles to read; None: the one in the manifest. If there is no such version,
            no dialogue has oracles.
        in_place: for a dataset on the Hub, read the needed byte ranges remotely instead of downloading all dialogues
            and oracles of the version at once.

    Raises:
        ConfigError: if the address is not valid, or the library for it is not installed.
        DatasetError: if there is no dataset, or one of another schema version.
        BackendError: if the Hub does not answer, or has no such dataset.
    """

    def __init__(self, root: str, oracle_version: str | None = None, *, in_place: bool = False) -> None:
        on_hub = is_on_hub(root)
        if on_hub and in_place:
            self.store = open_dataset(root)
        elif on_hub:
            self.store = Store(str(fetch_dataset(root, (MANIFEST, FLAGS))))
        else:
            self.store = open_store(root)
        self.manifest = read_manifest(self.store)
        self.oracle_version = oracle_version or self.manifest.oracle_version
        if on_hub and not in_place:
            fetch_dataset(root, tuple(each.path for each in self.manifest.shards if self._is_read(each)))

    def _is_read(self, entry: ShardEntry) -> bool:
        """Whether this reader reads a file: data, or oracles of its version."""
        return entry.kind == DATA or (entry.kind == ORACLE and entry.oracle_version == self.oracle_version)

    def read_dialogue(self, dialogue_id: str | None = None) -> tuple[AudioDialogue, OracleRow | None]:
        """Returns a dialogue with its audio, and its oracles or None; without an id, the first dialogue of the dataset.

        Raises:
            DatasetError: if there is no such dialogue.
        """
        for entry in self.manifest.select_kind(DATA):
            table = self.store.read_table(entry.path, ["dialogue_id"])
            row = 0 if dialogue_id is None else pc.index(table["dialogue_id"], dialogue_id).as_py()
            if row >= 0:
                found = self.store.read_table(entry.path).slice(row, 1)
                record = from_table(found, AudioDialogue)[0]
                return record, self.find_oracle(record.dialogue_id)
        raise DatasetError(
            f"{self.store.root} has no dialogue {dialogue_id}."
            if dialogue_id
            else f"{self.store.root} has no dialogues.",
            "`kame inspect DIR --json` shows an id; rejects/ lists the rejected items.",
        )

    def iterate_dialogues(self) -> Iterator[AudioDialogue]:
        """Iterates over all dialogues with their audio, without oracles, shard by shard, a few in memory at a time."""
        for entry in self.manifest.select_kind(DATA):
            for table in self.store.read_batches(entry.path, _DIALOGUES_AT_ONCE):
                yield from from_table(table, AudioDialogue)

    def list_shards(self) -> list[ShardEntry]:
        """Returns the shards of dialogues, in the manifest's order."""
        return self.manifest.select_kind(DATA)

    def iterate_rows(self, shard: ShardEntry) -> Iterator[tuple[AudioDialogue, OracleRow | None]]:
        """Iterates over a shard's dialogues with their audio, each with its oracles of this version, or None.

        Raises:
            StoreError: if the shard or its oracle file is missing, damaged, or of another schema version.
        """
        oracles = self._read_oracles(shard)
        for table in self.store.read_batches(shard.path, _DIALOGUES_AT_ONCE):
            for row in from_table(table, AudioDialogue):
                yield row, oracles.get(row.dialogue_id)

    def _read_oracles(self, shard: ShardEntry) -> dict[str, OracleRow]:
        """Returns the oracles of a shard's dialogues in this reader's version, by dialogue id."""
        return {
            row.dialogue_id: row
            for entry in self.manifest.select_kind(ORACLE)
            if entry.oracle_version == self.oracle_version and entry.data_path == shard.path
            for row in from_table(self.store.read_table(entry.path), OracleRow)
        }

    def find_oracle(self, dialogue_id: str) -> OracleRow | None:
        """Returns the oracles of a dialogue in this reader's version; None if it has none."""
        for entry in self.manifest.select_kind(ORACLE):
            if entry.oracle_version == self.oracle_version:
                table = self.store.read_table(entry.path)
                found = table.filter(pc.equal(table["dialogue_id"], dialogue_id))
                if found.num_rows:
                    return from_table(found, OracleRow)[0]
        return None


def dump_dialogue(row: AudioDialogue, oracle: OracleRow | None) -> dict[str, Any]:
    """Returns a dialogue with its oracles as a JSON-compatible dictionary, without the audio."""
    shown = {name: value for name, value in asdict(row).items() if name != "audio"}
    return {"dialogue": shown, "oracle": asdict(oracle) if oracle else None}
