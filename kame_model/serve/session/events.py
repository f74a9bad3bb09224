"""What happens in a session, as its transports, its page and its recordings are told."""

from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal[
    "started",  # session_id, mode, back_end, model, voice, notice; record_notice where what is said is kept
    "heard",  # text, is_final: what the recogniser makes of the user's turn so far
    "listening_failed",  # reason: the user is not heard just now; empty: is heard again
    "speech_started",  # the user begins to speak
    "speech_stopped",  # the user's turn has ended
    "said",  # text: a piece of what the model says
    "oracle_asked",  # oracle (a number, in the cascade a name), back_end, n_words: a request has been sent
    "oracle",  # oracle, text, age_s: whole words of an oracle, to be joined by spaces; how long ago it was asked for
    "oracle_done",  # oracle, n_tokens
    "oracle_failed",  # oracle, back_end, reason
    "sentence_left_out",  # oracle, back_end, reason: one of its sentences cannot be said; the rest goes on
    "voice_failed",  # text, reason: a clause of what the front-end writes could not be said (voice `synthesised`)
    "changed",  # mode, back_end, model, prompt: what is now so
    "dropped",  # direction (heard or said), n_frames: sound was thrown away; was_silence: of late sound, after silence
    "ended",  # reason
]


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One thing that happened.

    Attributes:
        kind: what, and which keys `data` has.
        time_s: since the session began, on its own clock.
        data: values that JSON can hold.
    """

    kind: EventKind
    time_s: float
    data: dict[str, Any] = field(default_factory=dict)
