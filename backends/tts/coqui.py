"""coqui-tts (XTTS, VITS and the other models of `TTS.api.TTS`), in a worker environment.

It includes no model: set a name from its list, which is downloaded, or the path of a checkpoint. Each process of KAME
has one worker with the model.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import Field, model_validator

from backends.options import FilePath, VoicePaths, WorkerOptions, split_list, split_paths
from backends.tts.audio import resample_sound
from backends.tts.protocol import Speech, TakeRefused, Voice
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, get_worker
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import get_versions

_RECIPE = 2
"""Version of the processing of text and audio by this file and its engine; raise it when the samples change."""

ONLY_VOICE = "model"
"""Name of the voice of a model with only one."""


class CoquiOptions(WorkerOptions):
    """Options for the model and its voices."""

    model: str = Field(default="", description="A model from coqui's list, such as tts_models/en/vctk/vits.")
    model_path: FilePath = Field(default="", description="Your own checkpoint, instead of model; a folder for XTTS.")
    config_path: FilePath = Field(default="", description="The checkpoint's config.json.")
    speakers_path: FilePath = Field(default="", description="The checkpoint's speakers file, if it has one.")
    speaker_wavs: VoicePaths = Field(
        default="", description="Audio files of voices to clone, separated by commas; voices are named after files."
    )
    speakers: str = Field(default="", description="Speakers to use, separated by commas; empty: all of the model's.")
    language: str = Field(default="en", description="Language, for multilingual models.")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu, cuda or cuda:N.")
    licence: str = Field(default="", description="Licence of the voices; empty: as in coqui's list.")

    @model_validator(mode="after")
    def _check_one_model(self) -> Self:
        """Checks that either model is set, or model_path together with config_path."""
        if bool(self.model) == bool(self.model_path) or bool(self.model_path) != bool(self.config_path):
            raise ValueError("set either model, or model_path with config_path")
        return self


class Coqui:
    """Synthesises speech with coqui-tts; the same arguments give the same samples on one kind of processor.

    The first use of `digest`, `has_speed`, `max_chars` or a method starts the worker, with the errors of `list_voices`.
    """

    name = "coqui"
    max_calls_in_flight = 1

    def __init__(self, options: CoquiOptions) -> None:
        self._options = options

    @property
    def digest(self) -> str:
        """Digest of the model files, the language, package versions and `_RECIPE`."""
        return ids.digest(
            "coqui",
            _RECIPE,
            get_versions("soxr"),
            get_environment("coqui").compute_digest(),
            self._described["files"],
            self._options.language,
        )

    def list_voices(self) -> Sequence[Voice]:
        """Returns the chosen speakers, or all: the voices to clone, else the model's speakers, else its only voice.

        Raises:
            ConfigError: the model lacks a chosen speaker or the language, or a file of the options is missing.
            BackendError: the worker or the model does not start.
        """
        return self._voices

    @property
    def has_speed(self) -> bool:
        """Whether the model supports a speed or length scale: XTTS, VITS and others do, Tacotron does not."""
        return bool(self._described["has_speed"])

    @property
    def max_chars(self) -> int | None:
        """The limit in the model's own code for its language; None if there is none."""
        longest: int | None = self._described["max_chars"]
        return longest

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises `text`, float32 [n_samples] at 24 kHz; another `take` has another random seed.

        Raises:
            TakeRefused: the model gives no audio for `text`, or fails on it but not on an easy one.
            ConfigError: there is no such voice.
            BackendError: the worker is gone, or the model fails on every text.
        """
        if voice not in [each.name for each in self._voices]:
            raise ConfigError(
                f"The coqui model has no voice {voice!r}.", f"Its voices: {', '.join(v.name for v in self._voices)}."
            )
        asked = {
            "text": text,
            "voice": voice if self._described["voices"] else "",
            "speed": speed,
            "seed": ids.derive_seed("coqui", text, voice, speed, take),
        }
        try:
            reply, samples = self._worker.call("synthesise", asked)
        except WorkerRefusal as refusal:
            raise TakeRefused(str(refusal)) from refusal
        return Speech(resample_sound(samples, reply["sample_rate_hz"]))

    @property
    def _worker(self) -> Worker:
        """The worker process that runs the model, started if necessary."""
        asked = self._options.model_dump(include={"model", "model_path", "config_path", "speakers_path", "threads"})
        asked |= {"language": self._options.language, "device": self._options.device}
        asked["speaker_wavs"] = split_paths(self._options.speaker_wavs)
        return get_worker("coqui", asked, self._options.timeout_s)

    @cached_property
    def _described(self) -> dict[str, Any]:
        """The worker's description of the model: `voices`, `files` (digests), `licence`, `has_speed`, `max_chars`."""
        described: dict[str, Any] = self._worker.call("describe", {})[0]
        return described

    @cached_property
    def _voices(self) -> tuple[Voice, ...]:
        """The voices; raises ConfigError if the model lacks a chosen speaker."""
        there: dict[str, str] = self._described["voices"] or {ONLY_VOICE: ONLY_VOICE}
        chosen = split_list(self._options.speakers) or list(there)
        if missing := [name for name in chosen if name not in there]:
            raise ConfigError(
                f"The coqui model has no speaker {', '.join(missing)}.", f"Its speakers: {', '.join(there)}."
            )
        licence = self._options.licence or self._described["licence"] or "unknown"
        return tuple(Voice(name, self._options.language, licence, ids.digest(there[name])) for name in chosen)
