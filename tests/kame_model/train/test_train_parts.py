import math
import random
import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from data_schemas.config.model import LoraConfig
from data_schemas.config.training import HardwareConfig, OptimConfig
from kame_model.frames.batch import Batch
from kame_model.model.front_end import build_front_end
from kame_model.model.lora import add_lora
from kame_model.train.logs import METRICS, MetricsLog, SpikeWatch, Window, Windows, read_metrics
from kame_model.train.optimiser import MovingAverage, learning_rate
from kame_model.train.parallel import find_device, parallelize
from kame_model.train.run import set_by_signals
from kame_model.train.throughput import Speedometer, count_flops_per_frame, count_frames, count_weights, find_peak_flops
from tests.support.front_ends import CARD, N_CODEBOOKS, TEXT_CARD, audio_of, random_batch, tiny_config, tiny_front_end

pytestmark = pytest.mark.full

CONFIG = OptimConfig(learning_rate=1.0, warmup_steps=10, final_share=0.1)


def test_learning_rate_rises_in_a_line_and_falls_as_a_cosine() -> None:
    rates = [learning_rate(step, 110, CONFIG) for step in range(111)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.55)  # half-way between 1 and the last share
    assert rates[110] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_learning_rate_without_warm_up_begins_at_its_height() -> None:
    assert learning_rate(0, 10, OptimConfig(learning_rate=0.5, warmup_steps=0)) == 0.5


def test_moving_average_follows_and_gives_the_weights_back() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
        average = MovingAverage(model, decay=0.5)
        for value in (1.0, 3.0):
            model.weight.fill_(value)
            average.update(100)
    with average.in_place():
        assert model.weight.item() == pytest.approx(0.5 * (0.5 * 1.0) + 0.5 * 3.0)
    assert model.weight.item() == 3.0


def test_moving_average_of_few_steps_is_not_of_the_random_start() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
        average = MovingAverage(model, decay=0.999)
        model.weight.fill_(1.0)
        for step in range(20):
            average.update(step)
    assert average.weights["weight"].item() > 0.99  # 0.02 with the full decay


def test_a_leap_of_the_loss_is_told_and_a_slow_fall_is_not() -> None:
    watch, draw = SpikeWatch(deviations=6.0), random.Random(0)
    assert not any(watch.is_spike(5.0 - step / 200 + draw.gauss(0, 0.05)) for step in range(300))
    assert watch.is_spike(6.0)


def test_a_watch_gone_on_with_tells_the_same() -> None:
    one = SpikeWatch(6.0)
    for step in range(60):
        one.is_spike(math.sin(step))
    other = SpikeWatch(**asdict(one))
    assert (
        [one.is_spike(each) for each in (0.5, 90.0)] == [other.is_spike(each) for each in (0.5, 90.0)] == [False, True]
    )


def test_a_window_tells_means_over_its_steps() -> None:
    window, text = Window(), [6.0, 3.0] + [0.0] * (len(Window().tallies) - 2)
    assert window.figures() == {}
    window.add(2.0, 0.5, [0.0] * 4, text)
    window.add(4.0, 1.0, [0.0] * 4, text)
    assert window.figures() == {"loss": 3.0, "gradient_norm": 0.75, "text": 2.0}
    window.add(3.0, 0.75, [8.0, 4.0, 2.0, 0.0], text)
    shares = {"swapped": 0.5, "corrected": 0.25, "substituted": 0.0}
    assert window.figures() == {"loss": 3.0, "gradient_norm": 0.75, "text": 2.0, **shares}
    assert Window(**asdict(window)) == window


def test_steps_of_copying_again_have_a_window_of_their_own() -> None:
    windows, nothing = Windows(), [0.0] * len(Window().tallies)
    windows.of(is_rehearsal=False).add(2.0, 0.5, [0.0] * 4, nothing)
    windows.of(is_rehearsal=True).add(4.0, 1.5, [0.0] * 4, nothing)
    expected = {"loss": 2.0, "gradient_norm": 0.5, "copy_loss": 4.0, "copy_gradient_norm": 1.5}
    assert windows.figures() == expected
    again = Windows()
    again.load_state_dict(windows.state_dict())
    assert again.figures() == expected


def test_metrics_after_the_step_that_is_gone_on_from_are_forgotten(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0, tensorboard=False)
    for step in range(1, 6):
        log.write("train", step, {"loss": 1 / step})
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"kind": "train", "st')  # killed in the middle of a line
    MetricsLog(tmp_path, 3, tensorboard=False).write("train", 4, {"loss": 0.1})
    kept = [(line["step"], line["loss"]) for line in read_metrics(tmp_path / METRICS)]
    assert kept == [(1, 1), (2, 0.5), (3, 1 / 3), (4, 0.1)]


def test_tensorboard_has_the_numbers_too(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricsLog(tmp_path, 0, tensorboard=True)
    log.write("evaluation", 7, {"right": {"loss": 2.5}, "said": "text"})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(each.step, each.value) for each in events.Scalars("evaluation/right/loss")] == [(7, 2.5)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_request_and_the_second_one_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    request = threading.Event()
    with set_by_signals(request):
        assert not request.is_set()
        signal.raise_signal(number)
        assert request.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_operations_of_a_frame_are_six_a_trained_weight_and_four_a_frozen_one() -> None:
    with torch.device("meta"):
        model = build_front_end(tiny_config(dim=512), TEXT_CARD, CARD, N_CODEBOOKS, "meta")
    layers = [model.lm.transformer, model.lm.text_linear]
    used = sum(each.numel() for layer in layers for each in layer.parameters() if each.ndim > 1)
    full = count_flops_per_frame(model, with_audio=False)
    assert full == pytest.approx(6 * used, rel=0.3)  # attention comes on top
    assert count_flops_per_frame(model, with_audio=True) > full
    add_lora(model, LoraConfig(rank=1), torch.bfloat16)
    assert count_flops_per_frame(model, with_audio=False) == pytest.approx(full - 2 * used, rel=0.02)


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
    assert TEXT_CARD


def test_activation_checkpointing_changes_no_gradient() -> None:
    gradients = []
    for is_on in (False, True):
        model = parallelize(tiny_front_end(), HardwareConfig(activation_checkpointing=is_on), None)
        batch = random_batch()
        logits = model(batch.columns, batch.oracle)
        assert logits.audio is not None
        (logits.text.sum() + logits.audio.sum()).backward()
        gradients.append({name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])


@pytest.mark.slow
def test_compiled_layers_change_no_logit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[torch.nn.Module] = []

    def traced(layer: torch.nn.Module, **how: Any) -> None:  # as `compile` does, less the minutes that code takes
        compiled.append(layer)
        layer._compiled_call_impl = torch.compile(layer._call_impl, backend="eager", **how)

    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    plain, ours = tiny_front_end(), parallelize(tiny_front_end(), HardwareConfig(compile=True), None)
    batch = random_batch()
    with torch.no_grad():
        one, other = (each(batch.columns, batch.oracle) for each in (plain, ours))
    assert len(compiled) == 4  # of both transformers
    torch.testing.assert_close(one.text, other.text)
    torch.testing.assert_close(audio_of(one), audio_of(other))


def test_a_device_that_is_not_there_is_told() -> None:
    from data_schemas.errors import ConfigError

    assert find_device("auto").type in {"cpu", "cuda"}
    with pytest.raises(ConfigError, match="no device 'abacus'"):
        find_device("abacus")
