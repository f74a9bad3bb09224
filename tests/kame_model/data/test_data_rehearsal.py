"""Steps of dialogues among which some copy words again."""

from pathlib import Path
from typing import Any

import pytest

from data_schemas.code_layout import CodeLayout
from data_schemas.config.copying import CopyConfig
from data_schemas.config.training import KINDS, DataConfig, SharesConfig
from kame_model.data.batch_plan import PlannedExample
from kame_model.data.copying import WordPieces
from kame_model.data.example import ExampleMaker
from kame_model.data.lessons import CopySource
from kame_model.data.loader import Loader, RowSource, get_kind_at
from kame_model.data.mixture import open_datasets
from kame_model.frames.ids import ZERO_ID
from tests.support.train_runs import tiny_dataset


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("rows"), n_train=20)


def rehearsal_of(folder: Path, copy_share: float) -> Loader:
    """Dialogues of the rows, and copying in their vocabulary's size, two micro-batches a step."""
    settings = {"datasets": [{"path": str(folder)}], "batch_frames": 300, "swap_share": 0.5}
    config = DataConfig.model_validate(settings)
    shares = SharesConfig(dialogues=1 - copy_share, copying=copy_share)
    dialogues = RowSource(open_datasets(config.datasets), config, 0, 2, shares=shares)
    pieces = WordPieces(first=range(10, 100), more=range(100, 200), text_card=200, layout=CodeLayout.make_mimi(4, 32))
    course = CopyConfig(batch_size=8, max_gap_frames=1, max_frames=200)
    return Loader({"dialogues": dialogues, "copying": CopySource(pieces, course, None, 0, 2)}, shares)


def test_a_share_of_the_steps_goes_on_with_copying(rows: Path) -> None:
    """Numbered by the run, so no two micro-batches share a seed and the oracles' curriculum goes by the run's steps."""
    loader = rehearsal_of(rows, copy_share=0.25)
    batches = [batch for _ in range(12) for batch in loader.load_next_step()]
    assert [each.kind == "copying" for each in batches[::2]] == [False, False, False, True] * 3
    assert [each.number for each in batches] == list(range(24))
    assert all((each.kind == "copying") == (not each.dialogue_ids) for each in batches)
    assert not any((each.batch.audio_labels != ZERO_ID).any() for each in batches if each.kind == "copying")


def test_examples_are_made_for_the_runs_step(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def remember(maker: ExampleMaker, planned: PlannedExample, step: int) -> Any:
        steps.append(step)
        return make(maker, planned, step)

    make = ExampleMaker.make_example
    monkeypatch.setattr(ExampleMaker, "make_example", remember)
    loader = rehearsal_of(rows, copy_share=0.25)
    for _ in range(6):
        loader.load_next_step()
    assert sorted(set(steps)) == [0, 1, 2, 4, 5]  # 3 copies


@pytest.mark.parametrize("weights", [(70, 20, 10), (0, 85, 15), (0, 20, 80), (1, 0, 0), (0, 0, 3), (0, 1, 0)])
def test_steps_of_all_kinds_are_spread_evenly_by_their_shares(weights: tuple[float, float, float]) -> None:
    shares = SharesConfig(dialogues=weights[0], speech=weights[1], copying=weights[2])
    kinds = [get_kind_at(step, shares) for step in range(100)]
    for kind, weight in zip(KINDS, weights, strict=True):
        wanted = weight / sum(weights)
        assert kinds.count(kind) == pytest.approx(100 * wanted, abs=1)
        assert kinds[:50].count(kind) == pytest.approx(50 * wanted, abs=1)
