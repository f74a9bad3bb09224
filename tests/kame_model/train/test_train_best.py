"""Which checkpoint of a run is its best."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_schemas.errors import ConfigError
from kame_model.train.evaluating import Evaluator
from kame_model.train.run import train
from kame_model.train.runs import load_run
from kame_model.train.saving import CHECKPOINTS, saved_in
from tests.support.made_rows import made_with, make_row
from tests.support.token_rows import write_token_rows
from tests.support.train_runs import Asking, tiny_dataset, tiny_run

pytestmark = pytest.mark.full

KEEP: dict[str, Any] = {"save_every": 9, "keep_last": 1, "evaluate_every": 1}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at validation of which the second has the least loss, and the first the least loss of the answer."""
    told = iter([(3.0, 0.5), (1.0, 0.6), (2.0, 0.7), (2.0, 0.7)])

    def look(*_: Any) -> dict[str, dict[str, float]]:
        loss, answer = next(told)
        return {"right": {"loss": loss, "answer": answer}}

    monkeypatch.setattr(Evaluator, "__call__", look)


@pytest.mark.parametrize(("best_by", "best"), [("loss", 2), ("answer", 1)])
@pytest.mark.usefixtures("looks")
def test_the_best_is_kept_and_exported_by_what_was_asked_for(tmp_path: Path, best_by: str, best: int) -> None:
    config = tiny_run(tmp_path / "run", tiny_dataset(tmp_path / "rows"), max_steps=4, keep=KEEP | {"best_by": best_by})
    train(config, Asking(3))
    train(config)  # gone on with, the fourth is no better than those before
    assert [each.step for each in saved_in(tmp_path / "run" / CHECKPOINTS)] == [best, 4]
    assert load_run(tmp_path / "run", "best")[2].step == best


@pytest.mark.usefixtures("looks")
def test_what_tells_the_best_may_be_changed(tmp_path: Path) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    train(tiny_run(tmp_path / "run", rows, max_steps=3, keep=KEEP | {"keep_last": 3}))
    train(tiny_run(tmp_path / "run", rows, max_steps=4, keep=KEEP | {"best_by": "answer"}))
    assert load_run(tmp_path / "run", "best")[2].step == 1


def test_without_an_answer_on_validation_no_best_can_be_told_by_it(tmp_path: Path) -> None:
    made = [make_row(number, split, made_with()) for number, split in enumerate(("train", "train", "validation"))]
    mute = replace(made[2].a, answer_mask=np.zeros_like(made[2].a.answer_mask))
    write_token_rows(tmp_path / "rows", made[:2], [replace(made[2], a=mute)], made_with=made_with())
    with pytest.raises(ConfigError, match=r"No validation dialogue has an answer.*keep\.best_by"):
        train(tiny_run(tmp_path / "run", tmp_path / "rows", keep={"best_by": "answer"}))
