"""Client of OpenAI's audio protocol for text-to-speech and transcription: options, connection and errors."""

import atexit
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import Field

from backends.chat.connection import open_sync
from backends.chat.providers import Provider
from backends.engine import Samples
from backends.options import Options
from data_schemas.config.base import VARIABLE_NAME
from data_schemas.config.chat import BaseUrl
from data_schemas.errors import BackendError

if TYPE_CHECKING:
    import openai

_N_QUOTED = 300
HEARING_RATE_HZ = 16_000
"""Sample rate of whisper models."""
_REFUSALS = frozenset({400, 413, 422})
"""Status codes about this request; others are about the server, the model or the API key."""

_one_opens = threading.Lock()  # so that each server has one client


class OpenAIAudioOptions(Options):
    """Options for server and model. The API key is read from the environment, never from the options."""

    base_url: BaseUrl = Field(description="OpenAI-compatible base URL, with /v1.")
    model: str = Field(min_length=1, description="Name of the model.")
    revision: str = Field(
        default="", description="Version of the weights, if the model's name does not state it; change it with them."
    )
    api_key_env: str = Field(
        default="KAME_SPEECH_API_KEY", pattern=VARIABLE_NAME, description="Environment variable that holds the key."
    )
    max_attempts: int = Field(default=5, ge=1, le=20, description="Attempts per request.")
    timeout_s: float = Field(default=120.0, gt=0, description="Longest wait for one answer, seconds.")


class BatchAudioOptions(OpenAIAudioOptions):
    """Options for pipeline stages, which send many utterances."""

    max_calls_in_flight: int = Field(default=8, ge=1, le=256, description="Concurrent calls of each worker process.")


class TranscriptionOptions(Options):
    """Options for the language of the speech."""

    language: str = Field(default="en", pattern=r"^[a-z]{2,3}$", description="Language of the speech.")


def make_transcription_request(model: str, language: str, samples: Samples) -> dict[str, Any]:
    """Makes the arguments of `audio.transcriptions.create`: samples at 16 kHz as 16-bit mono WAV, temperature 0."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, samples, HEARING_RATE_HZ, format="WAV", subtype="PCM_16")
    return {
        "model": model,
        "file": ("speech.wav", file.getvalue(), "audio/wav"),
        "language": language,
        "response_format": "json",
        "temperature": 0.0,
    }


class RequestRefused(Exception):
    """The server rejected this request; the message says why."""


@contextmanager
def use_client(options: OpenAIAudioOptions) -> Iterator["openai.OpenAI"]:
    """Yields the process's client of a server; its connections are kept alive, and any thread may use it.

    openai's own retries (timeouts, lost connections, 408, 409, 429, 5xx) are used, and its errors in the block are
    translated.

    Raises:
        RequestRefused: the server rejects this request.
        BackendError: it does not answer after all attempts, or rejects the key or the model.
    """
    import openai

    key = os.environ.get(options.api_key_env, "").strip()
    with _one_opens:
        client = _make_client(options.base_url, key, options.timeout_s, options.max_attempts)
    try:
        yield client
    except openai.APIError as error:
        raise translate_error(error, options, key) from None  # the cause may quote the key


@cache
def _make_client(base_url: str, key: str, timeout_s: float, max_attempts: int) -> "openai.OpenAI":
    """Makes the client of a server, once per process and arguments; it is closed when the process exits."""
    client = open_sync(base_url, key, timeout_s, Provider()).with_options(max_retries=max_attempts - 1)
    atexit.register(client.close)
    return client


def translate_error(error: "openai.APIError", options: OpenAIAudioOptions, key: str) -> Exception:
    """Returns the `RequestRefused` or `BackendError` for an error of openai's, without the API key in its message.

    `RequestRefused` is for HTTP 400, 413 and 422, which concern only this request.
    """
    import openai

    where = f"The server at {options.base_url}"
    said = error.message.replace(key, "***") if key else error.message
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        if status in (401, 403):  # such messages quote parts of the key, so it is not quoted
            return BackendError(
                f"{where} refuses our key (HTTP {status}).", f"Put a valid one into {options.api_key_env}.", str(status)
            )
        if status in _REFUSALS:
            return RequestRefused(f"HTTP {status}: {said[:_N_QUOTED]}")
        what = f"{where} did not serve model {options.model!r} (HTTP {status}: {said[:_N_QUOTED]})."
        return BackendError(what, "Check base_url (it ends in /v1), model and quota, then run again.", str(status))
    cause = str(error.__cause__ or said)[:_N_QUOTED]
    return BackendError(
        f"{where} did not answer in {options.max_attempts} tries: {cause}.",
        "Check that it runs and that base_url is right (it ends in /v1), then run again.",
        "timeout" if isinstance(error, openai.APITimeoutError) else "no connection",
    )
