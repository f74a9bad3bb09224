"""Recordings are deleted when they have been kept for long enough, whatever else goes wrong."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_schemas.config.serving import RecordConfig
from data_schemas.errors import StoreError
from data_schemas.store import TEMPORARY, Store
from kame_model.serve.session.recordings import SWEEP_EVERY_S, RecordingFacts, Recordings
from tests.support.inline_threads import InlineThreads

pytestmark = [pytest.mark.looptime]
ABOUT = RecordingFacts(checkpoint="nano", recogniser="double", notice="This is kept.")
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
OLD, NEW = "2026-03-01T12:00:00+00:00", "2026-04-20T12:00:00+00:00"


def recordings_in(folder: Path, **began: object) -> Recordings:
    """Recordings that are kept for thirty days.

    Args:
        began: when each one did, by session.
    """
    for session_id, started_at in began.items():
        pq.write_table(pa.table({"started_at": [started_at]}), folder / f"{session_id}.parquet")
    return Recordings(RecordConfig(folder=str(folder), keep_days=30), ABOUT, InlineThreads(), lambda: NOW)


def there(folder: Path) -> list[str]:
    return sorted(each.stem for each in folder.glob("*.parquet"))


async def test_one_that_cannot_be_judged_does_not_keep_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    began = {"a_word": "noon", "b_null": None, "c_number": 12, "d_without_zone": "2020-01-01T00:00:00", "e_list": [OLD]}
    (tmp_path / "f_damaged.parquet").write_bytes(b"no recording")
    recordings = recordings_in(tmp_path, **began, new=NEW, old=OLD)
    assert await recordings.sweep() == 1
    assert there(tmp_path) == [*began, "f_damaged", "new"]
    assert all(f"{name}.parquet" in caplog.text for name in (*began, "f_damaged"))
    await recordings.aclose()


@pytest.mark.parametrize("own", ["", "process-0"])
async def test_those_of_processes_that_the_server_no_longer_has_are_deleted_as_well(own: str, tmp_path: Path) -> None:
    for folder in (tmp_path, *(tmp_path / name for name in ("process-0", "process-3", "copy"))):
        folder.mkdir(exist_ok=True)
        for session_id, started_at in (("old", OLD), ("new", NEW), ("mine", NEW)):
            pq.write_table(pa.table({"started_at": [started_at]}), folder / f"{session_id}.parquet")
    left, written = (tmp_path / "process-3" / f"{name}{TEMPORARY}" for name in ("left", "written"))
    left.touch()
    written.touch()
    os.utime(left, (0, 0))  # of a server that was killed
    recordings = recordings_in(tmp_path / own)
    if own:  # a single server of the whole folder deletes them when it starts
        assert (left.exists(), written.exists()) == (True, True)
    assert await recordings.sweep() == 3 + bool(own)
    assert await recordings.delete("mine")
    assert not await recordings.delete("mine")
    assert [there(tmp_path / each) for each in ("", "process-0", "process-3")] == [["new"]] * 3
    assert there(tmp_path / "copy") == ["mine", "new", "old"]
    assert (left.exists(), written.exists()) == (False, bool(own))
    await recordings.aclose()


async def test_one_that_cannot_be_deleted_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recordings = recordings_in(tmp_path, old=OLD)

    def refused(*_: object) -> None:
        raise StoreError("Cannot remove it: Permission denied.", "Check its permissions.")

    with monkeypatch.context() as broken:
        broken.setattr(Store, "remove", refused)
        assert await recordings.sweep() == 0
    assert "The recording old.parquet stays, because it has expired and cannot be deleted" in caplog.text
    assert "cannot be read" not in caplog.text
    await recordings.aclose()


async def test_a_sweep_that_fails_is_told_and_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recordings = recordings_in(tmp_path, old=OLD)

    def refused(*_: object) -> list[str]:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "glob", refused)
        sweeping = asyncio.create_task(recordings.run())
        await asyncio.sleep(1)
    assert "Permission denied" in caplog.text
    assert str(tmp_path) in caplog.text
    assert there(tmp_path) == ["old"]
    await asyncio.sleep(SWEEP_EVERY_S)
    assert there(tmp_path) == []
    sweeping.cancel()
    await recordings.aclose()
