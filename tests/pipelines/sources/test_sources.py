"""Question sets row by row: what becomes an item, what is refused and why, and what no source can be read from."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_schemas import ids, splits
from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import ConfigError, SourceError
from data_schemas.records import Item
from pipelines.sources import gsm8k, hssbench, mmlu_pro
from pipelines.sources.items import SourceReading, read_evaluation_questions, read_items

GSM8K = {"question": "How many pens are 3 boxes of 4?", "answer": "3*4 = <<3*4=12>>12 pens.\n#### 12"}
MMLU_PRO = {
    "question_id": 70, "question": "Which gas do plants take in?", "options": ["Oxygen", " Carbon dioxide "],
    "answer": "B", "answer_index": 1, "cot_content": "", "category": "biology",
}  # fmt: skip
HSSBENCH = {
    "id": "40ea", "pic_path": "eco_1.png", "question": "Which good is cheaper?",
    "options": {"B": "Wine", "A": "Bread"}, "correct_answer": "A", "category": "Economy",
}  # fmt: skip
MODULES = {"gsm8k": gsm8k, "mmlu_pro": mmlu_pro, "hssbench": hssbench}
GOOD: dict[str, dict[str, Any]] = {"gsm8k": GSM8K, "mmlu_pro": MMLU_PRO, "hssbench": HSSBENCH}


def written(folder: Path, *rows: Any, name: str = "rows.jsonl") -> str:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


def read(path: str, name: str, limit: int | None = None, **more: Any) -> SourceReading:
    contaminated = more.pop("contaminated", frozenset())
    return read_items(SourceConfig(name=name, path=path, **more), limit, SplitConfig(), contaminated)


def the_item(folder: Path, name: str, row: dict[str, Any], **more: Any) -> Item:
    reading = read(written(folder, row), name, **more)
    assert reading.rejects == []
    (item,) = reading.items
    return item


def test_gsm8k_and_mmlu_pro_rows(tmp_path: Path) -> None:
    item = the_item(tmp_path, "gsm8k", GSM8K)
    assert (item.question, item.answer) == ("How many pens are 3 boxes of 4?", "12")
    assert item.explanation == "3*4 = 12 pens."
    assert (item.options, item.answer_index, item.native_id, item.licence) == ((), None, None, "MIT")
    assert item.item_id == ids.make_item_id("gsm8k", None, item.question)
    assert item.group_id == splits.make_group_id(item.question)
    assert item.split == splits.choose_split(item.group_id, SplitConfig())
    item = the_item(tmp_path, "mmlu_pro", MMLU_PRO)
    assert (item.item_id, item.native_id, item.category) == ("mmlu_pro-70", "70", "biology")
    assert (item.options, item.answer_index, item.answer) == (("Oxygen", "Carbon dioxide"), 1, "Carbon dioxide")
    assert item.explanation is None


@pytest.mark.parametrize("row", [HSSBENCH, {**HSSBENCH, "zh": {}, "en": {**HSSBENCH}}], ids=["flat", "six languages"])
def test_hssbench_row_in_both_forms(tmp_path: Path, row: dict[str, Any]) -> None:
    item = the_item(tmp_path, "hssbench", row)
    assert (item.item_id, item.category, item.picture) == ("hssbench-40ea", "Economy", "eco_1.png")
    assert (item.question, item.options, item.answer) == ("Which good is cheaper?", ("Bread", "Wine"), "Bread")


REFUSED: list[tuple[str, Any, str]] = [
    ("gsm8k", GSM8K | {"answer": "12 pens"}, "no_final_answer"),
    ("gsm8k", GSM8K | {"answer": "12 pens ####  "}, "no_final_answer"),
    ("gsm8k", {"question": "How many?"}, "missing_field"),
    ("gsm8k", GSM8K | {"question": None}, "missing_field"),
    ("gsm8k", GSM8K | {"question": " \n "}, "empty_field"),
    ("gsm8k", GSM8K | {"question": 7}, "wrong_type"),
    ("gsm8k", '{"question": "How', "not_json"),
    ("gsm8k", "[1]", "not_json"),
    ("mmlu_pro", MMLU_PRO | {"options": None}, "wrong_type"),
    ("mmlu_pro", MMLU_PRO | {"options": ["a", 2]}, "wrong_type"),
    ("mmlu_pro", MMLU_PRO | {"options": ["a"]}, "too_few_options"),
    ("mmlu_pro", MMLU_PRO | {"answer": "C"}, "answer_out_of_range"),
    ("mmlu_pro", MMLU_PRO | {"answer": "?"}, "answer_out_of_range"),
    ("mmlu_pro", MMLU_PRO | {"answer": "AB"}, "answer_out_of_range"),
    ("mmlu_pro", MMLU_PRO | {"answer": "ŉ"}, "answer_out_of_range"),
    ("mmlu_pro", MMLU_PRO | {"answer_index": 0}, "answer_mismatch"),
    ("mmlu_pro", MMLU_PRO | {"options": ["a", " "]}, "empty_field"),
    ("hssbench", HSSBENCH | {"options": ["a", "b"]}, "wrong_type"),
    ("hssbench", HSSBENCH | {"options": {"A": "a", "C": "c"}}, "wrong_options"),
    ("hssbench", HSSBENCH | {"options": {"A": "a", "B": 2}}, "wrong_type"),
    ("hssbench", HSSBENCH | {"options": {"A": "a", "B": None}}, "too_few_options"),
    ("hssbench", HSSBENCH | {"correct_answer": "G"}, "answer_out_of_range"),
    ("hssbench", HSSBENCH | {"correct_answer": None}, "missing_field"),
    ("hssbench", HSSBENCH | {"en": "text"}, "wrong_type"),
]


@pytest.mark.parametrize(("name", "row", "reason"), REFUSED, ids=[f"{each[0]}-{n}" for n, each in enumerate(REFUSED)])
def test_a_broken_row_is_refused_and_the_rest_is_read(tmp_path: Path, name: str, row: Any, reason: str) -> None:
    reading = read(written(tmp_path, row, GOOD[name]), name)
    assert len(reading.items) == 1
    assert reading.n_rows == 2
    (reject,) = reading.rejects
    assert (reject.item_id, reject.source, reject.stage, reject.reason) == (f"{name}-row-0", name, "source", reason)
    assert reject.detail


def test_a_second_item_of_one_id_is_a_duplicate_and_the_limit_counts_rows(tmp_path: Path) -> None:
    other = MMLU_PRO | {"question": "Which other gas?"}
    reading = read(written(tmp_path, MMLU_PRO, other, MMLU_PRO), "mmlu_pro")
    assert [item.question for item in reading.items] == ["Which gas do plants take in?"]
    assert [(each.item_id, each.reason) for each in reading.rejects] == [("mmlu_pro-70", "duplicate")] * 2
    rows = [GSM8K | {"question": f"How many are {n}?"} for n in range(4)]
    reading = read(written(tmp_path, rows[0], "no json", *rows[1:]), "gsm8k", limit=3)
    assert (len(reading.items), len(reading.rejects), reading.n_rows) == (2, 1, 3)


@pytest.mark.parametrize(
    "row",
    [
        {"question_id": 81, "turns": ["HOW many pens are 3 boxes of 4", "And of 5?"]},
        {"question": "How many pens are  3 boxes of 4 ?"},
        {"prompt": "'How many pens are (3) boxes of 4!'"},
    ],
    ids=["turns", "question", "prompt"],
)
def test_items_that_stand_in_an_evaluation_set_are_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    known = read_evaluation_questions([written(tmp_path, row, name="evaluation.jsonl")])
    other = GSM8K | {"question": "How many pens are 3 boxes of 5?"}
    reading = read(written(tmp_path, GSM8K, other), "gsm8k", contaminated=known)
    assert [item.question for item in reading.items] == [other["question"]]
    assert [each.reason for each in reading.rejects] == ["contaminated"]


@pytest.mark.parametrize(
    "row", ["no json", {"text": "?"}, {"turns": [1]}, {"question": 1}, {"turns": 7}, {"turns": "?"}]
)
def test_an_evaluation_row_without_a_question_is_named(tmp_path: Path, row: Any) -> None:
    good = {"question": "Which?"}
    with pytest.raises(SourceError, match="Row 1 of the evaluation set"):
        read_evaluation_questions([written(tmp_path, good, row)])


OWN = {"q": "Who wrote Faust?", "a": "Goethe", "n": 7, "topic": "letters", "why": "It is known."}


def test_own_questions_by_a_column_map(tmp_path: Path) -> None:
    columns = {"question": "q", "answer": "a", "id": "n", "category": "topic", "explanation": "why"}
    item = the_item(tmp_path, "mine", OWN, columns=columns, licence="CC0-1.0", revision="2")
    assert (item.question, item.answer, item.item_id) == ("Who wrote Faust?", "Goethe", "mine-7")
    assert (item.category, item.explanation) == ("letters", "It is known.")
    assert (item.licence, item.revision, item.options) == ("CC0-1.0", "2", ())


def test_a_licence_that_is_given_goes_before_the_sources_own_and_none_is_said_to_be_so(tmp_path: Path) -> None:
    assert the_item(tmp_path, "mine", OWN, columns={"question": "q", "answer": "a"}).licence == "not stated"
    assert the_item(tmp_path, "gsm8k", GSM8K, licence="other", revision="abc").licence == "other"
    assert the_item(tmp_path, "gsm8k", GSM8K, revision="abc").revision == "abc"


@pytest.mark.parametrize(
    ("columns", "path", "why"),
    [
        ({}, "there", "missing in its map: question, answer"),
        ({"question": "q"}, "there", "missing in its map: answer.*--map mine:question=COLUMN"),
        ({"question": "q", "answer": "a", "colour": "c"}, "there", "has the unknown field colour. Fields are"),
        ({"question": "q", "answer": "a"}, None, "no file"),
    ],
)
def test_own_questions_that_are_not_described_are_refused(
    columns: dict[str, str], path: str | None, why: str, tmp_path: Path
) -> None:
    config = SourceConfig(name="mine", path=path and written(tmp_path, OWN), columns=columns)
    with pytest.raises(ConfigError, match=why):
        read_items(config, None, SplitConfig())


@pytest.mark.parametrize(
    ("name", "rows", "why"),
    [
        ("mmlu_pro", [GSM8K], r"column\(s\) question_id, options that mmlu_pro needs; there are: answer, q"),
        ("gsm8k", [], "holds no rows"),
        ("gsm8k", ["", " "], "holds no rows"),
        ("gsm8k", ["no json", "neither"], "there are: none"),
    ],
)
def test_a_file_without_rows_or_columns_is_said_to_be_so(tmp_path: Path, name: str, rows: list[Any], why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read(written(tmp_path, *rows), name)


@pytest.mark.parametrize("name", GOOD)
def test_parquet_gives_the_items_that_json_gives(tmp_path: Path, name: str) -> None:
    rows = [GOOD[name], GOOD[name] | {"question": "And then, which?", "question_id": 71, "id": "71"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    from_parquet = read(str(tmp_path / "rows.parquet"), name)
    assert from_parquet == read(written(tmp_path, *rows), name)
    assert len(from_parquet.items) == 2


@pytest.mark.parametrize("name", GOOD)
def test_rows_from_the_hub_are_those_of_the_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = tmp_path / "hub"
    hub.mkdir()
    spec = MODULES[name].SPEC
    path = written(hub, GOOD[name], GOOD[name], name=f"{spec.hub_split}.jsonl")
    monkeypatch.setattr(MODULES[name], "SPEC", dataclasses.replace(spec, hub_id=str(hub), hub_config=None))
    from_hub = read_items(SourceConfig(name=name, revision="abc"), 1, SplitConfig())
    assert from_hub == read(path, name, limit=1, revision="abc")
    assert from_hub.items[0].revision == "abc"


def test_a_hub_that_cannot_be_reached_is_our_error() -> None:
    with pytest.raises(SourceError, match=r"Cannot read openai/gsm8k from the Hugging Face Hub: .*give --source") as it:
        read_items(SourceConfig(name="gsm8k"), 1, SplitConfig())
    assert "\n" not in str(it.value)
