"""Files are whole or not there, and what is wrong with one is said in our words."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import TEMPORARY, Store, create_folder

TABLE = pa.table({"a": list(range(1_000)), "b": [f"text {n}" for n in range(1_000)]})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def half_written(store: Store, path: str, error: BaseException) -> None:
    with store.open_for_writing(path) as sink:
        sink.write(b"half")
        raise error


def names(store: Store) -> list[str]:
    return sorted(path.name for path in Path(store.root).rglob("*") if path.is_file())


def test_what_is_written_is_read_and_described_and_of_a_table_the_columns_asked_for(store: Store) -> None:
    written = store.write_bytes("a/b/c.json", b"content")
    assert store.read_bytes("a/b/c.json") == b"content"
    assert store.describe("a/b/c.json") == written
    assert (written.n_bytes, store.get_size("a/b/c.json")) == (7, 7)
    assert store.exists("a/b/c.json")
    assert not store.exists("a/b/d.json")
    store.write_table("table", TABLE)
    assert store.read_table("table").equals(TABLE)
    assert store.read_table("table", ["b", "no_such"]).column_names == ["b"]


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), StoreError("Gone.")], ids=repr)
def test_a_block_that_fails_leaves_nothing_and_keeps_the_old_file(store: Store, error: BaseException) -> None:
    store.write_bytes("kept", b"old")
    for path in ("kept", "new"):
        with pytest.raises(type(error)):
            half_written(store, path, error)
    assert names(store) == ["kept"]
    assert store.read_bytes("kept") == b"old"


def test_a_sweep_removes_what_is_half_written_and_nothing_else(store: Store) -> None:
    store.write_bytes("data/whole.parquet", b"x")
    store.write_bytes(f"data/half.parquet.0123{TEMPORARY}", b"x")
    store.write_bytes(f".store/parts/p0/script.json.4567{TEMPORARY}", b"x")
    store.sweep()
    assert names(store) == ["whole.parquet"]


def test_files_are_listed_by_folder_and_suffix(store: Store) -> None:
    for path in ("data/b.parquet", "data/a.parquet", "data/x/c.parquet", "data/a.json", "other/d.parquet"):
        store.write_bytes(path, b"x")
    assert store.list_files("data", ".parquet") == ["data/a.parquet", "data/b.parquet", "data/x/c.parquet"]
    assert store.list_files("nowhere") == []


def test_a_removed_file_is_gone_and_a_missing_one_is_named(store: Store) -> None:
    store.write_bytes("file", b"x")
    store.remove("file")
    assert not store.exists("file")
    with pytest.raises(StoreError, match=r"Cannot remove .*/file: No such file"):
        store.remove("file")
    for read in (store.read_bytes, store.read_table, store.describe):
        with pytest.raises(StoreError, match=r"Cannot read .*/nowhere: No such file"):
            read("nowhere")


def test_a_flipped_bit_is_found_by_the_checksum(store: Store) -> None:
    written = store.write_table("a", TABLE)
    assert store.read_table("a", sha256=written.sha256).equals(TABLE)
    spoilt = bytearray(store.read_bytes("a"))
    spoilt[len(spoilt) // 3] ^= 1
    store.write_bytes("a", bytes(spoilt))
    with pytest.raises(StoreError, match=r"checksum differs.*Remove the file and run"):
        store.read_table("a", sha256=written.sha256)


def test_any_damage_to_a_table_that_is_noticed_is_our_error(store: Store) -> None:
    store.write_table("a", TABLE)
    whole = store.read_bytes("a")
    for keep in (0.0, 0.3, 0.99):
        store.write_bytes("a", whole[: int(len(whole) * keep)])
        with pytest.raises(StoreError, match=r"not a complete Parquet file.*Remove the file and run"):
            store.read_table("a")
    noticed = 0
    for place in range(0, len(whole), max(1, len(whole) // 150)):
        store.write_bytes("a", whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            store.read_table("a")
        except StoreError as error:
            assert "Remove the file" in error.remedy  # noqa: PT017 - each of many damages
            noticed += 1
    assert noticed > 5


def test_a_folder_that_cannot_be_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match="Cannot write"):
        Store(str(tmp_path / "file")).write_bytes("a/b", b"x")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_to_make_room(store: Store, code: int) -> None:
    with pytest.raises(StoreError, match="Free space"), store.open_for_writing("a"):
        raise OSError(code, "No space left on device")
    assert names(store) == []


def test_a_disk_that_is_really_full_leaves_the_old_file(tiny_disk: Path) -> None:
    store = Store(str(tiny_disk))
    store.write_bytes("kept", b"old")
    for path in ("kept", "new"):
        with pytest.raises(StoreError, match=r"No space left on device.*Free space"):
            store.write_bytes(path, bytes(10**6))
    assert names(store) == ["kept"]
    assert store.read_bytes("kept") == b"old"


def test_a_disk_that_fills_under_a_parquet_writer_is_our_error(tiny_disk: Path) -> None:
    store, rows = Store(str(tiny_disk)), pa.table({"a": [str(n * n) for n in range(200_000)]})

    def write() -> None:
        with store.open_for_writing("shard") as sink, pq.ParquetWriter(sink, rows.schema) as writer:
            writer.write_table(rows)

    with pytest.raises(StoreError, match="Free space"):
        write()
    assert names(store) == []


def test_a_folder_whose_files_cannot_take_names_stays_clean(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store.fs, "mv", refuse)
    with pytest.raises(StoreError, match=r"Permission denied.*permissions"):
        store.write_bytes("a", b"x")
    monkeypatch.undo()
    assert names(store) == []


Calls = list[tuple[str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Every `fsync` and `rename` with the name of its file or folder, in order; "aside" while that is not final."""
    made: Calls = []
    fsync, rename = os.fsync, os.rename

    def note(call: str, place: str | os.PathLike[str]) -> None:
        name = Path(place).name
        made.append((call, f"{name.split('.')[0]} aside" if name.endswith(TEMPORARY) else name))

    def noted_fsync(descriptor: int) -> None:
        note("fsync", Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def noted_rename(old: str, new: str) -> None:
        note("rename", new)
        rename(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    return made


def test_a_content_is_on_the_disk_before_its_name_and_names_of_folders_are_too(store: Store, calls: Calls) -> None:
    store.write_bytes("manifest", b"x")
    kept = [("fsync", "manifest aside"), ("rename", "manifest"), ("fsync", "store")]
    assert calls == [*kept, ("fsync", Path(store.root).parent.name)], "the store's own name is new"
    calls.clear()
    store.write_bytes("manifest", b"y")
    assert calls == kept
    store.write_bytes("file", b"x")
    calls.clear()
    with store.open_for_writing("parts/p0/shard") as sink:
        sink.write(b"x")
    names_synced = [("fsync", "p0"), ("fsync", "parts"), ("fsync", "store")]
    assert calls == [("fsync", "shard aside"), ("rename", "shard"), *names_synced]


def test_of_a_batch_all_contents_come_before_the_first_name(store: Store, calls: Calls) -> None:
    store.write_bytes("p0/old", b"x")
    calls.clear()
    with store.open_batch() as batch:
        batch.write_table("p0/part", TABLE)
        batch.write_bytes("p0/record", b"x")
        assert calls == []
        assert not store.exists("p0/part")
    synced = [("fsync", "part aside"), ("fsync", "record aside")]
    assert calls == [*synced, ("rename", "part"), ("rename", "record"), ("fsync", "p0")]


def test_a_batch_that_fails_leaves_nothing(store: Store) -> None:
    def fail_after_two() -> None:
        with store.open_batch() as batch:
            batch.write_bytes("part", b"x")
            with suppress(ValueError), batch.open_for_writing("half") as sink:
                sink.write(b"half")
                raise ValueError
            batch.write_bytes("record", b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_after_two()
    assert names(store) == []


def test_of_two_writers_of_one_folder_the_first_to_end_has_it_whole(tmp_path: Path) -> None:
    out = tmp_path / "export"

    def write_late() -> None:
        with create_folder(out) as late:
            (late / "a.bin").write_bytes(b"half")
            with create_folder(out) as early:
                (early / "a.bin").write_bytes(b"whole")
            assert [each.name for each in late.iterdir()] == ["a.bin"]

    with pytest.raises(ConfigError, match="already exists"):
        write_late()
    assert (out / "a.bin").read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("name", [f"export{TEMPORARY}", f"export.0123{TEMPORARY}"])
def test_what_a_killed_writer_of_a_folder_left_is_not_in_the_next_one(tmp_path: Path, name: str) -> None:
    left = tmp_path / name
    left.mkdir()
    (left / "old.bin").write_bytes(b"half")
    with create_folder(tmp_path / "export") as aside:
        (aside / "new.bin").write_bytes(b"whole")
    assert [each.name for each in (tmp_path / "export").iterdir()] == ["new.bin"]
    assert not left.exists()


def test_a_folder_written_into_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, calls: Calls) -> None:
    with create_folder(tmp_path / "export") as aside:
        (aside / "weights").write_bytes(b"x")
    assert calls == [("fsync", "weights"), ("fsync", "export aside"), ("rename", "export"), ("fsync", tmp_path.name)]


def failing(monkeypatch: pytest.MonkeyPatch, code: int, is_at_fault: Callable[[Path], bool]) -> None:
    fsync = os.fsync

    def faulty(descriptor: int) -> None:
        if is_at_fault(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", faulty)


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("path", ["new", "kept"])
def test_a_disk_that_fails_to_keep_a_file_is_named_and_leaves_no_new_file(
    store: Store, monkeypatch: pytest.MonkeyPatch, what: str, path: str
) -> None:
    store.write_bytes("kept", b"old")
    failing(monkeypatch, errno.EIO, lambda place: place.is_dir() == (what == "folder"))
    with pytest.raises(StoreError, match=rf"Cannot write .*/{path}: Input/output error.*disk"):
        store.write_bytes(path, b"now")
    assert names(store) == ["kept"]
    assert store.read_bytes("kept") == (b"now" if (what, path) == ("folder", "kept") else b"old")


def test_a_folder_that_takes_no_such_request_is_written_to(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems answer so; of a file it is an error."""
    failing(monkeypatch, errno.EINVAL, lambda place: place.is_dir())
    store.write_bytes("a", b"x")
    assert store.read_bytes("a") == b"x"
    monkeypatch.undo()
    failing(monkeypatch, errno.EINVAL, lambda place: place.is_file())
    with pytest.raises(StoreError, match="Invalid argument"):
        store.write_bytes("b", b"x")


def test_a_store_that_is_no_local_disk_is_written_to_as_before(store: Store, calls: Calls) -> None:
    store.fs, store.root = MemoryFileSystem(), "/somewhere"
    store.write_table("a/b/shard", TABLE)
    store.write_bytes("a/b/shard", b"other")
    assert store.read_bytes("a/b/shard") == b"other"
    assert store.list_files("a") == ["a/b/shard"]
    assert calls == []
