"""What every engine's sound goes through on its way to `Speech`: one rate."""

import numpy as np

from backends.protocols import Samples
from data_schemas.units import SAMPLE_RATE_HZ


def at_our_rate(samples: Samples, sample_rate_hz: int) -> Samples:
    """Mono sound of any rate, as float32 [n_samples] at 24 kHz."""
    import soxr

    if sample_rate_hz == SAMPLE_RATE_HZ:
        return samples.astype(np.float32, copy=False)
    resampled: Samples = soxr.resample(samples.astype(np.float32, copy=False), sample_rate_hz, SAMPLE_RATE_HZ)
    return resampled
