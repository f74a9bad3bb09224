"""Checkpoints written beside the training, as on a GPU; here the device is the CPU, and only they believe otherwise."""

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict_saver import async_save

from backends.chat.child_server import find_free_port
from data_schemas.config.training import KeepConfig, TrainConfig
from data_schemas.errors import TrainingError
from kame_model.data.loader import RowSource, Share
from kame_model.data.mixture import open_datasets
from kame_model.model.loss import compute_loss
from kame_model.train import checkpoints
from kame_model.train import run as run_module
from kame_model.train import trainer as trainer_module
from kame_model.train.checkpoints import CHECKPOINTS, Checkpoints, list_checkpoints
from kame_model.train.parallel import Processes
from kame_model.train.run import train
from kame_model.train.trainer import SilentProgress
from tests.support.train_runs import assert_same, tiny_dataset, tiny_run

pytestmark = pytest.mark.full


class Beside(Checkpoints):
    """Checkpoints that are written in the background whatever the device."""

    def __init__(self, folder: Path, keep: KeepConfig, processes: Processes) -> None:
        super().__init__(folder, keep, replace(processes, device=torch.device("cuda")))


def written_at_once(*arguments: Any, **named: Any) -> "Future[Any]":
    """A saving in the background that is over when training goes on."""
    future: Any = async_save(*arguments, **named)
    future.result()
    return future  # type: ignore[no-any-return]


class Seen(SilentProgress):
    """Progress that looks which checkpoints count after each step, before anything more of it is done."""

    def __init__(self, run: Path) -> None:
        self._run, self.by_step = run, dict[int, list[int]]()

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        self.by_step[step] = [each.step for each in list_checkpoints(self._run / CHECKPOINTS)]


def test_a_checkpoint_counts_as_soon_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    keep = {"save_every": 2, "evaluate_every": 9}
    train(tiny_run(tmp_path / "within", rows, keep=keep))
    monkeypatch.setattr(run_module, "Checkpoints", Beside)
    monkeypatch.setattr(checkpoints, "async_save", written_at_once)
    seen = Seen(tmp_path / "run")
    train(tiny_run(tmp_path / "run", rows, keep=keep), seen)
    assert seen.by_step == {1: [], 2: [], 3: [2], 4: [2], 5: [2, 4], 6: [2, 4]}
    assert_same(tmp_path / "run", tmp_path / "within")


def test_one_that_is_still_being_written_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing: Future[Any] = Future()
    monkeypatch.setattr(checkpoints, "async_save", lambda *arguments, **named: writing)
    keeping = Beside(tmp_path, KeepConfig(), Processes(torch.device("cpu")))
    assert not keeping.is_written
    keeping.save(1, {}, {})
    assert not keeping.is_written
    writing.set_result(None)
    assert keeping.is_written


def one_of_two(config: TrainConfig, rank: int, port: int) -> None:
    """One process of a run whose second one gets no number from its micro-batch of the fourth step."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    n_calls, patch = 0, pytest.MonkeyPatch()

    def spoilt(*arguments: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        parts = compute_loss(*arguments)
        return replace(parts, total=parts.total * torch.nan) if (rank, n_calls) == (1, 4) else parts

    patch.setattr(trainer_module, "compute_loss", spoilt)
    patch.setattr(run_module, "Checkpoints", Beside)
    patch.setattr(checkpoints, "async_save", written_at_once)
    seen = Seen(Path(config.out))
    try:
        train(config, seen)
    except TrainingError as error:
        Path(config.out, f"told-{rank}").write_text(f"{seen.by_step[3]} {error}")


@pytest.mark.slow
def test_two_processes_agree_on_what_is_written_and_name_the_dialogues_of_either(tmp_path: Path) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    keep = {"save_every": 1, "keep_last": 9, "evaluate_every": 9}
    config = tiny_run(tmp_path / "run", rows, keep=keep)
    port = find_free_port(0, "test")
    context = multiprocessing.get_context("forkserver")
    both = [context.Process(target=one_of_two, args=(config, rank, port)) for rank in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.exitcode for each in both] == [0, 0]
    names = [fourth_step(config, rank) for rank in range(2)]
    for rank in range(2):
        message = (tmp_path / "run" / f"told-{rank}").read_text()
        assert message.startswith("[1, 2] ")  # after the third step, which is not saved yet
        assert "the checkpoint of step 3 is intact" in message
        assert all(name in message for name in names[1])
        assert not any(name in message for name in set(names[0]) - set(names[1]))


def fourth_step(config: TrainConfig, rank: int) -> list[str]:
    """The dialogues of a process's micro-batches of the fourth step."""
    source = RowSource(open_datasets(config.data.datasets), config.data, config.seed, 2, Share(rank, 2))
    return [name for batch in [source.load_batches(step) for step in range(4)][3] for name in batch.dialogue_ids]
