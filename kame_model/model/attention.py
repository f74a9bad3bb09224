"""Attention for training in bf16 on a CPU: the scores kept whole, in the place of PyTorch's fused kernel.

PyTorch 2.13's fused kernel is the slower one in bf16. On one core of an AMD EPYC, forward and backward,
5 x 8 heads x 381 positions x 32 in bf16: fused 49 ms, whole scores 22 ms; the depth transformer's 1,905 x 4 x 6 x 32:
50 and 19 ms. In float32 the fused kernel is the faster one over long sequences (41 and 46 ms).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention, [B, H, S, D].

    Args:
        query, key, value: [B, H, S, D].
        mask: bool[B or 1, 1, S, S], True where a position is seen; the same for the whole batch.
    """
    bias = torch.zeros_like(mask[0], dtype=query.dtype).masked_fill_(~mask[0], float("-inf"))  # [1, S, S]
    rows, columns = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
    scores = torch.baddbmm(bias, rows, columns, alpha=query.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1).to(value.dtype), value.flatten(0, 1)).view_as(query)


class WholeScores(TorchFunctionMode):
    """A block in which moshi's attention over whole sequences is `attend` wherever it is in bf16."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # of any function of PyTorch
        """Every function as it is, but the one."""
        if func is functional.scaled_dot_product_attention and args[0].dtype == torch.bfloat16:
            return attend(*args[:4])
        return func(*args, **(kwargs or {}))
