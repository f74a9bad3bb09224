"""Validation dialogues that a front-end answers freely while it is trained."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from data_schemas.config.training import TrainConfig
from data_schemas.free_running import FREE_RUNNING, FreeDialogue, FreeLine, FreeTurn, read_lines
from data_schemas.store import TEMPORARY
from kame_model.encode.token_dataset import TokenDataset
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import Tokenizer
from kame_model.train.free_dialogues import draw_dialogues, measure_dialogues
from kame_model.train.free_samples import MOST_LINES, FreeResult, FreeRunningLog
from kame_model.train.run import train
from kame_model.train.trainer import SilentProgress
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


def run_habits(rows: Path, tokenizer: Tokenizer, habits: Habits, n_dialogues: int = 3) -> FreeResult:
    asked = draw_dialogues([TokenDataset(str(rows))], tokenizer, n_dialogues, seed=0)
    return measure_dialogues(tiny_front_end(), asked, tokenizer, partial(ScriptedGenerator, habits=habits))


PERFECT = {"once": 1.0, "first": 1.0, "words": 1.0, "silent": 0.0, "recorded_once": 1.0, "turns": 3.0}
SILENT = {"once": 0.0, "first": 0.0, "words": 0.0, "silent": 1.0}


@pytest.mark.parametrize(
    ("habits", "changed"),
    [
        (Habits(), {}),
        (Habits(n_times=2), {"once": 0.0}),
        (Habits(wait_frames=1000), SILENT),
        (Habits(n_times=0), SILENT),
    ],
    ids=["once", "twice", "too-late", "never"],
)
def test_each_failing_has_its_figure(
    rows: Path, tokenizer: Tokenizer, habits: Habits, changed: dict[str, float]
) -> None:
    assert run_habits(rows, tokenizer, habits).figures == PERFECT | changed


def test_the_texts_of_each_dialogue_are_told(rows: Path, tokenizer: Tokenizer) -> None:
    right, twice, never = (
        run_habits(rows, tokenizer, habits).dialogues for habits in (Habits(), Habits(n_times=2), Habits(n_times=0))
    )
    assert [each.dialogue_id for each in right] == [each.dialogue_id for each in twice]
    assert {each.turns[0].oracle for each in right} == {"it is five clips", "it is six clips"}
    for one, other, none in zip(right, twice, never, strict=True):
        (turn,), told_text = one.turns, one.turns[0].oracle
        assert one.question == "how many"
        assert turn.delay_s is not None
        assert turn == FreeTurn(
            oracle=told_text, said=told_text, recorded=f"well {told_text}", is_right=True, delay_s=turn.delay_s
        )
        assert (other.turns[0].said, other.turns[0].is_right) == (f"{told_text} {told_text}", False)
        assert none.turns[0] == turn.model_copy(update={"said": "", "is_right": False, "delay_s": None})


def test_the_texts_of_four_dialogues_at_most_are_told(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = [recall_row(number, "five clips", tokenizer) for number in range(6)]
    write_recall_rows(tmp_path / "six", made, tokenizer)
    found = run_habits(tmp_path / "six", tokenizer, Habits(), n_dialogues=6)
    assert (found.figures["turns"], len(found.dialogues)) == (6, 4)


def free_run(out: Path, rows: Path, tokenizer: Tokenizer, n_dialogues: int) -> TrainConfig:
    keep = {"free_dialogues": n_dialogues, "keep_best": False}
    return tiny_run(out, rows, tokenizer=str(tokenizer.path), max_steps=4, keep=keep, data={"swap_share": 0.0})


def run_of(out: Path, rows: Path, tokenizer: Tokenizer, n_dialogues: int) -> list[dict[str, Any]]:
    train(free_run(out, rows, tokenizer, n_dialogues))
    return told(out)


def read_texts(out: Path) -> list[FreeLine]:
    lines, n_damaged = read_lines((out / FREE_RUNNING).read_bytes())
    assert n_damaged == 0
    return lines


def test_a_run_tells_it_at_each_look_at_validation_and_learns_the_same(
    tmp_path: Path, rows: Path, tokenizer: Tokenizer
) -> None:
    lines = run_of(tmp_path / "with", rows, tokenizer, 2)
    free = [line for line in lines if line["kind"] == "free"]
    assert [line["step"] for line in free] == [3, 4]
    assert all(line["turns"] == 2 and line["recorded_once"] == 1 and 0 <= line["once"] <= 1 for line in free)
    assert [each.step for each in read_texts(tmp_path / "with")] == [3, 3, 4, 4]
    without = run_of(tmp_path / "without", rows, tokenizer, 0)
    assert [line for line in lines if line["kind"] != "free"] == without
    assert not (tmp_path / "without" / FREE_RUNNING).exists()


class _FailAt(SilentProgress):
    """Ends a run after a step, before anything of it is saved."""

    def __init__(self, step: int) -> None:
        self._step = step

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Fails at that step."""
        if step == self._step:
            raise InterruptedError


def test_a_run_that_goes_on_from_before_an_evaluation_has_no_text_twice(
    tmp_path: Path, rows: Path, tokenizer: Tokenizer
) -> None:
    run_of(tmp_path / "whole", rows, tokenizer, 2)
    config = free_run(tmp_path / "broken", rows, tokenizer, 2)
    with pytest.raises(InterruptedError):
        train(config, _FailAt(4))  # its last checkpoint is that of step 2
    assert [each.step for each in read_texts(tmp_path / "broken")] == [3, 3]
    half = tmp_path / "broken" / f"{FREE_RUNNING}.abc{TEMPORARY}"
    half.write_text("{")  # killed while it was written
    train(config)
    assert read_texts(tmp_path / "broken") == read_texts(tmp_path / "whole")
    assert not half.exists()


def made_dialogue(said: str) -> FreeDialogue:
    turn = FreeTurn(oracle="it is five", said=said, recorded="well it is five", is_right=False, delay_s=0.4)
    return FreeDialogue(dialogue_id="mine-1-v0", question="how many", turns=[turn])


def test_the_file_of_texts_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    log = FreeRunningLog(tmp_path, 0)
    log.write(1, [made_dialogue("old")] * MOST_LINES)
    log.write(2, [made_dialogue("new")] * 4)
    lines = read_texts(tmp_path)
    assert len(lines) == MOST_LINES
    assert [each.step for each in lines] == [1] * (MOST_LINES - 4) + [2] * 4


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
