"""Whisper models by faster-whisper, in a worker environment of its own; tiny.en (MIT) comes along."""

from functools import cached_property
from pathlib import Path

from pydantic import Field

from backends.asr.protocol import HearingRefused
from backends.engine import Samples
from backends.options import FilePath, WorkerOptions
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, worker
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import get_versions

_RECIPE = 1
"""Version of what this file and its engine do to sound and text; raise it when what is heard could change."""

_MODEL_RATE_HZ = 16_000
_WEIGHTS = "model.bin"
"""CTranslate2's file of weights in a model's folder."""


class WhisperOptions(WorkerOptions):
    """Which whisper model hears."""

    model: str = Field(
        default="tiny.en", min_length=1, description="A model by name; all but tiny.en are fetched from the Hub."
    )
    model_path: FilePath = Field(default="", description="A folder with a CTranslate2 model, instead.")
    language: str = Field(default="en", pattern=r"^[a-z]{2,3}$", description="Language to hear.")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda)$", description="cpu or cuda.")
    compute_type: str = Field(default="int8", min_length=1, description="CTranslate2's arithmetic: int8, float16, …")
    beam_size: int = Field(default=1, ge=1, le=20, description="Beams; 1 is greedy.")


class Whisper:
    """Writes down speech; one model a process of ours, loaded when first needed."""

    name = "whisper"
    max_calls_in_flight = 1

    def __init__(self, options: WhisperOptions) -> None:
        self._options = options

    @cached_property
    def digest(self) -> str:
        """Model, package versions, how it is asked, and this file's recipe.

        Raises:
            ConfigError: there is no model in the folder of the options.
        """
        how = self._options.model_dump(include={"language", "compute_type", "beam_size"})
        return ids.digest(
            "whisper", _RECIPE, get_versions("soxr"), get_environment("whisper").digest(), self._model_digest(), how
        )

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """What is said in the recording, as people write it ("$2"); empty where nothing is heard.

        Raises:
            HearingRefused: the model fails on this recording, and not on an easy one.
            ConfigError: there is no such model folder.
            BackendError: the worker is gone, or the model does not load or fails on whatever it is given.
        """
        import soxr

        sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
        try:
            return str(self._worker.call("transcribe", {}, sound)[0]["text"])
        except WorkerRefusal as refusal:
            what = f"Whisper cannot write down a recording of {len(samples)} samples: {refusal}."
            raise HearingRefused(what, "Try another model.") from refusal

    def _model_digest(self) -> str:
        """The name of a model by name; for a folder, SHA-256 of its weights."""
        if not self._options.model_path:
            return self._options.model
        try:
            return ids.compute_sha256(Path(self._options.model_path) / _WEIGHTS)
        except OSError as error:
            raise ConfigError(f"Cannot read the whisper model: {error}.", "Correct model_path.") from error

    @property
    def _worker(self) -> Worker:
        asked = self._options.model_dump(exclude={"timeout_s"})
        return worker("whisper", asked, self._options.timeout_s)
