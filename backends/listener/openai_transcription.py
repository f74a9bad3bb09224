"""Any server with `/v1/audio/transcriptions`, live: the turn so far is sent to it again and again."""

import os
from typing import TYPE_CHECKING

from pydantic import Field

from backends.chat.connection import open_async
from backends.chat.providers import Provider
from backends.engine import Samples
from backends.fault_log import place_of
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
    """Which server and model hear. One try each: the next piece says more than a second try would."""

    interval_s: float = Field(default=0.8, ge=0.1, le=10, description="Shortest time between two partial results.")
    max_attempts: int = Field(default=1, ge=1, le=20, description="Tries of one request.")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one answer, seconds.")


class OpenAIListener(Rehearing):
    """Writes down speech by a server, at temperature 0. A server that is down is no error here: ears say so."""

    name = "openai"

    def __init__(self, options: OpenAIListenerOptions) -> None:
        super().__init__(options, place_of(options.base_url))
        self._options = options
        self._key = os.environ.get(options.api_key_env, "").strip()
        self._client: openai.AsyncOpenAI | None = None

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """What the server hears in samples at 16 kHz.

        Raises:
            BackendError: it does not answer, or refuses key, model or sound.
        """
        import openai

        if self._client is None:
            client = open_async(self._options.base_url, self._key, self._options.timeout_s, Provider())
            self._client = client.with_options(max_retries=self._options.max_attempts - 1)
        request = make_transcription_request(self._options.model, self._options.language, samples)
        try:
            answer = await self._client.audio.transcriptions.create(**request)
        except openai.APIError as error:
            told = translate_error(error, self._options, self._key)
            if isinstance(told, RequestRefused):
                status = str(error.status_code) if isinstance(error, openai.APIStatusError) else ""
                what = f"The server at {self._options.base_url} refuses a sound: {told}."
                raise BackendError(what, status=status) from None
            raise told from None  # the cause may quote the key
        return str(answer.text)

    async def shutdown(self) -> None:
        """Closes its connections."""
        if self._client is not None:
            await self._client.close()
