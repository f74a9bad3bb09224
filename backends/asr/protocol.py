"""Protocol of recognisers of whole recordings: automatic speech recognition (ASR), speech-to-text."""

from typing import Protocol

from backends.engine import Engine, Samples
from data_schemas.errors import BackendError


class Recogniser(Engine, Protocol):
    """Transcribes speech."""

    @property
    def max_calls_in_flight(self) -> int:
        """Maximum number of concurrent calls, as `TextToSpeech.max_calls_in_flight`."""

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """Returns the transcript of a whole recording; empty if nothing is recognised.

        Raises:
            HearingRefused: this recording cannot be transcribed (the utterance is synthesised again, or rejected).
            BackendError: the engine itself does not work.
        """


class HearingRefused(BackendError):
    """This recording cannot be transcribed by this engine; callers that can do without the transcript continue."""
