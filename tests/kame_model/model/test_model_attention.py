"""Attention with whole scores beside PyTorch's own, and a front-end trained with it."""

import pytest
import torch
from torch.nn import functional

from kame_model.frames.batch import Batch
from kame_model.model.attention import WholeScores, attend
from kame_model.model.front_end import FrontEnd
from tests.support.front_ends import audio_of, random_batch, tiny_front_end


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


def test_mixed_gradients_are_float32s_with_and_without_computing_activations_again() -> None:
    batch, found = random_batch(), []
    for is_again in (False, True):
        model = tiny_front_end().train()
        model.lm.transformer.checkpointing = model.lm.depformer.checkpointing = is_again
        found.append(gradients(model, batch))
    whole, fused = found
    assert not torch.equal(whole, fused)  # two ways indeed
    assert functional.cosine_similarity(whole, fused, dim=0) > 0.999
