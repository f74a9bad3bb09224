"""What a back-end of each kind must do. One file an implementation, one line in `registry.py`."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from data_schemas.errors import BackendError
from data_schemas.records import WordTiming

Samples = NDArray[np.float32]
"""Mono sound, float32 in [-1, 1], shape [n_samples]."""

Codes = NDArray[np.int16]
"""A sound as a codec's tokens, shape [n_codebooks, n_frames], 12.5 frames a second; each in [0, card)."""


class Window(NamedTuple):
    """32 ms of a caller's sound, float32 [512] at 16 kHz, and how probable speech is in it."""

    samples: Samples
    probability: float


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice of a text-to-speech engine; `digest` stands for the sound of it."""

    name: str
    language: str
    licence: str
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class Speech:
    """Synthesised sound at 24 kHz; `words` are the engine's own times, one a word, or none where it cannot tell all."""

    samples: Samples
    words: tuple[WordTiming, ...] = ()


class Engine(Protocol):
    """What stages' engines have in common."""

    @property
    def name(self) -> str:
        """The back-end's name in the registry."""

    @property
    def digest(self) -> str:
        """Stands for engine and model: changes when what it makes of the same could."""


class TextToSpeech(Engine, Protocol):
    """Says speakable text."""

    @property
    def has_speed(self) -> bool:
        """Whether it can speak slower and faster; one that cannot is asked for speed 1 alone."""

    @property
    def max_chars(self) -> int | None:
        """The longest text that it says in one go, in characters; None: any. `tts.long_texts` cuts longer ones."""

    @property
    def max_calls_in_flight(self) -> int:
        """How many threads may ask it at once: 1 unless it answers over a network, where that saves waiting."""

    def voices(self) -> Sequence[Voice]:
        """The voices at hand here, best first; never empty."""

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """The speech of `text`; the same arguments give the same samples.

        Args:
            speed: 1 is the voice's own.
            take: how often this has been said before; an engine that draws at random says another take otherwise.

        Raises:
            SpeechRefused: this text cannot be said (the item becomes a reject).
            TakeRefused: this take came to nothing.
            BackendError: the engine itself does not work.
        """


class Aligner(Engine, Protocol):
    """Finds when each word of a known text is said; its name is stored as the words' `method`."""

    @property
    def prefers_own_times(self) -> bool:
        """Whether an utterance of which the synthesiser told every word's time is not to be aligned at all."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages it can time, as two letters."""

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """One timing a word, in order, ascending, inside the sound; times from its first sample.

        Raises:
            AlignmentRefused: the words are not found in the sound (the item becomes a reject).
            TimesRefused: they are, but not one after another inside it.
        """


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


@dataclass(frozen=True, slots=True)
class Heard:
    """What a streaming recogniser makes of the user's turn so far: all of it, not what is new.

    `is_final`: the turn has ended and its text will not change; the next `Heard` is of another turn.
    """

    text: str
    is_final: bool = False


class ListenerStream(Protocol):
    """One caller's ear. No call blocks: the work is done elsewhere."""

    @property
    def failure(self) -> str | None:
        """Why the caller is not heard just now; None where all is well. It heals by itself, and goes on trying."""

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """The next sound of the caller, 24 kHz, of any length.

        Args:
            windows: what silero-vad has found in that sound and the rest of the sound before; None: nobody has looked.
        """

    def end_turn(self) -> None:
        """The caller has stopped speaking: the turn's last words come as a final `Heard`, perhaps with empty text."""

    def close(self) -> None:
        """Forgets everything; nothing is told any more."""


class StreamingRecogniser(Protocol):
    """Writes down what is said while it is being said, for many callers at once."""

    @property
    def name(self) -> str:
        """The back-end's name in the registry."""

    def listen(self, on_heard: Callable[[Heard], None]) -> ListenerStream:
        """A new caller's ear. `on_heard` is called from any thread, each time the text has changed.

        Raises:
            BackendError: the engine does not work.
        """

    def close(self) -> None:
        """Gives back threads and connections."""


class CodecStream(Protocol):
    """Sound to codes and back, a frame of 80 ms at a time, for several streams at once; they do not see each other."""

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """The codes [batch_size, n_codebooks] of the next 1,920 samples of each stream, [batch_size, 1920]."""

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """The next 1,920 samples of each stream, [batch_size, 1920], of its codes, [batch_size, n_codebooks]."""

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """From now on only these streams, [batch_size], move; what the others are given leaves no trace."""

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Begins these streams, [batch_size], anew, and makes them active."""


class Codec(Engine, Protocol):
    """Turns mono sound at 24 kHz into tokens, 12.5 frames a second, and tokens into sound."""

    @property
    def n_codebooks(self) -> int:
        """Codes of one frame of one voice."""

    @property
    def card(self) -> int:
        """Entries of each codebook."""

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """The codes of each sound, of any lengths; what else is in `sounds` does not change them.

        A sound has `data_schemas.units.n_frames_covering` frames: the last is filled with silence.
        """

    def decode(self, codes: Codes) -> Samples:
        """The sound of codes, 1,920 samples a frame."""

    def stream(self, batch_size: int) -> AbstractContextManager[CodecStream]:
        """Streams for the time of a `with` block; the codec does nothing else meanwhile."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat model one can ask: an OpenAI-compatible base URL and what stands for the model behind it."""

    name: str
    base_url: str
    model: str
    model_digest: str


class ChatEngine(Protocol):
    """Gives an endpoint for the time of a `with` block, starting and stopping whatever that takes."""

    def serve(self) -> AbstractContextManager[Endpoint]:
        """The endpoint, healthy on entry, gone on exit."""

    def describe(self) -> Endpoint:
        """The endpoint without starting anything (`base_url` may be empty): for fingerprints."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's answer with what it cost; `request_id` is the cache's key, the same on every machine.

    `finish_reason` is the server's word for why the answer ends (`stop`; `length`: cut at `max_tokens`), `answered_by`
    its name for the model that answered and `system_fingerprint` for that model's state. They and `n_tokens_cached` are
    None where it did not tell. `thought` is what a model that thinks wrote before its answer, no part of `text`.
    """

    text: str
    request_id: str
    n_tokens_in: int
    n_tokens_cached: int | None
    n_tokens_out: int
    from_cache: bool
    finish_reason: str | None = None
    answered_by: str | None = None
    system_fingerprint: str | None = None
    thought: str = ""


class ChatClient(Protocol):
    """Asks a chat model: async, many in flight, retried, cached, counted."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        """The answer to a chat-completions payload (without `model`), from the cache where it has been given.

        Raises:
            RequestError: this request failed for good (the event is marked failed).
            BackendError: the endpoint itself is gone or refuses us (the run stops, resumable).
        """


class LiveChat(Protocol):
    """Asks a chat model for an answer that is used while it is being written: no cache, no second try."""

    def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """The pieces of the answer to a chat-completions payload (without `model`); closing it cancels the request.

        An empty piece says that the model thinks; what it thinks is not told.

        Raises:
            RequestError: this request failed; `AnswerCut` at its end: the model might write no more;
                `UnexpectedThought`: what was told was thought.
            BackendError: the endpoint refuses us or is gone.
        """

    async def aclose(self) -> None:
        """Closes its connections."""


class SpeechRefused(Exception):
    """This text cannot be said by this engine; the message says why."""


class TakeRefused(SpeechRefused):
    """This take came to nothing; another one may be something, for the engine draws at random."""


class AlignmentRefused(Exception):
    """These words are not found in this sound; the message says why."""


class TimesRefused(AlignmentRefused):
    """These words have times that cannot be; the message says which."""


class HearingRefused(BackendError):
    """This recording cannot be written down by this engine; whoever can do without goes on."""
