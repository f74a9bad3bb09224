"""Moonshine tiny-en: the embedded recogniser (English, CPU, model in the wheel), for whole recordings.

Ten seconds of speech take about half a second on one core. It writes as people do ("$2", "25"), so texts must be made
speakable before they are compared.
"""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from backends.engine import Samples
from data_schemas import ids
from data_schemas.errors import BackendError

_RECIPE = 2
"""Version of what this file does to sound and text; raise it when what is heard could change."""

_ENGINE = ("moonshine-voice", "soxr")

_MODEL_RATE_HZ = 16_000
_OPTIONS = {
    "return_audio_data": "false",  # not wanted, and costs time
    "identify_speakers": "false",  # the same
    "vad_threshold": "0",  # its lines differ from call to call: of 20 clips heard 6 times, 1 changed; now none
}
_MAX_PIECE_S = 28.0
"""The model was trained on up to 30 s; longer recordings are cut where they are quietest."""
_QUIET_S = 0.1


class Moonshine:
    """Writes down English speech; one model a process, loaded when first needed."""

    name = "moonshine"
    max_calls_in_flight = 1

    @property
    def digest(self) -> str:
        """The versions of the engine, whose wheel holds the model, and of the resampler; and this file's recipe."""
        return ids.digest("moonshine tiny-en", _RECIPE, [[name, version(name)] for name in _ENGINE])

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        """What is said in the recording, of any length, with capitals and punctuation; empty where nothing is heard.

        Raises:
            BackendError: the model does not load, or fails on this recording.
        """
        import soxr
        from moonshine_voice.errors import MoonshineError  # type: ignore[import-untyped]

        sound = soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ)
        try:
            heard = [_heard(piece) for piece in pieces(sound)]
        except MoonshineError as error:
            raise BackendError(f"Moonshine failed on {len(samples)} samples: {error}.", "Type: make install") from error
        return " ".join(text for text in heard if text)


def pieces(sound: Samples) -> Iterator[Samples]:
    """A recording at 16 kHz in pieces of at most 28 s, cut in the quietest tenth of a second of their later half."""
    n_most, n_quiet = int(_MAX_PIECE_S * _MODEL_RATE_HZ), int(_QUIET_S * _MODEL_RATE_HZ)
    while len(sound) > n_most:
        later = sound[n_most // 2 : n_most]
        power = np.square(later[: len(later) // n_quiet * n_quiet].reshape(-1, n_quiet)).mean(axis=1)
        cut = n_most // 2 + int(power.argmin()) * n_quiet + n_quiet // 2
        yield sound[:cut]
        sound = sound[cut:]
    yield sound


def _heard(sound: Samples) -> str:
    stream = _transcriber().create_stream()  # a new one each: the whole-file call remembers the last recording
    stream.start()
    stream.add_audio(sound.tolist(), _MODEL_RATE_HZ)
    transcript = stream.stop()
    stream.close()
    return " ".join(line.text.strip() for line in transcript.lines if line.text.strip())


@cache
def _transcriber() -> Any:
    import moonshine_voice  # type: ignore[import-untyped]
    from moonshine_voice.transcriber import Transcriber  # type: ignore[import-untyped]

    folder = Path(moonshine_voice.__file__).parent / "assets" / "tiny-en"
    if not folder.is_dir():
        raise BackendError(
            f"The installed moonshine-voice has no model in {folder}.",
            "Install moonshine-voice==0.1.0: it carries one.",
        )
    return Transcriber(model_path=folder, model_arch=moonshine_voice.ModelArch.TINY, options=_OPTIONS)
