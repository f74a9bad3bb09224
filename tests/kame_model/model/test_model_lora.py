"""Adapters that change nothing at first, train alone, and merge into what they stand beside."""

import pytest
import torch

from data_schemas.config.model import LoraConfig
from kame_model.model.front_end import FrontEnd, Logits
from kame_model.model.lora import add_lora, merge_lora
from tests.support.front_ends import audio_of, random_batch, tiny_front_end

LORA = LoraConfig(rank=4, scaling=2.0)
MERGED = 2e-5
"""Difference of logits, float32, that the order of additions explains. Seen: 1.5e-6."""


def trained(front_end: FrontEnd) -> FrontEnd:
    """As after training: the adapters' second matrices are no longer zero."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, parameter in front_end.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return front_end


@pytest.mark.parametrize("tied", [False, True])
def test_merged_is_applied(tied: bool) -> None:
    front_end, batch = tiny_front_end(oracle="tied" if tied else "table", tie_text_head=tied), random_batch()
    names = front_end.state_dict().keys()
    with torch.no_grad():
        plain = front_end(batch.columns, batch.oracle)
        add_lora(front_end, LORA)
        new = front_end(batch.columns, batch.oracle)
        applied = trained(front_end)(batch.columns, batch.oracle)
        assert merge_lora(front_end)
        merged = front_end(batch.columns, batch.oracle)
    assert not merge_lora(front_end), "none is left"
    assert front_end.state_dict().keys() == names
    assert (plain.text - new.text).abs().max() < MERGED
    assert (audio_of(plain) - audio_of(new)).abs().max() < MERGED
    assert (plain.text - applied.text).abs().max() > 0.01
    assert (merged.text - applied.text).abs().max() < MERGED
    assert (audio_of(merged) - audio_of(applied)).abs().max() < MERGED


def test_frozen_matrices_kept_in_bf16_change_nothing_where_products_are_made_in_it() -> None:
    logits: list[Logits] = []
    batch = random_batch()
    for frozen_type in (torch.float32, torch.bfloat16):
        front_end = tiny_front_end(oracle="tied")
        torch.manual_seed(1)
        add_lora(front_end, LORA, frozen_type)
        types = {each.dtype for name, each in front_end.named_parameters() if "frozen_W" in name}
        assert types == {frozen_type}
        assert {each.dtype for each in front_end.parameters() if each.requires_grad} == {torch.float32}
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits.append(trained(front_end)(batch.columns, batch.oracle))
    assert torch.equal(logits[0].text, logits[1].text)
    assert torch.equal(audio_of(logits[0]), audio_of(logits[1]))


@pytest.mark.parametrize("train_embeddings", [False, True])
def test_only_adapters_and_oracle_are_trained(train_embeddings: bool) -> None:
    front_end, batch = tiny_front_end(), random_batch()
    add_lora(front_end, LoraConfig(rank=4, train_embeddings=train_embeddings))
    logits = front_end(batch.columns, batch.oracle)
    (logits.text.sum() + audio_of(logits).sum()).backward()
    learning = {name for name, parameter in front_end.named_parameters() if parameter.grad is not None}
    embeddings = {name for name in learning if name.split(".")[1].endswith("emb")}
    assert {name for name in learning if "lora_" not in name} - embeddings == {"oracle.embedding.weight"}
    assert bool(embeddings) == train_embeddings
    assert "lm.transformer.layers.0.self_attn.in_projs.0.lora_A.weight" in learning
