"""The folder of an evaluation: what is finished stays, whatever stops it."""

import json
from pathlib import Path

import pytest

from data_schemas.errors import StoreError
from kame_model.evaluate.report import FIGURES, ITEMS, EvaluationFolder, as_table, read_figures, read_items

RUN = {"seed": 0, "weights": "abc"}


def test_items_that_were_finished_are_found_again(tmp_path: Path) -> None:
    EvaluationFolder(str(tmp_path), RUN).keep("tandem/q1", {"said": "sechs – 6 \ud800"})
    again = EvaluationFolder(str(tmp_path), dict(reversed(RUN.items())))
    assert "tandem/q1" in again
    assert "tandem/q2" not in again
    assert again["tandem/q1"]["said"] == "sechs – 6 \ud800"


@pytest.mark.parametrize("n_bytes", range(1, 30, 4))
def test_a_line_that_a_kill_cut_is_run_again(tmp_path: Path, n_bytes: int) -> None:
    first = EvaluationFolder(str(tmp_path), RUN)
    first.keep("q1", {"n": 1})
    first.keep("q2", {"n": 2, "text": "long enough to be cut"})
    path = tmp_path / ITEMS
    path.write_bytes(path.read_bytes()[:-n_bytes])
    again = EvaluationFolder(str(tmp_path), RUN)
    assert "q1" in again
    assert "q2" not in again
    again.keep("q2", {"n": 3})
    assert [each["n"] for each in read_items(str(tmp_path))] == [1, 3]


def test_of_an_item_that_was_finished_anew_the_last_record_stands(tmp_path: Path) -> None:
    folder = EvaluationFolder(str(tmp_path), RUN)
    for item, n in (("q1", 1), ("q2", 2), ("q1", 3)):
        folder.keep(item, {"n": n, "text": "a line\u2028and another"})
    assert [each["n"] for each in read_items(str(tmp_path))] == [3, 2]


def test_another_run_in_the_same_folder_begins_anew(tmp_path: Path) -> None:
    EvaluationFolder(str(tmp_path), RUN).keep("q1", {})
    assert "q1" not in EvaluationFolder(str(tmp_path), {**RUN, "seed": 1})
    assert "q1" not in EvaluationFolder(str(tmp_path), RUN)


def test_figures_say_what_was_run(tmp_path: Path) -> None:
    folder = EvaluationFolder(str(tmp_path), RUN)
    folder.write_results([{"mode": "direct", "n": 3}], as_table(["mode", "n"], [["direct", None]]), {}, {"costs": 0})
    figures = read_figures(str(tmp_path))
    assert figures.pop("versions")["moshi"]
    assert figures == {"run": RUN, "rows": [{"mode": "direct", "n": 3}], "costs": 0}
    assert (tmp_path / "report.md").read_text() == "| mode | n |\n| --- | --- |\n| direct |  |\n"


def test_a_folder_without_an_evaluation_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FIGURES).write_text(json.dumps([])[:1])
    with pytest.raises(StoreError, match="cannot be read"):
        read_figures(str(tmp_path))
    with pytest.raises(StoreError, match="cannot be read"):
        list(read_items(str(tmp_path)))
