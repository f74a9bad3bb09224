"""What we do to stock moshi from outside, in one place: no compiling on CPU, and a text head tied to the embedding."""

from contextlib import AbstractContextManager, nullcontext

import torch
from moshi.utils.compile import no_compile
from torch import Tensor, nn
from torch.nn import functional


def eager_on_cpu(device: torch.device) -> AbstractContextManager[None]:
    """A block in which moshi compiles nothing by itself on CPU.

    moshi wraps its norms in `torch.compile` when it is imported, unless `NO_TORCH_COMPILE` stands in the environment by
    then; compiling takes longer than a short run on CPU. This switch of moshi's works at the call, so it does not
    matter who imports moshi first.
    """
    return nullcontext() if device.type == "cuda" else no_compile()


class TiedTextHead(nn.Module):
    """Text logits by the text embedding's own weights, in the place of `LMModel.text_linear`.

    The embedding is reached, not owned: it has one name in a state dict, that of `text_emb`.
    """

    def __init__(self, text_emb: nn.Embedding) -> None:
        super().__init__()
        self._text_emb = [text_emb]  # in a list, so that it is not registered a second time

    @property
    def weight(self) -> Tensor:
        """What stock moshi calls `text_linear.weight`: [text_card, dim], all rows but the initial token's."""
        return self._text_emb[0].weight[:-1]

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, S, dim] to [B, S, text_card]."""
        return functional.linear(hidden, self.weight)
