"""The register lists checkpoints that stand beside it, and who has looked at test items."""

import json
from pathlib import Path

import pytest

from data_schemas.errors import ConfigError, StoreError
from kame_model.checkpoint.registry import (
    INDEX,
    LOOKS,
    EvaluationOnTestItems,
    RegisteredCheckpoint,
    add_test_evaluation,
    read_registry,
    read_test_evaluations,
    register,
)


def entry(name: str, step: int = 1) -> RegisteredCheckpoint:
    return RegisteredCheckpoint(name=name, preset="nano", step=step, data=["f"], registered_at="2026-01-01T00:00:00Z")


def test_checkpoints_are_listed_in_order_and_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert read_registry(str(tmp_path)) == []
    for each in (entry("one"), entry("two"), entry("one", step=2)):
        register(str(tmp_path), each)
    assert [(each.name, each.step) for each in read_registry(str(tmp_path))] == [("two", 1), ("one", 2)]
    assert [each["name"] for each in json.loads((tmp_path / INDEX).read_text())] == ["two", "one"]


def test_what_is_not_there_is_not_registered(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no checkpoint one"):
        register(str(tmp_path), entry("one"))


def look(evaluation: str, checkpoint: str = "w") -> EvaluationOnTestItems:
    return EvaluationOnTestItems(
        checkpoint=checkpoint, evaluation=evaluation, kind="recall", data="d", at="2026-01-01T00:00:00Z"
    )


def test_a_registry_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match=r"Cannot write .*file"):
        add_test_evaluation(str(tmp_path / "file" / "checkpoints"), look("one"), again=False)


def test_a_damaged_list_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    for name in (INDEX, LOOKS):
        (tmp_path / name).write_text("[{")
    with pytest.raises(StoreError, match="damaged"):
        register(str(tmp_path), entry("one"))
    with pytest.raises(StoreError, match="damaged"):
        add_test_evaluation(str(tmp_path), look("one"), again=True)
    assert [(tmp_path / name).read_text() for name in (INDEX, LOOKS)] == ["[{", "[{"]


def test_a_second_look_of_the_same_weights_needs_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    assert read_test_evaluations(folder) == []
    assert add_test_evaluation(folder, look("one"), again=False) == 1
    assert add_test_evaluation(folder, look("one"), again=False) == 1, "gone on with"
    with pytest.raises(ConfigError, match=r"on test items before: recall, 2026-01-01T00:00:00Z\."):
        add_test_evaluation(folder, look("two"), again=False)
    assert len(read_test_evaluations(folder)) == 1
    assert add_test_evaluation(folder, look("two"), again=True) == 2
    assert add_test_evaluation(folder, look("two", "other weights"), again=False) == 1
    assert add_test_evaluation(folder, look("one"), again=False) == 2
    assert [each.evaluation for each in read_test_evaluations(folder)] == ["one", "two", "two"]
