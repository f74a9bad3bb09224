"""Word times by whisperx's aligner (wav2vec2 letters, forced alignment), in a worker environment of its own.

It brings no model: by default whisperx fetches the one it knows for the language; without a network, give a folder.
"""

from collections.abc import Sequence
from functools import cached_property

from pydantic import Field

from backends.aligner.protocol import AlignmentRefused, check_order
from backends.engine import Samples
from backends.options import FilePath, WorkerOptions
from backends.workers.environments import get_environment
from backends.workers.process import Worker, WorkerRefusal, worker
from data_schemas import ids
from data_schemas.fingerprint import get_versions
from data_schemas.records import WordTiming
from data_schemas.units import samples_to_seconds

_RECIPE = 1
"""Version of what this file and its engine do to sound and times; raise it when they change."""

_MODEL_RATE_HZ = 16_000


class WhisperXOptions(WorkerOptions):
    """Which wav2vec2 model aligns."""

    language: str = Field(default="en", pattern=r"^[a-z]{2}$", description="Language of the words, two letters.")
    model: str = Field(default="", description="A model by name; empty: whisperx's own choice for the language.")
    model_path: FilePath = Field(default="", description="A folder with a wav2vec2 CTC model, instead.")
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
        """Model weights, package versions and this file's recipe."""
        weights = self._worker.call("describe", {})[0]["digest"]
        return ids.digest(
            "whisperx",
            _RECIPE,
            get_versions("soxr"),
            get_environment("whisperx").digest(),
            weights,
            self._options.language,
        )

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """One timing a word, in order, not overlapping, inside the sound, in steps of about 20 ms.

        Raises:
            AlignmentRefused: a word gets no time of its own.
            TimesRefused: a word lies over another, or outside the sound.
            BackendError: the worker is gone, or the model does not load.
        """
        import soxr

        if not words:
            return []
        sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
        try:
            told, _ = self._worker.call("align", {"words": [_strip_marks(word) for word in words]}, sound)
        except WorkerRefusal as refusal:
            raise AlignmentRefused(str(refusal)) from refusal
        duration_s = samples_to_seconds(len(samples), sample_rate_hz)
        timings = [
            WordTiming(word=word, start_s=start_s, end_s=min(end_s, duration_s), score=score, method=self.name)
            for word, (start_s, end_s, score) in zip(words, told["words"], strict=True)
        ]
        check_order(timings, duration_s)
        return timings

    @property
    def _worker(self) -> Worker:
        asked = self._options.model_dump(include={"language", "model", "model_path", "device", "threads"})
        return worker("whisperx", asked, self._options.timeout_s)


def _strip_marks(word: str) -> str:
    return word.replace("’", "'")
