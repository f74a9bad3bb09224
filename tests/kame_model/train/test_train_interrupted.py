"""Ctrl-C as a terminal sends it: to the command and to every process that it has started."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kame_model.train.checkpoints import CHECKPOINTS, list_checkpoints
from tests.support.train_runs import TINY, tiny_dataset

pytestmark = pytest.mark.slow

INTERRUPTING = """
import os, signal
from flows.cli import progress
from flows.cli.app import main

def interrupt(bar, step, figures):
    if step == 2:
        os.killpg(0, signal.SIGINT)

progress.TrainingBar.step = interrupt
main()
"""


def test_ctrl_c_saves_and_leaves_though_the_loaders_processes_hear_it_too(tmp_path: Path) -> None:
    rows, settings = tiny_dataset(tmp_path / "rows"), tmp_path / "tiny.yaml"
    data = {"batch_frames": 300, "substitute_share": 0.0}  # the rows have no vocabulary
    tiny = {
        "shares": {"copying": 0},
        "model": TINY.model_dump(),
        "data": data,
        "hardware": {"device": "cpu", "threads": 1},
    }
    settings.write_text(json.dumps(tiny))  # JSON is YAML
    run = [str(rows), "--out", str(tmp_path / "run"), "--config", str(settings), "--max-steps", "500"]
    kept = ["data.workers=2", "keep.save_every=500", "keep.evaluate_examples=0", "keep.tensorboard=false"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTING, "train", *run, *(each for name in kept for each in ("--set", name))],
        start_new_session=True,  # a process group of its own
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "to resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert [each.step for each in list_checkpoints(tmp_path / "run" / CHECKPOINTS)] == [2]
