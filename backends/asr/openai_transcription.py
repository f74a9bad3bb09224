"""Speech recognition by any server with `/v1/audio/transcriptions`: OpenAI's own, or a compatible whisper server."""

from backends.engine import Samples
from backends.openai_audio import (
    HEARING_RATE_HZ,
    BatchAudioOptions,
    RequestRefused,
    TranscriptionOptions,
    make_transcription_request,
    use_client,
)
from data_schemas import ids
from data_schemas.errors import BackendError
from data_schemas.fingerprint import get_versions

_RECIPE = 1
"""Version of this file's processing of audio and text; raise it when transcripts could change."""


class OpenAITranscriptionOptions(TranscriptionOptions, BatchAudioOptions):
    """Options for server and model."""


class OpenAITranscription:
    """Transcribes speech by a server, at temperature 0."""

    name = "openai"

    def __init__(self, options: OpenAITranscriptionOptions) -> None:
        self._options = options
        self.max_calls_in_flight = options.max_calls_in_flight

    @property
    def digest(self) -> str:
        """Digest of the model's name and revision in the options, the language, soxr's version and `_RECIPE`.

        A server does not report its weights.
        """
        options = self._options
        return ids.digest(
            "openai transcription", _RECIPE, get_versions("soxr"), options.model, options.revision, options.language
        )

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """Returns the server's transcript of a recording; empty if nothing is recognised.

        Raises:
            BackendError: the server does not answer, or rejects the key, the model or the recording.
        """
        import soxr

        sound = soxr.resample(samples, sample_rate_hz, HEARING_RATE_HZ)
        request = make_transcription_request(self._options.model, self._options.language, sound)
        try:
            with use_client(self._options) as client:
                answer = client.audio.transcriptions.create(**request)
        except RequestRefused as refusal:
            raise BackendError(
                f"The server at {self._options.base_url} refuses a recording of {len(samples)} samples: {refusal}.",
                "Check the model's limits.",
            ) from refusal
        return str(answer.text).strip()
