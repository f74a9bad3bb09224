"""Text-to-speech voice (synthesizer): synthesises sentences in threads, and splits audio into frames with words."""

import asyncio
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from backends.engine import Samples
from backends.tts.long_texts import say
from backends.tts.protocol import Speech, SpeechRefused, TextToSpeech
from data_schemas.config.serving import CascadeConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES, samples_to_seconds, seconds_to_samples
from spoken.chat_answers import speak_sentence
from spoken.spoken_text import Unspeakable

AHEAD_S: Final = 5.0
"""Limit of synthesised audio that waits: enough never to run dry, and an interruption wastes little."""

SENTENCE_PAUSE_S: Final = 0.2
"""Silence after a sentence, seconds; engines leave at most a quarter of it themselves."""

KEPT_WORDS: Final = 4
"""Sentences of up to so many words are kept: an assistant begins most answers with a few phrases ("let me think")."""

N_KEPT: Final = 128
"""Number of them, about 20 MB; the oldest is discarded."""


@dataclass(frozen=True, slots=True, eq=False)
class SentenceAudio:
    """A sentence as audio, float32 [n_samples] at 24 kHz, and its words, each with the sample at which it begins."""

    samples: Samples
    words: tuple[tuple[int, str], ...]


class SharedSpeaker(Protocol):
    """A voice that all sessions share; `voice_name` is engine and voice."""

    voice_name: str

    async def say(self, written: str) -> SentenceAudio:
        """Synthesises a sentence. It can be cancelled.

        Raises:
            SpeechRefused: it cannot be said.
            BackendError: the engine does not work.
        """


class Speaker:
    """Synthesises written sentences; shared by all sessions.

    Args:
        tts: the engine; it blocks, and is therefore called only in `threads`.
        config: voice and speed.
        threads: their number is that of sentences synthesised at once.

    Attributes:
        voice_name: engine and voice.

    Raises:
        ConfigError: the engine has no such voice.
    """

    def __init__(self, tts: TextToSpeech, config: CascadeConfig, threads: Executor) -> None:
        names = [voice.name for voice in tts.list_voices()]
        if config.voice is not None and config.voice not in names:
            raise ConfigError(f"{tts.name} has no voice {config.voice!r}.", f"Choose one of: {', '.join(names)}.")
        self._tts, self._threads = tts, threads
        self._voice, self._speed = config.voice or names[0], config.speed
        self.voice_name = f"{tts.name}/{self._voice}"
        self._kept: dict[str, SentenceAudio] = {}  # the oldest first

    async def say(self, written: str) -> SentenceAudio:
        """Synthesises a sentence, or returns a short one at once if it was said before.

        It can be cancelled; what a thread has begun is then discarded.

        Raises:
            SpeechRefused: it cannot be said.
            BackendError: the engine does not work.
        """
        if written in self._kept:
            return self._kept[written]
        spoken = await asyncio.wrap_future(self._threads.submit(self.say_now, written))
        if len(written.split()) <= KEPT_WORDS:
            self._kept[written] = spoken
            if len(self._kept) > N_KEPT:
                del self._kept[next(iter(self._kept))]
        return spoken

    def say_now(self, written: str) -> SentenceAudio:
        """Synthesises a sentence like `say`, but blocks, in the current thread, and keeps nothing.

        Raises:
            SpeechRefused, BackendError: as `say`.
        """
        try:
            text = speak_sentence(written)
        except Unspeakable as error:
            raise SpeechRefused(f"{written[:80]!r} cannot be read out: {error}") from error
        speech = say(self._tts, text, self._voice, self._speed if self._tts.has_speed else 1.0)
        return SentenceAudio(speech.samples, _place_words(text.split(), speech))


def _place_words(words: list[str], speech: Speech) -> tuple[tuple[int, str], ...]:
    """Returns (first sample, word) of each word, by the engine's timings if there is one for each, otherwise in
    proportion to the letters.
    """
    if len(speech.words) == len(words):
        return tuple(
            (seconds_to_samples(timing.start_s), word) for timing, word in zip(speech.words, words, strict=True)
        )
    n_chars = max(1, sum(map(len, words)))
    before = np.cumsum([0, *(len(word) for word in words)])
    return tuple((int(len(speech.samples) * before[at] / n_chars), word) for at, word in enumerate(words))


class SoundQueue:
    """Queues audio, and returns it in frames of 80 ms."""

    def __init__(self) -> None:
        self._sound: Samples = np.zeros(0, np.float32)
        self._words: deque[tuple[int, str]] = deque()  # by the sample, from now on
        self._has_room = asyncio.Event()

    @property
    def waiting_s(self) -> float:
        """The duration of the queued audio, seconds."""
        return samples_to_seconds(len(self._sound))

    async def put(self, sentence: SentenceAudio, pause_s: float) -> None:
        """Appends a sentence and a silence, as soon as less than `AHEAD_S` of audio is queued."""
        while self.waiting_s >= AHEAD_S:
            self._has_room.clear()
            await self._has_room.wait()
        self._words.extend((len(self._sound) + start, word) for start, word in sentence.words)
        pause = np.zeros(seconds_to_samples(pause_s), np.float32)
        self._sound = np.concatenate([self._sound, sentence.samples.astype(np.float32, copy=False), pause])

    def take_frame(self) -> tuple[Samples, str]:
        """Returns the next 1,920 samples, silence if there is nothing to say, and the words that begin in them."""
        frame = np.zeros(FRAME_N_SAMPLES, np.float32)
        head = self._sound[:FRAME_N_SAMPLES]
        frame[: len(head)] = head
        self._sound = self._sound[FRAME_N_SAMPLES:]
        said: list[str] = []
        while self._words and self._words[0][0] < FRAME_N_SAMPLES:
            said.append(f" {self._words.popleft()[1]}")
        self._words = deque((start - FRAME_N_SAMPLES, word) for start, word in self._words)
        if self.waiting_s < AHEAD_S:
            self._has_room.set()
        return frame, "".join(said)

    def cut(self) -> None:
        """Ends the audio: the next frame fades out over its 80 ms, without another word."""
        head = self._sound[:FRAME_N_SAMPLES]
        n_fade = len(head)
        self._sound = (head * (0.5 + 0.5 * np.cos(np.pi * np.arange(n_fade) / max(n_fade, 1)))).astype(np.float32)
        self._words.clear()

    def clear(self) -> None:
        """Discards everything; the next frame is silent."""
        self._sound = np.zeros(0, np.float32)
        self._words.clear()
