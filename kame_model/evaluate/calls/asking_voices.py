"""Synthesises spoken questions with voices that differ from the assistant's voice."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import soundfile

from backends import registry
from backends.engine import Samples
from backends.tts.long_texts import say
from backends.tts.protocol import TextToSpeech
from data_schemas import ids
from data_schemas.config.serving import CascadeConfig
from data_schemas.errors import ConfigError
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ


class AskingVoices:
    """The voices that ask questions. Their audio is stored as FLAC in the folder `asked`, and synthesised only once.

    Args:
        engine: name of the text-to-speech engine.
        options: options of that engine.
        names: its voices to use; empty: its English voices, without the cascade's voice if there are others.
        cascade: the configuration whose voice the assistant has in mode cascade.
        out: the evaluation's folder.
        n_most: maximum number of voices, of which the first are used; None: all.

    Raises:
        ConfigError: the engine or a voice does not exist, or the engine has no English voice.
    """

    def __init__(
        self,
        engine: str,
        options: Mapping[str, Any],
        names: Sequence[str],
        cascade: CascadeConfig,
        out: str,
        n_most: int | None = None,
    ) -> None:
        self._tts: TextToSpeech = registry.build("tts", engine, options)
        self._voices = {voice.name: voice for voice in self._tts.list_voices()}
        if missing := [name for name in names if name not in self._voices]:
            raise ConfigError(
                f"{self._tts.name} has no voice {', '.join(missing)}.", f"Choose one of: {', '.join(self._voices)}."
            )
        assistant = (cascade.voice or next(iter(self._voices))) if cascade.tts == engine else None
        english = [name for name, voice in self._voices.items() if voice.language.lower().startswith("en")]
        self.names: list[str] = list(names or [name for name in english if name != assistant] or english)[:n_most]
        if not self.names:
            raise ConfigError(f"{self._tts.name} has no English voice.", "Choose another engine, or name its voices.")
        self._store = Store(out)

    def describe(self) -> dict[str, Any]:
        """Returns everything that affects the audio of questions, as JSON values."""
        digests = {name: self._voices[name].digest for name in self.names}
        return {"engine": self._tts.name, "digest": self._tts.digest, "voices": digests}

    def draw(self, *by: object) -> str:
        """Returns the name of a voice, chosen by a hash: the same arguments give the same voice."""
        return self.names[ids.derive_seed("voice", *by) % len(self.names)]

    def say(self, text: str, voice: str) -> Samples:
        """Returns a text spoken by a voice, float32 [n_samples] at 24 kHz; stored in `out`, so synthesised only once.

        Raises:
            SpeechRefused: the voice cannot say it.
            BackendError: the engine fails.
        """
        name = ids.digest("asked", self._tts.name, self._tts.digest, self._voices[voice].digest, voice, text)
        path = f"asked/{name}.flac"
        if not self._store.exists(path):
            samples = say(self._tts, text, voice, 1.0).samples
            sink = io.BytesIO()
            soundfile.write(sink, np.clip(samples, -1, 1), SAMPLE_RATE_HZ, subtype="PCM_16", format="FLAC")
            self._store.write_bytes(path, sink.getvalue())
        samples, _ = soundfile.read(io.BytesIO(self._store.read_bytes(path)), dtype="float32")
        return np.asarray(samples, np.float32)
