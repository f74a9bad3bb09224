"""How far a sound is from another."""

import numpy as np
import pytest
import torch

from backends.conformance import make_chirps
from kame_model.codec import losses
from kame_model.codec.losses import FLOOR, compute_spectral_distance


def sound(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(make_chirps(seed, 24_000))[None]


def test_a_sound_twice_as_loud_is_the_logarithm_of_two_away() -> None:
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, (1, 24_000)).astype(np.float32))
    distance = compute_spectral_distance(2 * noise, noise)
    assert float(distance.convergence) == pytest.approx(1, abs=1e-3)
    assert float(distance.log_magnitude) == pytest.approx(np.log(2), abs=1e-2)
    assert float(distance.log_mel) == pytest.approx(np.log(2), abs=1e-2)


def test_more_noise_is_farther() -> None:
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (1, 24_000)).astype(np.float32))
    far = [compute_spectral_distance(sound() + level * noise, sound()) for level in (0.001, 0.01, 0.1)]
    assert [float(each.log_mel) for each in far] == sorted(float(each.log_mel) for each in far)
    assert [float(each.convergence) for each in far] == sorted(float(each.convergence) for each in far)


def test_what_nobody_hears_is_no_distance() -> None:
    hiss = FLOOR / 1_000 * torch.randn(1, 24_000, generator=torch.Generator().manual_seed(0))
    distance = compute_spectral_distance(hiss, torch.zeros_like(hiss))
    assert float(distance.log_magnitude) == float(distance.log_mel) == 0


def test_digital_silence_has_a_slope() -> None:
    made = torch.zeros(1, 24_000, requires_grad=True)
    distance = compute_spectral_distance(made, sound())
    (distance.convergence + distance.log_magnitude + distance.log_mel).backward()  # type: ignore[no-untyped-call]
    assert made.grad is not None
    assert bool(torch.isfinite(made.grad).all())


def test_a_distance_that_was_first_only_measured_can_be_trained_on_afterwards() -> None:
    losses._make_mel_filters.cache_clear()
    sound = torch.randn(1, 4_800, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        compute_spectral_distance(sound, 0.5 * sound)
    made = (0.5 * sound).requires_grad_()
    compute_spectral_distance(made, sound).log_mel.backward()  # type: ignore[no-untyped-call]
    assert made.grad is not None
