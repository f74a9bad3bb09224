"""Whisper models by faster-whisper, in a worker environment; tiny.en (MIT) is included."""

from functools import cached_property
from pathlib import Path

from pydantic import Field

from backends.asr.protocol import HearingRefused
from backends.engine import Samples
from backends.options import FilePath, WorkerOptions
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, get_worker
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import get_versions

_RECIPE = 1
"""Version of the processing of audio and text by this file and its engine; raise it when transcripts could change."""

_MODEL_RATE_HZ = 16_000
_WEIGHTS = "model.bin"
"""CTranslate2's weights file in a model's folder."""


class WhisperOptions(WorkerOptions):
    """Options for the whisper model and its decoding."""

    model: str = Field(
        default="tiny.en", min_length=1, description="Name of a model; all but tiny.en are downloaded from the Hub."
    )
    model_path: FilePath = Field(default="", description="Folder with a CTranslate2 model; replaces model.")
    language: str = Field(default="en", pattern=r"^[a-z]{2,3}$", description="Language of the speech.")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda)$", description="cpu or cuda.")
    compute_type: str = Field(default="int8", min_length=1, description="CTranslate2's compute type: int8, float16, …")
    beam_size: int = Field(default=1, ge=1, le=20, description="Beam size; 1 is greedy search.")


class Whisper:
    """Transcribes speech; each process of KAME has one worker with the model, started on first use."""

    name = "whisper"
    max_calls_in_flight = 1

    def __init__(self, options: WhisperOptions) -> None:
        self._options = options

    @cached_property
    def digest(self) -> str:
        """Digest of the model, package versions, decoding options and `_RECIPE`.

        Raises:
            ConfigError: there is no model in the folder of the options.
        """
        how = self._options.model_dump(include={"language", "compute_type", "beam_size"})
        return ids.digest(
            "whisper",
            _RECIPE,
            get_versions("soxr"),
            get_environment("whisper").compute_digest(),
            self._digest_model(),
            how,
        )

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """Transcribes a recording, as people write it ("$2"); empty if nothing is recognised.

        Raises:
            HearingRefused: the model fails on this recording, but not on an easy one.
            ConfigError: there is no such model folder.
            BackendError: the worker is gone, or the model does not load or fails on every recording.
        """
        import soxr

        sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
        try:
            return str(self._worker.call("transcribe", {}, sound)[0]["text"])
        except WorkerRefusal as refusal:
            what = f"Whisper cannot transcribe a recording of {len(samples)} samples: {refusal}."
            raise HearingRefused(what, "Try another model.") from refusal

    def _digest_model(self) -> str:
        """Returns the model's name from the options, or the SHA-256 of the weights if they name a folder.

        Raises:
            ConfigError: the folder has no weights.
        """
        if not self._options.model_path:
            return self._options.model
        try:
            return ids.compute_sha256(Path(self._options.model_path) / _WEIGHTS)
        except OSError as error:
            raise ConfigError(
                f"Cannot read the whisper model: {error}.",
                "Correct gate.asr_options.model_path (kame refresh) or recogniser_options.model_path (kame evaluate).",
            ) from error

    @property
    def _worker(self) -> Worker:
        """The worker process that runs the model, started if necessary."""
        asked = self._options.model_dump(exclude={"timeout_s"})
        return get_worker("whisper", asked, self._options.timeout_s)
