"""Text-to-speech by any server with `/v1/audio/speech`: OpenAI's own, or one of the many compatible ones.

Its audio may differ from call to call: if a dataset must be reproducible, use another engine.
"""

import io
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.openai_audio import BatchAudioOptions, RequestRefused, use_client
from backends.options import split_list
from backends.tts.audio import resample_sound
from backends.tts.protocol import Speech, SpeechRefused, Voice
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError
from data_schemas.fingerprint import get_versions

_RECIPE = 2
"""Version of this file's processing of text and audio; raise it when the samples change."""

_FULL_SCALE = 32_768.0
_MAX_CHARS = 4096
"""The longest `input` of OpenAI's own server, by its reference of `/v1/audio/speech`."""


class OpenAISpeechOptions(BatchAudioOptions):
    """Options for server, model and voices."""

    voices: str = Field(min_length=1, description="The server's voices, separated by commas, best first.")
    response_format: Literal["pcm", "wav"] = Field(
        default="wav", description="Audio format; wav states its sample rate, pcm is 16 bits at `pcm_rate_hz`."
    )
    pcm_rate_hz: int = Field(default=24_000, ge=8_000, le=48_000, description="Sample rate of pcm, hertz.")
    language: str = Field(default="en", description="Language of the voices.")
    licence: str = Field(default="by provider", description="Licence of the voices' audio.")


class OpenAISpeech:
    """Synthesises speech by a server; its audio is converted to 24 kHz mono.

    Raises:
        ConfigError: the options name no voice.
    """

    name = "openai"
    has_speed = True
    max_chars = _MAX_CHARS

    def __init__(self, options: OpenAISpeechOptions) -> None:
        self._options = options
        self.max_calls_in_flight = options.max_calls_in_flight
        names = split_list(options.voices)
        if not names:
            raise ConfigError("The speech back-end 'openai' has no voices.", "Set speech.tts_options.voices.")
        self._voices = tuple(
            Voice(name, options.language, options.licence, ids.digest(options.model, options.revision, name))
            for name in names
        )

    @property
    def digest(self) -> str:
        """Digest of the model's name and revision, the audio format, the language and `_RECIPE`.

        A server does not report its weights.
        """
        options = self._options
        rate_hz = options.pcm_rate_hz if options.response_format == "pcm" else None
        form = [options.response_format, rate_hz, options.language]
        return ids.digest("openai speech", _RECIPE, get_versions("soxr"), options.model, options.revision, form)

    def list_voices(self) -> Sequence[Voice]:
        """Returns the voices of the options, in order."""
        return self._voices

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Returns the server's speech for `text`, float32 [n_samples] at 24 kHz; `take` has no effect.

        Raises:
            SpeechRefused: the server rejects this text, or its audio is silent.
            ConfigError: there is no such voice.
            BackendError: the server does not answer, rejects the key or the model, or sends invalid audio.
        """
        if voice not in [each.name for each in self._voices]:
            raise ConfigError(f"The options contain no voice {voice!r}.", f"Voices: {self._options.voices}.")
        try:
            with use_client(self._options) as client:
                answer = client.audio.speech.create(
                    model=self._options.model,
                    voice=voice,
                    input=text,
                    response_format=self._options.response_format,
                    speed=speed,
                )
        except RequestRefused as refusal:
            raise SpeechRefused(str(refusal)) from refusal
        samples = self._decode(answer.content)
        if not samples.any():
            raise SpeechRefused(f"{voice} says nothing but silence to {text[:80]!r}")
        return Speech(samples)

    def _decode(self, content: bytes) -> Samples:
        """Decodes the server's audio to mono at 24 kHz; raises BackendError if it has another format than expected."""
        if self._options.response_format == "pcm":
            if len(content) % 2:
                raise self._make_error(f"{len(content)} bytes are not 16-bit samples")
            pcm = np.frombuffer(content, dtype="<i2").astype(np.float32) / _FULL_SCALE
            return resample_sound(pcm, self._options.pcm_rate_hz)
        import soundfile

        try:
            sound, rate_hz = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise self._make_error(str(error)) from error
        return resample_sound(sound.mean(axis=1), rate_hz)

    def _make_error(self, why: str) -> BackendError:
        return BackendError(
            f"The server at {self._options.base_url} sent no {self._options.response_format} audio: {why}.",
            "Set response_format (wav or pcm) to the format that it sends.",
        )
