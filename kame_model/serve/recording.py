"""One session of a caller who was told and agreed, as it is recorded; of nobody else anything reaches the disk.

Its sound goes to a file beside, a few seconds at a time, so that memory does not grow with it. At the session's end
sound and transcript become one Parquet row (`RecordedSession`), written whole or not at all.
"""

import logging
from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.protocols import Samples
from data_schemas.errors import StoreError
from data_schemas.records import Audio, HeardTurn, RecordedSession, RecordedVoice, SaidPiece
from data_schemas.records.recording import FRONT_END
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ, round_s, samples_to_seconds
from kame_model.serve.events import SessionEvent

if TYPE_CHECKING:
    from kame_model.serve.recorded_sound import SoundBeside
    from kame_model.serve.recordings import Recordings

BLOCK_N_FRAMES: Final = 64
"""Frames (5 s) that are written at once."""
MOST_BLOCKS: Final = 12
"""Blocks (a minute) that may wait for the disk; a recording that falls further behind is given up."""
_log = logging.getLogger(__name__)


class Recording:
    """One session as it is recorded. Nothing it does fails a session: what cannot be kept is told in the log."""

    def __init__(self, folder: "Recordings", session_id: str) -> None:
        self._all, self._id = folder, session_id
        self._started_at = folder.now()
        self._is_over = False
        self._pending: deque[Future[None]] = deque()
        self._forget()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is kept: closed, deleted, or given up."""
        return self._is_over

    def frame(self, heard: Samples, said: Samples) -> None:
        """80 ms of the session's clock: what the user said, and what was said at the same time; float32[1920] each."""
        if self._is_over:
            return
        self._block.append(np.stack([said, heard], axis=1))
        self._n_samples += FRAME_N_SAMPLES
        if len(self._block) >= BLOCK_N_FRAMES:
            self._flush()

    def event(self, event: SessionEvent) -> None:
        """What happened, all of it, in order; its time is that of the sound so far."""
        if self._is_over:
            return
        data, time_s = event.data, round_s(samples_to_seconds(self._n_samples))
        if event.kind in ("started", "changed"):
            self._speaks(str(data["mode"]), str(data["back_end"]), time_s)
        elif event.kind == "speech_started":
            self._spoken.append((time_s, None))
        elif event.kind == "speech_stopped" and self._spoken:
            self._spoken[-1] = (self._spoken[-1][0], time_s)
        elif event.kind == "heard":
            self._heard_of(str(data["text"]), bool(data["is_final"]), time_s)
        elif event.kind == "said":
            self._said.append(SaidPiece(text=str(data["text"]), time_s=time_s))

    async def discard(self) -> None:
        """Records no more, and keeps nothing of this session."""
        self._end()
        sound = self._sound
        self._forget()
        await self._all.in_thread(sound.discard)

    async def close(self) -> None:
        """The session is over: what is kept is written."""
        if self._is_over:
            return
        self._flush()
        if self._is_over:
            return
        self._end()
        try:
            await self._all.in_thread(self._keep, self._row(), self._sound)
        except StoreError as error:
            _log.error("The recording of session %s is lost: %s", self._id, error)

    def _forget(self) -> None:
        self._block: list[Samples] = []
        self._n_samples = 0
        self._spoken: deque[tuple[float, float | None]] = deque()  # turns of which the final text is awaited
        self._first_heard_s: float | None = None
        self._heard: list[HeardTurn] = []
        self._said: list[SaidPiece] = []
        self._voices: list[RecordedVoice] = []
        self._sound = self._all.beside(self._id)

    def _speaks(self, mode: str, back_end: str, time_s: float) -> None:
        """Keeps who speaks for the server from now on, if that is new; of changes at one time only the last counts."""
        voice = self._all.about.cascade_voice if mode == "cascade" else FRONT_END
        now = RecordedVoice(start_s=time_s, mode=mode, back_end=back_end, voice=voice)
        if self._voices and self._voices[-1].start_s == time_s:
            self._voices.pop()
        if not self._voices or replace(self._voices[-1], start_s=time_s) != now:
            self._voices.append(now)

    def _heard_of(self, text: str, is_final: bool, time_s: float) -> None:
        """Keeps the user's turn once its text is final, from where somebody was heard to speak."""
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
        """Hands what has gathered to the thread; gives up where the disk cannot follow."""
        while self._pending and self._pending[0].done():
            self._pending.popleft()
        if len(self._pending) >= MOST_BLOCKS:
            _log.error("The recording of session %s is given up: the disk is too slow.", self._id)
            self._end()
            self._all.submit(self._sound.discard)
        elif self._block:
            self._pending.append(self._all.submit(self._sound.write, np.concatenate(self._block)))
        self._block = []

    def _end(self) -> None:
        self._is_over = True
        self._all.ended(self._id)

    def _row(self) -> RecordedSession:
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

    def _keep(self, row: RecordedSession, sound: "SoundBeside") -> None:
        flac = sound.take()
        if flac:
            self._all.write(replace(row, audio=replace(row.audio, bytes=flac)))
