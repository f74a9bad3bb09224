"""Codecs for tests: a tiny Mimi of random weights whose codebooks are all used, and codebooks of noise for Codec 2."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel
from moshi.quantization.core_vq import EuclideanCodebook
from torch import Tensor, nn

from backends.codec.codec2 import VocoderCodec
from backends.codec.codec2_learnt import BOOKS, Codebooks
from backends.codec.codec2_neural import WEIGHTS as NETWORKS
from backends.codec.codec2_neural import NeuralVocoder
from backends.codec.double import DoubleCodec
from backends.codec.folder import KWARGS, WEIGHTS
from backends.codec.mimi import Mimi, MimiOptions
from backends.codec.moshi_codec import MoshiCodec
from backends.codec.protocol import Codes
from backends.conformance import make_chirps
from backends.engine import Samples
from data_schemas.code_layout import CodeLayout
from data_schemas.manifest import DATA, MANIFEST

TINY_LAYOUT = CodeLayout.make_mimi(n_codebooks=3, card=32)
"""Of the tiny Mimi."""

_DIM = 16


def count_encoded(
    codec: type[MoshiCodec] | type[DoubleCodec] | type[VocoderCodec], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Returns a list to which `encode` of a class of codecs adds the number of samples of each sound from now on."""
    given: list[int] = []
    encode = codec.encode

    def counting(self: Any, sounds: Sequence[Samples]) -> list[Codes]:
        given.extend(map(len, sounds))
        return encode(self, sounds)

    monkeypatch.setattr(codec, "encode", counting)
    return given


def with_validation(made: Path, folder: Path) -> Path:
    """Copies a dataset into a folder, with its first file of dialogues as validation split, and returns the folder."""
    shutil.copytree(made, folder, ignore=shutil.ignore_patterns(".store"))
    manifest = json.loads((folder / MANIFEST).read_text())
    next(each for each in manifest["shards"] if each["kind"] == DATA)["split"] = "validation"
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def tiny_kwargs(n_codebooks: int = TINY_LAYOUT.n_codebooks) -> dict[str, Any]:
    """Returns Moshi's arguments of a Mimi of some thousand weights, at 12.5 Hz throughout: no resampling of latents."""
    known: dict[str, Any] = loaders._mimi_config
    seanet: dict[str, Any] = {"dimension": _DIM, "n_filters": 2, "n_residual_layers": 0, "ratios": [8, 8, 6, 5]}
    quantizer = {"dimension": 8, "n_q": n_codebooks, "bins": TINY_LAYOUT.card}
    transformer: dict[str, Any] = {"d_model": _DIM, "num_heads": 2, "num_layers": 1, "layer_scale": 0.1, "context": 10}
    transformer |= {"dim_feedforward": 32, "input_dimension": _DIM, "output_dimensions": [_DIM]}
    return {
        **known,
        "seanet": {**known["seanet"], **seanet},
        "quantizer": {**known["quantizer"], **quantizer, "input_dimension": _DIM, "output_dimension": _DIM},
        "transformer": {**known["transformer"], **transformer},
    }


def random_model(kwargs: dict[str, Any], seed: int = 0) -> MimiModel:
    """Makes a model of random weights, with its codebooks where its latents lie, and a sound no louder than speech."""
    torch.manual_seed(seed)
    model = loaders.get_mimi(None, kwargs, num_codebooks=kwargs["quantizer"]["n_q"])
    for module in model.modules():
        if isinstance(module, EuclideanCodebook):
            module.embedding_sum.normal_()
            module._initialized.fill_(1)
    convolutions = [each for each in model.modules() if isinstance(each, nn.Conv1d | nn.ConvTranspose1d)]
    last = [each for each in model.decoder.modules() if isinstance(each, nn.Conv1d)][-1]

    def rescale(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        """Scales weights and output of a layer; with the first weights of Moshi's classes, speech fades in each."""
        scale = (0.1 if module is last else 1.0) / output.std().clamp(min=1e-8)
        module.get_parameter("weight").mul_(scale)
        return output.mul(scale)

    for module in convolutions:
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    hooks = [module.register_forward_hook(rescale) for module in convolutions]
    with torch.no_grad():
        model.decode(model.encode(torch.from_numpy(make_chirps(seed, 10 * 1920))[None, None]))
    for hook in hooks:
        hook.remove()
    return model


def write_mimi(folder: Path, model: MimiModel, kwargs: dict[str, Any]) -> None:
    """Writes a folder that the codec `mimi` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(
        {name: each.contiguous() for name, each in model.state_dict().items()}, folder / WEIGHTS
    )
    (folder / KWARGS).write_text(json.dumps(kwargs))


def open_mimi(folder: Path, n_codebooks: int = TINY_LAYOUT.n_codebooks) -> Mimi:
    """The tiny Mimi of a folder, on the CPU."""
    return Mimi(MimiOptions(path=str(folder), n_codebooks=n_codebooks, device="cpu"))


def tiny_mimi(folder: Path, seed: int = 0) -> Mimi:
    """Writes a tiny Mimi of random weights to a folder, and opens it."""
    kwargs = tiny_kwargs()
    write_mimi(folder, random_model(kwargs, seed), kwargs)
    return open_mimi(folder)


def write_codebooks(folder: Path, n_stages: int, card: int, seed: int = 0) -> None:
    """Writes a folder that the codec `codec2-learnt` reads, with random codebooks near the middle of real speech."""
    draw = np.random.default_rng(seed)
    lines = draw.normal(0, 1, (n_stages, card, 10)).astype(np.float32)
    lines[0] = np.sort(draw.uniform(4, 20, (card, 10)), axis=1)
    voicing, pitch = draw.integers(0, 2, (card, 2, 2)), draw.integers(10, 60, (card, 2))
    power_db = draw.uniform(10, 50, (card, 2)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(Codebooks(lines, voicing, pitch, power_db)._asdict(), folder / BOOKS)


def write_networks(folder: Path, card: int = 16, seed: int = 0) -> None:
    """Writes a folder that the codec `codec2-neural` reads, with small networks of random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = NeuralVocoder(8, card, 6)
        net.mel_mean.fill_(-3)
        net.line_mean.copy_(torch.linspace(4, 20, 10))
        net.prosody[1:] = torch.rand(5, 4) * torch.tensor([8, 8, 8, 2])
    safetensors.torch.save_file(net.state_dict(), folder / NETWORKS)
