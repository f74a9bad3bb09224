from pathlib import Path

import pytest

from kame_model.data.batch_plan import RowChunk
from kame_model.data.example import ExampleMaker, ValidationExample
from kame_model.train.run import train
from tests.support.made_rows import made_with, make_speech_row
from tests.support.token_rows import write_token_rows
from tests.support.train_runs import tiny_dataset, tiny_run, told

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, by = tmp_path_factory.mktemp("speech"), made_with()
    rows = [make_speech_row(number, "train", by) for number in range(12)]
    write_token_rows(folder, rows, [make_speech_row(number, "validation", by) for number in (20, 21, 22)], made_with=by)
    return folder


def test_speech_alone_is_trained_on_and_judged(speech: Path, tmp_path: Path) -> None:
    train(tiny_run(tmp_path / "run", speech, max_steps=3, shares={"speech": 1}))
    lines = told(tmp_path / "run")
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3]
    (look,) = [line for line in lines if "right" in line]
    assert set(look["right"]) >= {"text", "answer", "semantic", "acoustic"}
    assert "swapped" not in lines[0], "there are no dialogues of which anything could become"


def test_beside_dialogues_speech_is_trained_on_and_not_judged(
    speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[RowChunk] = []
    judge = ExampleMaker.make_validation_example

    def remember(maker: ExampleMaker, unit: RowChunk) -> ValidationExample:
        judged.append(unit)
        return judge(maker, unit)

    monkeypatch.setattr(ExampleMaker, "make_validation_example", remember)
    dialogues = tiny_dataset(tmp_path / "dialogues")
    config = tiny_run(tmp_path / "run", dialogues, max_steps=3)
    mixed = [*config.data.datasets, config.data.datasets[0].model_copy(update={"path": str(speech)})]
    train(config.model_copy(update={"data": config.data.model_copy(update={"datasets": mixed})}))
    assert {unit.dataset for unit in judged} == {0}
    assert told(tmp_path / "run")[0]["rows_left_out"] == 0
