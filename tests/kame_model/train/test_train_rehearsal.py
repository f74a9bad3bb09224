"""Runs on dialogues in which a share of the steps copies words again."""

from pathlib import Path
from typing import Any

import pytest
from moshi.models.lm import LMModel

from data_schemas.config.training import TrainConfig
from kame_model.train.checkpoints import CHECKPOINTS, list_checkpoints
from kame_model.train.run import train
from kame_model.train.trainer import SilentProgress
from tests.support.train_runs import Asking, Forking, assert_same, tiny_dataset, tiny_run, told
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows and their vocabulary."""
    folder = tmp_path_factory.mktemp("place")
    tokenizer = make_vocabulary(folder)
    tiny_dataset(folder / "rows", text_card=tokenizer.text_card, tokenizer_digest=tokenizer.digest)
    return folder


def rehearsing(out: Path, place: Path, **changes: Any) -> TrainConfig:
    """Every second of six steps copies."""
    settings: dict[str, Any] = {
        "tokenizer": str(next(place.glob("*.model"))),
        "shares": {"dialogues": 0.5, "copying": 0.5},
        "copying": {"batch_size": 2, "max_frames": 75},
        "keep": {"evaluate_examples": 0},
    }
    return tiny_run(out, place / "rows", **settings | changes)


class Calls(SilentProgress):
    """Progress that counts the calls of the depth transformer since the last step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._n_calls, self.by_step = 0, list[int]()
        whole = LMModel.forward_depformer_training

        def counted(*arguments: Any) -> Any:
            self._n_calls += 1
            return whole(*arguments)

        monkeypatch.setattr(LMModel, "forward_depformer_training", counted)

    def begin(self, step: int, max_steps: int) -> None:
        self._n_calls = 0

    def step(self, step: int, figures: Any) -> None:
        self.by_step.append(self._n_calls)
        self._n_calls = 0


def test_steps_of_copying_are_told_apart_and_make_no_sound(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    train(rehearsing(tmp_path / "run", place), calls)
    assert calls.by_step == [2, 0, 2, 0, 2, 0]  # of two micro-batches a step
    of_dialogues, of_copies = told(tmp_path / "run")[::2], told(tmp_path / "run")[1::2]
    assert all(line.keys() >= {"loss", "gradient_norm", "text", "semantic"} for line in of_dialogues)
    assert not any(name.startswith("copy_") for line in of_dialogues for name in line)
    assert all(line.keys() >= {"copy_loss", "copy_gradient_norm", "copy_text"} for line in of_copies)
    assert not any(name in line for line in of_copies for name in ("loss", "text", "copy_semantic", "gradient_norm"))
    assert (
        list_checkpoints(tmp_path / "run" / CHECKPOINTS)[-1].read_state()["spikes"]["n_seen"] == 3
    )  # copies are no leap


def test_a_line_of_metrics_has_the_steps_of_both_kinds(place: Path, tmp_path: Path) -> None:
    train(rehearsing(tmp_path / "each", place, max_steps=2))
    train(rehearsing(tmp_path / "both", place, max_steps=2, keep={"evaluate_examples": 0, "log_every": 2}))
    (dialogues, copies), (both,) = told(tmp_path / "each"), told(tmp_path / "both")
    assert (both["loss"], both["copy_loss"]) == (dialogues["loss"], copies["copy_loss"])


@pytest.mark.slow
def test_two_processes_rehearse_as_one(place: Path, tmp_path: Path) -> None:
    train(rehearsing(tmp_path / "alone", place, max_steps=4))
    assert Forking().run_together(rehearsing(tmp_path / "two", place, max_steps=4), 2) == [0, 0]
    for ours, theirs in zip(told(tmp_path / "two"), told(tmp_path / "alone"), strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=2e-4)


def test_a_run_that_rehearses_goes_on_to_the_last_bit(place: Path, tmp_path: Path) -> None:
    keep = {"evaluate_examples": 0, "log_every": 2}
    train(rehearsing(tmp_path / "whole", place, keep=keep))
    train(rehearsing(tmp_path / "stopped", place, keep=keep), Asking(3))
    train(rehearsing(tmp_path / "stopped", place, keep=keep))
    assert_same(tmp_path / "stopped", tmp_path / "whole")
