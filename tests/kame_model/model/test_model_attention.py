"""Attention with whole scores beside PyTorch's own, and a front-end trained with it."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from kame_model.frames.batch import Batch
from kame_model.model.attention import WholeScores, attend
from kame_model.model.front_end import FrontEnd
from tests.support.front_ends import audio_of, random_batch, stock_logits, tiny_front_end


def gradients(model: FrontEnd, batch: Batch) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(batch.columns, batch.oracle)
    (logits.text.float().square().mean() + audio_of(logits).float().square().mean()).backward()
    return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


@pytest.mark.parametrize("n_batch", [1, 3])
def test_whole_scores_are_the_same_attention(n_batch: int) -> None:
    query, key, value = torch.randn(3, 3, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    seen = torch.ones(9, 9, dtype=torch.bool).tril().triu(-4).expand(n_batch, 1, 9, 9)
    wanted = functional.scaled_dot_product_attention(query, key, value, seen)
    torch.testing.assert_close(attend(query, key, value, seen), wanted)


def test_only_bf16_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    taken: list[torch.dtype] = []
    monkeypatch.setattr("kame_model.model.attention.attend", lambda query, *_: taken.append(query.dtype))
    with WholeScores():
        for dtype in (torch.float32, torch.bfloat16):
            query = torch.ones(1, 1, 4, 4, dtype=dtype)
            functional.scaled_dot_product_attention(query, query, query, seen, dropout_p=0.0)
    assert taken == [torch.bfloat16]


def test_mixed_gradients_are_float32s(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, found = random_batch(), []
    for mode in (WholeScores, nullcontext):
        monkeypatch.setattr("kame_model.model.front_end.choose_attention", lambda *_, mode=mode: mode())
        found.append(gradients(tiny_front_end().train(), batch))
    whole, fused = found
    assert not torch.equal(whole, fused)  # two ways indeed
    assert functional.cosine_similarity(whole, fused, dim=0) > 0.999


class Watching(TorchFunctionMode):
    """Notes of each call of attention whether it has a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.masked: list[bool] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.scaled_dot_product_attention:
            self.masked.append(len(args) == 4)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("context", [32, 31])
def test_without_a_mask_attention_is_that_of_stock_moshi_where_the_context_allows(context: int) -> None:
    """A sequence of 32 positions, as long as the context, and one longer than it."""
    model, batch = tiny_front_end(context=context), random_batch(n_frames=31)
    wanted = stock_logits(model.lm, batch, model.compute_condition(batch.oracle))
    with torch.no_grad(), Watching() as watching:
        found = model(batch.columns, batch.oracle)
    n_layers = len(model.lm.transformer.layers)
    assert watching.masked[:n_layers] == [context < 32] * n_layers
    assert not any(watching.masked[n_layers:])  # the depth transformer sees all of a frame
    torch.testing.assert_close(found.text, wanted.text, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(audio_of(found), audio_of(wanted), atol=1e-5, rtol=1e-5)
