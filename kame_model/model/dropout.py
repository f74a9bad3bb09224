"""Keeping a model in training from its own past, so that the oracle is the shorter way to the next word."""

import torch
from torch import Tensor

from data_schemas.config.model import InputDropoutConfig
from kame_model.frames.ids import ZERO_ID


def drop_inputs(inputs: Tensor, config: InputDropoutConfig, generator: torch.Generator) -> Tensor:
    """The temporal transformer's input with some ids replaced by the zero token, which has no vector.

    Args:
        inputs: [B, 1 + 2n, S] `columns[..., :-1]` of a batch; not changed.
        config: the shares; the first column is never dropped.
        generator: on the CPU, wherever `inputs` is; as many numbers are drawn whatever the shares.
    """
    n_dialogues, n_rows, n_positions = inputs.shape
    n_codebooks = (n_rows - 1) // 2
    text = torch.rand(n_dialogues, 1, n_positions, generator=generator) < config.text
    frames = torch.rand(n_dialogues, 1, n_positions, generator=generator) < config.own_audio
    dialogues = torch.rand(n_dialogues, 1, 1, generator=generator) < config.own_audio_dialogue
    own = (frames | dialogues).expand(-1, n_codebooks, -1)
    dropped = torch.cat([text, own, torch.zeros_like(own)], dim=1)
    dropped[..., 0] = False
    return inputs.masked_fill(dropped.to(inputs.device), ZERO_ID)
