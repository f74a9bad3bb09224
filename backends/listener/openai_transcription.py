"""Live speech recognition by any server with `/v1/audio/transcriptions`: the turn so far is sent again and again."""

import os
from typing import TYPE_CHECKING

from pydantic import Field

from backends.chat.connection import open_async
from backends.chat.providers import Provider
from backends.engine import Samples
from backends.fault_log import extract_host
from backends.listener.rehearing import Rehearing, RehearingOptions
from backends.openai_audio import (
    OpenAIAudioOptions,
    RequestRefused,
    TranscriptionOptions,
    make_transcription_request,
    translate_error,
)
from data_schemas.errors import BackendError

if TYPE_CHECKING:
    import openai


class OpenAIListenerOptions(TranscriptionOptions, OpenAIAudioOptions, RehearingOptions):
    """Options for server and model. One attempt per request: the next piece contains more than a retry would."""

    interval_s: float = Field(default=0.8, ge=0.1, le=10, description="Minimum time between partial results, seconds.")
    max_attempts: int = Field(default=1, ge=1, le=20, description="Attempts per request.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one answer, seconds.")


class OpenAIListener(Rehearing):
    """Transcribes speech by a server, at temperature 0. An unreachable server is shown by `failure` of the ears."""

    name = "openai"

    def __init__(self, options: OpenAIListenerOptions) -> None:
        super().__init__(options, extract_host(options.base_url))
        self._options = options
        self._key = os.environ.get(options.api_key_env, "").strip()
        self._client: openai.AsyncOpenAI | None = None

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """Returns the server's transcript of samples at 16 kHz; `is_urgent` has no effect.

        Raises:
            BackendError: it does not answer, or rejects the key, the model or the audio.
        """
        import openai

        if self._client is None:
            client = open_async(self._options.base_url, self._key, self._options.timeout_s, Provider())
            self._client = client.with_options(max_retries=self._options.max_attempts - 1)
        request = make_transcription_request(self._options.model, self._options.language, samples)
        try:
            answer = await self._client.audio.transcriptions.create(**request)
        except openai.APIError as error:
            translated = translate_error(error, self._options, self._key)
            if isinstance(translated, RequestRefused):
                status = str(error.status_code) if isinstance(error, openai.APIStatusError) else ""
                what = f"The server at {self._options.base_url} refuses audio: {translated}."
                raise BackendError(what, status=status) from None
            raise translated from None  # the cause may quote the key
        return str(answer.text)

    async def shutdown(self) -> None:
        """Closes its connections."""
        if self._client is not None:
            await self._client.close()
