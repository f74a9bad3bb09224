from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.config.training import DataConfig
from kame_model.data.example import ExampleMaker, sides_of
from kame_model.data.mixture import open_datasets
from kame_model.data.plan import BatchPlan, longest_joined
from kame_model.data.swap import Sides
from kame_model.data.waiting import SILENT_FRAMES, waiting
from kame_model.frames.ids import PADDING_ID
from tests.support.made_rows import made_with, make_row
from tests.support.token_rows import write_token_rows

BY = made_with()


def dialogue(number: int) -> Sides:
    return sides_of(make_row(number, "train", BY), "a")


@given(number=st.integers(0, 20), n_frames=st.integers(1, 60))
def test_behind_the_last_word_both_are_silent_as_they_were_at_the_end(number: int, n_frames: int) -> None:
    before = dialogue(number)
    after = waiting(before, n_frames)
    n = len(before.own.text)
    for one, other in zip(before, after, strict=True):
        assert len(other.text) == other.codes.shape[1] == len(other.answer_mask) == n + n_frames
        assert (other.text[:n] == one.text).all()
        assert (other.codes[:, :n] == one.codes).all()
        assert (other.text[n:] == PADDING_ID).all()
        assert not other.answer_mask[n:].any()
        for frame in range(n, n + n_frames):
            assert (other.codes[:, frame] == other.codes[:, frame - SILENT_FRAMES]).all()
        assert other.oracle is one.oracle
        assert other.text.dtype == one.text.dtype
        assert other.codes.dtype == one.codes.dtype


def test_who_talks_to_the_end_is_not_repeated() -> None:
    sides = dialogue(1)
    text = sides.other.text.copy()
    text[-1] = PADDING_ID + 7
    talking = sides._replace(other=replace(sides.other, text=text))
    assert waiting(talking, 9) is talking
    assert waiting(sides, 0) is sides


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_examples_waits_and_none_longer_than_planned(tmp_path: Path, share: float) -> None:
    write_token_rows(tmp_path, [make_row(number, "train", BY) for number in range(12)], made_with=BY)
    config = DataConfig.model_validate({"datasets": [{"path": str(tmp_path)}], "wait_share": share})
    plan = BatchPlan(datasets := open_datasets(config.datasets), config, seed=0)
    maker = ExampleMaker(datasets, config, seed=0)
    longer = []
    for planned in (each for batch in plan.round(0) for each in batch):
        example, changes = maker.train(planned, step=0)
        row = datasets[0][planned.unit.row]
        n_more = example.n_positions - (row.n_frames + 1)
        assert 0 <= n_more <= longest_joined(row.n_frames, config.max_columns) - row.n_frames
        longer.append(n_more)
        assert not any(changes)
    assert np.any(longer) == (share > 0)
