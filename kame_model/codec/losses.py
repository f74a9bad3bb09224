"""Spectral distance between two sounds: magnitudes of short-time spectra (STFT) at several resolutions.

The distance at one resolution is that of Yamamoto et al. 2020 (Parallel WaveGAN, equations 5 and 6): spectral
convergence, and the absolute difference of log magnitudes. The same difference of log-mel magnitudes is added, which
weights low frequency bands as human hearing does (as in EnCodec and DAC).
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from data_schemas.units import SAMPLE_RATE_HZ

RESOLUTIONS: tuple[tuple[int, int], ...] = ((256, 20), (512, 40), (1024, 80))
"""Window in samples (hop: a quarter of it) and number of mel bands."""

FLOOR = 10 ** (-70 / 20)
"""Smaller magnitudes (below -70 dBFS) are clamped to this: they are inaudible, and the logarithm of 0 is undefined."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The terms of the distance: scalars, each a mean over the resolutions, with natural logarithms."""

    convergence: Tensor
    log_magnitude: Tensor
    log_mel: Tensor


def compute_spectral_distance(made: Tensor, true: Tensor) -> Distance:
    """Returns the spectral distance of audio [B, n_samples] at 24 kHz, as means over all resolutions.

    Spectral convergence is relative to `true`. Both must have more samples than half the longest window.
    """
    parts = [_compute_distance_at(made, true, n_window, n_mels) for n_window, n_mels in RESOLUTIONS]
    convergence, log_magnitude, log_mel = (torch.stack(part).mean() for part in zip(*parts, strict=True))
    return Distance(convergence, log_magnitude, log_mel)


def _compute_distance_at(made: Tensor, true: Tensor, n_window: int, n_mels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns spectral convergence, log-magnitude and log-mel distance at one resolution, as scalars."""
    made_magnitude, true_magnitude = _compute_magnitude(made, n_window), _compute_magnitude(true, n_window)
    filters = _make_mel_filters(n_window, n_mels).to(made_magnitude)
    convergence = (made_magnitude - true_magnitude).norm() / true_magnitude.norm().clamp(min=FLOOR)
    return (
        convergence,
        (_log(made_magnitude) - _log(true_magnitude)).abs().mean(),
        (_log(filters @ made_magnitude) - _log(filters @ true_magnitude)).abs().mean(),
    )


def _log(magnitude: Tensor) -> Tensor:
    """Returns the natural logarithm of magnitudes, of which smaller ones count as `FLOOR`."""
    return magnitude.clamp(min=FLOOR).log()


def _compute_magnitude(sound: Tensor, n_window: int) -> Tensor:
    """Returns magnitudes [B, n_window / 2 + 1, n]; a sine of amplitude 1 at a bin's frequency gives 1 there."""
    window = torch.hann_window(n_window, device=sound.device)
    spectrum = torch.stft(sound, n_window, n_window // 4, window=window, return_complex=True)
    # The square root has no gradient at 0, which digital silence gives.
    power = spectrum.real.square() + spectrum.imag.square()
    return (power + FLOOR**2 * 1e-4).sqrt() * (2 / float(window.sum()))


@cache
def _make_mel_filters(n_window: int, n_mels: int) -> Tensor:
    """Returns [n_mels, n_window / 2 + 1] triangles of height 1, evenly spaced in mel (HTK: 2595 log10(1 + f / 700))."""
    with torch.inference_mode(False):  # cached, and used in training too
        top_mel = 2595 * torch.log10(torch.tensor(1 + SAMPLE_RATE_HZ / 2 / 700))
        edges_hz = 700 * (10 ** (torch.linspace(0, 1, n_mels + 2) * top_mel / 2595) - 1)
        bins_hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, n_window // 2 + 1)
        rise = (bins_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
        fall = (edges_hz[2:, None] - bins_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
        return torch.minimum(rise, fall).clamp(min=0)
