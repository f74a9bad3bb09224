import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from data_schemas.config.training import KeepConfig
from data_schemas.errors import StoreError
from kame_model.train.checkpoints import CHECKPOINTS, DONE, Checkpoints, find_best, list_checkpoints, load_weights_only
from kame_model.train.parallel import Processes

HERE, ELSEWHERE = Processes(torch.device("cpu")), Processes(torch.device("cuda"))
"""Where a checkpoint is written within the step, and where beside the training; no GPU is touched by either."""


def tensors(value: float) -> dict[str, Any]:
    return {"model": {"weight": torch.full((3, 4), value)}}


def checkpoints(folder: Path, processes: Processes = HERE, **keep: Any) -> Checkpoints:
    return Checkpoints(folder, KeepConfig.model_validate(keep), processes)


def looked_at(step: int, **figures: float) -> dict[str, Any]:
    """A state after a look at validation."""
    return {"evaluation_step": step, "evaluation": {"right": figures}}


def save_now(keeping: Checkpoints, step: int) -> None:
    keeping.save(step, tensors(step), {})
    keeping.finish_saving()


def saved_steps(folder: Path) -> list[int]:
    return [each.step for each in list_checkpoints(folder / CHECKPOINTS)]


@pytest.mark.parametrize("processes", [HERE, ELSEWHERE], ids=["within", "beside"])
def test_what_is_saved_is_loaded(tmp_path: Path, processes: Processes) -> None:
    keeping = checkpoints(tmp_path, processes)
    keeping.save(5, tensors(2.5), {"loader": {"round": 1}})
    keeping.finish_saving()
    saved = keeping.find_latest()
    assert saved is not None
    empty = tensors(0.0)
    assert keeping.load(saved, empty) == {"step": 5, "loader": {"round": 1}}
    assert torch.equal(empty["model"]["weight"], torch.full((3, 4), 2.5))


def test_beside_the_training_a_checkpoint_counts_when_it_is_settled(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path, ELSEWHERE)
    keeping.save(1, tensors(1.0), {})
    assert saved_steps(tmp_path) == []
    keeping.save(2, tensors(2.0), {})  # settles the first
    assert saved_steps(tmp_path) == [1]
    keeping.finish_saving()
    assert saved_steps(tmp_path) == [1, 2]


def test_the_last_ones_and_the_best_stay(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path, keep_last=2, best_by="loss")
    for step, loss in ((1, 3.0), (2, 1.0), (3, None), (4, 2.0), (5, None), (6, None)):
        keeping.save(step, tensors(step), {} if loss is None else looked_at(step, loss=loss))
    assert saved_steps(tmp_path) == [2, 5, 6]
    assert keeping.find_best_score() == 1.0


def test_the_best_is_told_by_what_was_asked_for(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path, keep_last=1, best_by="answer")
    for step, loss, answer in ((1, 3.0, 0.5), (2, 1.0, 0.6), (3, 2.0, 0.7)):
        keeping.save(step, tensors(step), looked_at(step, loss=loss, answer=answer))
    keeping.save(4, tensors(4), looked_at(3, loss=0.1, answer=0.1))  # nobody looked at these weights
    assert saved_steps(tmp_path) == [1, 4]
    saved = list_checkpoints(tmp_path / CHECKPOINTS)
    assert [find_best(saved, by) for by in ("loss", "answer")] == [saved[0], saved[0]]
    assert checkpoints(tmp_path, best_by="loss").find_best_score() == 3.0, "another figure may be asked for at any time"


def test_without_the_best_only_the_last_ones_stay(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path, keep_last=1, keep_best=False)
    for step in (1, 2):
        keeping.save(step, tensors(step), looked_at(step, loss=step))
    assert saved_steps(tmp_path) == [2]


@pytest.mark.parametrize("processes", [HERE, ELSEWHERE], ids=["within", "beside"])
def test_what_cannot_be_written_leaves_nothing_and_spoils_nothing(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = checkpoints(tmp_path, processes)
    save_now(keeping, 1)

    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileSystemWriter, "write_data", full)
    with pytest.raises(StoreError, match=r"step-00000002.*no space is left on the disk.*are intact. Free disk space"):
        save_now(keeping, 2)
    assert [each.name for each in (tmp_path / CHECKPOINTS).iterdir()] == ["step-00000001"]


def test_a_disk_that_is_full_is_told_as_such(tiny_disk: Path) -> None:
    keeping = checkpoints(tiny_disk)
    save_now(keeping, 1)
    large = {"model": {"weight": torch.ones(100_000)}}  # 400 kB on 256 KiB
    with pytest.raises(StoreError, match=r"step-00000002.*no space is left on the disk"):
        keeping.save(2, large, {})
    assert saved_steps(tiny_disk) == [1]


def test_without_its_mark_a_checkpoint_does_not_count_and_goes_at_the_next_start(tmp_path: Path) -> None:
    checkpoints(tmp_path).save(1, tensors(1.0), {})
    (saved,) = list_checkpoints(tmp_path / CHECKPOINTS)
    (saved.folder / DONE).unlink()
    assert checkpoints(tmp_path).find_latest() is None
    assert not saved.folder.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "state.json").write_text("{"),
        lambda folder: (folder / ".metadata").unlink(),
        lambda folder: next(folder.glob("*.distcp")).write_bytes(b"none of it"),
    ],
)
def test_a_damaged_checkpoint_is_told(tmp_path: Path, spoil: Any) -> None:
    keeping = checkpoints(tmp_path)
    keeping.save(1, tensors(1.0), {})
    (saved,) = list_checkpoints(tmp_path / CHECKPOINTS)
    spoil(saved.folder)
    with pytest.raises(StoreError, match="cannot be read") as told:
        keeping.load(saved, tensors(0.0))
    assert "remove" not in str(told.value).lower()  # it may be whole, and only read wrongly


def test_a_checkpoint_of_another_shape_is_told(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path)
    keeping.save(1, tensors(1.0), {})
    (saved,) = list_checkpoints(tmp_path / CHECKPOINTS)
    with pytest.raises(StoreError, match=r"step-00000001 cannot be read.*move it elsewhere"):
        keeping.load(saved, {"model": {"weight": torch.zeros(5)}})


def test_all_of_a_checkpoint_is_on_the_disk_before_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync

    def remember(file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(file)

    monkeypatch.setattr(os, "fsync", remember)
    save_now(checkpoints(tmp_path), 1)
    before = synced[: synced.index(DONE)]
    assert {"state.json", "__0_0.distcp", ".metadata.tmp"} <= set(before) | {".metadata.tmp"}
    assert ".saving-step-00000001" in before  # its names
    assert synced[-1] == CHECKPOINTS  # and its own


def test_those_before_the_last_have_weights_alone(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path, keep_last=2, best_by="loss")
    for step, loss in ((1, 1.0), (2, 2.0), (3, 3.0)):
        half = {"weight": torch.full((3, 4), step + 0.5, dtype=torch.bfloat16)}
        keeping.save(step, tensors(step), looked_at(step, loss=loss), half)
    saved = list_checkpoints(tmp_path / CHECKPOINTS)
    assert [(each.step, each.is_full) for each in saved] == [(1, False), (2, False), (3, True)]
    assert keeping.find_latest() == saved[-1]
    found = {"weight": torch.zeros(3, 4)}
    load_weights_only(saved[0], found, HERE)  # into float32
    assert torch.equal(found["weight"], torch.full((3, 4), 1.5))
    assert not list(saved[0].folder.glob("*.distcp"))
    assert saved[0].list_files()[0].parent.name == "weights"


def test_a_run_does_not_go_on_from_weights_alone_nor_begin_anew(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path)
    for step in (1, 2):
        keeping.save(step, tensors(step), {}, tensors(step)["model"])
    shutil.rmtree(list_checkpoints(tmp_path / CHECKPOINTS)[-1].folder)
    with pytest.raises(StoreError, match="only have weights"):
        checkpoints(tmp_path).find_latest()


def test_as_many_full_ones_stay_as_asked_for(tmp_path: Path) -> None:
    keeping = checkpoints(tmp_path, keep_last=3, keep_full=2)
    for step in (1, 2, 3):
        keeping.save(step, tensors(step), {}, tensors(step)["model"])
    assert [each.is_full for each in list_checkpoints(tmp_path / CHECKPOINTS)] == [False, True, True]
