"""What engines' sound goes through on its way to `Speech`: one rate, and joins that are not heard."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from backends.engine import Samples
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples

PAUSE_AFTER_S: Mapping[str, float] = MappingProxyType({".": 0.2, "!": 0.2, "?": 0.2, ",": 0.1, ";": 0.1, ":": 0.1})
"""The silence after a piece of a text, by the mark that it ends with; none after a word without one."""

_FADE_S = 0.005  # so that a piece that begins or ends inside a sound makes no click


def at_our_rate(samples: Samples, sample_rate_hz: int) -> Samples:
    """Mono sound of any rate, as float32 [n_samples] at 24 kHz."""
    import soxr

    if sample_rate_hz == SAMPLE_RATE_HZ:
        return samples.astype(np.float32, copy=False)
    resampled: Samples = soxr.resample(samples.astype(np.float32, copy=False), sample_rate_hz, SAMPLE_RATE_HZ)
    return resampled


def faded(piece: Samples) -> Samples:
    """A copy of a piece of sound that rises from silence and falls into it in 5 ms."""
    kept = piece.copy()
    fade = np.linspace(0, 1, min(seconds_to_samples(_FADE_S), kept.size), dtype=np.float32)
    kept[: fade.size] *= fade
    kept[kept.size - fade.size :] *= fade[::-1]
    return kept


def pause_after(piece: str) -> Samples:
    """The silence between a piece, written as text or phonemes, and the next one."""
    return np.zeros(seconds_to_samples(PAUSE_AFTER_S.get(piece[-1:], 0.0)), dtype=np.float32)
