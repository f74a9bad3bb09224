"""Low-rank adapters, by moshi's own `LoRALinear`: put beside every linear layer, and merged into it for export."""

import torch
from moshi.modules.lora import LoRALinear, replace_all_linear_with_lora, replace_lora_with_linear
from torch import nn

from data_schemas.config.model import LoraConfig
from kame_model.model.front_end import FrontEnd


def add_lora(front_end: FrontEnd, config: LoraConfig, frozen_type: torch.dtype = torch.float32) -> None:
    """Puts adapters beside all linear layers of the `LMModel`, and freezes all but them and the oracle embedding.

    A new adapter changes nothing: its second matrix is zero (Hu et al., arXiv 2106.09685, section 4.1). A tied text
    head is no linear layer and gets none.

    Args:
        frozen_type: of the matrices beside which adapters stand. With bf16, computing under autocast to bf16 stays the
            same to the last bit: it rounds them so at each product. All else keeps its type.
    """
    replace_all_linear_with_lora(front_end.lm, config.rank, config.scaling)
    for module in front_end.lm.modules():
        if isinstance(module, LoRALinear):
            nn.init.zeros_(module.lora_B.weight)  # moshi leaves it random: it only ever loads trained ones
            module.frozen_W.to(frozen_type)
    for name, parameter in front_end.lm.named_parameters():
        embedding = name.split(".")[0].endswith("emb")
        parameter.requires_grad_(".lora_" in name or (config.train_embeddings and embedding))


def merge_lora(front_end: FrontEnd) -> bool:
    """Adds adapters into the weights beside which they stand, as plain linear layers again; whether there were any."""
    has_lora = any(isinstance(module, LoRALinear) for module in front_end.lm.modules())
    if has_lora:
        replace_lora_with_linear(front_end.lm)  # type: ignore[no-untyped-call]
        front_end.lm.requires_grad_(True)
    return has_lora
