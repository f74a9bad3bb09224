"""Benchmarks as a person types them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(module: str, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> str:
    """Runs a benchmark and returns its standard output; asserts that its exit code is one of `codes`."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in codes, f"{done.stdout}\n{done.stderr}"
    return done.stdout
