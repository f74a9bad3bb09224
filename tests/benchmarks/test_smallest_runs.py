"""Every benchmark at its smallest size, as the command its documentation names: it ends well and prints figures.

What a benchmark judges (the same bytes after a kill, no word of another caller) is an exit code, so these runs are the
checks themselves, at a size that fits a change; the sizes whose figures are published stand in benchmarks/README.md.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from data_schemas.config.training import HardwareConfig
from tests.support.benchmark_runs import ROOT, run_benchmark

ITEMS = ROOT / "examples" / "items"
pytestmark = pytest.mark.slow


def test_runs_killed_at_20_moments_and_run_again_give_the_same_bytes_and_leave_no_process() -> None:
    told = json.loads(run_benchmark("kill", "--n", "20", "--json"))
    n_killed = {kind: sum(each[kind] for each in told["steps"].values()) for kind in ("operation", "command")}
    assert (told["same_bytes"], n_killed) == (20, {"operation": 16, "command": 4})
    reached = {step for step, counts in told["steps"].items() if any(counts.values())}
    assert reached >= {"plan", "script", "speech", "mixing", "oracle"}
    assert reached & {"shards", "rejects", "card", "manifest", "run record"}


def test_training_runs_killed_at_random_moments_end_with_the_same_losses_and_weights() -> None:
    (killed,) = json.loads(run_benchmark("kill_training", "--n", "4", "--seed", "1", "--json")).values()
    assert len(killed) == 4


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("corpus", ["--dialogues", "20", "40", "--loop", "16"]),
        ("encode", ["--n", "4"]),
        ("batch_shapes", ["--frames", "512", "--seconds", "0"]),
        ("dashboard", ["--dialogues", "300", "--rounds", "1", "--limit-s", "inf"]),
        ("speech", ["--only", "speed", "--dialogues", "1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_benchmark_measures(module: str, arguments: Sequence[str]) -> None:
    figures = json.loads(run_benchmark(module, *arguments, "--json").splitlines()[-1])
    assert figures


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["timing", "--n", "1", "--truth", "espeak"], r"\| plain \| clean \| \d"),
        (["listen"], r"lag_p50_s: \d"),
        (["serve", "frames", "--sessions", "1", "--seconds", "1", "--rounds", "1"], "largest_in_real_time: [01]"),
    ],
    ids=["timing", "listen", "serve frames"],
)
def test_a_benchmark_prints_its_figures(arguments: Sequence[str], printed: str) -> None:
    assert re.search(printed, run_benchmark(*arguments))


def test_few_frames_of_a_presets_batches_are_padding() -> None:
    padding = json.loads(run_benchmark("loader", "--steps", "2", "--dialogues", "700", "--json"))["padding"]
    assert 0 < padding["nano"] < 0.055, "its lengths are multiples of 32, for CPUs"
    assert 0 < padding["small"] < 0.05
    assert 0 < padding["moshi-7b"] < 0.05


def test_a_training_step_is_measured_and_told_with_its_hardware() -> None:
    told = json.loads(run_benchmark("train_step", "--steps", "2", "--device", "cpu", "--json"))
    assert (told["preset"], told["hardware"]) == ("nano", HardwareConfig(device="cpu").model_dump())
    assert told["ratio"] > 0


def test_callers_of_a_simulated_soak_leave_nothing(tmp_path: Path) -> None:
    run_benchmark("serve", "soak", "--n", "8", "--json", tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text())["broken"] == []


def test_a_chat_model_is_swapped_in_the_middle_of_a_talk(tmp_path: Path) -> None:
    typed = ("serve", "swap", "--swaps", "2", "--json", tmp_path / "figures.json")
    run_benchmark(*typed, codes=(0, 1))  # 1: frames were late on a busy machine
    swaps = json.loads((tmp_path / "figures.json").read_text())["swaps"]
    assert [each["changed_s"] is not None and not each["n_elsewhere"] for each in swaps] == [True, True]


def test_an_attack_is_told_with_what_it_cost_the_others(tmp_path: Path) -> None:
    run_benchmark("serve", "attack", "--only", "none", "pings, 0.8", "askers", "--json", tmp_path / "figures.json")
    none, pings, askers = json.loads((tmp_path / "figures.json").read_text())["attacks"]
    assert all(each["n_answered"] > 0 for each in (none, pings, askers))
    assert (none["n_closed"], pings["n_closed"]) == (0, 1), "the server closed the attacker's connection, and no other"
    assert askers["n_closed"] > 30, "each of theirs, again and again"


def test_a_sample_of_readings_is_drawn_by_its_seed() -> None:
    def sample(seed: int) -> list[list[str]]:
        printed = run_benchmark(
            "readings", "--source", "gsm8k", "--path", ITEMS / "gsm8k.jsonl", "--n", "4", "--seed", str(seed)
        )
        return [line.split("\t") for line in printed.splitlines()]

    first = sample(1)
    assert [len(cells) for cells in first] == [5] * 4
    assert first == sample(1) != sample(2)
