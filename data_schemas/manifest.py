"""`dataset.json`: the list of a dataset's files. It is written last; files that it does not list are ignored."""

from collections.abc import Iterable

from pydantic import Field

from data_schemas import ids
from data_schemas.config import Config, SplitConfig
from data_schemas.records import SCHEMA_VERSION

MANIFEST = "dataset.json"
DATA, ORACLE, REJECTS = "data", "oracle", "rejects"
"""Kinds of files."""


class ShardEntry(Config):
    """One file of the dataset; `kind` is data, oracle or rejects.

    An oracle file also has its version and the data file that it belongs to, with which it is kept or removed.
    """

    path: str
    kind: str
    source: str
    split: str | None = None
    oracle_version: str | None = None
    data_path: str | None = None
    n_rows: int
    n_bytes: int
    sha256: str


class DatasetCounts(Config):
    """Totals over the files of the manifest."""

    dialogues: int
    audio_s: float
    events: int
    rejects: int


class Manifest(Config):
    """The whole dataset; `fingerprint` is a hash of the content of all files."""

    schema_version: int = SCHEMA_VERSION
    fingerprint: str
    oracle_version: str = Field(description="Default version of the oracles, which the card's `oracles` config reads.")
    split: SplitConfig = Field(description="How all sources in this folder were split.")
    counts: DatasetCounts
    shards: list[ShardEntry]

    def select_kind(self, kind: str) -> list[ShardEntry]:
        """Returns the entries of one kind, in the manifest's order."""
        return [each for each in self.shards if each.kind == kind]


def list_contents(shards: Iterable[ShardEntry]) -> list[list[str]]:
    """Returns [path, SHA-256] of each file, in the given order, for fingerprints."""
    return [[each.path, each.sha256] for each in shards]


def make_manifest(
    shards: list[ShardEntry], counts: DatasetCounts, oracle_version: str, split: SplitConfig | None = None
) -> Manifest:
    """Makes a manifest with its fingerprint and its files sorted by path."""
    ordered = sorted(shards, key=lambda each: each.path)
    print_ = ids.digest("dataset", SCHEMA_VERSION, list_contents(ordered))
    return Manifest(
        fingerprint=print_,
        oracle_version=oracle_version,
        split=split or SplitConfig(),
        counts=counts,
        shards=ordered,
    )
