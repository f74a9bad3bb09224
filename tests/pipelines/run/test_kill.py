"""Runs that are killed, interrupted or lose a worker: the next one ends with the same bytes, and nobody is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from backends.chat.double import DoubleEngine
from data_schemas.errors import KameError, StoreError
from flows.runs.refresh import run_refresh
from pipelines.run.plan import lock_dataset
from tests.support.clusters import ITSELF, dying, kill_once
from tests.support.runs import (
    ENDING_S,
    RunError,
    Silent,
    assert_all_gone,
    assert_same,
    config_on_doubles,
    start_command,
)

pytestmark = pytest.mark.slow

LOOK_AGAIN_S = 0.02
RUN_S = 300.0
"""How long a whole run on doubles may take: half a minute where this was written."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run_refresh(config_on_doubles(out), Silent())
    return out


@pytest.fixture
def started(tmp_path: Path) -> "subprocess.Popen[str]":
    """The command, with two workers that have begun to write."""
    out = tmp_path / "out"
    process = start_command(config_on_doubles(out, workers=2), tmp_path)
    wait_until(process, lambda: any(out.glob(".store/parts/*/script-*.json")))
    return process


def wait_until(process: "subprocess.Popen[str]", condition: Callable[[], bool]) -> None:
    """Returns when the condition holds; fails when the process ends before."""
    while not condition():
        try:
            process.wait(timeout=LOOK_AGAIN_S)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"the run ended too early: {process.communicate()[0]}")


@pytest.mark.parametrize("change", ["flip", "remove", "add"])
def test_the_comparison_sees_a_changed_bit_a_file_less_and_one_more(whole: Path, tmp_path: Path, change: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    assert_same(copy, whole)
    file = sorted(copy.glob("data/*.parquet"))[0]
    if change == "flip":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif change == "remove":
        file.unlink()
    else:
        shutil.copy(file, copy / "data" / "train-left-behind.parquet")
    with pytest.raises(RunError, match=r"data/.*(differs|is missing|is one too many)"):
        assert_same(copy, whole)


def test_the_search_for_processes_left_behind_finds_and_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.runs.ENDING_S", 0.2)
    forks = "import os, sys, signal; os.fork() or signal.pause()"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    parent = subprocess.Popen([sys.executable, "-c", forks], start_new_session=True, **pipes)
    parent.wait(timeout=ENDING_S)
    with pytest.raises(RunError, match=r"signal\.pause"):
        assert_all_gone(parent)
    parent.communicate(timeout=ENDING_S)  # ends only when the child has ended


@pytest.mark.parametrize("how", ["SIGTERM to the command", "Ctrl-C on a terminal"])
def test_an_interrupted_run_says_so_once_and_can_be_gone_on_with(
    started: "subprocess.Popen[str]", whole: Path, tmp_path: Path, how: str
) -> None:
    if how == "SIGTERM to the command":
        started.send_signal(signal.SIGTERM)
    else:
        os.killpg(started.pid, signal.SIGINT)  # a terminal tells all processes of the group
    assert started.wait(timeout=ENDING_S) == 130
    said = [line for line in assert_all_gone(started).splitlines() if not line.startswith("note: ")]
    assert said == ["kame: stopped. Run the same command again to resume."]
    run_refresh(config_on_doubles(tmp_path / "out"), Silent())
    assert_same(tmp_path / "out", whole)


def test_a_run_that_loses_a_worker_says_so_and_ends_with_the_same_bytes(
    started: "subprocess.Popen[str]", whole: Path, tmp_path: Path
) -> None:
    workers = [each for each in psutil.Process(started.pid).children() if "--multiprocessing-fork" in each.cmdline()]
    assert len(workers) == 2
    workers[0].kill()
    assert started.wait(timeout=RUN_S) == 0
    said = assert_all_gone(started)
    assert said.count("A worker process died in the stage") == 1
    assert "fewer --workers" in said
    assert "Traceback" not in said
    assert_same(tmp_path / "out", whole)


def test_what_a_killed_worker_was_writing_is_swept_away_before_the_run_ends(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.runs.refresh.run_on_part", kill_once)
    config = config_on_doubles(tmp_path / "out", workers=2)
    (tmp_path / "out" / ".store").mkdir(parents=True)
    with dying(config, ITSELF):
        run_refresh(config, Silent())
    assert_same(tmp_path / "out", whole)


def test_what_a_killed_run_was_writing_is_swept_away(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    for folder in ("data", ".store/parts/left-behind"):
        (out / folder).mkdir(exist_ok=True)
        (out / folder / "half.parquet.0123.kame-writing").write_bytes(b"half")
    run_refresh(config_on_doubles(out), Silent())
    assert_same(out, whole)


def test_two_runs_never_write_one_folder_at_once(tmp_path: Path) -> None:
    config = config_on_doubles(tmp_path / "out")
    with lock_dataset(config), pytest.raises(StoreError, match="Another run is writing"):
        run_refresh(config, Silent())


def test_a_run_that_fails_says_why_in_its_record_and_keeps_what_is_finished(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(DoubleEngine, "serve", lambda self: (_ for _ in ()).throw(KameError("The model is gone.")))
        with pytest.raises(KameError, match="The model is gone"):
            run_refresh(config_on_doubles(out), Silent())
    (record,) = [json.loads(file.read_text()) for file in out.glob("runs/*.json")]
    assert record["outcome"] == "KameError: The model is gone."
    finished = {file: file.stat().st_mtime_ns for file in out.glob(".store/parts/*/*.parquet")}
    run_refresh(config_on_doubles(out), Silent())
    assert finished == {file: file.stat().st_mtime_ns for file in finished}
    assert_same(out, whole)
