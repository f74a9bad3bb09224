"""Codecs for tests: `nano-mimi` at its smallest, with random weights and codebooks that are all used."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel

from backends.codec.double import DoubleCodec
from backends.codec.folder import write_folder
from backends.codec.moshi_codec import MoshiCodec
from backends.codec.nano_mimi import NanoMimi, NanoMimiOptions, mimi_kwargs
from backends.codec.protocol import Codes
from backends.conformance import make_chirps
from backends.engine import Samples
from data_schemas.code_layout import CodeLayout
from data_schemas.config.codec import NanoMimiConfig
from data_schemas.manifest import DATA, MANIFEST
from data_schemas.store import Store
from kame_model.codec.parts import codebooks_of, scale_to

TINY = NanoMimiConfig(
    n_codebooks=3,
    card=32,
    codebook_dim=8,
    dim=16,
    n_filters=2,
    n_residual_layers=0,
    n_layers=1,
    n_heads=2,
    dim_feedforward=32,
    context=10,
)
TINY_LAYOUT = CodeLayout.of_mimi(TINY.n_codebooks, TINY.card)


def count_encoded(codec: type[MoshiCodec] | type[DoubleCodec], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples codecs of a class are given from now on, sound by sound."""
    given: list[int] = []
    encode = codec.encode

    def counting(self: Any, sounds: Sequence[Samples]) -> list[Codes]:
        given.extend(map(len, sounds))
        return encode(self, sounds)

    monkeypatch.setattr(codec, "encode", counting)
    return given


def with_validation(made: Path, folder: Path) -> Path:
    """A copy of a dataset whose first file of dialogues counts as its validation split."""
    shutil.copytree(made, folder, ignore=shutil.ignore_patterns(".store"))
    manifest = json.loads((folder / MANIFEST).read_text())
    next(each for each in manifest["shards"] if each["kind"] == DATA)["split"] = "validation"
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def random_model(kwargs: dict[str, Any], seed: int = 0) -> MimiModel:
    """A model of random weights whose codebooks lie where its latents do."""
    torch.manual_seed(seed)
    model = loaders.get_mimi(None, kwargs, num_codebooks=kwargs["quantizer"]["n_q"])
    scale_to(model, torch.from_numpy(make_chirps(seed, 10 * 1920))[None, None])
    for codebook in codebooks_of(model):
        codebook.embedding_sum.normal_()
        codebook._initialized.fill_(1)
    return model


def tiny_nano_mimi(folder: Path, seed: int = 0) -> NanoMimi:
    """A codec of random weights, written to `folder`."""
    kwargs = mimi_kwargs(TINY)
    write_folder(random_model(kwargs, seed), kwargs, Store(str(folder)))
    return NanoMimi(NanoMimiOptions(path=str(folder)))
