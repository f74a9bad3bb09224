"""`benchmarks.train_step` measures the preset that it names, as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from data_schemas.config.training import HardwareConfig
from data_schemas.presets import PRESETS

ROOT = Path(__file__).resolve().parents[2]


def benchmark(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.train_step", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "typed"),
    [("small", {}), ("moshi-7b", {"precision": "fp32", "device": "cpu"})],
    ids=["small", "moshi-7b"],
)
def test_hardware_settings_are_the_named_recipes_but_for_what_is_typed(preset: str, typed: dict[str, str]) -> None:
    recipes = HardwareConfig.model_validate(PRESETS[preset].make_recipe("dialogues")["hardware"]).model_dump()
    assert recipes != HardwareConfig().model_dump(), "else nothing is told apart"
    options = [part for name, value in typed.items() for part in (f"--{name}", value)]
    assert benchmark("--preset", preset, *options, "--dry-run")["hardware"] == recipes | typed


@pytest.mark.slow
def test_what_was_measured_is_told_with_its_hardware() -> None:
    told = benchmark("--steps", "2", "--device", "cpu", "--json")
    assert (told["preset"], told["hardware"]) == ("nano", HardwareConfig(device="cpu").model_dump())
    assert told["ratio"] > 0
