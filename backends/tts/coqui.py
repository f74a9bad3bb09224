"""coqui-tts (XTTS, VITS and the other models of `TTS.api.TTS`), in a worker environment of its own.

It brings no model: name one of its list, which is fetched by name, or give a checkpoint's path. The model is loaded
once a process of ours.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import Field, model_validator

from backends.options import FilePath, WorkerOptions, split_list, split_paths
from backends.tts.protocol import Speech, TakeRefused, Voice
from backends.tts.sound import at_our_rate
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, worker
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import get_versions

_RECIPE = 2
"""Version of what this file and its engine do to text and sound; raise it when the samples change."""

ONLY_VOICE = "model"
"""Name of the voice of a model that has one."""


class CoquiOptions(WorkerOptions):
    """Which model speaks, in which voices."""

    model: str = Field(default="", description="A model of coqui's list, such as tts_models/en/vctk/vits.")
    model_path: FilePath = Field(default="", description="A checkpoint of your own, instead; a folder for XTTS.")
    config_path: FilePath = Field(default="", description="The checkpoint's config.json.")
    speakers_path: FilePath = Field(default="", description="The checkpoint's speakers file, where it has one.")
    speaker_wavs: str = Field(
        default="", description="Sound files of voices to clone, separated by commas; a voice's name is its file's."
    )
    speakers: str = Field(default="", description="Speakers to use, separated by commas; empty: all of the model's.")
    language: str = Field(default="en", description="Language to speak, for models of several.")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu, cuda or cuda:N.")
    licence: str = Field(default="", description="Licence of the voices; empty: as coqui's list says.")

    @model_validator(mode="after")
    def _check_one_model(self) -> Self:
        if bool(self.model) == bool(self.model_path) or bool(self.model_path) != bool(self.config_path):
            raise ValueError("set either model, or model_path with config_path")
        return self


class Coqui:
    """Says text with a model of coqui-tts; the same arguments give the same samples on one kind of processor."""

    name = "coqui"
    max_calls_in_flight = 1

    def __init__(self, options: CoquiOptions) -> None:
        self._options = options

    @property
    def digest(self) -> str:
        """Model files, language, package versions and this file's recipe."""
        return ids.digest(
            "coqui",
            _RECIPE,
            get_versions("soxr"),
            get_environment("coqui").digest(),
            self._described["files"],
            self._options.language,
        )

    def voices(self) -> Sequence[Voice]:
        """The speakers chosen, the files to clone, or the model's one voice.

        Raises:
            ConfigError: a speaker is chosen that the model lacks.
            BackendError: the worker or the model does not start.
        """
        return self._voices

    @property
    def has_speed(self) -> bool:
        """Whether the model takes a speed or a length: XTTS, VITS and others do, Tacotron does not."""
        return bool(self._described["has_speed"])

    @property
    def max_chars(self) -> int | None:
        """What the model's own code says of its language; None where it says nothing."""
        longest: int | None = self._described["max_chars"]
        return longest

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """The speech of `text`, float32 [n_samples] at 24 kHz.

        Raises:
            TakeRefused: the model says nothing to `text`, or fails on it and not on an easy one.
            ConfigError: there is no such voice.
            BackendError: the worker is gone, or the model fails on whatever it is given.
        """
        if voice not in [each.name for each in self._voices]:
            raise ConfigError(
                f"The coqui model has no voice {voice!r}.", f"Its voices: {', '.join(v.name for v in self._voices)}."
            )
        asked = {
            "text": text,
            "voice": "" if voice == ONLY_VOICE else voice,
            "speed": speed,
            "seed": ids.derive_seed("coqui", text, voice, speed, take),
        }
        try:
            told, samples = self._worker.call("synthesise", asked)
        except WorkerRefusal as refusal:
            raise TakeRefused(str(refusal)) from refusal
        return Speech(at_our_rate(samples, told["sample_rate_hz"]))

    @property
    def _worker(self) -> Worker:
        asked = self._options.model_dump(include={"model", "model_path", "config_path", "speakers_path", "threads"})
        asked |= {"language": self._options.language, "device": self._options.device}
        asked["speaker_wavs"] = split_paths(self._options.speaker_wavs)
        return worker("coqui", asked, self._options.timeout_s)

    @cached_property
    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = self._worker.call("describe", {})[0]
        return described

    @cached_property
    def _voices(self) -> tuple[Voice, ...]:
        there: dict[str, str] = self._described["voices"] or {ONLY_VOICE: ONLY_VOICE}
        chosen = split_list(self._options.speakers) or list(there)
        if missing := [name for name in chosen if name not in there]:
            raise ConfigError(
                f"The coqui model has no speaker {', '.join(missing)}.", f"Its speakers: {', '.join(there)}."
            )
        licence = self._options.licence or self._described["licence"] or "unknown"
        return tuple(Voice(name, self._options.language, licence, ids.digest(there[name])) for name in chosen)
