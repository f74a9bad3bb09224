import errno
import json
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from moshi.utils import compile as moshi_compile
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from data_schemas.errors import ConfigError, DatasetError, StoreError, TrainingError
from kame_model.model.loss import compute_loss
from kame_model.train import trainer as trainer_module
from kame_model.train.checkpoints import CHECKPOINTS, DONE, list_checkpoints
from kame_model.train.logs import SpikeWatch
from kame_model.train.run import fill_config, set_on_signals, train
from kame_model.train.run_folder import load_run
from kame_model.train.trainer import SilentProgress
from tests.support.train_runs import Asking, assert_same, tiny_dataset, tiny_run, told

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def whole(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps that nobody stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    result = train(tiny_run(out, rows))
    assert result.is_done
    assert result.step == 6
    return out


class Looking(SilentProgress):
    """Notes at each step whether moshi would compile its norms."""

    def __init__(self) -> None:
        self.compiles: list[bool] = []

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        self.compiles.append(not moshi_compile._compile_disabled)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_all_weights_are_trained_on_a_gpu(rows: Path, tmp_path: Path) -> None:
    told_to = {"device": "cuda", "precision": "bf16-mixed", "activation_checkpointing": True}
    assert train(tiny_run(tmp_path / "run", rows, max_steps=2, hardware=told_to)).is_done


def steps_saved(folder: Path) -> list[int]:
    return [each.step for each in list_checkpoints(folder / CHECKPOINTS)]


def test_a_run_tells_losses_validation_and_speed(whole: Path) -> None:
    lines = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    training = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in training] == [1, 2, 3, 4, 5, 6]
    losses = {"loss", "text", "semantic", "acoustic"}
    for name in losses | {"learning_rate", "gradient_norm", "tokens_per_s", "mfu", "memory_gb"}:
        assert all(line[name] > 0 for line in training), name
    assert any("text_fed" in line for line in training)  # not of a step whose oracles were all dropped
    looks = [line for line in lines if line["kind"] == "evaluation"]
    assert [line["step"] for line in looks] == [3, 6]
    assert all(set(line) == {"kind", "step", "right", "wrong", "none"} for line in looks)
    fed = [[line[column]["text_fed"] for column in ("right", "wrong", "none")] for line in looks]
    assert all(len(set(each)) == 3 for each in fed)  # the same frames are told of in all columns
    assert (whole / DONE).exists()


def test_a_model_that_trains_gets_better(rows: Path, tmp_path: Path) -> None:
    config = tiny_run(tmp_path / "run", rows, max_steps=25, optim={"learning_rate": 5e-3}, keep={"evaluate_every": 25})
    result = train(config)
    assert result.evaluation is not None
    first = told(tmp_path / "run")[0]
    assert result.evaluation["right"]["loss"] < 0.8 * first["loss"]


def test_in_half_precision_losses_are_nearly_the_same(rows: Path, whole: Path, tmp_path: Path) -> None:
    train(tiny_run(tmp_path / "run", rows, max_steps=2, hardware={"precision": "bf16-mixed"}))
    losses = [[line["loss"] for line in told(run) if line["kind"] == "train"] for run in (tmp_path / "run", whole)]
    assert losses[0] == pytest.approx(losses[1][:2], rel=0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_a_run_saves_and_goes_on_as_if_it_had_not(
    rows: Path, whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    config = tiny_run(tmp_path / "run", rows)
    result = train(config, Asking(3, number))
    assert not result.is_done
    assert result.step == 3  # no step begins once it was asked
    assert steps_saved(tmp_path / "run")[-1] == 3
    assert not (tmp_path / "run" / DONE).exists()
    assert train(config).is_done
    assert_same(tmp_path / "run", whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_request_and_the_second_one_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    request = threading.Event()
    with set_on_signals(request):
        assert not request.is_set()
        signal.raise_signal(number)
        assert request.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_killed_saving_leaves_nothing_that_counts(rows: Path, whole: Path, tmp_path: Path) -> None:
    config = tiny_run(tmp_path / "run", rows)
    train(config, Asking(1))
    (folder,) = (each.folder for each in list_checkpoints(tmp_path / "run" / CHECKPOINTS))
    for name in (".saving-step-00000004", "step-00000004"):  # killed before the renaming, and before the mark
        half = folder.parent / name
        half.mkdir()
        (half / "__0_0.distcp").write_bytes(b"half of it")
    train(config)
    assert_same(tmp_path / "run", whole)
    assert not (folder.parent / ".saving-step-00000004").exists()


def test_other_settings_or_rows_are_not_gone_on_with(rows: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"optim\.learning_rate was 0\.001 and is 0\.002"):
        train(tiny_run(whole, rows, optim={"learning_rate": 2e-3}))
    with pytest.raises(ConfigError, match="datasets was"):
        train(tiny_run(whole, tiny_dataset(tmp_path / "other", n_train=9)))


def test_no_number_stops_the_run_and_the_last_checkpoint_stays(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_calls = 0

    def spoiled(*arguments: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        parts = compute_loss(*arguments)
        return parts if n_calls != 7 else replace(parts, total=parts.total * torch.nan)

    monkeypatch.setattr(trainer_module, "compute_loss", spoiled)
    with pytest.raises(TrainingError, match=r"Step 4 gave no number.*made-.*checkpoint of step 3 is intact"):
        train(tiny_run(tmp_path / "run", rows))
    assert steps_saved(tmp_path / "run")[-1] == 3
    model, _, _ = load_run(tmp_path / "run", "last")
    assert all(torch.isfinite(each).all() for each in model.parameters())


def test_a_leap_of_the_loss_is_reported_with_its_dialogues(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SpikeWatch, "is_spike", lambda watch, loss: True)
    train(tiny_run(tmp_path / "run", rows, max_steps=1))
    (line,) = (line for line in told(tmp_path / "run") if line["kind"] == "spike")
    assert all(name.startswith("made-") for name in line["dialogues"])


@pytest.mark.parametrize("full_at", [3, 4], ids=["state", "weights"])  # a save writes twice
def test_a_full_disk_is_told_and_the_last_checkpoint_stays(
    rows: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int
) -> None:
    saves: list[int] = []

    def full_at_second(writer: Any, *arguments: Any) -> Any:
        saves.append(1)
        if len(saves) == full_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_data(writer, *arguments)

    write_data = FileSystemWriter.write_data
    monkeypatch.setattr(FileSystemWriter, "write_data", full_at_second)
    config = tiny_run(tmp_path / "run", rows)
    with pytest.raises(StoreError, match=r"Cannot write the checkpoint step-00000003.*no space is left"):
        train(config)
    assert steps_saved(tmp_path / "run") == [2]
    train(config)  # room was made
    assert_same(tmp_path / "run", whole)


def test_two_runs_in_one_folder_are_refused(rows: Path, tmp_path: Path) -> None:
    class Second(SilentProgress):
        def step(self, step: int, figures: Mapping[str, float]) -> None:
            with pytest.raises(ConfigError, match="Another training runs"):
                train(config)

    config = tiny_run(tmp_path / "run", rows, max_steps=1)
    assert train(config, Second()).is_done


def test_a_folder_that_cannot_be_written_is_told(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / ".lock").mkdir(parents=True)  # no file can be made of this name, as without permission
    with pytest.raises(StoreError, match=r"Cannot write .*run: .*choose another --out"):
        train(tiny_run(tmp_path / "run", rows))


def test_a_step_is_the_same_however_many_processes_there_are(rows: Path, tmp_path: Path) -> None:
    open_ = tiny_run(tmp_path / "run", rows, max_steps=1, optim={"accumulation": None})
    assert fill_config(open_, 1).optim.accumulation == 1
    with pytest.raises(ConfigError, match=r"1 micro-batches a step cannot be shared by 3 .*up to 900 frames .* of 300"):
        fill_config(open_, 3)  # three would be another run
    told_four = tiny_run(tmp_path / "run", rows, max_steps=1, optim={"accumulation": 4})
    with pytest.raises(ConfigError, match="4 micro-batches a step cannot be shared by 3"):
        fill_config(told_four, 3)
    train(told_four)
    assert fill_config(open_, 2).optim.accumulation == 4  # a run goes on as it began


def test_figures_of_validation_have_their_step(rows: Path, tmp_path: Path) -> None:
    train(tiny_run(tmp_path / "on", rows, max_steps=9, keep={"evaluate_every": 2, "save_every": 9}), Asking(3))
    (saved,) = list_checkpoints(tmp_path / "on" / CHECKPOINTS)[-1:]
    assert (saved.step, saved.read_state()["evaluation_step"]) == (3, 2)


def test_a_folder_without_a_run_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a training run"):
        load_run(tmp_path)


def test_norms_are_not_compiled_in_training_and_nothing_of_this_process_is_changed(rows: Path, tmp_path: Path) -> None:
    before, looking = (signal.getsignal(signal.SIGTERM), os.environ.copy()), Looking()
    train(tiny_run(tmp_path / "run", rows, max_steps=2), looking)
    assert looking.compiles == [False, False]  # in the whole step: the backward pass may run layers again
    assert (signal.getsignal(signal.SIGTERM), os.environ.copy()) == before


class Hourly(SilentProgress):
    """A clock by which each step takes an hour; as progress it is told of them, and may ask to stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.stop_at: int | None = None
        monkeypatch.setattr(trainer_module, "time", self)

    def monotonic(self) -> float:
        return self.now_s

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        self.now_s += 3600.0
        if step == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_ends_whole_when_its_time_is_up(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hourly = Hourly(monkeypatch)
    config = tiny_run(tmp_path / "run", rows, max_hours=2.5, keep={"save_every": 50, "evaluate_every": 50})
    result = train(config, hourly)
    assert (result.step, result.is_done) == (4, True)  # begun after 0, 1, 2 and 3 hours
    assert result.evaluation is not None, "the end is looked at, by time as by steps"
    assert steps_saved(tmp_path / "run") == [4]
    assert (tmp_path / "run" / DONE).exists()
    assert result.figures["hours"] == 3.0
    rates = [row["learning_rate"] for row in told(tmp_path / "run") if row["kind"] == "train"]
    assert rates[1:] == sorted(rates[1:], reverse=True), "it falls after two steps of warm-up"
    assert rates[-1] == pytest.approx(config.optim.learning_rate * config.optim.final_share)
    assert train(config, hourly).step == 4
    assert train(config.model_copy(update={"max_hours": 4.5}), hourly).step == 6


def test_a_run_gone_on_with_counts_the_hours_of_before(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hourly = Hourly(monkeypatch)
    hourly.stop_at = 2
    config = tiny_run(tmp_path / "run", rows, max_hours=2.5)
    assert not train(config, hourly).is_done
    hourly.stop_at = None
    hourly.now_s += 1e6  # it stood still meanwhile
    result = train(config, hourly)
    assert (result.step, result.is_done) == (4, True)
