"""The index says what the Parquet files say."""

import os
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard.figures import read_groups, read_totals
from dashboard.index import Index, IndexBeingMade, Indexes
from data_schemas.errors import StoreError
from data_schemas.reader import DatasetReader, read_manifest
from tests.support.dashboards import dialogues, indexed, opened, write_manifest

ROWS = [row for shard in dialogues() for row in shard]


@pytest.fixture(scope="module")
def small(root: Path) -> Path:
    return root / "small"


def waited(indexes: Indexes, folder: Path) -> Index:
    for _ in range(200):
        try:
            return indexes.open(opened(folder))
        except IndexBeingMade:
            continue
    raise AssertionError("the index is never done")


def test_dialogues_have_what_their_rows_have(index: Index) -> None:
    found = {each["dialogue_id"]: each for each in index.fetch_records("SELECT * FROM dialogues")}
    assert found.keys() == {row.dialogue_id for row in ROWS}
    for row in ROWS:
        told = found[row.dialogue_id]
        same = ("item_id", "source", "split", "form", "question", "answer", "duration_s", "licence")
        assert {name: told[name] for name in same} == {name: getattr(row, name) for name in same}
        words = [word for turn in row.turns for each in turn.utterances for word in each.words]
        assert told["n_words"] == len(words)
        assert told["wer"] == row.quality.wer
        assert told["voice_b"] == row.provenance.voice_b
        assert told["spoken_text"] == " ".join(turn.spoken_text for turn in row.turns)
        assert (told["n_events"], told["levels"]) == (3, [0, 5])


def test_events_are_those_of_the_oracle_files(small: Path, index: Index) -> None:
    reader = DatasetReader(str(small))
    for row in ROWS:
        oracle = reader.find_oracle(row.dialogue_id)
        assert oracle is not None
        found = index.fetch_records("SELECT * FROM events WHERE dialogue_id = ? ORDER BY event_id", [row.dialogue_id])
        for told, event in zip(found, oracle.events, strict=True):
            same = ("event_id", "t_s", "turn_index", "r", "level", "status", "text", "error", "n_words_heard")
            assert {name: told[name] for name in same} == {name: getattr(event, name) for name in same}


def test_rejects_have_their_items_text_where_the_store_knows_it(small: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    items = [{"item": {"item_id": "mine-8", "question": "What is x?", "answer": "two"}, "part_id": "p"}]
    (copy / ".store" / "membership").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(items), copy / ".store" / "membership" / "mine.parquet")
    with closing(indexed(copy, tmp_path / "index.duckdb")) as index:
        found = index.fetch_rows("SELECT item_id, question, answer FROM rejects ORDER BY ALL")
    assert found == [("mine-8", "What is x?", "two"), ("mine-9", None, None)]


def test_files_of_before_answered_by_are_read(small: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    for file in (copy / "oracles").rglob("*.parquet"):
        rows = pq.read_table(file).to_pylist()
        for row in rows:
            for event in row["events"]:
                del event["answered_by"]
        pq.write_table(pa.Table.from_pylist(rows), file)
    with closing(indexed(copy, tmp_path / "index.duckdb")) as index:
        assert index.fetch_rows("SELECT DISTINCT answered_by FROM events") == [(None,)]


def test_totals_are_sums_over_rows(index: Index) -> None:
    totals = read_totals(index, "default")
    assert (totals.n_items, totals.n_dialogues, totals.n_rejects, totals.n_events) == (5, 5, 2, 15)
    assert totals.audio_s == pytest.approx(sum(row.duration_s for row in ROWS))
    assert totals.wer == pytest.approx(1 / 6)
    assert totals.forms == sorted({row.form for row in ROWS})
    assert totals.ladder == [(0, 10, 0.5), (5, 5, 1.0)]
    groups = {each["name"]: each["n"] for each in read_groups(index)["form"]}
    assert groups == Counter(row.form for row in ROWS)


def test_an_index_is_kept_and_made_anew_for_another_content(small: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    cache = tmp_path / "cache"
    with closing(Indexes(cache)) as indexes:
        first = waited(indexes, copy)
    stamp = first.file.stat().st_mtime_ns
    with closing(Indexes(cache)) as indexes:
        again = waited(indexes, copy)
    assert (again.file, again.file.stat().st_mtime_ns) == (first.file, stamp)
    left, others = (first.file.with_name(f"{name}.making") for name in ("left", "others"))
    left.touch()
    others.touch()
    os.utime(left, (0, 0))  # of a dashboard that was killed long ago; the other one is at work
    manifest = read_manifest(opened(copy).store)
    write_manifest(copy, manifest.model_copy(update={"fingerprint": "other", "shards": manifest.shards[:1]}))
    with closing(Indexes(cache)) as indexes:
        other = waited(indexes, copy)
    assert sorted(cache.rglob("*.duckdb")) == [other.file]
    assert list(cache.rglob("*.making")) == [others]


@pytest.mark.parametrize("shard", ["data/test-*.parquet", "oracles/**/test-*.parquet"])
def test_a_damaged_file_is_told_and_tried_again(small: Path, tmp_path: Path, shard: str) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    file = next(copy.glob(shard))
    whole = file.read_bytes()
    file.write_bytes(whole[:200])
    with closing(Indexes(tmp_path / "cache")) as indexes:
        with pytest.raises(StoreError, match=r"index of .*copy cannot be built.*kame check"):
            waited(indexes, copy)
        file.write_bytes(whole)
        assert waited(indexes, copy).fetch_rows("SELECT count(*) FROM dialogues") == [(5,)]
