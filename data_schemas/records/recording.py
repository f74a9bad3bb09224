"""A caller's conversation as a server keeps it, of those who were told and agreed: one row, one file, one session."""

from dataclasses import dataclass
from typing import Final

from data_schemas.records.speech import Audio

FRONT_END: Final = "front-end"
"""The voice of the checkpoint itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardTurn:
    """A turn of the caller as the recogniser wrote it down; its times are those at which somebody was heard to speak.

    They lie near the words, not at them: whoever tells that somebody speaks knows a little late.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidPiece:
    """A piece of the text that the server said, with its own spaces, at the frame in which it came."""

    text: str
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedVoice:
    """Who spoke for the server from `start_s` on, until the next.

    `voice` is `FRONT_END` in modes tandem and direct; in mode cascade the engine and its voice, as `kokoro/af_heart`.
    `back_end` names the chat model that was to be asked; rules may have asked another for a turn.
    """

    start_s: float
    mode: str
    back_end: str
    voice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """A session from its beginning, on its own clock; the sound is FLAC, 24 kHz, A (the server) left, B right.

    `started_at` and `consented_at` are UTC, ISO 8601. `notice` is what the caller was told before they agreed.
    `voices` are in order of time, the first from 0: a caller may change mode and back-end in mid-conversation.
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
