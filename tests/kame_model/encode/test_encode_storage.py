"""Token rows on disk: what is written comes back, as views, at random, and a damaged file is said to be so."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.errors import DatasetError, StoreError
from data_schemas.store import Store
from kame_model.encode.manifest import MANIFEST
from kame_model.encode.rows import PackedFile, SpeakerTokens, TokenRow, to_ragged, write_packed
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.oracle_stream import OracleTokens
from tests.support.token_rows import write_token_rows


def random_speaker(seed: int, n_frames: int) -> SpeakerTokens:
    draw = np.random.default_rng(seed)
    events = [draw.integers(0, 16, draw.integers(0, 5)).tolist() for _ in range(seed % 4)]
    oracle = OracleTokens.pack(
        frame=sorted(draw.integers(0, n_frames, len(events)).tolist()),
        ratio=draw.random(len(events)).tolist(),
        level=draw.integers(0, 6, len(events)).tolist(),
        skip_forbid=[bool(each) for each in draw.integers(0, 2, len(events))],
        preds=events,
        hints=[[], *events[1:]] if events else [],
    )
    return SpeakerTokens(
        text=draw.integers(0, 16, n_frames).astype(np.int32),
        codes=draw.integers(0, 2048, (8, n_frames)).astype(np.int16),
        oracle=oracle,
        answer_mask=draw.random(n_frames) < 0.5,
    )


def random_row(seed: int, n_frames: int = 9, split: str = "train") -> TokenRow:
    return TokenRow(
        dialogue_id=f"mine-{seed}-v0",
        item_id=f"mine-{seed}",
        source="mine",
        split=split,
        form="plain",
        question="How many?",
        answer=f"{seed}",
        n_frames=n_frames,
        duration_s=n_frames * 0.08,
        a=random_speaker(seed, n_frames),
        b=random_speaker(seed + 1, n_frames),
    )


def flat(row: TokenRow) -> dict[str, object]:
    """All of a row, arrays as lists, with their types."""
    found: dict[str, object] = {name: getattr(row, name) for name in TokenRow.__slots__ if name not in ("a", "b")}
    for speaker in ("a", "b"):
        tokens = getattr(row, speaker)
        arrays = {name: getattr(tokens, name) for name in ("text", "codes", "answer_mask")}
        arrays |= {name: getattr(tokens.oracle, name) for name in OracleTokens.__slots__}
        found |= {f"{speaker}_{name}": (array.dtype, array.shape, array.tolist()) for name, array in arrays.items()}
    return found


@settings(max_examples=30)
@given(rows=st.lists(st.lists(st.integers(-(2**15), 2**15 - 1), max_size=6), max_size=6))
def test_arrays_of_any_lengths_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]]) -> None:
    store = Store(str(tmp_path_factory.mktemp("packed")))
    columns = {
        "name": pa.array([str(each) for each in rows]),
        "values": to_ragged([np.asarray(each, np.int16) for each in rows], np.int16),
    }
    write_packed(store, "file.arrow", columns)
    file = PackedFile(store.resolve_path("file.arrow"))
    assert [file.read_array("values", at).tolist() for at in range(len(file))] == rows
    assert file.count_values("values").tolist() == [len(each) for each in rows]
    assert file.read_column("name") == [str(each) for each in rows]


def test_rows_come_back_whole_from_several_shards(tmp_path: Path) -> None:
    shards = [[random_row(1, 9), random_row(2, 13)], [random_row(3, 1, "test")], [random_row(4, 30), random_row(5)]]
    dataset = write_token_rows(tmp_path, *shards)
    rows = sorted((row for shard in shards for row in shard), key=lambda row: row.dialogue_id)
    found = {dataset[at].dialogue_id: at for at in range(len(dataset))}
    assert [flat(dataset[found[row.dialogue_id]]) for row in rows] == [flat(row) for row in rows]
    assert dataset.lengths[found["mine-4-v0"]] == 30
    assert dataset.splits[found["mine-3-v0"]] == "test"
    assert dataset.n_events_of["a"][found["mine-3-v0"]] == 3
    assert dataset.dialogue_ids == [dataset[at].dialogue_id for at in range(5)]


def test_arrays_are_read_only_views_in_another_process_too(tmp_path: Path) -> None:
    dataset = write_token_rows(tmp_path, [random_row(1), random_row(2)])
    with pytest.raises(ValueError, match="read-only"):
        dataset[0].a.text[0] = 1
    assert not dataset[0].a.codes.flags.owndata
    for row in (2, -1):
        with pytest.raises(IndexError, match="rows 0 to 1"):
            dataset[row]
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 500, "the folder's name alone"
    assert flat(pickle.loads(pickled)[1]) == flat(dataset[1])


@pytest.mark.parametrize("kind", ["codes", "rows"])
def test_a_cut_file_is_found_when_the_folder_is_opened(tmp_path: Path, kind: str) -> None:
    write_token_rows(tmp_path, [random_row(1)])
    [file] = (tmp_path / kind).glob("*.arrow")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(StoreError, match=f"{file.name} is missing or truncated"):
        TokenDataset(str(tmp_path))


def test_a_file_that_is_none_of_ours_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(b"no Arrow at all, but long enough")
    with pytest.raises(StoreError, match=r"x\.arrow is not a complete file"):
        PackedFile(str(tmp_path / "x.arrow"))


def test_rows_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    write_token_rows(tmp_path, [random_row(1)])
    manifest = (tmp_path / MANIFEST).read_text(encoding="utf-8")
    (tmp_path / MANIFEST).write_text(manifest.replace('"rows_version":2', '"rows_version":99'), encoding="utf-8")
    with pytest.raises(DatasetError, match="version 99; this version of kame reads 2"):
        TokenDataset(str(tmp_path))


def test_no_rows_and_a_damaged_manifest_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no token rows"):
        TokenDataset(str(tmp_path))
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(DatasetError, match="is damaged"):
        TokenDataset(str(tmp_path))
