"""A caller's conversation as a server keeps it, of those who were told and agreed: one row, one file, one session."""

from dataclasses import dataclass

from data_schemas.records.speech import Audio


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
class RecordedSession:
    """A session from its beginning, on its own clock; the sound is FLAC, 24 kHz, A (the server) left, B right.

    `started_at` and `consented_at` are UTC, ISO 8601. `notice` is what the caller was told before they agreed.
    `mode` and `back_end` are those the session began with; it may have changed them.
    """

    session_id: str
    started_at: str
    consented_at: str
    notice: str
    checkpoint: str
    recogniser: str
    mode: str
    back_end: str
    language: str
    n_samples: int
    sample_rate_hz: int
    duration_s: float
    heard: tuple[HeardTurn, ...]
    said: tuple[SaidPiece, ...]
    audio: Audio
