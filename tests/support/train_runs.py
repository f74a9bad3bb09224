"""Small training runs on made-up rows, in processes of their own: alone, killed, or several together."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_pre_hook

from backends.chat.child_server import find_free_port
from data_schemas.config.model import ModelConfig
from data_schemas.config.training import TrainConfig
from kame_model.model.front_end import FrontEnd
from kame_model.train.logs import METRICS, read_metrics
from kame_model.train.run import train
from kame_model.train.run_folder import load_run
from kame_model.train.trainer import SILENT, Progress, SilentProgress
from tests.support.made_rows import made_with, write_made

SPEEDS = {"frames_per_s", "tokens_per_s", "mfu", "memory_gb", "hours"}
"""Figures that differ between equal runs."""

TINY = ModelConfig(
    preset="tiny",
    dim=32,
    num_layers=2,
    num_heads=2,
    context=64,
    depformer_dim=16,
    depformer_num_layers=1,
    depformer_num_heads=2,
    oracle="tied",
    tie_text_head=True,
)


class RunError(Exception):
    """A run's outcome is not what it should be."""


def tiny_run(out: Path, dataset: Path, **changes: Any) -> TrainConfig:
    """Configures six steps of two micro-batches with all randomness: swaps, corrections, dropout, skips, delays.

    Args:
        changes: settings that replace these; of a section, single ones.
    """
    settings: dict[str, Any] = {
        "out": str(out),
        "max_steps": 6,
        "model": TINY.model_dump(),
        "data": {
            "datasets": [{"path": str(dataset)}],
            "batch_frames": 300,
            "pool_batches": 2,
            "swap_share": 0.5,
            "correct_share": 0.3,
        },
        "dropout": {"text": 0.1, "own_audio": 0.1, "own_audio_dialogue": 0.3},
        "optim": {"learning_rate": 1e-3, "warmup_steps": 2, "accumulation": 2, "ema_decay": 0.9},
        "keep": {"save_every": 2, "log_every": 1, "evaluate_every": 3, "evaluate_examples": 4, "tensorboard": False},
        "hardware": {"device": "cpu", "threads": 1},
    }
    for name, section in changes.items():
        settings[name] = settings.get(name, {}) | section if isinstance(section, dict) else section
    return TrainConfig.model_validate(settings)


def tiny_dataset(folder: Path, n_train: int = 12, n_validation: int = 4, **made: Any) -> Path:
    """Writes a folder of made-up token rows, and returns it.

    Args:
        made: arguments of `made_with`.
    """
    write_made(folder, n_train, n_validation, made_with(**made))
    return folder


def told(folder: Path) -> list[dict[str, Any]]:
    """Returns a run's metrics without `SPEEDS`."""
    return [
        {name: each for name, each in line.items() if name not in SPEEDS} for line in read_metrics(folder / METRICS)
    ]


def weights(folder: Path) -> Mapping[str, torch.Tensor]:
    """Returns the last weights of a run."""
    return load_run(folder, "last")[0].state_dict()


def assert_same(found: Path, expected: Path) -> None:
    """Compares two runs: every loss of every line, and every weight, to the last bit.

    Raises:
        RunError: the first line or weight that differs.
    """
    for ours, theirs in zip(told(found), told(expected), strict=True):
        if ours != theirs:
            raise RunError(f"{found}: {json.dumps(ours)} should be {json.dumps(theirs)}")
    right = weights(expected)
    for name, each in weights(found).items():
        if not torch.equal(each, right[name]):
            raise RunError(f"{found}: the weights {name} are not those of {expected}")


class Asking(SilentProgress):
    """Asks its run to stop, as a scheduler or Ctrl-C would, after a step."""

    def __init__(self, step: int, number: signal.Signals = signal.SIGTERM) -> None:
        self._step, self._number = step, number

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Asks at that step."""
        if step == self._step:
            signal.raise_signal(self._number)


class _KillAfter(SilentProgress):
    """Progress that kills its process after a step, before anything of it is saved."""

    def __init__(self, step: int) -> None:
        self._step = step

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Kills at that step."""
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


def run_tiny(config: TrainConfig) -> None:
    """Runs a training to its end, without showing progress."""
    train(config)


def run_until_step(config: TrainConfig, step: int) -> None:
    """Runs a training whose process is killed after a step, before that step is saved."""
    train(config, _KillAfter(step))


def run_until_change(config: TrainConfig, n_changes: int) -> None:
    """Runs a training whose process is killed before the n-th of its operations that change a checkpoint's files."""
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in {"open", "os.rename", "os.remove", "os.mkdir"} or "checkpoints" not in str(arguments[0]):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        count += 1
        if count == n_changes:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    train(config)


def run_as(config: TrainConfig, rank: int, world: int, port: int, progress: Progress = SILENT) -> None:
    """Runs one of several processes of a training, as `torchrun` would start it; sets its environment variables."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    train(config, progress)


def run_as_until_asked(step: int, config: TrainConfig, rank: int, world: int, port: int) -> None:
    """Runs one process as `run_as` does; it is asked to stop after a step."""
    run_as(config, rank, world, port, Asking(step))


def run_as_noting_gradients(config: TrainConfig, rank: int, world: int, port: int) -> None:
    """Runs one process as `run_as` does, and writes how much it holds as each training pass begins.

    `gradients-RANK.json` in the run's folder has for each pass how many numbers of gradients lie in this process, and
    `weights-RANK.json` the same of weights.
    """
    held: list[int] = []
    n_weights: list[int] = []

    def note(module: torch.nn.Module, _: object) -> None:
        if isinstance(module, FrontEnd) and isinstance(module, FSDPModule) and module.training:  # the sharded one
            gradients = [each.grad for each in module.parameters() if each.grad is not None]
            held.append(sum(each.to_local().numel() for each in gradients if isinstance(each, DTensor)))
            n_weights.append(sum(each.to_local().numel() for each in module.parameters() if isinstance(each, DTensor)))

    register_module_forward_pre_hook(note)
    run_as(config, rank, world, port)
    (Path(config.out) / f"gradients-{rank}.json").write_text(json.dumps(held))
    (Path(config.out) / f"weights-{rank}.json").write_text(json.dumps(n_weights))


class Forking:
    """Runs functions in processes of their own, forked from one that has PyTorch and moshi imported."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.support.train_runs", "torch._dynamo"])  # a first step needs it

    def run(self, target: Callable[..., None], *arguments: Any) -> int:
        """Runs a function to its end, and returns the exit code of its process, negative for a signal."""
        process = self._context.Process(target=target, args=arguments)
        process.start()
        process.join()
        return process.exitcode or 0

    def run_together(self, config: TrainConfig, world: int, target: Callable[..., None] = run_as) -> list[int]:
        """Runs one training in several processes, and returns their exit codes by rank.

        Args:
            target: what each process runs, with the arguments of `run_as`.
        """
        port = find_free_port(0, "test")
        processes = [self._context.Process(target=target, args=(config, rank, world, port)) for rank in range(world)]
        for each in processes:
            each.start()
        for each in processes:
            each.join()
        return [each.exitcode or 0 for each in processes]
