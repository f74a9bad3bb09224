"""Test double of text-to-speech: each word is a tone burst, so that the time of each word is known.

`split_bursts` defines the times; `backends/aligner/double.py` finds them again by the silence between the bursts.
"""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from backends.engine import Samples
from backends.tts.protocol import Speech, SpeechRefused, Voice
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples

BURST_S, GAP_S = 0.25, 0.06
"""A word and the silence between two words, seconds, at speed 1."""

AMPLITUDE = 0.3
_FADE_S = 0.005
_VOICES = ("double_a", "double_b", "double_c")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def split_bursts(n_words: int, n_samples: int) -> list[tuple[int, int]]:
    """Returns start and end sample (exclusive) of each of `n_words` bursts, which fill `n_samples` with their gaps."""
    total_s = n_words * BURST_S + (n_words - 1) * GAP_S
    starts_s = [index * (BURST_S + GAP_S) for index in range(n_words)]
    return [
        (round(start_s / total_s * n_samples), round((start_s + BURST_S) / total_s * n_samples)) for start_s in starts_s
    ]


class DoubleTts:
    """Synthesises every word as a tone whose pitch depends on word and voice; thousands of times faster than speech."""

    name = "double"
    has_speed = True
    max_chars: int | None = None
    max_calls_in_flight = 1
    digest = ids.digest("double tts", 1)

    def list_voices(self) -> Sequence[Voice]:
        """Returns three voices that differ in pitch."""
        return tuple(Voice(name, "en-us", "Apache-2.0", ids.digest("double voice", name)) for name in _VOICES)

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises one burst per word, float32 [n_samples] at 24 kHz, with digital silence between bursts.

        `take` has no effect.

        Raises:
            SpeechRefused: there is no word in `text`.
            ConfigError: there is no such voice.
        """
        if voice not in _VOICES:
            raise ConfigError(f"The double has no voice {voice!r}.", f"Choose one of: {', '.join(_VOICES)}.")
        words = _WORD.findall(text)
        if not words:
            raise SpeechRefused(f"there is nothing to say in {text!r}")
        n_samples = seconds_to_samples((len(words) * BURST_S + (len(words) - 1) * GAP_S) / speed)
        sound = np.zeros(n_samples, dtype=np.float32)
        for word, (start, end) in zip(words, split_bursts(len(words), n_samples), strict=True):
            sound[start:end] = _make_burst(f"{voice} {word.lower()}", end - start)
        return Speech(sound)


def _make_burst(key: str, n_samples: int) -> Samples:
    """Makes a tone with fades of 5 ms at both ends, whose pitch is derived from `key`."""
    pitch_hz = 150 + hashlib.sha256(key.encode()).digest()[0] * 3  # 150 to 915 Hz
    time_s = np.arange(n_samples) / SAMPLE_RATE_HZ
    fade = np.minimum(1, np.minimum(time_s, time_s[::-1]) / _FADE_S)
    return (AMPLITUDE * fade * np.sin(2 * np.pi * pitch_hz * time_s)).astype(np.float32)
