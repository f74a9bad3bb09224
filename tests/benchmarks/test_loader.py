"""`benchmarks.loader` as a process of its own: how much of the batches of each preset is padding."""

import json

import pytest

from tests.support.benchmark_runs import run_benchmark


@pytest.mark.slow
def test_few_frames_of_a_presets_batches_are_padding() -> None:
    padding = json.loads(run_benchmark("loader", "--steps", "2", "--dialogues", "700", "--json"))["padding"]
    assert 0 < padding["nano"] < 0.055, "its lengths are multiples of 32, for CPUs"
    assert 0 < padding["small"] < 0.05
    assert 0 < padding["moshi-7b"] < 0.05
