"""Validation dialogues that a front-end answers freely while it is trained."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from kame_model.encode.token_dataset import TokenDataset
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import Tokenizer
from kame_model.train.free_dialogues import draw_dialogues, measure_dialogues
from kame_model.train.run import train
from tests.support.front_ends import tiny_front_end
from tests.support.recall_rows import make_vocabulary, recall_row, write_recall_rows
from tests.support.scripted_front_end import Habits, ScriptedGenerator
from tests.support.train_runs import tiny_run, told

pytestmark = pytest.mark.full

ANSWERS = ("five clips", "six clips", "five clips", "six clips")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return make_vocabulary(tmp_path)


@pytest.fixture
def rows(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    """Four dialogues to be trained on, four of validation."""
    made = [
        recall_row(number, answer, tokenizer, split=split)
        for split, first in (("train", 0), ("validation", 10))
        for number, answer in enumerate(ANSWERS, start=first)
    ]
    write_recall_rows(tmp_path / "rows", made, tokenizer)
    return tmp_path / "rows"


def measure(rows: Path, tokenizer: Tokenizer, habits: Habits) -> dict[str, float]:
    asked = draw_dialogues([TokenDataset(str(rows))], tokenizer, 3, seed=0)
    return measure_dialogues(tiny_front_end(), asked, tokenizer, partial(ScriptedGenerator, habits=habits))


def test_a_front_end_that_says_its_oracle_once_has_every_figure(rows: Path, tokenizer: Tokenizer) -> None:
    found = measure(rows, tokenizer, Habits())
    assert found == {"once": 1.0, "first": 1.0, "words": 1.0, "silent": 0.0, "recorded_once": 1.0, "turns": 3.0}


@pytest.mark.parametrize(
    ("habits", "changed"),
    [
        (Habits(n_times=2), {"once": 0.0}),
        (Habits(wait_frames=1000), {"once": 0.0, "first": 0.0, "words": 0.0, "silent": 1.0}),
        (Habits(n_times=0), {"once": 0.0, "first": 0.0, "words": 0.0, "silent": 1.0}),
    ],
    ids=["twice", "too-late", "never"],
)
def test_each_failing_has_its_figure(
    rows: Path, tokenizer: Tokenizer, habits: Habits, changed: dict[str, float]
) -> None:
    perfect = measure(rows, tokenizer, Habits())
    assert measure(rows, tokenizer, habits) == perfect | changed


def run_of(out: Path, rows: Path, tokenizer: Tokenizer, n_dialogues: int) -> list[dict[str, Any]]:
    keep = {"free_dialogues": n_dialogues}
    train(tiny_run(out, rows, tokenizer=str(tokenizer.path), max_steps=4, keep=keep, data={"swap_share": 0.0}))
    return told(out)


def test_a_run_tells_it_at_each_look_at_validation_and_learns_the_same(
    tmp_path: Path, rows: Path, tokenizer: Tokenizer
) -> None:
    lines = run_of(tmp_path / "with", rows, tokenizer, 2)
    free = [line for line in lines if line["kind"] == "free"]
    assert [line["step"] for line in free] == [3, 4]
    assert all(line["turns"] == 2 and line["recorded_once"] == 1 and 0 <= line["once"] <= 1 for line in free)
    without = run_of(tmp_path / "without", rows, tokenizer, 0)
    assert [line for line in lines if line["kind"] != "free"] == without


def test_what_was_drawn_before_and_the_mode_stay_as_they_were(rows: Path, tokenizer: Tokenizer) -> None:
    asked = draw_dialogues([TokenDataset(str(rows))], tokenizer, 1, seed=0)
    front_end: FrontEnd = tiny_front_end().train()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, other = (measure_dialogues(front_end, asked, tokenizer) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    assert one == other
    assert front_end.training
