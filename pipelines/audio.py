"""Sound to FLAC bytes and back, and how loud it is."""

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
"""What the level of digital silence is written as."""


PEAK_LIMIT = 0.89
"""The greatest amplitude that a sound is brought to: -1 dBFS, so that players and codecs do not clip it."""

EDGE_S = 0.005
"""How long a sound takes to rise out of digital silence and to fall into it: shorter is heard as a click."""


def to_flac(sound: Sound) -> bytes:
    """16-bit FLAC at 24 kHz; the same sound gives the same bytes."""
    sink = io.BytesIO()
    soundfile.write(sink, sound, SAMPLE_RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def decode_flac(data: bytes) -> Sound:
    """The sound in a FLAC file of ours."""
    sound: Sound = soundfile.read(io.BytesIO(data), dtype="float32")[0]
    return sound


def measure_rms_dbfs(sound: Sound) -> float:
    """Root mean square level in dB below full scale."""
    return _to_dbfs(float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)))) if sound.size else 0.0)


def measure_peak_dbfs(sound: Sound) -> float:
    """The loudest sample in dB below full scale."""
    return _to_dbfs(float(np.abs(sound).max()) if sound.size else 0.0)


def scale_to_level(sound: Sound, level_dbfs: float, peak_limit: float = PEAK_LIMIT) -> Sound:
    """The sound brought to an RMS level, or as near as its peak can go without clipping (-1 dBFS)."""
    rms = 10 ** (measure_rms_dbfs(sound) / 20)
    peak = float(np.abs(sound).max()) if sound.size else 0.0
    if peak == 0.0:
        return sound
    gain = min(10 ** (level_dbfs / 20) / rms, peak_limit / peak)
    return (sound * gain).astype(np.float32)


def fade_edges(sound: Sound, end_s: float) -> Sound:
    """A copy of a channel that rises from silence in `EDGE_S` and falls into it in its last `end_s` seconds."""
    result = sound.copy()
    n_rise, n_fall = (min(len(sound), seconds_to_samples(each_s)) for each_s in (EDGE_S, end_s))
    result[:n_rise] *= _make_fade_in(n_rise)
    result[len(sound) - n_fall :] *= _make_fade_in(n_fall)[::-1]
    return result


def _make_fade_in(n_samples: int) -> Sound:
    """Half a period of a raised cosine, from 0 up to, but not including, 1."""
    return (0.5 - 0.5 * np.cos(np.pi * np.arange(n_samples) / max(n_samples, 1))).astype(np.float32)


def _to_dbfs(amplitude: float) -> float:
    return round(20 * float(np.log10(amplitude)), 3) if amplitude > 10 ** (SILENCE_DBFS / 20) else SILENCE_DBFS


def save_wav(flac: bytes, path: str | Path) -> None:
    """Writes a FLAC file's sound as 16-bit wav, for players that know no FLAC.

    Raises:
        StoreError: the bytes are no sound file, or the wav cannot be written.
    """
    try:
        sound, rate_hz = soundfile.read(io.BytesIO(flac), dtype="int16")
        soundfile.write(path, sound, rate_hz, format="WAV", subtype="PCM_16")
    except (soundfile.LibsndfileError, OSError) as error:
        raise StoreError(
            f"Cannot write the sound to {path}: {error}", "Look at that folder, its rights and its disk."
        ) from error
