"""`benchmarks.train_step` measures as a process of its own."""

import json

import pytest

from data_schemas.config.training import HardwareConfig
from tests.support.benchmark_runs import run_benchmark


@pytest.mark.slow
def test_what_was_measured_is_told_with_its_hardware() -> None:
    told = json.loads(run_benchmark("train_step", "--steps", "2", "--device", "cpu", "--json"))
    assert (told["preset"], told["hardware"]) == ("nano", HardwareConfig(device="cpu").model_dump())
    assert told["ratio"] > 0
