"""A Mimi taken apart: how it starts, and what stands in the codebooks' place before there are any."""

from typing import cast

import pytest
import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel
from moshi.modules.conv import NormConv1d, NormConvTranspose1d
from moshi.quantization.vq import SplitResidualVectorQuantizer

from backends.codec.nano_mimi import mimi_kwargs
from backends.conformance import make_chirps
from kame_model.codec.parts import around_codebooks, as_if_coded, latents_of, scale_to, sound_of
from tests.support.codecs import TINY

SOUND = torch.from_numpy(make_chirps(0, 32 * 1920))[None, None]


@pytest.fixture
def model() -> MimiModel:
    torch.manual_seed(0)
    return loaders.get_mimi(None, mimi_kwargs(TINY), num_codebooks=TINY.n_codebooks)


def test_scaled_weights_keep_the_sound_as_loud_as_it_is_through_all_layers(model: MimiModel) -> None:
    scale_to(model, SOUND)
    spreads: list[float] = []
    for module in model.modules():
        if isinstance(module, NormConv1d | NormConvTranspose1d):
            module.register_forward_hook(lambda module, inputs, output: spreads.append(float(output.std())))
    torch.manual_seed(1)
    with torch.no_grad():
        made = sound_of(model, as_if_coded(model, latents_of(model, SOUND)))
    assert len(spreads) == 2 * (2 + len(TINY.ratios))
    assert spreads[:-1] == pytest.approx([1.0] * (len(spreads) - 1), rel=0.3)
    assert float(made.std()) == pytest.approx(float(SOUND.std()), rel=0.3)


def test_the_noise_of_a_path_is_what_its_bits_leave(model: MimiModel) -> None:
    """Five bits for eight dimensions leave 2 ** (-10 / 8) of the variance, ten bits 2 ** (-20 / 8)."""
    latents = torch.randn(64, TINY.dim, 64)
    quantizer = cast(SplitResidualVectorQuantizer, model.quantizer)
    for path, n_codebooks in ((quantizer.rvq_first, 1), (quantizer.rvq_rest, TINY.n_codebooks - 1)):
        other = quantizer.rvq_rest if path is quantizer.rvq_first else quantizer.rvq_first
        with torch.no_grad():
            cast(torch.nn.Conv1d, other.output_proj).weight.zero_()
            cast(torch.nn.Conv1d, path.output_proj).weight.normal_()
            clean = path.output_proj(path.input_proj(latents))
            noise = as_if_coded(model, latents) - clean
        wanted = TINY.card ** (-2 * n_codebooks / TINY.codebook_dim)
        assert float(noise.var() / clean.var()) == pytest.approx(wanted, rel=0.2)


def test_every_weight_is_before_or_after_the_codebooks(model: MimiModel) -> None:
    before, after = around_codebooks(model)
    assert len(before) + len(after) == len(list(model.parameters()))
    assert not {id(each) for each in before} & {id(each) for each in after}
    for weights in before:
        weights.requires_grad_(False)
    assert not latents_of(model, SOUND).requires_grad
