"""Shapes of front-ends, each a function that returns a full configuration, and the model built of one."""

from collections.abc import Mapping
from typing import Any

import torch
from moshi.models.lm import LMModel

from data_schemas.config.model import ModelConfig
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.sequence import delays
from kame_model.model.front_end import FrontEnd


def nano() -> ModelConfig:
    """Trains on a laptop's CPU: 8.8 M parameters with 1,500 pieces and 8 codebooks of 512.

    The temporal shape, the tied oracle and the tied text head are those of a trial that learnt to copy within minutes.
    """
    return ModelConfig(
        preset="nano",
        dim=256,
        num_layers=4,
        num_heads=8,
        context=750,  # 60 s, longer than a dialogue of the demo
        depformer_dim=128,
        depformer_num_layers=1,
        depformer_num_heads=4,
        oracle="tied",
        tie_text_head=True,
    )


def small() -> ModelConfig:
    """Trains on one GPU from scratch: 306 M parameters with 8,000 pieces and Mimi's first 8 codebooks."""
    return ModelConfig(
        preset="small",
        dim=1024,
        num_layers=12,
        num_heads=16,
        context=1500,  # two minutes
        depformer_dim=512,
        depformer_num_layers=3,
        depformer_num_heads=8,
        oracle="tied",
    )


def moshi_7b() -> ModelConfig:
    """Kyutai's Moshi and KAME's front-end, to be started from their weights (moshi/models/loaders.py, `_lm_kwargs`)."""
    return ModelConfig(
        preset="moshi-7b",
        dim=4096,
        num_layers=32,
        num_heads=32,
        context=3000,
        depformer_dim=1024,
        depformer_num_layers=6,
        depformer_num_heads=16,
    )


PRESETS = {"nano": nano, "small": small, "moshi-7b": moshi_7b}
"""By the name that is typed."""


def lm_kwargs(config: ModelConfig, text_card: int, card: int, n_codebooks: int) -> dict[str, Any]:
    """Keyword arguments of `LMModel`: the keys of Kyutai's `_lm_kwargs`, and no others.

    Args:
        text_card: size of the text vocabulary.
        card: entries of a codebook.
        n_codebooks: codebooks of one voice.
    """
    return {
        "dim": config.dim,
        "text_card": text_card,
        "existing_text_padding_id": PADDING_ID,
        "n_q": 2 * n_codebooks,
        "dep_q": n_codebooks,
        "card": card,
        "num_heads": config.num_heads,
        "num_layers": config.num_layers,
        "hidden_scale": config.hidden_scale,
        "causal": True,
        "layer_scale": None,
        "context": config.context,
        "max_period": config.max_period,
        "gating": "silu",
        "norm": "rms_norm_f32",
        "positional_embedding": "rope",
        "depformer_dim": config.depformer_dim,
        "depformer_dim_feedforward": int(config.hidden_scale * config.depformer_dim),
        "depformer_num_heads": config.depformer_num_heads,
        "depformer_num_layers": config.depformer_num_layers,
        "depformer_layer_scale": None,
        "depformer_multi_linear": True,
        "depformer_context": n_codebooks,
        "depformer_max_period": config.max_period,
        "depformer_gating": "silu",
        "depformer_pos_emb": "none",
        "depformer_weights_per_step": True,  # without it stock moshi cannot stream the depth transformer
        "delays": list(delays(n_codebooks)),
    }


def build_lm(
    kwargs: Mapping[str, Any], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> LMModel:
    """A stock `LMModel` with random weights, from torch's global generator."""
    return LMModel(device=device, dtype=dtype, **kwargs)


def build_front_end(
    config: ModelConfig,
    text_card: int,
    card: int,
    n_codebooks: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> FrontEnd:
    """A front-end with random weights, from torch's global generator: seed it first.

    Args:
        config: its shape.
        text_card: size of the text vocabulary.
        card: entries of a codebook.
        n_codebooks: codebooks of one voice.
    """
    kwargs = lm_kwargs(config, text_card, card, n_codebooks)
    return FrontEnd(build_lm(kwargs, device, dtype), config.oracle, kwargs, config.preset, config.tie_text_head)
