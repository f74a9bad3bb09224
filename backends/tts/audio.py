"""Audio helpers of text-to-speech engines: resampling to 24 kHz, fades and pauses for joining pieces."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from backends.engine import Samples
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples

PAUSE_AFTER_S: Mapping[str, float] = MappingProxyType({".": 0.2, "!": 0.2, "?": 0.2, ",": 0.1, ";": 0.1, ":": 0.1})
"""The silence after a piece of a text, by its last punctuation mark; none after a word without one."""

_FADE_S = 0.005  # avoids clicks if a piece begins or ends inside a sound


def resample_sound(samples: Samples, sample_rate_hz: int) -> Samples:
    """Resamples mono audio of any sample rate to float32 [n_samples] at 24 kHz."""
    import soxr

    if sample_rate_hz == SAMPLE_RATE_HZ:
        return samples.astype(np.float32, copy=False)
    resampled: Samples = soxr.resample(samples.astype(np.float32, copy=False), sample_rate_hz, SAMPLE_RATE_HZ)
    return resampled


def fade_ends(piece: Samples) -> Samples:
    """Returns a copy of a piece of audio with fades of 5 ms at both ends."""
    kept = piece.copy()
    fade = np.linspace(0, 1, min(seconds_to_samples(_FADE_S), kept.size), dtype=np.float32)
    kept[: fade.size] *= fade
    kept[kept.size - fade.size :] *= fade[::-1]
    return kept


def make_pause(piece: str) -> Samples:
    """Makes the silence after a piece, given as text or phonemes, by `PAUSE_AFTER_S`; empty if its end is no mark."""
    return np.zeros(seconds_to_samples(PAUSE_AFTER_S.get(piece[-1:], 0.0)), dtype=np.float32)
