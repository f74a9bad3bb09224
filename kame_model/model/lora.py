"""LoRA adapters with moshi's `LoRALinear`: added to every linear layer, and merged into it for export."""

import torch
from moshi.modules.lora import LoRALinear, replace_all_linear_with_lora, replace_lora_with_linear
from torch import nn

from data_schemas.config.model import LoraConfig
from kame_model.model.front_end import FrontEnd


def add_lora(front_end: FrontEnd, config: LoraConfig, frozen_type: torch.dtype = torch.float32) -> None:
    """Adds adapters to all linear layers of the `LMModel`, and freezes its other weights.

    With `config.train_embeddings`, the embeddings of the `LMModel` stay trainable. The embeddings of the oracle and of
    the cue are outside the `LMModel` and are not changed.

    A new adapter does not change the output: its second matrix is zero (Hu et al., arXiv 2106.09685, section 4.1). A
    tied text head is not a linear layer and gets no adapter.

    Args:
        frozen_type: type of the frozen matrices with adapters. With bf16, results under autocast to bf16 are identical,
            because autocast rounds them at each product anyway. All other weights keep their type.
    """
    replace_all_linear_with_lora(front_end.lm, config.rank, config.scaling)
    for module in front_end.lm.modules():
        if isinstance(module, LoRALinear):
            nn.init.zeros_(module.lora_B.weight)  # moshi leaves it random, because it only loads trained adapters
            module.frozen_W.to(frozen_type)
    for name, parameter in front_end.lm.named_parameters():
        embedding = name.split(".")[0].endswith("emb")
        parameter.requires_grad_(".lora_" in name or (config.train_embeddings and embedding))


def merge_lora(front_end: FrontEnd) -> bool:
    """Merges adapters into their linear layers and removes them; returns whether there were any.

    If there were, all weights of the `LMModel` become trainable.
    """
    has_lora = any(isinstance(module, LoRALinear) for module in front_end.lm.modules())
    if has_lora:
        replace_lora_with_linear(front_end.lm)  # type: ignore[no-untyped-call]
        front_end.lm.requires_grad_(True)
    return has_lora
