"""Encodes audio as FLAC and decodes it, measures and scales its level, and fades its edges."""

import io
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from data_schemas.errors import StoreError
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples

Sound = NDArray[np.float32]
"""float32 in [-1, 1]: [n_samples] for one channel, [n_samples, 2] for two (A, B)."""

SILENCE_DBFS = -120.0
"""The level that is given for digital silence."""


PEAK_LIMIT = 0.89
"""The largest amplitude after scaling: -1 dBFS, so that players and codecs do not clip."""

EDGE_S = 0.005
"""Duration of the fades from and to digital silence, in seconds; a shorter one is heard as a click."""


def to_flac(sound: Sound) -> bytes:
    """Returns the samples as the bytes of a 16-bit FLAC file at 24 kHz; the same samples give the same bytes."""
    sink = io.BytesIO()
    soundfile.write(sink, sound, SAMPLE_RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def decode_flac(data: bytes) -> Sound:
    """Returns the samples of a FLAC file that `to_flac` made; its sample rate is not checked.

    Raises:
        soundfile.LibsndfileError: the bytes are not an audio file.
    """
    sound: Sound = soundfile.read(io.BytesIO(data), dtype="float32")[0]
    return sound


def measure_rms_dbfs(sound: Sound) -> float:
    """Returns the root mean square level in dB relative to full scale; `SILENCE_DBFS` for silence."""
    return _to_dbfs(float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)))) if sound.size else 0.0)


def measure_peak_dbfs(sound: Sound) -> float:
    """Returns the level of the loudest sample in dB relative to full scale; `SILENCE_DBFS` for silence."""
    return _to_dbfs(float(np.abs(sound).max()) if sound.size else 0.0)


def scale_to_level(sound: Sound, level_dbfs: float, peak_limit: float = PEAK_LIMIT) -> Sound:
    """Returns the audio scaled to an RMS level, or to less if its peak would exceed `peak_limit`.

    Silence is returned unchanged.
    """
    rms = 10 ** (measure_rms_dbfs(sound) / 20)
    peak = float(np.abs(sound).max()) if sound.size else 0.0
    if peak == 0.0:
        return sound
    gain = min(10 ** (level_dbfs / 20) / rms, peak_limit / peak)
    return (sound * gain).astype(np.float32)


def fade_edges(sound: Sound, end_s: float) -> Sound:
    """Returns a copy of a channel that fades in over its first `EDGE_S` seconds and out over its last `end_s`."""
    result = sound.copy()
    n_rise, n_fall = (min(len(sound), seconds_to_samples(each_s)) for each_s in (EDGE_S, end_s))
    result[:n_rise] *= _make_fade_in(n_rise)
    result[len(sound) - n_fall :] *= _make_fade_in(n_fall)[::-1]
    return result


def _make_fade_in(n_samples: int) -> Sound:
    """Returns half a period of a raised cosine, from 0 up to, but not including, 1."""
    return (0.5 - 0.5 * np.cos(np.pi * np.arange(n_samples) / max(n_samples, 1))).astype(np.float32)


def _to_dbfs(amplitude: float) -> float:
    """Returns an amplitude in dB relative to full scale, at least `SILENCE_DBFS`."""
    return round(20 * float(np.log10(amplitude)), 3) if amplitude > 10 ** (SILENCE_DBFS / 20) else SILENCE_DBFS


def save_wav(flac: bytes, path: str | Path) -> None:
    """Writes the audio of FLAC bytes to a 16-bit WAV file, for players that do not support FLAC.

    Raises:
        StoreError: the bytes are not an audio file, or the WAV cannot be written.
    """
    try:
        sound, rate_hz = soundfile.read(io.BytesIO(flac), dtype="int16")
        soundfile.write(path, sound, rate_hz, format="WAV", subtype="PCM_16")
    except (soundfile.LibsndfileError, OSError) as error:
        raise StoreError(
            f"Cannot write the audio to {path}: {error}", "Check that folder, its permissions and its disk space."
        ) from error
