"""The model built of a preset's shape; the presets themselves stand in `data_schemas/presets.py`."""

from collections.abc import Mapping
from typing import Any

import torch
from moshi.models.lm import LMModel

from data_schemas.config.model import ModelConfig
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.sequence import delays
from kame_model.model.front_end import FrontEnd


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
