"""`kame up` in a fresh folder, as a person starts it, for tests that go through its pages."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from backends.chat.child_server import find_free_port

KAME = Path(sys.executable).with_name("kame")
ENDING_S = 600.0
"""Runs at work may save for 30 s, and each component may take 10 s to end; a busy machine takes several times that."""


@contextmanager
def kame_up(folder: Path, **environment: str) -> Iterator[dict[str, str]]:
    """What each part says once all are ready: `dashboard` its address with the token, `prefect` its own.

    Ctrl-C ends them, and must end all of them.

    Args:
        folder: where it is typed, and where its cache and Prefect's database are; what it prints is in up.txt.
        environment: variables beside those of this process.
    """
    port = find_free_port(0, "test")
    own = {"KAME_CACHE": f"{folder}/.cache", "PREFECT_HOME": f"{folder}/.prefect", "PREFECT_SERVER_API_PORT": str(port)}
    command = [str(KAME), "up", "--port", "0", "--json"]
    with (
        (folder / "up.txt").open("a") as errors,
        subprocess.Popen(
            command, cwd=folder, env=os.environ | own | environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield _read_components(process, folder)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert code == 130, (folder / "up.txt").read_text()
    assert _list_left(own["KAME_CACHE"]) == []


def _list_left(cache: str) -> list[list[str]]:
    """The commands of processes that still have a cache folder of a `kame up` in their environment."""
    left = []
    for each in psutil.process_iter():
        try:
            if each.environ().get("KAME_CACHE") == cache and each.status() != psutil.STATUS_ZOMBIE:
                left.append(each.cmdline())
        except psutil.Error:  # it ended meanwhile, or is another user's
            continue
    return left


def _read_components(process: "subprocess.Popen[str]", folder: Path) -> dict[str, str]:
    """Reads what `kame up` prints until its last worker is ready, by component."""
    assert process.stdout is not None
    told: dict[str, str] = {}
    while "worker-gpu" not in told:
        line = process.stdout.readline()
        assert line, f"kame up ended: {(folder / 'up.txt').read_text()}"
        with (folder / "up.txt").open("a") as printed:
            printed.write(line)
        component = json.loads(line)
        assert "component" in component, line
        told[component["component"]] = component["what"]
    return told
