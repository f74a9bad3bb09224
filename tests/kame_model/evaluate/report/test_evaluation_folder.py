"""The folder of an evaluation: what is finished stays, whatever stops it."""

import json
import os
from pathlib import Path

import pytest

from data_schemas.errors import ConfigError, StoreError
from kame_model.evaluate.report.compare import compare
from kame_model.evaluate.report.folder import FIGURES, ITEMS, EvaluationFolder, format_table, read_figures, read_items
from kame_model.evaluate.report.table import make_table

RUN = {"seed": 0, "weights": "abc"}


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


def test_another_evaluations_items_are_replaced_only_where_that_is_typed(tmp_path: Path) -> None:
    system = {"name": "nano", "sampling": {"temp": 0.7, "top_k": (3, 4)}}
    first, out = {**RUN, "system": system}, str(tmp_path)
    EvaluationFolder(out, first).keep("q1", {"n": 1})
    warm = {**first, "seed": 1, "system": {**system, "sampling": {"temp": 0.9, "top_k": (3, 4)}}}
    with pytest.raises(ConfigError, match=r"\(they differ in: seed, system\.sampling\.temp\)") as told:
        EvaluationFolder(out, warm)
    assert "--anew" in told.value.remedy
    with pytest.raises(ConfigError, match="seed"):
        EvaluationFolder(out, warm, replaceable={"system"})
    assert "q1" not in EvaluationFolder(out, {**first, "seed": 1}, replaceable={"seed"})
    new = EvaluationFolder(out, warm, anew=True)
    assert "q1" not in new
    assert "q1" in EvaluationFolder(out, first), "nothing is replaced before there is something in its place"
    new.keep("q2", {"n": 2})
    assert [each["n"] for each in read_items(out)] == [2]
    assert "q2" in EvaluationFolder(out, warm, anew=True), "the same evaluation goes on all the same"


def test_items_of_an_earlier_version_go_on_or_are_refused(tmp_path: Path) -> None:
    EvaluationFolder(str(tmp_path), RUN).keep("q1", {})
    head, item = (tmp_path / ITEMS).read_text().splitlines()
    (tmp_path / ITEMS).write_text(json.dumps({"of": json.loads(head)["of"]}) + f"\n{item}\n")
    assert "q1" in EvaluationFolder(str(tmp_path), RUN)
    with pytest.raises(ConfigError, match="older version of kame"):
        EvaluationFolder(str(tmp_path), {**RUN, "seed": 1}, replaceable={"seed"})


def test_a_report_over_evaluations_does_not_take_the_place_of_one(tmp_path: Path) -> None:
    EvaluationFolder(str(tmp_path), RUN).keep("q1", {})
    for make in (compare, make_table):
        with pytest.raises(ConfigError, match="holds an evaluation"):
            make({"a": [str(tmp_path)]}, str(tmp_path))


def test_figures_say_what_was_run(tmp_path: Path) -> None:
    folder = EvaluationFolder(str(tmp_path), RUN)
    folder.write_results(
        [{"mode": "direct", "n": 3}], format_table(["mode", "n"], [["direct", None]]), {}, {"costs": 0}
    )
    figures = read_figures(str(tmp_path))
    versions = figures.pop("versions")
    assert versions["moshi"]
    assert versions["machine"]["processor"]
    assert versions["machine"]["n_cores"] >= 1
    assert versions["machine"]["load"] >= 0
    assert figures == {"run": RUN, "rows": [{"mode": "direct", "n": 3}], "costs": 0}
    given, _, made_with = (tmp_path / "report.md").read_text().partition("\n## Made with\n")
    assert given == "| mode | n |\n| --- | --- |\n| direct |  |\n"
    assert f"| versions.moshi | {versions['moshi']} |\n" in made_with


def test_the_machine_is_that_on_which_an_evaluation_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (3.25, 0.0, 0.0))
    EvaluationFolder(str(tmp_path), RUN).keep("q1", {})
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    EvaluationFolder(str(tmp_path), RUN).write_results([], "", {})
    assert read_figures(str(tmp_path))["versions"]["machine"]["load"] == 3.25


def test_a_folder_without_an_evaluation_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FIGURES).write_text(json.dumps([])[:1])
    with pytest.raises(StoreError, match="cannot be read"):
        read_figures(str(tmp_path))
    with pytest.raises(StoreError, match="cannot be read"):
        list(read_items(str(tmp_path)))


def test_items_that_cannot_be_read_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ITEMS).mkdir()
    with pytest.raises(StoreError, match="cannot be read"):
        EvaluationFolder(str(tmp_path), RUN)
