"""What a recogniser of whole recordings must do."""

from typing import Protocol

from backends.engine import Engine, Samples
from data_schemas.errors import BackendError


class Recogniser(Engine, Protocol):
    """Writes down what is said."""

    @property
    def max_calls_in_flight(self) -> int:
        """As `TextToSpeech.max_calls_in_flight`."""

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """The words heard in a whole recording.

        Raises:
            HearingRefused: this recording cannot be written down (the utterance is said again, or rejected).
            BackendError: the engine itself does not work.
        """


class HearingRefused(BackendError):
    """This recording cannot be written down by this engine; whoever can do without goes on."""
