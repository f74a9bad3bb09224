"""`make gpu-report` on CPU shapes: every step measures, is not repeated, and what a machine lacks is told."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.benchmark_runs import ROOT, run_benchmark

ON_GPU = ["train-large-full", "train-large-lora", "train-small-long", "serve-small-cuda-graphs"]


def read_figures(out: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((out / "figures.json").read_text(encoding="utf-8"))
    return told


@pytest.mark.slow
def test_all_steps_are_measured_on_cpu_shapes_and_only_missing_ones_again(tmp_path: Path) -> None:
    run_benchmark("gpu_report", "--cpu-shapes", "--out", tmp_path)
    steps = read_figures(tmp_path)["steps"]
    assert {name: step["state"] for name, step in steps.items()} == dict.fromkeys(steps, "measured")
    assert {step["kind"] for step in steps.values()} == {"training", "serving", "oracles", "computed"}
    trained = steps["train-large-lora"]["figures"]
    assert trained["n_trained"] < trained["n_weights"]
    assert trained["memory_gb"] * trained["tokens_per_s"] * trained["mfu"] > 0
    assert [step["figures"]["times"][0]["n_sessions"] for step in steps.values() if step["kind"] == "serving"] == [
        1
    ] * 4
    assert steps["oracles"]["figures"]["events"]["answered"] > 0
    told = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [f"## {kind}" in told for kind in ("Training", "Serving", "Oracles", "Computed", "Not measured")] == [
        *[True] * 4,
        False,
    ]
    assert not any((tmp_path / "work").iterdir())

    (tmp_path / "steps" / "oracles.json").unlink()  # as of a run that was killed in this step
    printed = run_benchmark("gpu_report", "--cpu-shapes", "--out", tmp_path)
    assert printed.count("measured before") == len(steps) - 1
    assert "oracles: measured\n" in printed
    again = read_figures(tmp_path)["steps"]
    del again["oracles"], steps["oracles"]
    assert again == steps


SCRIPT = """
import json, pathlib, sys
from benchmarks.gpu_report import Step, make_report

out, gpu = pathlib.Path(sys.argv[1]), sys.argv[2]
steps = [
    Step(name, f"the step {name}", "oracles", (("-c", "print('made')"), ("-c", program)))
    for name, program in json.loads(sys.argv[3]).items()
]
make_report(out, steps, {"gpus": [gpu], "torch": "2", "cuda": None})
"""
"""Makes a report of steps that run programs, on a machine with a GPU of that name."""


def run_steps(out: Path, gpu: str, programs: dict[str, str]) -> list[str]:
    """Runs steps in a process of their own, as benchmarks are; returns how each ended."""
    command = [sys.executable, "-c", SCRIPT, str(out), gpu, json.dumps(programs)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return [step["state"] for step in read_figures(out)["steps"].values()]


@pytest.mark.full
def test_steps_that_failed_are_run_again_and_those_that_do_not_fit_are_not(tmp_path: Path) -> None:
    once = f"import pathlib; pathlib.Path({str(tmp_path / 'seen')!r}).open('a').write('x')"
    fails = "raise SystemExit('The model | is not there.')"
    too_large = f"{once}; import torch; raise torch.OutOfMemoryError('CUDA out of memory.')"
    for _ in range(2):
        assert run_steps(tmp_path, "one", {"fails": fails, "large": too_large}) == ["failed", "does not fit"]
    assert (tmp_path / "seen").read_text() == "x", "the second call knew its result"
    told = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| fails | the step fails | failed | exit code 1: The model / is not there. |" in told
    assert "| large | the step large | does not fit | torch.OutOfMemoryError: CUDA out of memory. |" in told
    assert (tmp_path / "steps" / "fails.log").read_text() == "made\nThe model | is not there.\n"

    assert run_steps(tmp_path, "a larger one", {"large": too_large}) == ["does not fit"]
    assert (tmp_path / "seen").read_text() == "xx", "another GPU is measured anew"


@pytest.mark.full
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA, so nothing is left out")
def test_without_cuda_each_step_is_left_out_with_the_reason(tmp_path: Path) -> None:
    run_benchmark("gpu_report", "--only", *ON_GPU, "oracles", "--out", tmp_path)
    steps = read_figures(tmp_path)["steps"]
    assert {name: step["state"] for name, step in steps.items()} == dict.fromkeys([*ON_GPU, "oracles"], "left out")
    assert all(step["reason"] == "PyTorch finds no CUDA device" for step in steps.values())
    assert "| train-large-full | moshi-7b, all weights | left out | PyTorch finds no CUDA device |" in (
        tmp_path / "report.md"
    ).read_text(encoding="utf-8")
