"""Real tests of the engines in worker environments, which take gigabytes: collected by `make test-workers` alone."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.workers.environments import environment

collect_ignore_glob = [] if os.environ.get("KAME_TEST_WORKERS") == "1" else ["test_*.py"]
ROOT = Path(__file__).resolve().parents[2]

RunInside = Callable[..., None]


@pytest.fixture(scope="session")
def run_inside() -> RunInside:
    """Runs a script of this folder with an environment's interpreter."""

    def run(name: str, script: str, *arguments: object) -> None:
        command = [str(environment(name).python()), str(Path(__file__).parent / script), *map(str, arguments)]
        variables = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return run
