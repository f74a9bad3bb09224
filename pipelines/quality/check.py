"""Checks all invariants of a dataset on its files, and reports what is wrong as faults; it repairs nothing."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import groupby

import pyarrow as pa

from data_schemas.arrow import from_table, make_schema
from data_schemas.errors import StoreError
from data_schemas.manifest import DATA, MANIFEST, ORACLE, REJECTS, Manifest, ShardEntry, make_manifest
from data_schemas.reader import open_store, read_manifest
from data_schemas.records import AudioDialogue, OracleRow, Reject, Turn
from data_schemas.store import Store
from pipelines.oracle.prompt_files import find_prompts, is_prompt_file, is_unchanged_prompt_file
from pipelines.oracle.prompts import PromptSet
from pipelines.oracle.share import is_in_share
from pipelines.quality.dialogue_rules import check_dialogue
from pipelines.quality.knowledge_rules import N_REMADE, check_knowledge
from pipelines.quality.measured_rules import BrokenRules
from pipelines.quality.oracle_rules import AskedTurn, check_oracles, find_asked_turns

_RECORDS: dict[str, type] = {DATA: AudioDialogue, ORACLE: OracleRow, REJECTS: Reject}


@dataclass(frozen=True, slots=True)
class DatasetFault:
    """One broken rule: where (file or dialogue), which rule, and what was found."""

    where: str
    rule: str
    found: str


@dataclass(slots=True)
class _Source:
    """What the oracles of one source are checked against, and the kinds of its files that could not be read."""

    turns: dict[str, list[AskedTurn]] = field(default_factory=dict)  # by dialogue
    remade: dict[str, tuple[Turn, ...]] = field(default_factory=dict)  # complete turns, of the first dialogues
    refused: set[str] = field(default_factory=set)  # dialogues that the oracle stage rejected
    with_oracles: set[tuple[str, str | None]] = field(default_factory=set)  # dialogue and oracle version
    unread: set[str] = field(default_factory=set)  # kinds of files of which one could not be read
    shares: set[tuple[int, float, float]] = field(default_factory=set)  # seeds and bounds recorded in the oracle rows


@dataclass(slots=True)
class _Seen:
    """What later files are checked against, splits by dialogue and by question group, and the running totals."""

    prompts: Callable[[str, str], PromptSet | None]  # of an oracle version, by digest
    source: _Source = field(default_factory=_Source)
    splits: dict[str, str] = field(default_factory=dict)
    group_splits: dict[str, str] = field(default_factory=dict)
    is_whole: bool = True
    n_dialogues: int = 0
    audio_s: float = 0.0
    n_events: Counter[str | None] = field(default_factory=Counter)  # by oracle version
    n_rejects: int = 0
    n_not_remade: int = 0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All faults of a dataset, and how many oracle rows could not be checked because their prompts are missing."""

    faults: list[DatasetFault]
    n_not_remade: int


def check(root: str) -> list[DatasetFault]:
    """Checks the dataset at `root` as `check_dataset` does, and returns its faults alone."""
    return check_dataset(root).faults


def check_dataset(root: str) -> CheckResult:
    """Checks all invariants of the dataset at `root`, and returns what is wrong; nothing is changed.

    Faults that merely follow from an unreadable file are not reported.

    Raises:
        ConfigError: `root` is not an address of a dataset, or the library for its bucket is not installed.
        DatasetError: there is no manifest to check against, or it is damaged or has another schema version.
    """
    store = open_store(root)
    manifest = read_manifest(store)
    seen = _Seen(lru_cache(maxsize=8)(partial(find_prompts, store)))
    faults: list[DatasetFault] = []
    for _, entries in groupby(sorted(manifest.shards, key=_make_sort_key), key=lambda entry: entry.source):
        seen.source = _Source()  # a source's turns are needed only for its own oracles
        for entry in entries:
            faults += _check_file(store, entry, seen)
        faults += _find_missing_oracles(seen.source)
    faults += _find_stray_files(store, manifest)
    faults += _check_counts(manifest, seen)
    return CheckResult(faults, seen.n_not_remade)


def _make_sort_key(entry: ShardEntry) -> tuple[str, int]:
    """Returns the key by which files are sorted: by source, and then data, oracles and rejects."""
    return entry.source, {DATA: 1, ORACLE: 2, REJECTS: 3}.get(entry.kind, 0)


def _check_file(store: Store, entry: ShardEntry, seen: _Seen) -> list[DatasetFault]:
    """Returns the faults of one file and its rows, and adds to `seen` what later files are checked against."""
    try:
        table = _read(store, entry)
    except StoreError as error:
        table = DatasetFault(entry.path, "file can be read", str(error))
    if isinstance(table, DatasetFault):
        seen.is_whole = False
        seen.source.unread |= {entry.kind} if entry.kind in _RECORDS else _RECORDS.keys()
        return [table]
    faults: list[DatasetFault] = []
    if table.num_rows != entry.n_rows:
        faults.append(DatasetFault(entry.path, "rows are the manifest's", f"{table.num_rows}, not {entry.n_rows}"))
    for start in range(0, table.num_rows, 16):  # a few rows of audio in memory at a time
        records: list[object] = from_table(table.slice(start, 16), _RECORDS[entry.kind])
        for record in records:
            faults += _check_record(record, entry, seen)
    return faults


def _read(store: Store, entry: ShardEntry) -> pa.Table | DatasetFault:
    """Returns a file's rows, or the fault that makes checking them pointless."""
    if entry.kind not in _RECORDS:
        return DatasetFault(entry.path, "files are of a known kind", entry.kind)
    if not store.exists(entry.path):
        return DatasetFault(entry.path, "file exists", "missing")
    written = store.describe(entry.path)
    if (written.n_bytes, written.sha256) != (entry.n_bytes, entry.sha256):
        return DatasetFault(
            entry.path, "checksum is the manifest's", f"{written.n_bytes} bytes, {written.sha256[:12]}…"
        )
    table = store.read_table(entry.path)
    if differs := _compare_columns(table, _RECORDS[entry.kind]):
        return DatasetFault(entry.path, "schema is the record's", differs)
    return table


def _compare_columns(table: pa.Table, record: type) -> str:
    """Returns how the columns of a file differ from those of its record class, as text; empty if they fit.

    They fit too if columns are missing that later versions have added.
    """
    wanted = make_schema(record)
    if foreign := [name for name in table.column_names if name not in wanted.names]:
        return f"columns differ: {', '.join(foreign)}"
    try:
        from_table(table.slice(0, 0), record)
    except StoreError as error:
        return f"columns differ: {error.what}"
    loose = [each.name for each in wanted if not each.nullable and table.schema.field(each.name).nullable]
    return f"columns differ: {', '.join(loose)} may be null" if loose else ""


def _check_record(record: object, entry: ShardEntry, seen: _Seen) -> list[DatasetFault]:
    """Returns the faults of one row of any kind, and adds to `seen` what later rows are checked against."""
    if isinstance(record, AudioDialogue):
        return [DatasetFault(record.dialogue_id, *wrong) for wrong in _check_dialogue(record, entry, seen)]
    if isinstance(record, OracleRow):
        return [DatasetFault(record.dialogue_id, *wrong) for wrong in _check_oracle(record, entry, seen)]
    assert isinstance(record, Reject)
    seen.n_rejects += 1
    if record.stage == ORACLE and record.dialogue_id is not None:
        seen.source.refused.add(record.dialogue_id)
    return (
        []
        if record.reason and record.stage
        else [DatasetFault(record.item_id, "rejects have a reason", "no reason or stage")]
    )


def _check_dialogue(row: AudioDialogue, entry: ShardEntry, seen: _Seen) -> BrokenRules:
    """Yields the rules that a row breaks by itself or with earlier rows, and adds it to `seen`."""
    if row.dialogue_id in seen.splits:
        yield "dialogue ids are unique", "occurs twice"
    seen.source.turns[row.dialogue_id], seen.splits[row.dialogue_id] = find_asked_turns(row.turns), row.split
    if len(seen.source.remade) < N_REMADE:
        seen.source.remade[row.dialogue_id] = row.turns
    seen.n_dialogues, seen.audio_s = seen.n_dialogues + 1, seen.audio_s + row.duration_s
    if (row.split, row.source) != (entry.split, entry.source):
        yield "rows lie in the file of their source and split", f"{row.source}, {row.split}"
    if seen.group_splits.setdefault(row.group_id, row.split) != row.split:
        yield "splits are disjoint", f"{row.group_id} is also in {seen.group_splits[row.group_id]}"
    yield from check_dialogue(row)


def _check_oracle(row: OracleRow, entry: ShardEntry, seen: _Seen) -> BrokenRules:
    """Yields the rules that a row breaks by itself or with its dialogue, and adds it to `seen`.

    Its requests are made again only if it breaks no other rule, and only for the first `N_REMADE` dialogues of a
    source.
    """
    seen.n_events[entry.oracle_version] += len(row.events)
    if (row.dialogue_id, entry.oracle_version) in seen.source.with_oracles:
        yield "a dialogue has its oracles once", f"twice in version {entry.oracle_version}"
    seen.source.with_oracles.add((row.dialogue_id, entry.oracle_version))
    seen.source.shares.add((row.seed, row.share_from, row.share_to))
    if (row.source, row.oracle_version) != (entry.source, entry.oracle_version):
        yield "rows lie in the file of their source and version", f"{row.source}, {row.oracle_version}"
    turns = seen.source.turns.get(row.dialogue_id)
    if turns is None:
        if DATA not in seen.source.unread:
            yield "oracles belong to a dialogue of the dataset", "no such dialogue"
        return
    if row.split != seen.splits[row.dialogue_id] or row.split != entry.split:
        yield "splits are disjoint", f"oracle in {row.split}, dialogue in {seen.splits[row.dialogue_id]}"
    wrong = list(check_oracles(row, turns))
    yield from wrong
    if wrong or row.simulator != "llm" or row.dialogue_id not in seen.source.remade:
        return
    prompts = seen.prompts(row.oracle_version, row.prompt_digest)
    if prompts is None:
        seen.n_not_remade += 1
    else:
        yield from check_knowledge(row, seen.source.remade[row.dialogue_id], prompts)


def _find_missing_oracles(source: _Source) -> list[DatasetFault]:
    """Returns a fault for each dialogue of the source's share that has neither oracles nor a reject.

    Returns none if an oracle file could not be read.
    """
    if ORACLE in source.unread:
        return []
    alone = source.turns.keys() - {dialogue_id for dialogue_id, _ in source.with_oracles}
    if source.shares:  # without rows the share is unknown: then all dialogues need oracles
        alone = {each for each in alone if any(is_in_share(each, *share) for share in source.shares)}
    return [DatasetFault(each, "every dialogue has oracles", "none") for each in sorted(alone - source.refused)]


def _find_stray_files(store: Store, manifest: Manifest) -> list[DatasetFault]:
    """Returns a fault for each file in the folders of data, oracles and rejects that the manifest does not list.

    In `prompts/`, each file that is not a prompt set, or was changed, is a fault.
    """
    listed = {entry.path for entry in manifest.shards}
    there = [path for folder in ("data", "oracles", "prompts", "rejects") for path in store.list_files(folder)]
    strange = [path for path in there if path not in listed and not is_prompt_file(path)]
    changed = [path for path in there if is_prompt_file(path) and not is_unchanged_prompt_file(store, path)]
    return [
        *(DatasetFault(path, "the manifest lists every file", "not listed") for path in strange),
        *(DatasetFault(path, "prompts are those of their file's name", "changed") for path in changed),
    ]


def _check_counts(manifest: Manifest, seen: _Seen) -> list[DatasetFault]:
    """Returns a fault if the manifest's counts are not those of all rows, and one if its fingerprint is wrong.

    The counts are compared only if every file could be read.
    """
    said = manifest.counts
    found = (seen.n_dialogues, seen.n_events[manifest.oracle_version], seen.n_rejects)
    faults = []
    adds_up = (said.dialogues, said.events, said.rejects) == found and abs(said.audio_s - seen.audio_s) <= 0.01
    if seen.is_whole and not adds_up:
        counted = f"{found[0]} dialogues, {found[1]} events, {found[2]} rejects, {seen.audio_s:.3f} s found"
        faults.append(DatasetFault(MANIFEST, "counts add up", f"{counted}; said: {said}"))
    if make_manifest(manifest.shards, said, manifest.oracle_version).fingerprint != manifest.fingerprint:
        faults.append(DatasetFault(MANIFEST, "the fingerprint is that of the files", manifest.fingerprint))
    return faults
