"""Moonshine tiny-en: the embedded speech recognition (English, CPU, model in the wheel) for whole recordings.

Ten seconds of speech take a third of a second on one core, of babble on which it gets into a loop up to 0.7. It writes
as people do ("$2", "25"), so texts must be made speakable before they are compared.

The engine itself ends a transcript of more than 6.5 tokens per second of audio (`max_tokens_per_second`). A limit of 5
would save an eighth of the time for babble, but would cut off the end of 1 in 18 utterances of ordinary speech.
"""

import os
import threading
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from backends.engine import INSTALL_SPEECH, Samples
from data_schemas import ids
from data_schemas.errors import BackendError

_RECIPE = 2
"""Version of this file's processing of audio and text; raise it when transcripts could change."""

_ENGINE = ("moonshine-voice", "soxr")

_MODEL_RATE_HZ = 16_000
_OPTIONS = {
    "return_audio_data": "false",  # not needed, and takes time
    "identify_speakers": "false",  # the same
    "vad_threshold": "0",  # with it, lines differ between calls: 1 of 20 clips heard 6 times; without it, none
}
_SINGLE_THREAD = "MOONSHINE_ORT_SINGLE_THREAD"
"""Read by Moonshine when it loads a model. With its own threads it takes twice the CPU time, as they spin."""
_loading = threading.Lock()
_MAX_PIECE_S = 28.0
"""The model was trained on up to 30 s; longer recordings are split where they are quietest."""
_QUIET_S = 0.1


class Moonshine:
    """Transcribes English speech; one model per process, loaded on first use."""

    name = "moonshine"
    max_calls_in_flight = 1

    @property
    def digest(self) -> str:
        """Digest of the versions of the engine, whose wheel contains the model, and the resampler, and of `_RECIPE`."""
        return ids.digest("moonshine tiny-en", _RECIPE, [[name, version(name)] for name in _ENGINE])

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """Transcribes a recording of any length, with capitals and punctuation; empty if nothing is recognised.

        Raises:
            BackendError: the model does not load, or fails on this recording.
        """
        import soxr
        from moonshine_voice.errors import MoonshineError  # type: ignore[import-untyped]

        sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
        try:
            heard = [_transcribe(piece) for piece in split_sound(sound)]
        except MoonshineError as error:
            raise BackendError(
                f"Moonshine failed on {len(samples)} samples: {error}.",
                "Run again; if it fails again, choose another recogniser: kame backends",
            ) from error
        return " ".join(text for text in heard if text)


def split_sound(sound: Samples) -> Iterator[Samples]:
    """Yields audio at 16 kHz in pieces of at most 28 s, cut at the quietest tenth of a second of their second half."""
    n_most, n_quiet = int(_MAX_PIECE_S * _MODEL_RATE_HZ), int(_QUIET_S * _MODEL_RATE_HZ)
    while len(sound) > n_most:
        later = sound[n_most // 2 : n_most]
        power = np.square(later[: len(later) // n_quiet * n_quiet].reshape(-1, n_quiet)).mean(axis=1)
        cut = n_most // 2 + int(power.argmin()) * n_quiet + n_quiet // 2
        yield sound[:cut]
        sound = sound[cut:]
    yield sound


def _transcribe(sound: Samples) -> str:
    """Transcribes at most 28 s of audio at 16 kHz; empty if nothing is recognised."""
    stream = load_transcriber().create_stream()  # a new one each time: the whole-file call remembers the last recording
    stream.start()
    stream.add_audio(sound.tolist(), _MODEL_RATE_HZ)
    transcript = stream.stop()
    stream.close()
    return " ".join(line.text.strip() for line in transcript.lines if line.text.strip())


@cache
def load_transcriber() -> Any:
    """Loads Moonshine's model for one thread on the first call; all calls return the same one.

    Raises:
        BackendError: it does not load.
    """
    import moonshine_voice  # type: ignore[import-untyped]
    from moonshine_voice.errors import MoonshineError
    from moonshine_voice.transcriber import Transcriber  # type: ignore[import-untyped]

    folder = Path(moonshine_voice.__file__).parent / "assets" / "tiny-en"
    with _loading:
        before = os.environ.get(_SINGLE_THREAD)
        os.environ[_SINGLE_THREAD] = "1"
        try:
            return Transcriber(model_path=folder, model_arch=moonshine_voice.ModelArch.TINY, options=_OPTIONS)
        except MoonshineError as error:
            here = version("moonshine-voice")
            raise BackendError(
                f"Moonshine's model does not load from {folder} (moonshine-voice {here}): {error}.",
                f"{INSTALL_SPEECH} Only moonshine-voice 0.1.0 contains the model.",
            ) from error
        finally:
            if before is None:
                del os.environ[_SINGLE_THREAD]
            else:
                os.environ[_SINGLE_THREAD] = before
