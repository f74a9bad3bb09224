"""Detects when the answer to a caller has ended, by the audio, the text and the events that arrive."""

from typing import Any, Final

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES

QUIET_S: Final = 3.0
"""An answer has ended when nothing of it has arrived for this long; people and models pause for less within one."""
NOISE_S: Final = 6.0
"""An answer has ended this long after its last word whatever is heard: a front-end need never be entirely silent."""
STALLED_S: Final = 1.0
"""A server that has sent no audio at all for this long is late, and its silence means nothing."""
AUDIBLE: Final = 0.01
"""Root mean square above which a piece of audio is audible, 40 dB below full scale: rooms and codecs are quieter."""
AUDIBLE_SHARE: Final = 0.2
"""The same for a quiet file, as a share of its loudest frame: 14 dB below it. Words reach that, the rest does not."""

_ANSWER_EVENTS: Final = (
    "oracle_asked",
    "oracle",
    "oracle_done",
    "oracle_failed",
    "voice_asked",
    "voice_done",
    "voice_failed",
)
"""Events that show that more of an answer may come."""


class AnswerWatch:
    """Follows one conversation. All times are seconds since its start, by the caller's clock.

    The answer is what is heard or read after the caller's last audible frame. It has ended when neither a word nor
    audible sound has arrived for `QUIET_S`, or no word for `NOISE_S`. If the server sends events, the watch also waits
    until the turn that it hears has ended, the last request to a chat model has been answered or has failed, and the
    last clause that was written has been synthesised. In mode cascade nothing else speaks, so a request that failed
    without a word ends the answer too. While the server's audio is late by `STALLED_S` or more, nothing has ended.
    """

    def __init__(self) -> None:
        self._asked_s = 0.0
        self._text_s = self._sound_s = self._event_s = self._came_s = float("-inf")
        self._is_in_turn = self._is_cascade = self._has_failed = False
        self._request: object = None  # the latest, until it has ended
        self._n_clauses = 0  # that are written and not synthesised
        self._audible = AUDIBLE

    def expect(self, sound: Samples) -> None:
        """Sets the threshold above which the caller's frames are audible, for the audio that the caller will say.

        It is `AUDIBLE`, or less for quiet audio (see `AUDIBLE_SHARE`). The audio itself is not kept.
        """
        pieces = (sound[start : start + FRAME_N_SAMPLES] for start in range(0, len(sound), FRAME_N_SAMPLES))
        self._audible = min(AUDIBLE, AUDIBLE_SHARE * max(map(_measure_rms, pieces), default=0.0))

    def say(self, at_s: float, frame: Samples) -> None:
        """Records the time of a frame of the caller's audio, if it is audible; what arrives later is the answer."""
        if _measure_rms(frame) > self._audible:
            self._asked_s = at_s

    def hear(self, at_s: float, samples: Samples) -> None:
        """Records when a piece of the server's audio arrived, and whether it is audible; the audio is not kept."""
        self._came_s = at_s
        if _measure_rms(samples) > AUDIBLE:
            self._sound_s = at_s

    def read(self, at_s: float, piece: str) -> None:
        """Records when the server's newest text came, unless it is blank; the text itself is not kept."""
        if piece.strip():
            self._text_s = at_s

    def note(self, at_s: float, event: dict[str, Any]) -> None:
        """Records which turn, request or clause an event of the server begins or ends; the event is not kept."""
        kind, data = event.get("kind"), event.get("data", {})
        match kind:
            case "started" | "changed":
                self._is_cascade, self._n_clauses = data.get("mode") == "cascade", 0
            case "speech_started":
                self._is_in_turn, self._n_clauses = True, 0  # like a change, it discards what has not been said
            case "heard" if data.get("is_final"):
                self._is_in_turn, self._event_s = False, at_s
            case "oracle_asked":
                self._request, self._has_failed = data.get("oracle"), False
            case "oracle_done" | "oracle_failed" if data.get("oracle") == self._request:
                self._request, self._has_failed = None, kind == "oracle_failed"
            case "voice_asked":
                self._n_clauses += 1
            case "voice_done" | "voice_failed":
                self._n_clauses = max(0, self._n_clauses - 1)
            case _:
                pass
        if kind in _ANSWER_EVENTS:
            self._event_s = at_s

    @property
    def has_begun(self) -> bool:
        """Whether words or audible sound have arrived since the caller's last audible frame."""
        return max(self._text_s, self._sound_s) > self._asked_s

    def has_ended(self, now_s: float) -> bool:
        """Returns whether the answer has ended, or, in mode cascade, none can come because its request failed."""
        if self._is_in_turn or self._request is not None or self._n_clauses or now_s - self._came_s >= STALLED_S:
            return False
        last_s = max(self._text_s, self._event_s)
        if self.has_begun:
            has_words = self._text_s > self._asked_s
            return now_s - max(last_s, self._sound_s) >= QUIET_S or (has_words and now_s - last_s >= NOISE_S)
        return self._is_cascade and self._has_failed and now_s - last_s >= QUIET_S


def _measure_rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples)))) if len(samples) else 0.0
