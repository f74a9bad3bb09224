"""A `MimiModel` taken apart for its training: moshi's own forward always goes through the codebooks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from moshi.models.compression import MimiModel
from moshi.quantization.core_vq import EuclideanCodebook
from moshi.quantization.vq import SplitResidualVectorQuantizer
from torch import Tensor, nn

_CONVOLUTIONS = (nn.Conv1d, nn.ConvTranspose1d)


def latents_of(model: MimiModel, sound: Tensor) -> Tensor:
    """[B, 1, n_samples] to [B, dim, n_frames], before the codebooks."""
    (latents,) = cast(nn.Module, model.encoder_transformer)(model.encoder(sound))
    return cast(Tensor, latents)


def as_if_coded(model: MimiModel, latents: Tensor) -> Tensor:
    """[B, dim, n_frames] through the projections around the codebooks, with noise in the codebooks' place.

    The noise is what the best code of as many bits would leave of a Gaussian of the same variance, 2 ** (-2 bits) for
    each dimension (Shannon's rate-distortion bound), so that each path learns to carry no more than its codebooks will:
    the first one, of a single codebook, little.
    """
    quantizer = cast(SplitResidualVectorQuantizer, model.quantizer)
    passed = latents.new_zeros(())
    for path in (quantizer.rvq_first, quantizer.rvq_rest):
        wanted = path.input_proj(latents)
        left = path.bins ** (-path.max_n_q / wanted.shape[1])  # of the standard deviation
        spread = wanted.detach().std(dim=(0, 2), keepdim=True)
        passed = passed + path.output_proj(wanted + left * spread * torch.randn_like(wanted))
    return passed


def sound_of(model: MimiModel, latents: Tensor) -> Tensor:
    """[B, dim, n_frames], after the codebooks, to [B, 1, n_samples]."""
    (decoded,) = cast(nn.Module, model.decoder_transformer)(latents)
    return cast(Tensor, model.decoder(decoded))


def codebooks_of(model: MimiModel) -> list[EuclideanCodebook]:
    """The codebooks, first to last."""
    return [each for each in model.modules() if isinstance(each, EuclideanCodebook)]


def around_codebooks(model: MimiModel) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """All weights: those before the codebooks, which decide the codes, and those after them."""
    quantizer = cast(SplitResidualVectorQuantizer, model.quantizer)
    both = (quantizer.rvq_first, quantizer.rvq_rest)
    encoder: list[Any] = [model.encoder, model.encoder_transformer, *(each.input_proj for each in both)]
    before = [weights for part in encoder for weights in part.parameters()]
    known = {id(weights) for weights in before}
    return before, [weights for weights in model.parameters() if id(weights) not in known]


def scale_to(model: MimiModel, sound: Tensor) -> None:
    """Scales every convolution so that what leaves it has variance 1, and the last so that it is as loud as `sound`.

    Moshi's classes start with PyTorch's weights, under which speech, itself far below 1, shrinks from layer to layer
    until biases are all there is: Mimi has a million steps to leave that, nano-mimi a thousand. This is the start of
    Mishkin and Matas, "All you need is a good init" (2015), less its orthogonal matrices.
    """
    last = [each for each in model.decoder.modules() if isinstance(each, _CONVOLUTIONS)][-1]
    with torch.no_grad(), _hooked(model, lambda module: sound.std() if module is last else sound.new_ones(())):
        sound_of(model, as_if_coded(model, latents_of(model, sound)))


@contextmanager
def _hooked(model: MimiModel, wanted_std: Callable[[nn.Module], Tensor]) -> Iterator[None]:
    def rescale(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        scale = wanted_std(module) / output.std().clamp(min=1e-8)
        cast(Tensor, module.weight).mul_(scale)
        return output.mul(scale)

    hooks = []
    for module in model.modules():
        if isinstance(module, _CONVOLUTIONS):
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            hooks.append(module.register_forward_hook(rescale))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
