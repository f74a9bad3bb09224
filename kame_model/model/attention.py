"""Faster attention over whole sequences in training, instead of moshi's call with a mask.

moshi passes the mask as a tensor, [1, 1, S, S], which PyTorch's flash attention kernels do not support. If a sequence
is not longer than the model's context, the mask is causal and `is_causal` is used instead (`CausalScores`); longer
sequences keep their mask.

On a CPU in bf16 all scores are stored (`WholeScores`), because PyTorch 2.13's fused kernel is slower there. On one
core of an AMD EPYC, forward and backward, 5 x 8 heads x 381 positions x 32 in bf16: fused 49 ms, whole scores 22 ms;
the depth transformer's 1,905 x 4 x 6 x 32: 50 and 19 ms. In float32 the fused kernel is faster for long
sequences (41 and 46 ms; these fused figures are with a mask).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Computes scaled dot-product attention, storing the scores of all pairs of positions; returns [B, H, S, D].

    Args:
        query, key, value: [B, H, S, D].
        mask: bool[B or 1, 1, S, S], True for visible positions; the same for the whole batch.
    """
    bias = torch.zeros_like(mask[0], dtype=query.dtype).masked_fill_(~mask[0], float("-inf"))  # [1, S, S]
    rows, columns = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
    scores = torch.baddbmm(bias, rows, columns, alpha=query.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1).to(value.dtype), value.flatten(0, 1)).view_as(query)


def choose_attention(device_type: str, context: int) -> TorchFunctionMode:
    """Returns the context manager with the fastest attention for the device and the current autocast state.

    Activations that are recomputed in the backward pass need the same context manager.

    Args:
        context: attention window in positions, including the current one.
    """
    is_mixed_on_cpu = device_type == "cpu" and torch.is_autocast_enabled("cpu")
    return WholeScores() if is_mixed_on_cpu else CausalScores(context)


class CausalScores(TorchFunctionMode):
    """Context manager that replaces the mask of moshi's attention by `is_causal` where both are the same.

    Not for streaming, which uses a ring buffer of positions.

    Args:
        context: attention window in positions, including the current one; the depth transformer sees a whole frame.
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
        """Calls every function of PyTorch unchanged, except scaled_dot_product_attention."""
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and len(args) == 4 and args[3] is not None:
            n_queries, n_keys = args[0].shape[-2], args[1].shape[-2]
            if n_queries == n_keys <= self._context:
                return func(*args[:3], is_causal=True, **kwargs)
        return func(*args, **kwargs)


class WholeScores(TorchFunctionMode):
    """Context manager in which moshi's attention over whole sequences in bf16 is computed by `attend`."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # of any function of PyTorch
        """Calls every function of PyTorch unchanged, except scaled_dot_product_attention."""
        if func is functional.scaled_dot_product_attention and args[0].dtype == torch.bfloat16:
            return attend(*args[:4])
        return func(*args, **(kwargs or {}))
