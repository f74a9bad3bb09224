"""Shards to a dataset that others can open: rejects, card, and the manifest last; then what is superseded goes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from pydantic import ValidationError

from data_schemas.config import RefreshConfig
from data_schemas.errors import DatasetError
from data_schemas.manifest import MANIFEST, Counts, Manifest, ShardEntry, make_manifest
from data_schemas.records import SCHEMA_VERSION, Reject
from pipelines.card import CARD, render
from pipelines.figures import Figures, count
from pipelines.flags import flagged
from pipelines.runner import Part, Runner
from pipelines.shards import DATA, ORACLE, compact, write_rejects
from pipelines.store import Store

_FOLDERS = ("data", "oracles", "rejects")


def read_manifest(store: Store) -> Manifest:
    """The manifest of a dataset.

    Raises:
        DatasetError: there is none, it is damaged, or it is of a newer schema.
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
        return Manifest.model_validate_json(raw)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DatasetError(f"{MANIFEST} of {store.root} is damaged: {error}.", "Run `kame refresh` again.") from error


def compact_group(config: RefreshConfig, group: Sequence[Part]) -> list[ShardEntry]:
    """The shards of one group of parts; those that stand are not written again."""
    store = Store(config.out)
    known = {entry.path: entry for entry in read_manifest(store).shards} if store.exists(MANIFEST) else {}
    return compact(Runner(store), group, config.oracle.version, frozenset(flagged(store)), known)


def publish(
    config: RefreshConfig, entries: Sequence[ShardEntry], rejects: Mapping[str, Sequence[Reject]]
) -> tuple[Manifest, Figures]:
    """Writes rejects, card and manifest, then removes files that no longer belong.

    Sources that this run does not name, and oracles of other versions whose dialogues are still there, stay.
    """
    store = Store(config.out)
    kept = _kept(store, config, entries)
    refused = [
        entry
        for source in sorted(rejects)
        for entry in write_rejects(store, source, _with_flags(store, rejects[source], source))
    ]
    every = [*entries, *refused, *kept]
    figures = count(store, every, config.oracle.version)
    counts = Counts(
        dialogues=figures.n_dialogues,
        audio_s=figures.total_audio_s,
        events=figures.n_events,
        rejects=sum(figures.rejects.values()),
    )
    manifest = make_manifest(every, counts, config.oracle.version)
    store.write_bytes(CARD, render(manifest, figures).encode())
    store.write_bytes(MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
    _remove_superseded(store, manifest)
    return manifest, figures


def _kept(store: Store, config: RefreshConfig, entries: Sequence[ShardEntry]) -> list[ShardEntry]:
    """Entries of the manifest that is there which this run does not replace."""
    if not store.exists(MANIFEST):
        return []
    ours = {source.name for source in config.sources}
    data_now = {entry.path for entry in entries if entry.kind == DATA}
    before = read_manifest(store)
    data_before = {entry.path for entry in before.of_kind(DATA) if entry.source in ours}
    untouched = data_before <= data_now  # no shard of ours was replaced, so other oracles still fit
    return [
        entry
        for entry in before.shards
        if entry.source not in ours
        or (entry.kind == ORACLE and entry.oracle_version != config.oracle.version and untouched)
    ]


def _with_flags(store: Store, rejects: Sequence[Reject], source: str) -> list[Reject]:
    flags = [
        Reject(item_id=dialogue_id.rpartition("-v")[0], source=source, stage="flags", reason="flagged", detail=reason)
        for dialogue_id, reason in sorted(flagged(store).items())
        if dialogue_id.startswith(f"{source}-")
    ]
    return [*rejects, *flags]


def _remove_superseded(store: Store, manifest: Manifest) -> None:
    listed = {entry.path for entry in manifest.shards}
    for folder in _FOLDERS:
        for path in store.files(folder, ".parquet"):
            if path not in listed and PurePosixPath(path).parts[0] in _FOLDERS:
                store.remove(path)
