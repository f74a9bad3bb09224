"""A server's recordings: one folder, one file per session, deleted by session id or by age.

Only sessions of callers who were informed and agreed are recorded; nothing of anybody else reaches the disk. The audio
of a session is written to its own file, a few seconds at a time, so that memory does not grow. At the end, audio and
transcript become one Parquet row (`RecordedSession`), written completely or not at all.

A killed server leaves nothing of its open sessions: the next start deletes partial files. All files are accessed in one
thread, never in that of the event loop.
"""

import asyncio
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import soundfile
from filelock import FileLock, Timeout

from backends.engine import Samples
from data_schemas.arrow import to_table
from data_schemas.config.serving import RecordConfig
from data_schemas.errors import StoreError
from data_schemas.records import Audio, HeardTurn, RecordedSession, RecordedVoice, SaidPiece
from data_schemas.records.recording import FRONT_END
from data_schemas.store import TEMPORARY, Store
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ, round_s, samples_to_seconds
from kame_model.serve.session.events import SessionEvent

LOCK: Final = ".lock"
SWEEP_EVERY_S: Final = 3600.0
BLOCK_N_FRAMES: Final = 64
"""Frames (5 s) that are written at once."""
MOST_BLOCKS: Final = 12
"""Blocks (a minute) that may wait for the disk; a recording that falls further behind is given up."""
_ABANDONED_S: Final = 86_400.0
"""Time after which a partial file that nobody has written is that of a killed server; an open session writes always."""
_OF_PROCESS: Final = re.compile(r"process-\d+")
"""Name of the folder of one process of a server of several, in the folder of the server's recordings."""
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+")
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFacts:
    """What all recordings of a server share: fields of `RecordedSession`, and the voice of each mode."""

    checkpoint: str
    recogniser: str
    notice: str
    cascade_voice: str = ""
    front_end_voice: str = FRONT_END
    language: str = "en"


def get_utc_now() -> datetime:
    """Returns the current time in UTC, for consent and retention."""
    return datetime.now(UTC)


class _SoundFile:
    """The audio file of an open session: FLAC under a temporary name beside the recordings.

    It is created with the first block and grows by one block at a time, in one thread. If a block cannot be written,
    `take` raises that error and nothing is kept.
    """

    def __init__(self, store: Store, session_id: str) -> None:
        self._path = Path(store.resolve_path(f"{session_id}.{uuid.uuid4().hex}{TEMPORARY}"))
        self._file: Any = None
        self._failure: StoreError | None = None

    def write(self, block: Samples) -> None:
        """Adds audio, float32 [n_samples, 2]: what was said on the left, what was heard on the right.

        After an error, which `take` raises, the file is deleted and further audio ignored.
        """
        if self._failure is not None:
            return
        try:
            with self._translate_errors():
                if self._file is None:
                    form = {"channels": 2, "format": "FLAC", "subtype": "PCM_16"}
                    self._file = soundfile.SoundFile(self._path, "w", SAMPLE_RATE_HZ, **form)
                self._file.write(block)
        except StoreError as error:
            self._failure = error
            self.discard()

    def take(self) -> bytes:
        """Returns the complete audio as FLAC and deletes the file; empty if there was none.

        Raises:
            StoreError: a block could not be written, or the file cannot be read.
        """
        if self._failure is not None:
            raise self._failure
        if self._file is None:
            return b""
        try:
            with self._translate_errors():
                self._file.close()
                return self._path.read_bytes()
        finally:
            self.discard()

    def discard(self) -> None:
        """Closes and deletes the file, even if it cannot be closed.

        Raises:
            StoreError: it cannot be deleted.
        """
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except soundfile.LibsndfileError:
            _log.warning("The audio file %s could not be closed; it is deleted anyway.", self._path)
        finally:
            with self._translate_errors():
                self._path.unlink(missing_ok=True)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Context manager that raises errors of the file as a StoreError."""
        try:
            yield
        except (OSError, soundfile.LibsndfileError) as error:
            why = str(error).rstrip(".")
            raise StoreError(
                f"Cannot record into {self._path.parent}: {why}.",
                "Check that its disk has free space and that the server's user may write there.",
            ) from error


class Recording:
    """The recording of one session. Its errors never end a session; they are logged.

    Attributes:
        is_over: whether nothing more is recorded: it is closed, deleted, or given up.
    """

    def __init__(self, folder: "Recordings", session_id: str) -> None:
        self._all, self._id = folder, session_id
        self._started_at = folder.now()
        self.is_over = False
        self._pending: deque[Future[None]] = deque()
        self._clear()

    def add_frame(self, heard: Samples, said: Samples) -> None:
        """Adds 80 ms of the session: what the user said and what was said at the same time, float32[1920] each."""
        if self.is_over:
            return
        self._block.append(np.stack([said, heard], axis=1))
        self._n_samples += FRAME_N_SAMPLES
        if len(self._block) >= BLOCK_N_FRAMES:
            self._flush()

    def add_event(self, event: SessionEvent) -> None:
        """Adds an event, in order, at the time of the audio so far; kinds that recordings lack are ignored."""
        if self.is_over:
            return
        data, time_s = event.data, round_s(samples_to_seconds(self._n_samples))
        if event.kind in ("started", "changed"):
            self._note_speaker(str(data["mode"]), str(data["back_end"]), time_s)
        elif event.kind == "speech_started":
            self._spoken.append((time_s, None))
        elif event.kind == "speech_stopped" and self._spoken:
            self._spoken[-1] = (self._spoken[-1][0], time_s)
        elif event.kind == "heard":
            self._note_user_turn(str(data["text"]), bool(data["is_final"]), time_s)
        elif event.kind == "said":
            self._said.append(SaidPiece(text=str(data["text"]), time_s=time_s))

    async def discard(self) -> None:
        """Stops recording, and deletes what is recorded so far; a file that `close` has written stays.

        Raises:
            StoreError: it cannot be deleted.
        """
        self._end()
        sound = self._sound
        self._clear()
        await self._all.call(sound.discard)

    async def close(self) -> None:
        """Ends the recording, unless it is over, and writes it to the folder as `<session id>.parquet`.

        Nothing is written if it has no audio. A StoreError is logged, and the recording is lost.
        """
        if self.is_over:
            return
        self._flush()
        if self.is_over:
            return
        self._end()
        try:
            await self._all.call(self._write_row, self._make_row(), self._sound)
        except StoreError as error:
            _log.error("The recording of session %s is lost: %s", self._id, error)

    def _clear(self) -> None:
        """Discards everything recorded so far in memory, and prepares a new file, which does not exist yet."""
        self._block: list[Samples] = []
        self._n_samples = 0
        self._spoken: deque[tuple[float, float | None]] = deque()  # turns whose final text is awaited
        self._first_heard_s: float | None = None
        self._heard: list[HeardTurn] = []
        self._said: list[SaidPiece] = []
        self._voices: list[RecordedVoice] = []
        self._sound = _SoundFile(self._all.store, self._id)

    def _note_speaker(self, mode: str, back_end: str, time_s: float) -> None:
        """Records the server's new voice and back-end; of several changes at the same time only the last counts."""
        about = self._all.about
        voice = about.cascade_voice if mode == "cascade" else about.front_end_voice
        now = RecordedVoice(start_s=time_s, mode=mode, back_end=back_end, voice=voice)
        if self._voices and self._voices[-1].start_s == time_s:
            self._voices.pop()
        if not self._voices or replace(self._voices[-1], start_s=time_s) != now:
            self._voices.append(now)

    def _note_user_turn(self, text: str, is_final: bool, time_s: float) -> None:
        """Records the user's turn once its text is final, with the times at which its speech began and ended.

        A turn without words is not recorded.
        """
        if self._first_heard_s is None:
            self._first_heard_s = time_s
        if not is_final:
            return
        start_s, end_s = self._spoken.popleft() if self._spoken else (self._first_heard_s, None)
        self._first_heard_s = None
        if text.strip():
            end_s = max(time_s if end_s is None else end_s, start_s)
            self._heard.append(HeardTurn(text=text.strip(), start_s=start_s, end_s=end_s))

    def _flush(self) -> None:
        """Passes the collected block to the thread; ends and deletes the recording if the disk is too slow."""
        while self._pending and self._pending[0].done():
            self._pending.popleft()
        if len(self._pending) >= MOST_BLOCKS:
            _log.error("The recording of session %s is given up: the disk is too slow.", self._id)
            self._end()
            self._all.thread.submit(self._sound.discard)
        elif self._block:
            self._pending.append(self._all.thread.submit(self._sound.write, np.concatenate(self._block)))
        self._block = []

    def _end(self) -> None:
        """Marks the recording as over; its files are left as they are."""
        self.is_over = True
        self._all.running.pop(self._id, None)

    def _make_row(self) -> RecordedSession:
        """Returns the row of this recording, without its audio."""
        about, at = self._all.about, self._started_at.isoformat(timespec="seconds")
        return RecordedSession(
            session_id=self._id,
            started_at=at,
            consented_at=at,
            notice=about.notice,
            checkpoint=about.checkpoint,
            recogniser=about.recogniser,
            voices=tuple(self._voices),
            language=about.language,
            n_samples=self._n_samples,
            sample_rate_hz=SAMPLE_RATE_HZ,
            duration_s=round_s(samples_to_seconds(self._n_samples)),
            heard=tuple(self._heard),
            said=tuple(self._said),
            audio=Audio(bytes=None, path=f"{self._id}.flac"),
        )

    def _write_row(self, row: RecordedSession, sound: _SoundFile) -> None:
        """Writes the row with its audio; nothing if there is no audio."""
        if flac := sound.take():
            whole = replace(row, audio=replace(row.audio, bytes=flac))
            self._all.store.write_table(_get_path(self._id), to_table([whole], RecordedSession))


class Recordings:
    """The recordings of one server in a folder of its own.

    Creating it creates the folder if necessary, locks it until `aclose`, and deletes partial files that a killed server
    left. A process of a server of several records into `process-K` in the server's folder. Recordings are deleted in
    the server's folder and in that of every process, because the next server there may have fewer processes, or one.

    Args:
        config: the folder, and how long recordings are kept.
        about: what all recordings share.
        thread: accesses the files; a single thread, so that a session's writes stay in order.
        now: returns the current time.

    Attributes:
        store, thread, running: for each `Recording`: the folder, the thread for its files, the open recordings.

    Raises:
        StoreError: the folder cannot be written, or another server records into it.
    """

    def __init__(
        self,
        config: RecordConfig,
        about: RecordingFacts,
        thread: Executor | None = None,
        now: Callable[[], datetime] = get_utc_now,
    ) -> None:
        assert config.folder is not None  # without a folder a server has no recordings
        self.about, self.now = about, now
        self._keep = timedelta(days=config.keep_days)
        self.store = Store(config.folder)
        own = Path(config.folder)
        self._top = own.parent if _OF_PROCESS.fullmatch(own.name) else own
        self._all = Store(str(self._top))
        self.thread = thread or ThreadPoolExecutor(1, "kame-recordings")
        self.running: dict[str, Recording] = {}
        self._lock = FileLock(self.store.resolve_path(LOCK), timeout=0)
        try:
            Path(config.folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            if Path(config.folder).stat().st_mode & 0o077:
                _log.warning("Other users of this machine may read %s, where recordings are kept.", config.folder)
            self._lock.acquire()
        except Timeout as error:
            raise StoreError(
                f"Another server records into {config.folder}.", "Use a separate folder for each server."
            ) from error
        except OSError as error:
            why = error.strerror or error
            raise StoreError(
                f"Cannot record into {config.folder}: {why}.", "Check its permissions and its disk."
            ) from error
        self.store.sweep()

    def begin(self, session_id: str) -> Recording:
        """Starts and returns the recording of a session, whose caller has been informed and agrees."""
        assert _SAFE.fullmatch(session_id), session_id  # made by the server, never by the caller
        recording = Recording(self, session_id)
        self.running[session_id] = recording
        return recording

    async def delete(self, session_id: str) -> bool:
        """Deletes a session's recording and stops an open one; returns False if there is none.

        Raises:
            StoreError: it cannot be deleted.
        """
        if not _SAFE.fullmatch(session_id):
            return False
        recording = self.running.get(session_id)
        if recording is not None:
            await recording.discard()
        return await self.call(self._remove, session_id) or recording is not None

    async def run(self) -> None:
        """Deletes expired recordings, now and every hour, until it is cancelled; errors are logged."""
        while True:
            try:
                await self.sweep()
            except Exception:  # noqa: BLE001  else recordings would silently be kept for ever
                _log.exception("Deleting old recordings in %s failed; it is tried again in an hour.", self.store.root)
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self) -> int:
        """Deletes expired recordings and abandoned partial files; returns how many.

        One that cannot be read or deleted is logged and stays.
        """
        return await self.call(self._sweep)

    async def aclose(self) -> None:
        """Releases the folder and ends the thread; `run` has been cancelled and open sessions closed before."""
        await self.call(self._lock.release)
        self.thread.shutdown()

    async def call(self, call: Callable[..., Result], *args: object) -> Result:
        """Runs a function that accesses files in their thread, after earlier calls, and returns its result."""
        return await asyncio.wrap_future(self.thread.submit(call, *args))

    def _remove(self, session_id: str) -> bool:
        """Deletes the file of a session's recording; returns False if there is none."""
        paths = self._find(_get_path(session_id))
        for path in paths:
            self._all.remove(path)
        return bool(paths)

    def _sweep(self) -> int:
        """Deletes expired files and returns their number, as `sweep` does; runs in the thread for files."""
        n_deleted = 0
        for path in (*self._find("*.parquet"), *self._find(f"*{TEMPORARY}")):
            trouble = "its age cannot be read"
            try:
                if self._has_expired(path):
                    trouble = "it has expired and cannot be deleted"
                    self._all.remove(path)
                    n_deleted += 1
            except Exception as error:  # noqa: BLE001  an error with one must not stop the others
                if self._all.exists(path):  # else another process of the server has deleted it
                    _log.error("The recording %s stays, because %s; delete it by hand: %s", path, trouble, error)
        return n_deleted

    def _find(self, name: str) -> list[str]:
        """Returns the paths of files whose name matches a pattern, in the server's folder and those of processes."""
        found = (*self._top.glob(name), *self._top.glob(f"process-*/{name}"))
        return sorted(str(path.relative_to(self._top)) for path in found)

    def _has_expired(self, path: str) -> bool:
        """Returns whether a recording is older than it may be kept, or a partial file has been abandoned."""
        if path.endswith(TEMPORARY):
            return time.time() - (self._top / path).stat().st_mtime > _ABANDONED_S
        (started_at,) = self._all.read_table(path, ["started_at"])["started_at"].to_pylist()
        return datetime.fromisoformat(started_at) < self.now() - self._keep


def _get_path(session_id: str) -> str:
    return f"{session_id}.parquet"
