"""Any server with `/v1/audio/transcriptions`: OpenAI's own, or a whisper server that speaks its protocol."""

import io

from pydantic import Field

from backends.engine import Samples
from backends.openai_audio import BatchAudioOptions, RequestRefused, asking
from data_schemas import ids
from data_schemas.errors import BackendError

_RECIPE = 1
"""Version of what this file does to sound and text; raise it when what is heard could change."""

_MODEL_RATE_HZ = 16_000


class OpenAITranscriptionOptions(BatchAudioOptions):
    """Which server and model hear."""

    language: str = Field(default="en", pattern=r"^[a-z]{2,3}$", description="Language to hear.")


class OpenAITranscription:
    """Writes down speech by a server, at temperature 0."""

    name = "openai"

    def __init__(self, options: OpenAITranscriptionOptions) -> None:
        self._options = options
        self.max_calls_in_flight = options.max_calls_in_flight

    @property
    def digest(self) -> str:
        """Model's name, language and this file's recipe: a server does not tell what its weights are."""
        return ids.digest(
            "openai transcription", _RECIPE, self._options.model, self._options.revision, self._options.language
        )

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """What the server hears in the recording; empty where it hears nothing.

        Raises:
            BackendError: the server does not answer, or refuses key, model or recording.
        """
        wav = _wav(samples, sample_rate_hz)
        try:
            with asking(self._options) as client:
                answer = client.audio.transcriptions.create(
                    model=self._options.model,
                    file=("speech.wav", wav, "audio/wav"),
                    language=self._options.language,
                    response_format="json",
                    temperature=0.0,
                )
        except RequestRefused as refusal:
            raise BackendError(
                f"The server at {self._options.base_url} refuses a recording of {len(samples)} samples: {refusal}.",
                "Check the model's limits.",
            ) from refusal
        return answer.text.strip()


def _wav(samples: Samples, sample_rate_hz: int) -> bytes:
    """16-bit mono wav at 16 kHz, which is what whisper models hear."""
    import soundfile
    import soxr

    file = io.BytesIO()
    sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
    soundfile.write(file, sound, _MODEL_RATE_HZ, format="WAV", subtype="PCM_16")
    return file.getvalue()
