"""The commands that docs/training.md and docs/training_large.md name for several GPUs and nodes, on the CPU."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from backends.chat.child_server import find_free_port
from kame_model.train.run import train
from tests.support.train_runs import TINY, tiny_dataset, tiny_run, told

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
KAME = [sys.executable, "-c", "from flows.cli.app import main; main()"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LIKE_ONE = 2e-4
"""How far losses of equal runs may be apart, relatively, where gradients are added up in another order."""


@pytest.fixture
def typed(tmp_path: Path) -> list[str]:
    """Arguments of `kame` for a run in `tmp_path / "run"`, four micro-batches a step; "alone" is the same by one."""
    rows, settings = tiny_dataset(tmp_path / "rows"), tmp_path / "tiny.yaml"
    as_alone = tiny_run(tmp_path / "alone", rows, max_steps=2, optim={"accumulation": 4})
    train(as_alone)
    sections = as_alone.model_dump(mode="json", include={"shares", "dropout", "optim", "keep", "hardware"})
    data = as_alone.data.model_dump(mode="json", exclude={"datasets"})
    settings.write_text(yaml.safe_dump({"model": TINY.model_dump(), "data": data, **sections}))
    return [
        *("train", str(rows), "--out", str(tmp_path / "run"), "--max-steps", "2"),
        *("--config", str(settings), "--json"),
    ]


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_trained_as_one(started: list[subprocess.Popen[str]], folder: Path) -> None:
    printed = [each.communicate(timeout=300) for each in started]
    assert [each.returncode for each in started] == [0] * len(started), [errors for _, errors in printed]
    (line,) = [out for out, _ in printed if out.strip()]
    assert json.loads(line)["step"] == 2  # told once
    losses = [[line["loss"] for line in told(folder / run) if line["kind"] == "train"] for run in ("run", "alone")]
    assert len(losses[0]) == 2
    assert losses[0] == pytest.approx(losses[1], rel=LIKE_ONE)


def test_torchrun_makes_one_run_of_two_processes(tmp_path: Path, typed: list[str]) -> None:
    one_machine = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python"]
    assert_trained_as_one([start([*one_machine, *KAME, *typed])], tmp_path)


@pytest.mark.parametrize(
    ("n_processes", "replicas"), [(1, 1), (1, 2), (2, 2)], ids=["sharded", "a-copy-each", "two-by-two"]
)
def test_torchrun_on_two_nodes_makes_one_run(tmp_path: Path, typed: list[str], n_processes: int, replicas: int) -> None:
    place = f"localhost:{find_free_port(0, 'test')}"
    meeting = ["--rdzv-backend", "c10d", "--rdzv-id", "kame", "--rdzv-endpoint", place]
    on_node = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", str(n_processes), *meeting, "--no-python"]
    command = [*on_node, *KAME, *typed, "--set", f"hardware.replicas={replicas}"]
    assert_trained_as_one([start(command) for _ in range(2)], tmp_path)


SRUN = """#!/bin/bash
# Slurm's srun, of a job of two nodes, both of which are this machine.
for node in 0 1; do SLURM_NODEID=$node "$@" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || exit 1; done
"""


def test_the_slurm_example_makes_one_run_of_two_nodes(tmp_path: Path, typed: list[str]) -> None:
    programs = {
        "srun": SRUN,
        "scontrol": "#!/bin/bash\nprintf 'localhost\\nnode-2\\n'\n",
        "torchrun": f'#!/bin/bash\nexec {shlex.join(TORCHRUN)} "$@"\n',
        "kame": f'#!/bin/bash\nexec {shlex.join(KAME)} "$@"\n',
    }
    for name, text in programs.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    job = {"SLURM_JOB_ID": str(find_free_port(0, "test")), "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "node-[1-2]"}
    job["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    script = str(ROOT / "examples" / "slurm" / "train.sbatch")
    assert_trained_as_one([start(["bash", script, *typed[1:]], **job, SLURM_GPUS_ON_NODE="1")], tmp_path)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["hardware"]["replicas"] == 2
