"""The command that docs/training.md names for several GPUs, with two processes on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kame_model.train.run import train
from tests.support.train_runs import TINY, tiny_dataset, tiny_run, told

pytestmark = pytest.mark.slow

KAME = [sys.executable, "-c", "from flows.cli.app import main; main()"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]


def test_torchrun_makes_one_run_of_two_processes(tmp_path: Path) -> None:
    rows, settings = tiny_dataset(tmp_path / "rows"), tmp_path / "tiny.yaml"
    as_alone = tiny_run(tmp_path / "alone", rows, max_steps=2)
    train(as_alone)
    sections = as_alone.model_dump(mode="json", include={"shares", "dropout", "optim", "keep", "hardware"})
    data = as_alone.data.model_dump(mode="json", exclude={"datasets"})
    settings.write_text(yaml.safe_dump({"model": TINY.model_dump(), "data": data, **sections}))
    typed = ["train", rows, "--out", tmp_path / "run", "--max-steps", 2, "--config", settings, "--json"]
    done = subprocess.run(
        [*TORCHRUN, *KAME, *map(str, typed)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == 2  # told once
    losses = [[line["loss"] for line in told(tmp_path / run) if line["kind"] == "train"] for run in ("run", "alone")]
    assert losses[0] == pytest.approx(losses[1], rel=2e-4)
