"""Questions of anybody's own: columns of any name, options in many shapes, answers that name one of them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import ConfigError
from pipelines.sources.items import SourceReading, read_items

ARC = {
    "id": "Mercury_7",
    "question": "Which planet is nearest to the sun?",
    "choices": {"text": ["Venus", "Mercury", "Mars", "Earth"], "label": ["A", "B", "C", "D"]},
    "answerKey": "B",
}
ARC_MAP = {"question": "question", "options": "choices", "answer": "answerKey", "id": "id"}
LETTERED = {"text": ["Venus", "Mercury"], "label": ["A", "B"]}


def read(folder: Path, row: dict[str, Any], columns: dict[str, str], **options: str | int) -> SourceReading:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    config = SourceConfig(name="mine", path=str(path), columns=columns, options=dict(options))
    return read_items(config, None, SplitConfig())


def test_arc_comes_in_without_code_from_json_and_parquet(tmp_path: Path) -> None:
    (item,) = read(tmp_path, ARC, ARC_MAP).items
    assert (item.item_id, item.question) == ("mine-Mercury_7", ARC["question"])
    assert (item.options, item.answer_index, item.answer) == (("Venus", "Mercury", "Mars", "Earth"), 1, "Mercury")
    pq.write_table(pa.Table.from_pylist([ARC]), tmp_path / "rows.parquet")
    config = SourceConfig(name="mine", path=str(tmp_path / "rows.parquet"), columns=ARC_MAP)
    assert read_items(config, None, SplitConfig()).items == [item]


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"text": ["Venus", "Mercury"], "label": ["1", "2"]}, "2"),
        ({"texts": ["Venus", "Mercury"], "labels": ["x", "y"]}, "y"),
        ([{"label": "A", "text": "Venus"}, {"label": "B", "text": "Mercury"}], "B"),
        ({"A": "Venus", "B": "Mercury", "C": None}, "B"),
        (["Venus", "Mercury"], "B"),
        (["Venus", "Mercury"], 1),
        (["Venus", "Mercury"], "Mercury"),
        (LETTERED, " Mercury "),
    ],
    ids=str,
)
def test_options_and_answers_in_shapes_that_question_sets_have(options: Any, answer: str | int, tmp_path: Path) -> None:
    row = {"q": "Which is nearest to the sun?", "o": options, "a": answer}
    reading = read(tmp_path, row, {"question": "q", "options": "o", "answer": "a"})
    assert reading.rejects == []
    assert (reading.items[0].answer, reading.items[0].answer_index) == ("Mercury", 1)


def test_options_in_columns_of_their_own_and_columns_in_columns(tmp_path: Path) -> None:
    row = {"data": {"q": "Which is nearest?", "right": 2}, "opa": "Venus", "opb": "Mercury"}
    columns = {"question": "data.q", "answer": "data.right", "options": "opa+opb"}
    (item,) = read(tmp_path, row, columns, first_place=1).items
    assert (item.question, item.answer) == ("Which is nearest?", "Mercury")


@pytest.mark.parametrize(
    ("options", "answer", "reason"),
    [
        (LETTERED, "C", "answer_out_of_range"),
        (LETTERED, 2, "answer_out_of_range"),
        (LETTERED, None, "missing_field"),
        (LETTERED, 1.0, "wrong_type"),
        (LETTERED, True, "wrong_type"),
        (["Venus", "Mercury"], "1", "answer_out_of_range"),  # a text is no place unless answer_is says so
        ({"text": ["a", "b", "c"], "label": ["1", "2", "3"]}, 1, "ambiguous_answer"),
        (["B", "A"], "A", "ambiguous_answer"),
        (["same", "same"], "same", "ambiguous_answer"),
        (["Venus"], "A", "too_few_options"),
        (["Venus", " "], "B", "empty_field"),
        ("Venus, Mercury", "A", "wrong_type"),
        ([{"label": "A"}, {"label": "B"}], "A", "wrong_type"),
        ({"text": ["Venus", "Mercury"], "label": ["A", "A"]}, "A", "wrong_options"),
        ({"text": ["Venus", "Mercury"], "label": ["A"]}, "A", "wrong_options"),
        ({"text": ["Venus", "Mercury"], "label": 3}, "A", "wrong_type"),
        ({"text": ["Venus", "Mercury"], "label": "AB"}, "A", "wrong_type"),
    ],
    ids=str,
)
def test_an_answer_that_names_no_one_option_is_refused(options: Any, answer: Any, reason: str, tmp_path: Path) -> None:
    row = {"q": "Which?", "o": options, "a": answer}
    reading = read(tmp_path, row, {"question": "q", "options": "o", "answer": "a"})
    assert [each.reason for each in reading.rejects] == [reason]


def test_a_refused_row_is_told_by_its_own_id(tmp_path: Path) -> None:
    (reject,) = read(tmp_path, ARC | {"answerKey": "E"}, ARC_MAP).rejects
    assert (reject.item_id, reject.detail) == ("mine-row-0", "answer 'E' of 4 options (id Mercury_7)")


@pytest.mark.parametrize(("rule", "index"), [("label", 0), ("place", 1), ("text", 2)])
def test_how_an_answer_names_its_option_can_be_said(rule: str, index: int, tmp_path: Path) -> None:
    row = {"q": "Which?", "o": {"text": ["7", "8", "1"], "label": ["1", "2", "3"]}, "a": "1"}
    columns = {"question": "q", "options": "o", "answer": "a"}
    assert read(tmp_path, row, columns).rejects[0].reason == "ambiguous_answer"
    assert read(tmp_path, row, columns, answer_is=rule).items[0].answer_index == index


def test_options_that_a_source_does_not_take_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"source 'mine' does not take these options: colour.*It takes: .*answer_is"):
        read(tmp_path, ARC, ARC_MAP, colour="blue")


@pytest.mark.parametrize("question", ["question", "the.question"])
def test_a_described_source_is_read_from_the_hub_also_by_a_column_with_a_dot(question: str, tmp_path: Path) -> None:
    row = {question if each == "question" else each: value for each, value in ARC.items()}
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    there: dict[str, str | int | float | bool] = {"hub_id": str(tmp_path), "hub_split": "test"}
    config = SourceConfig(name="arc", columns=ARC_MAP | {"question": question}, options=there)
    (item,) = read_items(config, None, SplitConfig()).items
    assert (item.question, item.answer) == (ARC["question"], "Mercury")
