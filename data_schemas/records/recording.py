"""Recorded sessions of callers who consented: one file with one row per session."""

from dataclasses import dataclass
from typing import Final

from data_schemas.records.speech import Audio

FRONT_END: Final = "front-end"
"""The voice of the checkpoint itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardTurn:
    """A turn of the caller as transcribed by the recogniser, with the times of voice activity.

    The times are near the words but not exact, because voice activity is detected a little late.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidPiece:
    """A piece of the server's text, including its spaces, with the time of its frame."""

    text: str
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedVoice:
    """The server's voice from `start_s` until the next entry.

    `voice` is `FRONT_END` in modes tandem and direct; in mode cascade the engine and its voice, as `kokoro/af_heart`.
    `back_end` is the chosen chat model; routing rules may have used another one for a turn.
    """

    start_s: float
    mode: str
    back_end: str
    voice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """A session with times from its start; the audio is FLAC, 24 kHz, A (the server) left, B right.

    `started_at` and `consented_at` are UTC, ISO 8601. `notice` is the text shown before they consented.
    `voices` are sorted by time, the first at 0; a caller may change mode and back-end during a session.
    """

    session_id: str
    started_at: str
    consented_at: str
    notice: str
    checkpoint: str
    recogniser: str
    voices: tuple[RecordedVoice, ...]
    language: str
    n_samples: int
    sample_rate_hz: int
    duration_s: float
    heard: tuple[HeardTurn, ...]
    said: tuple[SaidPiece, ...]
    audio: Audio
