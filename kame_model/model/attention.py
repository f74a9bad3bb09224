"""Attention over whole sequences in training, in the place of moshi's call with a mask.

moshi writes the mask out, [1, 1, S, S], and PyTorch's flash kernels take none. Where all that comes before a position
is within the model's context, the mask is the causal one, and the same is asked for by name (`CausalScores`); sequences
that are longer than the context keep their mask.

On a CPU in bf16 the scores are kept whole (`WholeScores`): PyTorch 2.13's fused kernel is the slower one there. On one
core of an AMD EPYC, forward and backward, 5 x 8 heads x 381 positions x 32 in bf16: fused 49 ms, whole scores 22 ms;
the depth transformer's 1,905 x 4 x 6 x 32: 50 and 19 ms. In float32 the fused kernel is the faster one over long
sequences (41 and 46 ms; these fused figures are with a mask).
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


def choose_attention(device_type: str, context: int) -> TorchFunctionMode:
    """A block in which attention over whole sequences is computed as suits the device, and autocast as it is now.

    What is computed again in the backward pass needs a block of the same kind.

    Args:
        context: positions that the model looks back, itself included.
    """
    is_mixed_on_cpu = device_type == "cpu" and torch.is_autocast_enabled("cpu")
    return WholeScores() if is_mixed_on_cpu else CausalScores(context)


class CausalScores(TorchFunctionMode):
    """A block in which moshi's attention over whole sequences has no mask where it only hides what comes later.

    Not for streaming, whose positions are those of a ring.

    Args:
        context: positions that the model looks back, itself included; the depth transformer sees all of a frame.
    """

    def __init__(self, context: int) -> None:
        super().__init__()
        self._context = context

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # of any function of PyTorch
        """Every function as it is, but the one."""
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and len(args) == 4 and args[3] is not None:
            n_queries, n_keys = args[0].shape[-2], args[1].shape[-2]
            if n_queries == n_keys <= self._context:
                return func(*args[:3], is_causal=True, **kwargs)
        return func(*args, **kwargs)


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
