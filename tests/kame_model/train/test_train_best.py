"""Which checkpoint of a run is its best."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data_schemas.errors import ConfigError
from kame_model.train.checkpoints import CHECKPOINTS, list_checkpoints
from kame_model.train.run import train
from kame_model.train.run_facts import read_facts
from kame_model.train.run_folder import load_run
from kame_model.train.validation import Evaluator
from tests.support.made_rows import made_with, make_row
from tests.support.token_rows import write_token_rows
from tests.support.train_runs import Asking, tiny_dataset, tiny_run

pytestmark = pytest.mark.full

KEEP: dict[str, Any] = {"save_every": 9, "keep_last": 1, "evaluate_every": 1}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at validation: the first has the least loss of the answer, the second of all, the third of the text."""
    told = iter([(3.0, 0.5, 0.9), (1.0, 0.6, 0.8), (2.0, 0.7, 0.7), (2.0, 0.7, 0.8)])

    def look(*_: Any) -> dict[str, dict[str, float]]:
        return {"right": dict(zip(("loss", "answer", "text"), next(told), strict=True))}

    monkeypatch.setattr(Evaluator, "__call__", look)


@pytest.mark.parametrize(
    ("keep", "best"),
    [({}, 3), ({"best_by": "answer"}, 1), ({"best_by": "loss"}, 2), ({"best_by": "text"}, 3)],
    ids=["by default", "answer", "loss", "text"],
)
@pytest.mark.usefixtures("looks")
def test_the_best_is_kept_and_exported_by_what_was_asked_for(tmp_path: Path, keep: dict[str, str], best: int) -> None:
    config = tiny_run(tmp_path / "run", tiny_dataset(tmp_path / "rows"), max_steps=4, keep=KEEP | keep)
    train(config, Asking(3))
    train(config)  # gone on with, the fourth is no better than those before
    assert [each.step for each in list_checkpoints(tmp_path / "run" / CHECKPOINTS)] == [best, 4]
    assert load_run(tmp_path / "run", "best")[2].step == best


@pytest.mark.parametrize(("later", "best"), [({}, 2), ({"best_by": "answer"}, 1)], ids=["as begun", "answer"])
@pytest.mark.usefixtures("looks")
def test_a_run_goes_on_with_what_told_its_best_unless_that_is_changed(
    tmp_path: Path, later: dict[str, str], best: int
) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    train(tiny_run(tmp_path / "run", rows, max_steps=3, keep=KEEP | {"keep_last": 3, "best_by": "loss"}))
    train(tiny_run(tmp_path / "run", rows, max_steps=4, keep=KEEP | later))
    assert load_run(tmp_path / "run", "best")[2].step == best


def mute_dataset(folder: Path) -> Path:
    """Rows of whose validation nobody answers anything, as in recorded talk."""
    made = [make_row(number, split, made_with()) for number, split in enumerate(("train", "train", "validation"))]
    mute = replace(made[2].a, answer_mask=np.zeros_like(made[2].a.answer_mask))
    write_token_rows(folder, made[:2], [replace(made[2], a=mute)], made_with=made_with())
    return folder


def test_without_an_answer_on_validation_no_best_can_be_told_by_it(tmp_path: Path) -> None:
    rows = mute_dataset(tmp_path / "rows")
    with pytest.raises(ConfigError, match=r"No validation dialogue has an answer.*keep\.best_by"):
        train(tiny_run(tmp_path / "run", rows, keep={"best_by": "answer"}))


def test_without_an_answer_on_validation_its_text_tells_the_best(tmp_path: Path) -> None:
    train(tiny_run(tmp_path / "run", mute_dataset(tmp_path / "rows"), max_steps=1, keep={"evaluate_every": 1}))
    assert read_facts(tmp_path / "run").config.keep.best_by == "text"
    assert load_run(tmp_path / "run", "best")[2].step == 1


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed"])
def test_weights_alone_are_those_that_the_whole_checkpoint_would_give(tmp_path: Path, precision: str) -> None:
    """Averaged ones; in bf16, where products are made in it, rounded to that."""
    rows, found = tiny_dataset(tmp_path / "rows"), []
    for n_full in (2, 1):
        out = tmp_path / str(n_full)
        keep = {"save_every": 2, "keep_full": n_full, "keep_best": False, "evaluate_examples": 0}
        train(tiny_run(out, rows, max_steps=4, keep=keep, hardware={"precision": precision}))
        before_last, last = list_checkpoints(out / CHECKPOINTS)
        assert (before_last.is_full, last.is_full) == (n_full == 2, True)
        shutil.rmtree(last.folder)
        found.append(load_run(out, "last")[0].state_dict())
    whole, alone = found
    for name, each in whole.items():
        rounded = each.bfloat16().float() if precision == "bf16-mixed" else each
        assert torch.equal(alone[name], rounded), name
