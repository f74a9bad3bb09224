"""Forced alignment by whisperx (wav2vec2 letters), in a worker environment.

It includes no model: by default whisperx downloads its own choice for the language; without a network, set a folder.
"""

from collections.abc import Sequence
from functools import cached_property

from pydantic import Field

from backends.aligner.protocol import AlignmentRefused, check_order
from backends.engine import Samples
from backends.options import FilePath, WorkerOptions
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, get_worker
from data_schemas import ids
from data_schemas.fingerprint import get_versions
from data_schemas.records import WordTiming
from data_schemas.units import samples_to_seconds

_RECIPE = 1
"""Version of the processing of audio and times by this file and its engine; raise it when they change."""

_MODEL_RATE_HZ = 16_000


class WhisperXOptions(WorkerOptions):
    """Options for the wav2vec2 model."""

    language: str = Field(default="en", pattern=r"^[a-z]{2}$", description="Language of the words, two letters.")
    model: str = Field(default="", description="Name of a model; empty: whisperx's own choice for the language.")
    model_path: FilePath = Field(default="", description="Folder with a wav2vec2 CTC model; replaces model.")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu, cuda or cuda:N.")


class WhisperXAligner:
    """Aligns known words to clean speech; a word's `score` is the mean probability of its letters, 0 to 1."""

    name = "whisperx"
    prefers_own_times = False

    def __init__(self, options: WhisperXOptions) -> None:
        self._options = options

    @property
    def languages(self) -> tuple[str, ...]:
        """The one language of the options."""
        return (self._options.language,)

    @cached_property
    def digest(self) -> str:
        """Digest of the model weights, package versions, language and `_RECIPE`; the first use calls the worker."""
        weights = self._worker.call("describe", {})[0]["digest"]
        return ids.digest(
            "whisperx",
            _RECIPE,
            get_versions("soxr"),
            get_environment("whisperx").compute_digest(),
            weights,
            self._options.language,
        )

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Returns one timing per word, in order, without overlap, inside the audio, in steps of about 20 ms.

        Raises:
            AlignmentRefused: a word gets no time of its own.
            TimesRefused: a word overlaps another, or is outside the audio.
            ConfigError: there is no such model folder.
            BackendError: the worker is gone, or the model does not load.
        """
        import soxr

        if not words:
            return []
        sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
        try:
            reply, _ = self._worker.call("align", {"words": [_straighten_apostrophes(word) for word in words]}, sound)
        except WorkerRefusal as refusal:
            raise AlignmentRefused(str(refusal)) from refusal
        duration_s = samples_to_seconds(len(samples), sample_rate_hz)
        timings = [
            WordTiming(word=word, start_s=start_s, end_s=min(end_s, duration_s), score=score, method=self.name)
            for word, (start_s, end_s, score) in zip(words, reply["words"], strict=True)
        ]
        check_order(timings, duration_s)
        return timings

    @property
    def _worker(self) -> Worker:
        """The worker process that runs the model, started if necessary."""
        asked = self._options.model_dump(include={"language", "model", "model_path", "device", "threads"})
        return get_worker("whisperx", asked, self._options.timeout_s)


def _straighten_apostrophes(word: str) -> str:
    return word.replace("’", "'")
