"""Real tests of the engines in worker environments (gigabytes): skipped where one is not installed."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.workers.environments import get_environment

ROOT = Path(__file__).resolve().parents[2]

RunInside = Callable[..., None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file `test_NAME_worker.py` needs the environment NAME."""
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        name = item.path.stem.removeprefix("test_").removesuffix("_worker")
        if not get_environment(name).is_installed():
            reason = f"the worker environment {name} is not installed: kame backends install {name}"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def run_inside() -> RunInside:
    """Runs a script of this folder with an environment's interpreter."""

    def run(name: str, script: str, *arguments: object) -> None:
        command = [str(get_environment(name).get_python()), str(Path(__file__).parent / script), *map(str, arguments)]
        variables = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return run
