"""Each rule of `check` finds the one fault that breaks it, and nothing is said of a sound dataset."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from data_schemas import ids
from data_schemas.arrow import from_table, to_table
from data_schemas.errors import DatasetError
from data_schemas.manifest import MANIFEST, DatasetCounts, Manifest, ShardEntry, make_manifest
from data_schemas.reader import read_manifest
from data_schemas.records import AudioDialogue, OracleRow, Reject
from data_schemas.store import Store
from pipelines.figures import count_figures
from pipelines.quality.check import check

pytestmark = pytest.mark.full

RECORDS: dict[str, type] = {"data": AudioDialogue, "oracle": OracleRow, "rejects": Reject}


def put_manifest(store: Store, manifest: Manifest) -> None:
    store.write_bytes(MANIFEST, manifest.model_dump_json().encode())


def relist(store: Store, path: str, recount: bool = True) -> None:
    """Makes the manifest true again of a file that was written over."""
    manifest = read_manifest(store)
    now, n_rows = store.describe(path), 0
    if recount:
        n_rows = store.read_table(path).num_rows
    changes = {"n_bytes": now.n_bytes, "sha256": now.sha256} | ({"n_rows": n_rows} if recount else {})
    entries = [each.model_copy(update=changes) if each.path == path else each for each in manifest.shards]
    counts = manifest.counts
    if recount:
        figures = count_figures(store, entries, manifest.oracle_version)
        made = {"dialogues": figures.n_dialogues, "audio_s": figures.total_audio_s, "events": figures.n_events}
        counts = counts.model_copy(update=made)
    put_manifest(store, make_manifest(entries, counts, manifest.oracle_version))


def first_path(store: Store, kind: str) -> str:
    """A file of a kind; of data and oracles one whose first row is in train."""
    return next(each.path for each in read_manifest(store).select_kind(kind) if each.split in (None, "train"))


def spoil_first(root: Path, kind: str, change: Callable[[Any], Any]) -> None:
    """Writes one fault into the first row of a kind of file, so that nothing but the fault is wrong."""
    store = Store(str(root))
    path = first_path(store, kind)
    rows: list[Any] = from_table(store.read_table(path), RECORDS[kind])
    changed = change(rows[0])
    first = changed if isinstance(changed, list) else [changed]
    store.write_table(path, to_table([*first, *rows[1:]], RECORDS[kind]))
    relist(store, path)


def rules(root: Path) -> set[str]:
    return {fault.rule for fault in check(str(root))}


def test_nothing_is_wrong_with_what_we_make(made: Path) -> None:
    assert check(str(made)) == []


FAULTS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("data", "dialogue ids are unique", lambda row: [row, row]),
    ("data", "rows lie in the file of their source and split", lambda row: replace(row, source="other")),
    ("data", "audio can be read", lambda row: replace(row, audio=None)),
    ("oracle", "splits are disjoint", lambda row: replace(row, split="test")),
    ("oracle", "rows lie in the file of their source and version", lambda row: replace(row, source="other")),
    ("oracle", "rows lie in the file of their source and version", lambda row: replace(row, oracle_version="other")),
    ("oracle", "events are those of the schedule", lambda row: replace(row, events=row.events[:-1])),
    ("oracle", "a dialogue has its oracles once", lambda row: [row, row]),
    ("rejects", "rejects have a reason", lambda row: replace(row, reason="")),
]


@pytest.mark.parametrize(("kind", "rule", "change"), FAULTS)
def test_a_fault_in_a_row_breaks_one_rule(dataset: Path, kind: str, rule: str, change: Callable[[Any], Any]) -> None:
    spoil_first(dataset, kind, change)
    assert rules(dataset) == {rule}


def test_oracles_of_nobody_and_a_dialogue_without_any_are_found(dataset: Path) -> None:
    spoil_first(dataset, "oracle", lambda row: replace(row, dialogue_id="nobody-v0"))
    assert rules(dataset) == {"oracles belong to a dialogue of the dataset", "every dialogue has oracles"}


@pytest.mark.parametrize(("variant", "excused"), [(0, True), (1, False), (None, False)])
def test_a_reject_excuses_its_own_dialogue_alone(dataset: Path, variant: int | None, excused: bool) -> None:
    store = Store(str(dataset))
    entry = next(each for each in read_manifest(store).select_kind("oracle") if each.split == "train")
    (row, *_) = from_table(store.read_table(entry.path), OracleRow)
    item_id = row.dialogue_id.rpartition("-v")[0]
    spoil_first(dataset, "oracle", lambda row: [])
    relist(store, entry.path)
    dialogue_id = None if variant is None else ids.make_dialogue_id(item_id, variant)
    refusal = Reject(item_id=item_id, source=row.source, stage="oracle", reason="x", detail="", dialogue_id=dialogue_id)
    rejects = next(each for each in read_manifest(store).select_kind("rejects") if each.source == row.source)
    rows = from_table(store.read_table(rejects.path), Reject)
    store.write_table(rejects.path, to_table([refusal, *rows[1:]], Reject))
    relist(store, rejects.path)
    assert rules(dataset) == (set() if excused else {"every dialogue has oracles"})


def test_a_question_in_two_splits_is_found(dataset: Path) -> None:
    store = Store(str(dataset))
    splits: dict[str | None, str] = {each.split: each.path for each in read_manifest(store).select_kind("data")}
    assert len(splits) > 1
    group = store.read_table(next(path for split, path in splits.items() if split != "train"))["group_id"][0].as_py()
    spoil_first(dataset, "data", lambda row: replace(row, group_id=group))
    assert rules(dataset) == {"splits are disjoint"}


@pytest.mark.parametrize("kind", RECORDS)
def test_faults_of_files_are_found_and_not_what_follows_from_them(dataset: Path, kind: str) -> None:
    store = Store(str(dataset))
    manifest, path = read_manifest(store), first_path(store, kind)
    whole = store.read_bytes(path)

    store.write_bytes(path, whole[:-1] + bytes([whole[-1] ^ 1]))
    assert rules(dataset) == {"checksum is the manifest's"}

    store.write_bytes(path, b"no Parquet")
    relist(store, path, recount=False)
    assert rules(dataset) == {"file can be read"}

    put_manifest(store, manifest)
    store.remove(path)
    assert [(fault.where, fault.rule) for fault in check(str(dataset))] == [(path, "file exists")]

    store.write_bytes(path, whole)
    assert rules(dataset) == set()


@pytest.mark.parametrize("kind", RECORDS)
def test_a_column_too_many_or_too_few_is_found(dataset: Path, kind: str) -> None:
    store = Store(str(dataset))
    path = first_path(store, kind)
    table = store.read_table(path)
    store.write_table(path, table.append_column("more", pa.array([1] * table.num_rows)))
    relist(store, path)
    assert rules(dataset) == {"schema is the record's"}
    store.write_table(path, table.drop_columns(["source"]))
    relist(store, path, recount=False)
    assert rules(dataset) == {"schema is the record's"}


def test_a_file_from_before_a_column_that_may_be_null_is_sound(dataset: Path) -> None:
    store = Store(str(dataset))
    path = first_path(store, "oracle")
    store.write_table(path, store.read_table(path).drop_columns(["wanted_words"]))
    relist(store, path)
    assert rules(dataset) == set()


@pytest.mark.parametrize("folder", ["data", "oracles/default", "rejects"])
def test_a_file_that_is_not_listed_is_found(dataset: Path, folder: str) -> None:
    (dataset / folder / "more.parquet").write_bytes(b"x")
    found = [(fault.where, fault.rule) for fault in check(str(dataset))]
    assert found == [(f"{folder}/more.parquet", "the manifest lists every file")]


def with_last(manifest: Manifest, **changes: Any) -> list[ShardEntry]:
    return [*manifest.shards[:-1], manifest.shards[-1].model_copy(update=changes)]


def with_kind_nobody_knows(manifest: Manifest) -> Manifest:
    return make_manifest(with_last(manifest, kind="codes"), manifest.counts, manifest.oracle_version)


def counts_one_more(manifest: Manifest, counted: str) -> Manifest:
    more = {counted: getattr(manifest.counts, counted) + 1}
    return manifest.model_copy(update={"counts": manifest.counts.model_copy(update=more)})


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (
            "rows are the manifest's",
            lambda manifest: manifest.model_copy(update={"shards": with_last(manifest, n_rows=99)}),
        ),
        (
            "the fingerprint is that of the files",
            lambda manifest: manifest.model_copy(update={"fingerprint": "0" * 16}),
        ),
        ("files are of a known kind", with_kind_nobody_knows),
        *(("counts add up", partial(counts_one_more, counted=each)) for each in DatasetCounts.model_fields),
    ],
)
def test_a_manifest_that_is_not_true_is_found(dataset: Path, rule: str, change: Callable[[Manifest], Manifest]) -> None:
    store = Store(str(dataset))
    put_manifest(store, change(read_manifest(store)))
    assert rules(dataset) == {rule}


def test_without_a_manifest_there_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is not a dataset"):
        check(str(tmp_path))
