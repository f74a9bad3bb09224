"""Piper text-to-speech (VITS voices in ONNX), in a worker environment because its code is GPL-3.0.

It includes one voice, en_US-joe-medium (CC0-1.0, 22,050 Hz), and reports how long each phoneme lasts: the only
synthesiser here with its own word times, for texts in which eSpeak joins no words.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pydantic import Field

from backends.options import VoicePaths, WorkerOptions, split_paths
from backends.tts.audio import resample_sound
from backends.tts.protocol import Speech, SpeechRefused, Voice
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, get_worker
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import get_versions
from data_schemas.records import WordTiming

_RECIPE = 1
"""Version of the processing of text and audio by this file and its engine; raise it when samples or times change."""

_OWN_LICENCE = "CC0-1.0"
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class PiperOptions(WorkerOptions):
    """Options for the voices."""

    voices: VoicePaths = Field(
        default="", description="Voices' .onnx files, with .onnx.json next to them, by commas; empty: en_US-joe-medium."
    )
    licence: str = Field(default="", description="Licence of those voices.")


class Piper:
    """Synthesises speech with Piper; the same arguments give the same samples on one kind of processor."""

    name = "piper"
    has_speed = True
    max_chars = None
    max_calls_in_flight = 1

    def __init__(self, options: PiperOptions) -> None:
        self._options = options

    @property
    def digest(self) -> str:
        """Digest of `_RECIPE`, the requirements of Piper's environment and soxr's version; voices have their own."""
        return ids.digest("piper", _RECIPE, get_versions("soxr"), get_environment("piper").compute_digest())

    def list_voices(self) -> Sequence[Voice]:
        """Returns the voices of the configured files, or the included one.

        Raises:
            ConfigError: a voice's file is missing.
            BackendError: the worker does not start.
        """
        return self._voices

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises `text`, float32 [n_samples] at 24 kHz, with the times of its words if they are certain.

        Times are in steps of 11.6 ms, the model's frames; a word's score is 0, as its time is not estimated. `take` has
        no effect.

        Raises:
            SpeechRefused: there is nothing to say in `text`, or Piper fails on it but not on an easy one.
            ConfigError: there is no such voice, or a voice's file is missing.
            BackendError: the worker is gone, or Piper fails on every text.
        """
        names = [each.name for each in self._voices]
        if voice not in names:
            raise ConfigError(f"Piper has no voice {voice!r} here.", f"Choose one of: {', '.join(names)}.")
        words = _WORD.findall(text)
        if not words:
            raise SpeechRefused(f"there is nothing to say in {text!r}")
        try:
            reply, samples = self._worker.call(
                "synthesise", {"text": text, "voice": voice, "speed": speed, "words": words}
            )
        except WorkerRefusal as refusal:
            raise SpeechRefused(str(refusal)) from refusal
        return Speech(resample_sound(samples, reply["sample_rate_hz"]), _make_timings(words, reply["times_s"]))

    @property
    def _worker(self) -> Worker:
        """The worker process that runs the voices, started if necessary."""
        asked = {"voice_paths": split_paths(self._options.voices), "threads": self._options.threads}
        return get_worker("piper", asked, self._options.timeout_s)

    @cached_property
    def _voices(self) -> tuple[Voice, ...]:
        """The voices that the worker describes, with the licence of the options.

        Without one, it is "unknown" for configured voices, and that of the included voice for this one.
        """
        described: dict[str, Any] = self._worker.call("describe", {})[0]["voices"]
        licence = self._options.licence or ("unknown" if self._options.voices else _OWN_LICENCE)
        return tuple(Voice(name, each["language"], licence, each["digest"]) for name, each in described.items())


def _make_timings(words: Sequence[str], times_s: Sequence[tuple[float, float]]) -> tuple[WordTiming, ...]:
    """Makes the timings of all words, or none if there are no times."""
    if not times_s:
        return ()
    return tuple(
        WordTiming(word=word, start_s=start_s, end_s=end_s, score=0.0, method=Piper.name)
        for word, (start_s, end_s) in zip(words, times_s, strict=True)
    )
