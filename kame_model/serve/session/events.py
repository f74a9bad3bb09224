"""Session events: what transports, the web page and recordings learn of a session."""

from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal[
    "started",  # session_id, mode, back_end, model, voice, notice; record_notice if the session is recorded
    "heard",  # text, is_final: the recogniser's transcript of the user's turn so far
    "listening_failed",  # reason: speech recognition is interrupted; empty: it works again
    "speech_started",  # the user begins to speak
    "speech_stopped",  # the user's turn has ended
    "said",  # text: a piece of what the assistant says
    "oracle_asked",  # oracle (a number, in the cascade a name), back_end, n_words: a request has been sent
    "oracle",  # oracle, text, age_s: whole words of an oracle, to be joined by spaces, and the time since the request
    "oracle_done",  # oracle, n_tokens
    "oracle_failed",  # oracle, back_end, reason
    "sentence_left_out",  # oracle, back_end, reason: a sentence of the answer cannot be said; the rest continues
    "voice_asked",  # text: a clause of the front-end's text is to be said (voice `synthesised`)
    "voice_done",  # text: its audio has been synthesised
    "voice_failed",  # text, reason: a clause of the front-end's text could not be said (voice `synthesised`)
    "changed",  # mode, back_end, model: the present values; prompt, if one was given
    "dropped",  # direction (heard or said), n_frames: dropped audio; was_silence: late audio, after silence
    "ended",  # reason
]


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One event of a session.

    Attributes:
        kind: the kind of event, which determines the keys of `data`.
        time_s: time since the start of the session, on its own clock.
        data: JSON-serialisable values.
    """

    kind: EventKind
    time_s: float
    data: dict[str, Any] = field(default_factory=dict)
