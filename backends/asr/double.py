"""A recogniser for tests: hears what it was told to hear."""

from backends.engine import Samples
from data_schemas import ids


class DoubleRecogniser:
    """Gives one fixed transcript for every recording; an empty one unless told otherwise."""

    name = "double"
    max_calls_in_flight = 1

    @property
    def digest(self) -> str:
        """Stands for the transcript."""
        return ids.digest("double recogniser", self.transcript)

    def __init__(self, transcript: str = "") -> None:
        self.transcript = transcript

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """The fixed transcript, whatever is in `samples`."""
        return self.transcript
