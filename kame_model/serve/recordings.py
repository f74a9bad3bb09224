"""A server's recordings: one folder, one file a session, deleted by the session's id or when they are old enough.

A server that is killed leaves nothing of the sessions under way: what was half written is swept when the next begins.
All files are touched in one thread, never in the event loop's.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock, Timeout

from data_schemas.arrow import to_table
from data_schemas.config.serving import RecordConfig
from data_schemas.errors import StoreError
from data_schemas.records import RecordedSession
from data_schemas.store import Store
from kame_model.serve.recorded_sound import SoundBeside
from kame_model.serve.recording import Recording

LOCK: Final = ".lock"
SWEEP_EVERY_S: Final = 3600.0
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+")
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is the same for all recordings of a server: fields of `RecordedSession`, and who speaks in mode cascade."""

    checkpoint: str
    recogniser: str
    notice: str
    cascade_voice: str = ""
    language: str = "en"


def utc_now() -> datetime:
    """The time of day, which consent and retention go by."""
    return datetime.now(UTC)


class Recordings:
    """The recordings of one server in one folder, which no other server writes to.

    Args:
        config: where, and for how long they are kept.
        about: what is known of all of them.
        thread: where files are touched; one thread, for what a session writes is in order.
        now: the time of day.

    Raises:
        StoreError: the folder cannot be written, or another server records into it.
    """

    def __init__(
        self, config: RecordConfig, about: About, thread: Executor | None = None, now: Callable[[], datetime] = utc_now
    ) -> None:
        assert config.folder is not None  # without a folder a server has no recordings
        self.about, self.now = about, now
        self._keep = timedelta(days=config.keep_days)
        self._store = Store(config.folder)
        self._thread = thread or ThreadPoolExecutor(1, "kame-recordings")
        self._running: dict[str, Recording] = {}
        self._lock = FileLock(self._store.at(LOCK), timeout=0)
        try:
            Path(config.folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            if Path(config.folder).stat().st_mode & 0o077:
                _log.warning("Others on this machine may look into %s, where recordings are kept.", config.folder)
            self._lock.acquire()
        except Timeout as error:
            raise StoreError(
                f"Another server records into {config.folder}.", "Give each a folder of its own."
            ) from error
        except OSError as error:
            why = error.strerror or error
            raise StoreError(
                f"Cannot record into {config.folder}: {why}.", "Look at its rights and its disk."
            ) from error
        self._store.sweep()

    def begin(self, session_id: str) -> Recording:
        """Records a session from now on; its caller has just been told, and agrees."""
        assert _SAFE.fullmatch(session_id), session_id  # ours, never the caller's
        recording = Recording(self, session_id)
        self._running[session_id] = recording
        return recording

    async def delete(self, session_id: str) -> bool:
        """Deletes a session's recording, one under way too, which then is not gone on with; False where there is none.

        Raises:
            StoreError: it cannot be deleted.
        """
        if not _SAFE.fullmatch(session_id):
            return False
        recording = self._running.get(session_id)
        if recording is not None:
            await recording.discard()
        return await self.in_thread(self._remove, session_id) or recording is not None

    async def run(self) -> None:
        """Deletes what has been kept for long enough, now and every hour, until it is cancelled; a fault is logged."""
        while True:
            try:
                await self.sweep()
            except Exception:  # noqa: BLE001 - or recordings would be kept for ever, and nobody would know
                _log.exception("Old recordings in %s could not be looked for; they are, in an hour.", self._store.root)
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self) -> int:
        """Deletes recordings that began longer ago than they may be kept; says how many. Told where one cannot be."""
        return await self.in_thread(self._sweep)

    async def aclose(self) -> None:
        """Gives the folder back; sessions under way have been closed before."""
        await self.in_thread(self._lock.release)
        self._thread.shutdown()

    async def in_thread(self, call: Callable[..., Result], *args: object) -> Result:
        """What a call that touches files returns."""
        return await asyncio.wrap_future(self._thread.submit(call, *args))

    def submit(self, call: Callable[..., None], *args: object) -> Future[None]:
        """A call that touches files, done after those before it; nobody waits."""
        return self._thread.submit(call, *args)

    def beside(self, session_id: str) -> SoundBeside:
        """Where a session's sound is while it goes on."""
        return SoundBeside(self._store, session_id)

    def ended(self, session_id: str) -> None:
        """A session is recorded no more."""
        self._running.pop(session_id, None)

    def write(self, row: RecordedSession) -> None:
        """Keeps a session (called in the thread)."""
        self._store.write_table(_path(row.session_id), to_table([row], RecordedSession))

    def _remove(self, session_id: str) -> bool:
        there = self._store.exists(_path(session_id))
        if there:
            self._store.remove(_path(session_id))
        return there

    def _sweep(self) -> int:
        oldest, n_deleted = self.now() - self._keep, 0
        for path in self._store.files("", ".parquet"):
            try:
                (started_at,) = self._store.read_table(path, ["started_at"])["started_at"].to_pylist()
                if datetime.fromisoformat(started_at) < oldest:
                    self._store.remove(path)
                    n_deleted += 1
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others are judged
                _log.error("The recording %s cannot be judged by its age; delete it by hand: %s", path, error)
        return n_deleted


def _path(session_id: str) -> str:
    return f"{session_id}.parquet"
