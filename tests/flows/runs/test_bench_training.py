"""The second half of the bench, with the shipped nano on doubles' dialogues, and the plan made by its rates."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from data_schemas.config.training import TrainConfig
from data_schemas.rates import Mfu, RateBook, Rates, StepCost
from flows.cli.app import app
from flows.runs.bench import run_bench
from flows.runs.bench_training import MeasuredDevice, StepClock, make_speed
from flows.runs.plan import plan_dataset, plan_training
from flows.settings import build_train_config, find_shipped_checkpoint
from tests.support.runs import config_on_doubles

ITEMS = Path(__file__).resolve().parents[3] / "examples" / "items" / "gsm8k.jsonl"


@pytest.mark.slow
def test_what_is_measured_with_the_shipped_nano_is_what_is_planned(tmp_path: Path) -> None:
    config = config_on_doubles(tmp_path / "out", sources=(ITEMS,))
    rates = run_bench(config, 2, find_shipped_checkpoint(), lambda _: None, devices=("cpu",))
    (codec,) = (each for each in rates.costs if each.step == "codec")
    assert {each.device for each in rates.costs} == {each.device for each in rates.steps} == {"cpu"}
    assert rates.mfu == []
    book = RateBook([rates])
    data = {each.key: each.value for each in plan_dataset(config, book, {"gsm8k": 10})}
    assert data[f"processor.codec.{codec.engine}"] == pytest.approx((data["duration_s"] or 0) * codec.seconds)
    trained = {each.key: each for each in plan_training("nano", book, "cpu")}
    for key in ("training.nano.cpu.s", "training.nano.cpu.bytes", "callers.nano.cpu"):
        assert (trained[key].value or 0) > 0
        assert not trained[key].basis.startswith("unknown")


@pytest.mark.full
def test_a_step_takes_its_processor_time_by_the_clock_of_the_least_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StepClock(MeasuredDevice.find("cpu"))
    for own_s, elapsed_s in [(0.0, 0.0), (2.0, 1.25), (4.5, 20.0), (6.0, 20.9)]:  # of two threads; 2 s a step
        monkeypatch.setattr("flows.runs.bench_training.time.process_time", lambda own_s=own_s: own_s)
        monkeypatch.setattr("flows.runs.bench_training.time.perf_counter", lambda elapsed_s=elapsed_s: elapsed_s)
        clock.step(1, {})
    assert clock.compute_step_s() == pytest.approx(2.0 * 0.9 / 1.5)


def make_config(**typed: object) -> TrainConfig:
    return build_train_config("small", "dialogues", None, {"data.datasets": [{"path": "rows"}], **typed})


@pytest.mark.full
def test_the_speed_of_a_gpu_is_its_mfu_and_of_another_device_the_time_of_an_operation() -> None:
    assert make_speed(make_config(), "H200", 98.9e12) == Mfu(device="H200", model="small", share=0.1)
    adapters = make_config(**{"init_from": "weights", "lora.rank": 8, "hardware.precision": "fp32"})
    assert make_speed(adapters, "H200", 6.7e12) == Mfu(device="H200", model="small/lora", share=0.1)
    assert make_speed(make_config(), "cpu", 1e10) == StepCost(step="flop", device="cpu", per="operation", seconds=1e-10)


@pytest.mark.full
def test_rates_of_a_gpu_are_those_of_its_plan() -> None:
    speed = make_speed(make_config(), "H200", 98.9e12)
    assert isinstance(speed, Mfu)
    origin = RateBook.open().rates[0].origin
    (time, *_) = plan_training("small", RateBook([Rates(origin=origin, mfu=[speed])]), "H200", stage="dialogues")
    (assumed, *_) = plan_training("small", RateBook([Rates(origin=origin)]), "H200", stage="dialogues")
    assert time.value == pytest.approx((assumed.value or 0) * 4.5)


@pytest.mark.full
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_does_not_exist_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--device", "cuda", "--out", str(tmp_path / "rates.yaml")])
    assert result.exit_code == 2, result.output
    assert "measuring" not in result.output
    assert not (tmp_path / "rates.yaml").exists()
