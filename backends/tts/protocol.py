"""Protocol of text-to-speech (TTS) engines, which synthesise (US: synthesize) speech."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from backends.engine import Engine, Samples
from data_schemas.records import WordTiming


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice of a text-to-speech engine; `digest` identifies how it sounds."""

    name: str
    language: str
    licence: str
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class Speech:
    """Synthesised audio at 24 kHz; `words` are the engine's own times, one per word, or empty if any is missing."""

    samples: Samples
    words: tuple[WordTiming, ...] = ()


class TextToSpeech(Engine, Protocol):
    """Synthesises speakable text."""

    @property
    def has_speed(self) -> bool:
        """Whether it can speak slower and faster; otherwise it is only called with speed 1."""

    @property
    def max_chars(self) -> int | None:
        """The longest text for one call, in characters; None: any. `tts.long_texts` splits longer ones."""

    @property
    def max_calls_in_flight(self) -> int:
        """Maximum number of concurrent calls, by a stage and by the server for all callers of its cascade.

        1 unless it works over a network, where concurrency saves waiting.
        """

    def list_voices(self) -> Sequence[Voice]:
        """Returns the available voices, best first; never empty."""

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises `text`; the same arguments give the same samples.

        Args:
            speed: 1 is the voice's own; 2 is twice as fast.
            take: how often this text has been synthesised before; an engine that samples randomly varies the result by
                it, and others ignore it.

        Raises:
            SpeechRefused: this text cannot be synthesised, or has no words (the item is rejected).
            TakeRefused: this take failed.
            ConfigError: there is no such voice.
            BackendError: the engine itself does not work.
        """


class SpeechRefused(Exception):
    """This text cannot be synthesised by this engine; the message says why."""


class TakeRefused(SpeechRefused):
    """This take failed; another one may succeed, as the engine samples randomly."""
