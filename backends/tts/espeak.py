"""eSpeak NG: a formant synthesiser with exact word times. Robotic; it is used to evaluate aligners.

It is two hundred times faster than Kokoro, and its word events are exact by construction, as it places each word
itself. It is called through its C interface (`speak_lib.h` of eSpeak NG 1.52), in the library of the package
espeakng-loader. The library keeps state from text to text that none of its functions resets, so it is loaded again for
each (10 ms): the same arguments then give the same samples. It is loaded from its own copy, because other users of the
library in this process, such as phonemisers, would keep that state alive.
"""

import _ctypes
import atexit
import ctypes
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from backends.engine import INSTALL_SPEECH, Samples
from backends.tts.protocol import Speech, SpeechRefused, Voice
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError
from data_schemas.fingerprint import get_versions
from data_schemas.records import WordTiming
from data_schemas.units import SAMPLE_RATE_HZ

_RECIPE: Final = 1
_VOICES: Final = {"en-us": "en-us", "en-gb": "en-gb", "en-gb-scotland": "en-gb", "en-029": "en-gb"}
"""Accents by their names in eSpeak, with the language that is recorded for them."""

WORDS_PER_MINUTE: Final = 175
"""Speed 1: eSpeak's own default."""

# speak_lib.h
_AUDIO_OUTPUT_SYNCHRONOUS, _RATE, _CHARS_UTF8 = 2, 1, 1
_EVENT_LIST_END, _EVENT_WORD, _EVENT_END = 0, 1, 5


_one_speaks = threading.Lock()
"""The library has one state per process, and crashes the process if a second thread uses it."""

Event = tuple[int, int, int]
"""Type, character of the text counted from 0, sample at the library's rate."""


class _Event(ctypes.Structure):
    """`espeak_EVENT`; `sample` counts from the start of the text's audio."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class Espeak:
    """Synthesises English with the time of every word."""

    name = "espeak"
    has_speed = True
    max_chars = None
    max_calls_in_flight = 1

    @property
    def digest(self) -> str:
        """Digest of the library's version and `_RECIPE`."""
        return ids.digest("espeak", _RECIPE, get_versions("espeakng-loader", "soxr"))

    def list_voices(self) -> Sequence[Voice]:
        """Returns four accents of one synthetic voice."""
        return tuple(
            Voice(name=name, language=language, licence="GPL-3.0", digest=ids.digest("espeak voice", name))
            for name, language in _VOICES.items()
        )

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises `text` at 24 kHz, with the times of its words, or none if one is missing; `take` has no effect.

        A word ends where the next begins, or before a pause at the end of its sound; the pause belongs to no word.

        Raises:
            SpeechRefused: there is no word of ASCII letters in `text`.
            ConfigError: there is no such voice.
            BackendError: the library does not load, or fails on `text`.
        """
        import soxr

        if voice not in _VOICES:
            raise ConfigError(f"eSpeak has no voice {voice!r} here.", f"Choose one of: {', '.join(_VOICES)}.")
        with _one_speaks, _Engine() as engine:
            samples, events = engine.say(text, voice, round(WORDS_PER_MINUTE * speed))
        starts = _find_words(text)
        if not starts or not samples.size:
            raise SpeechRefused(f"there is nothing to say in {text!r}")
        sound = soxr.resample(samples, engine.rate_hz, SAMPLE_RATE_HZ).astype(np.float32)
        return Speech(sound, _make_timings(text, starts, events, samples, engine.rate_hz))


@cache
def _copy_library() -> Path:
    """Copies the library into a temporary folder of this process, once, and returns the folder."""
    import espeakng_loader

    folder = tempfile.TemporaryDirectory(prefix="kame-espeak-")
    atexit.register(folder.cleanup)
    shutil.copyfile(espeakng_loader.get_library_path(), Path(folder.name) / "espeak-ng")
    return Path(folder.name)


class _Engine:
    """The library, loaded for the duration of a `with` block."""

    def __enter__(self) -> Self:
        """Loads the library and sets its random seed; raises BackendError if it does not load or start."""
        import espeakng_loader

        try:
            self._library = ctypes.CDLL(str(_copy_library() / "espeak-ng"))
        except OSError as error:
            raise BackendError(f"eSpeak NG does not load: {error}.", INSTALL_SPEECH) from error
        data = espeakng_loader.get_data_path().encode()
        self.rate_hz = int(self._library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data, 0))
        if self.rate_hz <= 0:
            raise BackendError("eSpeak NG does not start.", INSTALL_SPEECH)
        self._sound: list[Samples] = []
        self._events: list[Event] = []
        self._callback = _Callback(self._collect)  # a reference, or it is freed while the library still calls it
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_ng_SetRandSeed(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._library.espeak_Terminate()
        _ctypes.dlclose(self._library._handle)

    def say(self, text: str, voice: str, words_per_minute: int) -> tuple[Samples, list[Event]]:
        """Synthesises a text and returns its audio at `rate_hz` and the events in it; one text per `with` block.

        Raises:
            BackendError: the library reports a failure.
        """
        self._library.espeak_SetVoiceByName(voice.encode())
        self._library.espeak_SetParameter(_RATE, words_per_minute, 0)
        data = text.encode()
        failed = self._library.espeak_Synth(data, len(data) + 1, 0, 0, 0, _CHARS_UTF8, None, None)
        if failed:
            raise BackendError(f"eSpeak NG failed on {text!r} with code {failed}.", "Try another text or back-end.")
        sound = np.concatenate([np.zeros(0, np.float32), *self._sound])
        return sound, self._events

    def _collect(self, samples: Any, n_samples: int, events: Any) -> int:
        """Collects audio and events as the library's callback, and returns 0, so that it continues."""
        if samples and n_samples > 0:
            pcm = np.ctypeslib.as_array(samples, shape=(n_samples,))
            self._sound.append((pcm / 32768).astype(np.float32))
        index = 0
        while events[index].type != _EVENT_LIST_END:
            event = events[index]
            self._events.append((event.type, event.text_position - 1, event.sample))
            index += 1
        return 0


def _find_words(text: str) -> list[tuple[int, int]]:
    """Returns first character and end (exclusive) of each word: a run of ASCII letters with inner apostrophes."""
    return [match.span() for match in re.finditer(r"[A-Za-z]+(?:'[A-Za-z]+)*", text)]


def _make_timings(
    text: str, words: list[tuple[int, int]], events: list[Event], samples: Samples, rate_hz: int
) -> tuple[WordTiming, ...]:
    """Makes one timing per word, or none if the engine did not report each word's start."""
    start_of = {at: sample for kind, at, sample in events if kind == _EVENT_WORD}
    if any(first not in start_of for first, _ in words):
        return ()
    borders = sorted({sample for kind, _, sample in events if kind in (_EVENT_WORD, _EVENT_END)} | {samples.size})
    timings = []
    for first, end in words:
        start = start_of[first]
        stop = next((border for border in borders if border > start), samples.size)
        timings.append(
            WordTiming(
                word=text[first:end],
                start_s=start / rate_hz,
                end_s=_find_sound_end(samples, start, stop) / rate_hz,
                score=0.0,
                method="espeak",
            )
        )
    return tuple(timings)


def _find_sound_end(samples: Samples, start: int, stop: int) -> int:
    """Returns the sample after the last audible one of a span, so that the pause at a comma is not part of the word.

    It is `stop` if no sample is audible.
    """
    loud = np.flatnonzero(np.abs(samples[start:stop]) > 1e-3)
    return start + (int(loud[-1]) + 1 if loud.size else stop - start)
