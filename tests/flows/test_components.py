"""Programs that belong together, when the one that started them is killed or is started twice."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from data_schemas.errors import ConfigError
from flows.components import Components

pytestmark = pytest.mark.full

STARTS = """
import os, subprocess, sys, time
from pathlib import Path
from flows.components import Components

with Components(Path(sys.argv[1])) as components:
    made = components.start("worker", [sys.executable, "-c", sys.argv[2]], os.environ)
    while not made.log.read_text().strip():
        time.sleep(0.05)
    print(made.log.read_text().strip(), flush=True)
    time.sleep(600)
"""
WORKER = """
import subprocess, time

print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""
"""It starts a third program in a group of its own, as Prefect's workers do with runs."""


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """The program, and the third, which runs by then."""
    process = subprocess.Popen([sys.executable, "-c", STARTS, str(folder), WORKER], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, psutil.Process(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


def test_what_a_killed_one_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    with started(tmp_path) as (process, grandchild):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert grandchild.is_running()
        with Components(tmp_path):
            assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_only_one_is_started_in_a_folder(tmp_path: Path) -> None:
    with started(tmp_path) as (_, grandchild):
        with pytest.raises(ConfigError, match="Another `kame up`"), Components(tmp_path):
            pass
        assert grandchild.is_running()
    with Components(tmp_path), pytest.raises(ConfigError), Components(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "KAME_UP=", "PATH"])
def test_a_mark_that_is_none_ends_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "mark").write_text(text)
    sleeper = subprocess.Popen(["sleep", "60"], env={"KAME_UP": "", "PATH": os.environ["PATH"]})
    try:
        with Components(tmp_path):
            assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()
