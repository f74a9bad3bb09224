"""Publishes a dataset: compacts parts into shards, writes rejects, card and manifest, and removes superseded files.

A shard holds the rows of a group of parts, copied row group by row group; its name is a digest of what it was made
from. The manifest is written last.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from data_schemas import ids
from data_schemas.arrow import from_table, make_schema, to_table
from data_schemas.config import RefreshConfig
from data_schemas.flags import read_flagged
from data_schemas.manifest import DATA, MANIFEST, ORACLE, REJECTS, DatasetCounts, Manifest, ShardEntry, make_manifest
from data_schemas.reader import read_manifest_if_any
from data_schemas.records import AudioDialogue, OracleRow, Reject
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ
from pipelines.figures import LISTENER, NOBODY, Figures, count_figures, list_tables
from pipelines.oracle.ladder_section import format_ladders
from pipelines.oracle.prompt_files import remove_unused_prompts, write_prompts
from pipelines.oracle.prompts import choose_prompts
from pipelines.run.execute import Runner
from pipelines.run.parts import Part

CARD = "README.md"
_OUTPUTS = re.compile(r"/[a-z0-9_]+(-[a-z0-9_]+)?-[0-9a-f]{16}\.parquet$")


def compact(config: RefreshConfig, group: Sequence[Part]) -> list[ShardEntry]:
    """Writes the data shard and the oracle shard of one group of parts, and returns their entries for the manifest.

    An intact shard that the present manifest lists is not written again. Flagged dialogues are excluded, and a shard
    without rows is neither written nor returned.
    """
    store, first = Store(config.out), group[0]
    runner, before = Runner(store), read_manifest_if_any(store)
    known = {entry.path: entry for entry in before.shards} if before else {}
    hidden = _find_flagged(runner, group, frozenset(read_flagged(store)))
    entries: list[ShardEntry] = []
    for kind, record_type in ((DATA, AudioDialogue), (ORACLE, OracleRow)):
        version = config.oracle.version if kind == ORACLE else None
        stage, folder = ("mixing", "data") if kind == DATA else ("oracle", f"oracles/{version}")
        name = ids.digest("shard", [_identify_part(runner, part, stage) for part in group], hidden)
        path = f"{folder}/{first.split}-{first.source}-{name}.parquet"
        entry = known.get(path)
        if entry is None or not _is_intact(store, entry):
            n_rows = _write_shard(store, path, _make_schema(record_type), _read_tables(runner, group, stage, hidden))
            if n_rows == 0:
                continue
            written = store.describe(path)
            entry = ShardEntry(
                path=path,
                kind=kind,
                source=first.source,
                split=first.split,
                oracle_version=version,
                data_path=entries[0].path if kind == ORACLE else None,
                n_rows=n_rows,
                n_bytes=written.n_bytes,
                sha256=written.sha256,
            )
        entries.append(entry)
    return entries


def _identify_part(runner: Runner, part: Part, stage: str) -> list[str]:
    """Returns what identifies a stage's output for a part: the fingerprint and, if it is not final, the checksum."""
    record = runner.read_finished(part, stage)
    return [part.fingerprints[stage]] if record.is_final else [part.fingerprints[stage], record.sha256]


def _is_intact(store: Store, entry: ShardEntry) -> bool:
    """Returns whether the file exists and its checksum is that of the manifest."""
    return store.exists(entry.path) and store.describe(entry.path).sha256 == entry.sha256


def _find_flagged(runner: Runner, group: Sequence[Part], flagged: frozenset[str]) -> list[str]:
    """Returns the ids of the group's dialogues that are flagged, sorted."""
    if not flagged:
        return []
    there = {
        dialogue_id
        for part in group
        for dialogue_id in runner.store.read_table(part.get_path("mixing"), ["dialogue_id"])["dialogue_id"].to_pylist()
    }
    return sorted(there & flagged)


def _read_tables(runner: Runner, group: Sequence[Part], stage: str, hidden: Sequence[str]) -> Iterator[pa.Table]:
    """Yields a stage's output for each part as a table, without the dialogues whose ids are in `hidden`."""
    for part in group:
        record = runner.read_finished(part, stage)
        table = runner.store.read_table(part.get_path(stage), sha256=record.sha256)
        if hidden:
            table = table.filter(pc.invert(pc.is_in(table["dialogue_id"], pa.array(hidden, pa.string()))))
        yield table


def _write_shard(store: Store, path: str, schema: pa.Schema, tables: Iterator[pa.Table]) -> int:
    """Writes a shard with one row group per table, and returns its number of rows; writes nothing if there are none."""
    filled = (table for table in tables if table.num_rows)
    first = next(filled, None)
    if first is None:
        return 0
    with store.open_for_writing(path) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        writer.write_table(first.cast(schema))
        n_rows = int(first.num_rows)
        for table in filled:
            writer.write_table(table.cast(schema))
            n_rows += table.num_rows
    return n_rows


def _make_schema(record_type: type) -> pa.Schema:
    """Returns the record's schema; if it has audio, with the metadata that makes Hugging Face `datasets` decode it."""
    schema = make_schema(record_type)
    if "audio" not in schema.names:
        return schema
    import datasets  # slow to import (1 s), needed for its metadata only

    features = datasets.Features.from_arrow_schema(schema)
    features["audio"] = datasets.Audio(sampling_rate=SAMPLE_RATE_HZ, num_channels=2)
    return schema.with_metadata({**(schema.metadata or {}), **features.arrow_schema.metadata})


def publish(
    config: RefreshConfig, entries: Sequence[ShardEntry], rejects: Mapping[str, Sequence[Reject]]
) -> tuple[Manifest, Figures]:
    """Writes rejects, prompts, card and manifest, then removes files that no longer belong to the dataset.

    Returns the new manifest and the figures.

    Sources that this run does not name are kept, and so are oracles of other versions whose data file is unchanged.
    """
    store = Store(config.out)
    before = read_manifest_if_any(store)
    earlier = before.shards if before else []
    kept = _keep_entries(earlier, config, entries)
    refused = [
        entry
        for source in sorted(rejects)
        for entry in write_rejects(
            store,
            source,
            [
                *rejects[source],
                *_read_earlier_rejects(store, source, earlier, [*entries, *kept], rejects[source]),
                *_make_flagged_rejects(store, source),
            ],
        )
    ]
    every = [*entries, *refused, *kept]
    shown = _choose_shown_version(config, every, before)
    if config.oracle.simulator == "llm" and any(entry.kind == ORACLE for entry in entries):
        write_prompts(store, config.oracle.version, choose_prompts(config.oracle, config.chat))
    figures = count_figures(store, every, shown)
    counts = DatasetCounts(
        dialogues=figures.n_dialogues,
        audio_s=figures.total_audio_s,
        events=figures.n_events,
        rejects=sum(figures.rejects.values()),
    )
    manifest = make_manifest(every, counts, shown, config.split)
    write_card(store, manifest, figures)
    store.write_bytes(MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
    remove_superseded(store, manifest)
    return manifest, figures


def write_card(store: Store, manifest: Manifest, figures: Figures) -> None:
    """Writes the dataset card, `README.md`, with the hint ladders that were measured on exactly these files."""
    store.write_bytes(CARD, render_card(manifest, figures, format_ladders(store, manifest.fingerprint)).encode())


def _keep_entries(
    earlier: Sequence[ShardEntry], config: RefreshConfig, entries: Sequence[ShardEntry]
) -> list[ShardEntry]:
    """Returns the entries of the earlier manifest that this run does not replace."""
    sources_now = {source.name for source in config.sources}
    data_now = {entry.path for entry in entries if entry.kind == DATA}
    return [
        entry
        for entry in earlier
        if entry.source not in sources_now
        or (entry.kind == ORACLE and entry.oracle_version != config.oracle.version and entry.data_path in data_now)
    ]


def _choose_shown_version(config: RefreshConfig, entries: Sequence[ShardEntry], before: Manifest | None) -> str:
    """Returns the oracle version that readers of the dataset get by default: this run's.

    With random oracles it is the one of the manifest `before`, as long as there are oracles of it.
    """
    there = {entry.oracle_version for entry in entries if entry.kind == ORACLE}
    if config.oracle.simulator == "random" and before is not None and before.oracle_version in there:
        return before.oracle_version
    return config.oracle.version


def _read_earlier_rejects(
    store: Store,
    source: str,
    earlier: Sequence[ShardEntry],
    entries: Sequence[ShardEntry],
    rejects: Sequence[Reject],
) -> list[Reject]:
    """Returns the oracle rejects of earlier runs for dialogues that still exist and have no oracles of any version.

    This run's own rejects, `rejects`, cover its own version only; their dialogues are left out.

    Args:
        earlier: entries of the manifest before this run.
        entries: entries of data and oracles of the new manifest.
    """
    refused = [
        each
        for entry in earlier
        # a missing file is written again
        if (entry.source, entry.kind) == (source, REJECTS) and store.exists(entry.path)
        for each in from_table(store.read_table(entry.path), Reject)
        if each.stage == ORACLE
    ]
    if not refused:
        return []
    here = _read_dialogue_ids(store, source, DATA, entries)
    accounted = _read_dialogue_ids(store, source, ORACLE, entries) | {each.dialogue_id for each in rejects}
    return [each for each in refused if each.dialogue_id in here - accounted]


def _read_dialogue_ids(store: Store, source: str, kind: str, entries: Sequence[ShardEntry]) -> set[str | None]:
    """Returns the dialogue ids in a source's files of one kind."""
    return {
        dialogue_id
        for entry in entries
        if (entry.source, entry.kind) == (source, kind)
        for dialogue_id in store.read_table(entry.path, ["dialogue_id"])["dialogue_id"].to_pylist()
    }


def _make_flagged_rejects(store: Store, source: str) -> list[Reject]:
    """Makes a reject of each dialogue of a source in the file of flags, sorted by id, with the reason of the flag."""
    return [
        Reject(
            item_id=dialogue_id.rpartition("-v")[0],
            dialogue_id=dialogue_id,
            source=source,
            stage="flags",
            reason="flagged",
            detail=reason,
        )
        for dialogue_id, reason in sorted(read_flagged(store).items())
        if dialogue_id.startswith(f"{source}-")
    ]


def remove_superseded(store: Store, manifest: Manifest) -> None:
    """Removes files that are named like files of a dataset and that the manifest does not list, and unused prompts."""
    listed = {entry.path for entry in manifest.shards}
    for folder in ("data", "oracles", "rejects"):
        for path in store.list_files(folder, ".parquet"):
            if path not in listed and _OUTPUTS.search(path):
                store.remove(path)
    remove_unused_prompts(store, manifest)


def write_rejects(store: Store, source: str, rejects: Sequence[Reject]) -> list[ShardEntry]:
    """Writes all rejects of one source to one file, and returns its entry in a list; an empty list without any."""
    if not rejects:
        return []
    table = to_table(list(rejects), Reject)
    written = store.write_table(f"rejects/{source}-{ids.digest('rejects', table.to_pylist())}.parquet", table)
    return [
        ShardEntry(
            path=written.path,
            kind=REJECTS,
            source=source,
            n_rows=len(rejects),
            n_bytes=written.n_bytes,
            sha256=written.sha256,
        )
    ]


def render_card(manifest: Manifest, figures: Figures, ladders: str = "") -> str:
    """Returns the text of the card: a YAML head that `datasets` reads, then the figures.

    Args:
        ladders: the measured hint ladders as Markdown (`pipelines/oracle/ladder_section.py`); empty if none was
            measured.
    """
    head = yaml.safe_dump({"configs": _make_configs(manifest), "tags": ["audio", "kame"]}, sort_keys=False)
    return "\n".join(
        [
            f"---\n{head}---",
            "# Spoken dialogues with oracles",
            f"Made by kame-pipeline; fingerprint `{manifest.fingerprint}`, schema {manifest.schema_version}. "
            "The speech is synthetic. Left channel: the assistant; right: the user.",
            "",
            f"{figures.n_words} words, each with its time; {figures.n_events} oracle events.",
            "",
            _describe_recognition(figures),
            "",
            *(f"## {each.title}\n\n{_format_table(each.head, each.rows)}" for each in list_tables(figures)),
            *([ladders] if ladders else []),
            "## How to read it",
            "```python\ndatasets.load_dataset(DIR)             # dialogues with sound\n"
            'datasets.load_dataset(DIR, "oracles")  # their oracle events, joined on dialogue_id\n```',
            "",
        ]
    )


def _describe_recognition(figures: Figures) -> str:
    """Returns the card's sentences on which recogniser heard how many utterances, or that none did."""
    if not figures.n_utterances_heard:
        return "No recogniser listened to this speech: only its level, length and clipping were looked at."
    return (
        f"A recogniser ({_format_recognisers(figures)}) listened to {figures.n_utterances_heard} of "
        f"{figures.n_utterances} utterances and let each pass (backchannels are too short to be judged by ear). Its "
        "own mistakes count as errors below."
    )


def _format_recognisers(figures: Figures) -> str:
    """Returns the names of the recognisers that were used, separated by commas."""
    names = sorted(name for role, name in figures.engines if role == LISTENER and name != NOBODY)
    return ", ".join(names)


def _make_configs(manifest: Manifest) -> list[dict[str, Any]]:
    """Returns the dataset configs for the card's head: the dialogues by default, and the oracles of each version."""
    configs = [{"config_name": "default", "data_files": _list_data_files(manifest.select_kind(DATA)), "default": True}]
    by_version: dict[str, list[ShardEntry]] = {}
    for entry in manifest.select_kind(ORACLE):
        by_version.setdefault(entry.oracle_version or "", []).append(entry)
    for version, entries in sorted(by_version.items()):
        name = "oracles" if version == manifest.oracle_version else f"oracles-{version}"
        configs.append({"config_name": name, "data_files": _list_data_files(entries)})
    return configs


def _list_data_files(entries: Iterable[ShardEntry]) -> list[dict[str, Any]]:
    """Returns the paths of these files by split, in the form of a dataset config's `data_files`."""
    paths: dict[str, list[str]] = {}
    for entry in entries:
        paths.setdefault(entry.split or "train", []).append(entry.path)
    return [{"split": split, "path": paths[split]} for split in ("train", "validation", "test") if split in paths]


def _format_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table, with a line end after it."""
    lines = [f"| {' | '.join(str(cell) for cell in row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, ""])
