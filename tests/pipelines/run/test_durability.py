"""What a run says is whole is on the disk by then, and a disk that fails ends the run before anything false is said."""

import errno
import os
from pathlib import Path

import pytest

from data_schemas.config import RefreshConfig
from data_schemas.errors import StoreError
from data_schemas.manifest import MANIFEST
from data_schemas.reader import read_manifest
from data_schemas.store import TEMPORARY, Store
from flows.runs.refresh import run_refresh
from tests.support.runs import Silent, assert_same, config_on_doubles

pytestmark = pytest.mark.full
"""Whole runs on doubles."""


def config(out: Path) -> RefreshConfig:
    return config_on_doubles(out).model_copy(update={"limit": 2})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose run nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "dataset"
    run_refresh(config(out), Silent())
    return out


class Disk:
    """Notes what is put on the disk and what takes its name, by path in a folder, and may fail at a place."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self.fails_at: str | None = None
        self._root, self._fsync, self._rename = root, os.fsync, os.rename
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "rename", self.rename)

    def fsync(self, descriptor: int) -> None:
        """In the place of `os.fsync`."""
        place = self._place(Path(f"/proc/self/fd/{descriptor}").readlink())
        if self.fails_at is not None and Path(place).match(self.fails_at):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(descriptor)
        self.calls.append(("fsync", place))

    def rename(self, old: str, new: str) -> None:
        """In the place of `os.rename`."""
        self._rename(old, new)
        self.calls.append(("rename", self._place(Path(new))))

    def _place(self, path: Path) -> str:
        place = os.path.relpath(path, self._root)
        return place.rsplit(".", 2)[0] if place.endswith(TEMPORARY) else place


def assert_kept(calls: list[tuple[str, str]], path: str) -> None:
    """A file's content was put on the disk, then it took its name, then that was put on the disk."""
    folder = os.path.dirname(path) or "."
    wanted = [("fsync", path), ("rename", path), ("fsync", folder)]
    places = [calls.index(wanted[0]), calls.index(wanted[1])]
    places.append(calls.index(wanted[2], places[1]))
    assert places == sorted(places), path


def test_all_that_a_run_says_is_whole_is_on_the_disk_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "dataset"
    disk = Disk(out, monkeypatch)
    run_refresh(config(out), Silent())
    records = [str(path.relative_to(out)) for path in out.glob(".store/parts/*/*.json")]
    assert len(records) > 8
    for record in records:
        described = record.replace(".json", ".parquet")
        until_said = disk.calls[: disk.calls.index(("rename", record)) + 1]
        assert until_said.index(("fsync", described)) < until_said.index(("rename", described))
        assert_kept(disk.calls, record)
    until_manifest = disk.calls[: disk.calls.index(("rename", MANIFEST))]
    for entry in read_manifest(Store(str(out))).shards:
        assert_kept(until_manifest, entry.path)
    assert_kept(disk.calls, MANIFEST)


@pytest.mark.parametrize(
    ("fails_at", "named", "not_said"),
    [
        ("speech-*.parquet", r"speech-\w+\.parquet", ".store/parts/*/speech-*.json"),
        ("script-*.json", r"script-\w+\.json", ".store/parts/*/script-*.json"),
        (".store/parts/*-p00000", r"items-\w+\.parquet", ".store/parts/*/items-*.json"),
        ("data/*.parquet", r"data/[\w-]+\.parquet", MANIFEST),
        ("oracles/default", r"oracles/default/[\w-]+\.parquet", MANIFEST),
        (MANIFEST, r"dataset\.json", MANIFEST),
    ],
    ids=["part", "record", "folder of a part", "shard", "folder of shards", "manifest"],
)
def test_a_disk_that_fails_ends_the_run_and_the_next_one_mends_it(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str, named: str, not_said: str
) -> None:
    out = tmp_path / "dataset"
    disk = Disk(out, monkeypatch)
    disk.fails_at = fails_at
    with pytest.raises(StoreError, match=rf"Cannot write .*/{named}: Input/output error\. Check"):
        run_refresh(config(out), Silent())
    assert list(out.glob(not_said)) == []
    assert list(out.rglob(f"*{TEMPORARY}")) == []
    disk.fails_at = None
    run_refresh(config(out), Silent())
    assert_same(out, whole)
