"""Recordings: nothing without consent, everything with it, and nothing left of what is deleted."""

import asyncio
import io
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from backends.engine import Samples
from data_schemas.arrow import from_table
from data_schemas.config.serving import RecordConfig
from data_schemas.errors import StoreError
from data_schemas.records import HeardTurn, RecordedSession, RecordedVoice, SaidPiece
from data_schemas.store import Store
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.recordings import BLOCK_N_FRAMES, LOCK, MOST_BLOCKS, Recording, RecordingFacts, Recordings
from tests.support.inline_threads import InlineThreads

ABOUT = RecordingFacts(checkpoint="nano", recogniser="double", notice="This is kept.", cascade_voice="kokoro/af_heart")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Clock:
    """The time of day, as a test wants it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def recordings_in(folder: Path, clock: Clock | None = None, threads: InlineThreads | None = None) -> Recordings:
    return Recordings(
        RecordConfig(folder=str(folder), keep_days=30), ABOUT, threads or InlineThreads(), clock or Clock()
    )


def run(course: Coroutine[Any, Any, None]) -> None:
    asyncio.run(course)


def noise(seed: int) -> Samples:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, FRAME_N_SAMPLES).astype(np.float32)


def talk(recording: Recording, n_frames: int) -> tuple[Samples, Samples]:
    """So many frames of noise on both sides, and all of it."""
    heard, said = [noise(2 * at) for at in range(n_frames)], [noise(2 * at + 1) for at in range(n_frames)]
    for pair in zip(heard, said, strict=True):
        recording.add_frame(*pair)
    return np.concatenate(heard), np.concatenate(said)


def tell(recording: Recording, kind: Any, **data: Any) -> None:
    recording.add_event(SessionEvent(kind, 99.0, data))


def there(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name != LOCK)


def read(folder: Path, session_id: str) -> RecordedSession:
    (row,) = from_table(Store(str(folder)).read_table(f"{session_id}.parquet"), RecordedSession)
    return row


def test_a_session_is_kept_with_its_sound_its_words_and_what_the_caller_was_told(tmp_path: Path) -> None:
    n_frames = BLOCK_N_FRAMES + 20
    whole: list[Samples] = []

    async def course() -> None:
        recordings = recordings_in(tmp_path)
        recording = recordings.begin("one")
        tell(recording, "started", session_id="one", mode="tandem", back_end="default", notice="")
        tell(recording, "speech_started")
        tell(recording, "heard", text="how many", is_final=False)
        whole.extend(talk(recording, n_frames))
        tell(recording, "speech_stopped")
        tell(recording, "said", text=" Well")
        talk(recording, 5)
        tell(recording, "heard", text="How many eggs? ", is_final=True)
        tell(recording, "said", text=",")
        tell(recording, "ended", reason="the caller left")
        await recording.close()
        await recordings.aclose()

    run(course())
    assert there(tmp_path) == ["one.parquet"]
    row = read(tmp_path, "one")
    spoken_s = n_frames * 0.08
    assert row.heard == (HeardTurn(text="How many eggs?", start_s=0.0, end_s=spoken_s),)
    assert row.said == (SaidPiece(text=" Well", time_s=spoken_s), SaidPiece(text=",", time_s=spoken_s + 0.4))
    assert (row.started_at, row.consented_at, row.notice) == (NOON.isoformat(), NOON.isoformat(), "This is kept.")
    assert (row.checkpoint, row.recogniser) == ("nano", "double")
    assert row.voices == (RecordedVoice(start_s=0.0, mode="tandem", back_end="default", voice="front-end"),)
    sound, rate_hz = soundfile.read(io.BytesIO(row.audio.bytes or b""), dtype="float32")
    assert (rate_hz, len(sound)) == (24_000, row.n_samples)
    heard, said = whole
    np.testing.assert_allclose(sound[: len(said), 0], said, atol=1e-4)
    np.testing.assert_allclose(sound[: len(heard), 1], heard, atol=1e-4)


def test_who_speaks_for_the_server_is_kept_with_the_time_from_which_on(tmp_path: Path) -> None:
    async def course() -> None:
        recording = recordings_in(tmp_path).begin("one")
        tell(recording, "started", mode="tandem", back_end="default")
        talk(recording, 5)
        tell(recording, "changed", mode="direct", back_end="default")
        tell(recording, "changed", mode="cascade", back_end="default")  # at the same frame: nothing was said between
        talk(recording, 5)
        tell(recording, "changed", mode="cascade", back_end="default", prompt="")
        tell(recording, "changed", mode="cascade", back_end="math")
        talk(recording, 5)
        await recording.close()

    run(course())
    assert [(each.start_s, each.mode, each.back_end, each.voice) for each in read(tmp_path, "one").voices] == [
        (0.0, "tandem", "default", "front-end"),
        (0.4, "cascade", "default", "kokoro/af_heart"),
        (0.8, "cascade", "math", "kokoro/af_heart"),
    ]


def test_a_turn_whose_words_come_late_keeps_its_own_times(tmp_path: Path) -> None:
    async def course() -> None:
        recordings = recordings_in(tmp_path)
        recording = recordings.begin("one")
        for _ in range(2):
            tell(recording, "speech_started")
            talk(recording, 10)
            tell(recording, "speech_stopped")
            talk(recording, 10)
        tell(recording, "heard", text="first", is_final=True)
        tell(recording, "heard", text="second", is_final=True)
        await recording.close()

    run(course())
    assert [(turn.text, turn.start_s, turn.end_s) for turn in read(tmp_path, "one").heard] == [
        ("first", 0.0, 0.8),
        ("second", 1.6, 2.4),
    ]


def test_a_server_that_records_writes_nothing_before_somebody_agrees(tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    async def course() -> None:
        recordings = Recordings(RecordConfig(folder=str(kept)), ABOUT)  # in its own thread
        sweeping = asyncio.create_task(recordings.run())
        await recordings.sweep()
        assert there(kept) == []
        recording = recordings.begin("one")
        talk(recording, 3)
        await recording.close()
        sweeping.cancel()
        await recordings.aclose()
        assert there(kept) == ["one.parquet"]
        assert kept.stat().st_mode & 0o077 == 0

    run(course())


def test_a_session_in_which_nobody_spoke_leaves_nothing(tmp_path: Path) -> None:
    async def course() -> None:
        recordings = recordings_in(tmp_path)
        await recordings.begin("one").close()

    run(course())
    assert there(tmp_path) == []


@pytest.mark.parametrize("is_under_way", [True, False])
def test_a_deleted_session_is_gone_for_good(tmp_path: Path, is_under_way: bool) -> None:
    async def course() -> None:
        recordings = recordings_in(tmp_path)
        recording, other = recordings.begin("one"), recordings.begin("two")
        for each in (recording, other):
            talk(each, BLOCK_N_FRAMES + 1)
        if not is_under_way:
            await recording.close()
        assert await recordings.delete("one")
        assert not await recordings.delete("one")
        talk(recording, BLOCK_N_FRAMES)
        await recording.close()
        await other.close()

    run(course())
    assert there(tmp_path) == ["two.parquet"]


@pytest.mark.parametrize("session_id", ["../one", "", "one/two", "one.parquet", "*", "/etc/passwd"])
def test_nothing_but_a_session_can_be_deleted(tmp_path: Path, session_id: str) -> None:
    (tmp_path / "one.parquet").write_bytes(b"of somebody else")

    async def course() -> None:
        assert not await recordings_in(tmp_path / "kept").delete(session_id)

    run(course())
    assert (tmp_path / "one.parquet").exists()


def test_what_is_too_old_is_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    async def course() -> None:
        recordings = recordings_in(tmp_path, clock)
        for name in ("old", "new"):
            recording = recordings.begin(name)
            talk(recording, 2)
            await recording.close()
            clock.now += timedelta(days=20)
        (tmp_path / "damaged.parquet").write_bytes(b"no recording")
        clock.now = NOON + timedelta(days=31)
        assert await recordings.sweep() == 1

    run(course())
    assert there(tmp_path) == ["damaged.parquet", "new.parquet"]
    assert "damaged.parquet" in caplog.text


def test_what_a_killed_server_was_writing_is_swept_by_the_next(tmp_path: Path) -> None:
    async def killed() -> None:
        recordings = recordings_in(tmp_path)
        talk(recordings.begin("one"), BLOCK_N_FRAMES + 1)
        assert len(there(tmp_path)) == 1
        recordings._lock.release()  # as the kernel does

    async def next_one() -> None:
        recordings_in(tmp_path)
        assert there(tmp_path) == []

    run(killed())
    run(next_one())


def test_a_folder_that_others_can_look_into_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        (tmp_path / name).mkdir(mode=mode)
        recordings_in(tmp_path / name)
    assert [record.getMessage() for record in caplog.records] == [
        f"Other users of this machine may read {tmp_path / 'open'}, where recordings are kept."
    ]


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    first = recordings_in(tmp_path)
    with pytest.raises(StoreError, match="Another server"):
        recordings_in(tmp_path)
    run(first.aclose())
    recordings_in(tmp_path)


def test_a_full_disk_loses_the_recording_and_not_the_session(tiny_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def course() -> None:
        recordings = recordings_in(tiny_disk)
        recording = recordings.begin("one")
        talk(recording, 4 * BLOCK_N_FRAMES)
        await recording.close()
        await recordings.aclose()  # the disk can be taken away: no file of it is open

    run(course())
    assert there(tiny_disk) == []
    assert "one is lost" in caplog.text


def test_a_disk_that_cannot_follow_costs_no_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Stalled(InlineThreads):
        def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
            future = super().submit(lambda: None)
            future.done = lambda: False  # type: ignore[method-assign]
            return future

    async def course() -> None:
        recording = recordings_in(tmp_path, threads=Stalled()).begin("one")
        talk(recording, (MOST_BLOCKS + 2) * BLOCK_N_FRAMES)
        assert len(recording._pending) <= MOST_BLOCKS
        assert recording._block == []

    run(course())
    assert "too slow" in caplog.text
