"""Operations, frames and weights as they are counted, and how fast this machine is."""

from typing import Any

import pytest
import torch

from data_schemas.config.model import LoraConfig
from kame_model.frames.batch import Batch
from kame_model.model.front_end import build_front_end
from kame_model.model.lora import add_lora
from kame_model.train.throughput import (
    Speedometer,
    count_frames,
    count_pass,
    count_weights,
    find_peak_flops,
    read_memory_gb,
)
from tests.support.front_ends import CARD, LAYOUT, N_CODEBOOKS, TEXT_CARD, random_batch, tiny_config, tiny_front_end

pytestmark = pytest.mark.full


def test_operations_of_a_frame_are_six_a_trained_weight_and_four_a_frozen_one() -> None:
    with torch.device("meta"):
        model = build_front_end(tiny_config(dim=512), TEXT_CARD, LAYOUT, "meta")
    layers = [model.lm.transformer, model.lm.text_linear]
    used = sum(each.numel() for layer in layers for each in layer.parameters() if each.ndim > 1)
    full = count_pass(model, with_audio=False).flops
    assert full == pytest.approx(6 * used, rel=0.3)  # attention comes on top
    assert count_pass(model, with_audio=True).flops > full
    add_lora(model, LoraConfig(rank=1), torch.bfloat16)
    assert count_pass(model, with_audio=False).flops == pytest.approx(full - 2 * used, rel=0.02)


def test_speed_counts_frames_without_padding_and_only_time_in_steps() -> None:
    batch: Batch = random_batch(2, n_frames=20)  # 20 and 17 frames, each with a tail
    assert count_frames(batch) == 21 + 18
    speed = Speedometer(frame_flops=10.0, peak=100.0, n_rows=7)
    speed.begin()
    speed.end(count_frames(batch))
    read = speed.read()
    assert read["tokens_per_s"] == pytest.approx(7 * read["frames_per_s"])
    assert read["mfu"] == pytest.approx(read["frames_per_s"] / 10)
    assert speed.read()["frames_per_s"] == 0.0


def test_memory_is_what_the_process_holds_now() -> None:
    before = read_memory_gb(torch.device("cpu"))
    held = torch.ones(400_000_000, dtype=torch.uint8)
    assert read_memory_gb(torch.device("cpu")) - before == pytest.approx(0.4, rel=0.2)
    del held
    assert read_memory_gb(torch.device("cpu")) - before < 0.2


def test_memory_of_a_gpu_is_the_most_that_was_held_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 3_500_000_000 + device.index)
    assert read_memory_gb(torch.device("cuda", 0)) == 3.5


@pytest.mark.parametrize("product_type", [torch.float32, torch.bfloat16])
def test_the_speed_of_this_machine_is_measured_in_the_runs_type(
    monkeypatch: pytest.MonkeyPatch, product_type: torch.dtype
) -> None:
    ones, types = torch.ones, set[torch.dtype]()

    def noted(*size: int, **how: Any) -> torch.Tensor:
        types.add(how["dtype"])
        return ones(*size, **how)

    monkeypatch.setattr(torch, "ones", noted)
    assert find_peak_flops(torch.device("cpu"), product_type) > 1e8
    assert types == {product_type}


def test_weights_are_counted_those_that_are_trained_apart() -> None:
    model = tiny_front_end()
    everything = sum(each.numel() for each in model.parameters())
    model.lm.emb.requires_grad_(False)
    assert count_weights(model) == (everything, everything - 2 * N_CODEBOOKS * (CARD + 1) * 32)
