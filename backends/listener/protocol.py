"""Protocol of streaming recognisers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from backends.engine import Samples


class Window(NamedTuple):
    """32 ms of a caller's audio, float32 [512] at 16 kHz, and the probability of speech in it."""

    samples: Samples
    probability: float


@dataclass(frozen=True, slots=True)
class Heard:
    """A streaming recogniser's transcript of the user's turn so far: all of it, not only what is new.

    `is_final`: the turn has ended and its text will not change; the next `Heard` is of another turn.
    """

    text: str
    is_final: bool = False


class ListenerStream(Protocol):
    """One caller's stream ("ear"). No call blocks: the work is done in other threads."""

    @property
    def failure(self) -> str | None:
        """Why the caller cannot be heard at present, or None. The stream keeps retrying and recovers by itself."""

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Adds the caller's next audio, 24 kHz, of any length.

        Args:
            windows: the output of silero-vad for that audio and the rest of the audio before; None: not computed.
        """

    def end_turn(self) -> None:
        """Ends the caller's turn; a final `Heard` with the text of the whole turn, which may be empty, follows."""

    def close(self) -> None:
        """Discards everything and sends no more transcripts, whatever is called later."""


class StreamingRecogniser(Protocol):
    """Transcribes speech while it is being said, for many concurrent callers.

    One that sends all its transcripts within the calls that feed it may have an attribute `is_immediate`, True: the
    simulated clock of an evaluation then does not wait for it.
    """

    @property
    def name(self) -> str:
        """The back-end's name in the registry."""

    def listen(self, on_heard: Callable[[Heard], None]) -> ListenerStream:
        """Returns a new caller's stream.

        `on_heard` is called from any thread each time the text has changed, and once, as final, for each end of a turn.

        Raises:
            BackendError: the engine does not work.
        """

    def close(self) -> None:
        """Releases threads and connections; may be called again."""
