"""Test double of a recogniser, with a fixed transcript."""

from backends.engine import Samples
from data_schemas import ids


class DoubleRecogniser:
    """Returns one fixed transcript for every recording; empty by default."""

    name = "double"
    max_calls_in_flight = 1

    @property
    def digest(self) -> str:
        """Identifies the transcript."""
        return ids.digest("double recogniser", self.transcript)

    def __init__(self, transcript: str = "") -> None:
        self.transcript = transcript

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """Returns the fixed transcript, whatever the audio is."""
        return self.transcript
