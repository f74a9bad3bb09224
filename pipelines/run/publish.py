"""Shards to a dataset that others can open: rejects, card, and the manifest last; then what is superseded goes."""

import re
from collections.abc import Mapping, Sequence

from data_schemas.arrow import from_table
from data_schemas.config import RefreshConfig
from data_schemas.flags import flagged
from data_schemas.manifest import DATA, MANIFEST, ORACLE, REJECTS, Counts, Manifest, ShardEntry, make_manifest
from data_schemas.reader import manifest_if_any
from data_schemas.records import Reject
from data_schemas.store import Store
from pipelines.figures import Figures, count
from pipelines.oracle.ladder_section import ladders
from pipelines.oracle.prompt_files import remove_unused_prompts, write_prompts
from pipelines.oracle.prompts import prompts_for
from pipelines.run.card import CARD, render
from pipelines.run.execute import Part, Runner
from pipelines.run.shards import compact, write_rejects

_OURS = re.compile(r"/[a-z0-9_]+(-[a-z0-9_]+)?-[0-9a-f]{16}\.parquet$")


def compact_group(config: RefreshConfig, group: Sequence[Part]) -> list[ShardEntry]:
    """The shards of one group of parts; those that stand are not written again."""
    store = Store(config.out)
    before = manifest_if_any(store)
    known = {entry.path: entry for entry in before.shards} if before else {}
    return compact(Runner(store), group, config.oracle.version, frozenset(flagged(store)), known)


def publish(
    config: RefreshConfig, entries: Sequence[ShardEntry], rejects: Mapping[str, Sequence[Reject]]
) -> tuple[Manifest, Figures]:
    """Writes rejects, the prompts' text, card and manifest, then removes files that no longer belong.

    Sources that this run does not name stay, and oracles of other versions whose data file is still the same.
    """
    store = Store(config.out)
    before = manifest_if_any(store)
    earlier = before.shards if before else []
    kept = _kept(earlier, config, entries)
    refused = [
        entry
        for source in sorted(rejects)
        for entry in write_rejects(
            store,
            source,
            [
                *rejects[source],
                *_refused_before(store, source, earlier, [*entries, *kept], rejects[source]),
                *_flagged_rows(store, source),
            ],
        )
    ]
    every = [*entries, *refused, *kept]
    shown = _shown_version(config, every, before)
    if config.oracle.simulator == "llm" and any(entry.kind == ORACLE for entry in entries):
        write_prompts(store, config.oracle.version, prompts_for(config.oracle, config.chat))
    figures = count(store, every, shown)
    counts = Counts(
        dialogues=figures.n_dialogues,
        audio_s=figures.total_audio_s,
        events=figures.n_events,
        rejects=sum(figures.rejects.values()),
    )
    manifest = make_manifest(every, counts, shown, config.split)
    write_card(store, manifest, figures)
    store.write_bytes(MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
    _remove_superseded(store, manifest)
    return manifest, figures


def write_card(store: Store, manifest: Manifest, figures: Figures) -> None:
    """Writes the card, with the measured ladders that were measured on just these files."""
    store.write_bytes(CARD, render(manifest, figures, ladders(store, manifest.fingerprint)).encode())


def _kept(earlier: Sequence[ShardEntry], config: RefreshConfig, entries: Sequence[ShardEntry]) -> list[ShardEntry]:
    """Entries of the manifest that is there which this run does not replace."""
    ours = {source.name for source in config.sources}
    data_now = {entry.path for entry in entries if entry.kind == DATA}
    return [
        entry
        for entry in earlier
        if entry.source not in ours
        or (entry.kind == ORACLE and entry.oracle_version != config.oracle.version and entry.data_path in data_now)
    ]


def _shown_version(config: RefreshConfig, entries: Sequence[ShardEntry], before: Manifest | None) -> str:
    """The oracles that the card's `oracles` reads: this run's, but never random ones in the place of a model's."""
    there = {entry.oracle_version for entry in entries if entry.kind == ORACLE}
    if config.oracle.simulator == "random" and before is not None and before.oracle_version in there:
        return before.oracle_version
    return config.oracle.version


def _refused_before(
    store: Store,
    source: str,
    earlier: Sequence[ShardEntry],
    entries: Sequence[ShardEntry],
    rejects: Sequence[Reject],
) -> list[Reject]:
    """What an earlier run refused of oracles for dialogues that are still here and still have none, of any version.

    This run's own rejects tell of its own version only.
    """
    refused = [
        each
        for entry in earlier
        if (entry.source, entry.kind) == (source, REJECTS) and store.exists(entry.path)  # else it is made anew
        for each in from_table(store.read_table(entry.path), Reject)
        if each.stage == ORACLE
    ]
    if not refused:
        return []
    here = _dialogue_ids(store, source, DATA, entries)
    told = _dialogue_ids(store, source, ORACLE, entries) | {each.dialogue_id for each in rejects}
    return [each for each in refused if each.dialogue_id in here - told]


def _dialogue_ids(store: Store, source: str, kind: str, entries: Sequence[ShardEntry]) -> set[str | None]:
    return {
        dialogue_id
        for entry in entries
        if (entry.source, entry.kind) == (source, kind)
        for dialogue_id in store.read_table(entry.path, ["dialogue_id"])["dialogue_id"].to_pylist()
    }


def _flagged_rows(store: Store, source: str) -> list[Reject]:
    return [
        Reject(
            item_id=dialogue_id.rpartition("-v")[0],
            dialogue_id=dialogue_id,
            source=source,
            stage="flags",
            reason="flagged",
            detail=reason,
        )
        for dialogue_id, reason in sorted(flagged(store).items())
        if dialogue_id.startswith(f"{source}-")
    ]


def _remove_superseded(store: Store, manifest: Manifest) -> None:
    """Removes files that are ours by their name and that the manifest does not list."""
    listed = {entry.path for entry in manifest.shards}
    for folder in ("data", "oracles", "rejects"):
        for path in store.files(folder, ".parquet"):
            if path not in listed and _OURS.search(path):
                store.remove(path)
    remove_unused_prompts(store, manifest)
