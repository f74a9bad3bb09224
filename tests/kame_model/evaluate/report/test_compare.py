"""Evaluations side by side: what is paired, what is refused, and what a reader sees."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from data_schemas.errors import ConfigError, DatasetError, StoreError
from flows.cli.app import app
from kame_model.evaluate.report.compare import compare
from kame_model.evaluate.report.folder import FIGURES, ITEMS, read_figures
from tests.support.evaluations import right, write_evaluation


def one(
    rows: list[dict[str, Any]], system: str, measure: str = "answer_accuracy", statistic: str = "mean"
) -> dict[str, Any]:
    (row,) = (
        row for row in rows if row["system"] == system and row["measure"] == measure and row["statistic"] == statistic
    )
    return row


def test_a_system_that_answers_the_same_items_and_ten_more_is_better_though_both_intervals_overlap(
    tmp_path: Path,
) -> None:
    a = write_evaluation(tmp_path / "a", {"tandem": right(50, 100)})
    b = write_evaluation(tmp_path / "b", {"tandem": right(60, 100)})
    rows = compare({"a": [a], "b": [b]}, str(tmp_path / "out"))
    worse, better = one(rows, "a"), one(rows, "b")
    assert (worse["value"], better["value"], worse["n"]) == (0.5, 0.6, 100)
    assert worse["high"] > better["low"]
    assert worse["difference"] is None
    assert better["difference"]["value"] == 0.1
    assert better["difference"]["low"] > 0


def test_a_difference_of_few_items_is_not_bold(tmp_path: Path) -> None:
    report = []
    for n in (5, 6):
        folders = {name: [write_evaluation(tmp_path / f"{name}{n}", {"tandem": right(of, n)})]
                   for name, of in (("a", 0), ("b", n))}  # fmt: skip
        compare(folders, str(tmp_path / f"out{n}"))
        report.append((tmp_path / f"out{n}" / "report.md").read_text())
    assert ["**+100.0%" in each for each in report] == [False, True]


def test_seeds_of_one_system_are_one_figure_with_each_its_own(tmp_path: Path) -> None:
    folders = [
        write_evaluation(tmp_path / f"seed-{seed}", {"tandem": right(n, 40, score=None)}, seed=seed)
        for seed, n in enumerate((36, 24))
    ]
    rows = compare({"mine": folders}, str(tmp_path / "out"))
    both = one(rows, "mine")
    assert (both["value"], both["each"]) == (0.75, [0.9, 0.6])
    assert both["low"] < 0.6
    assert both["high"] > 0.9
    assert one(rows, "mine", "score")["value"] is None
    report = (tmp_path / "out" / "report.md").read_text()
    assert "(90.0%, 60.0%)" in report
    assert "(seed 1)" in report


def test_modes_of_one_evaluation_can_be_the_systems(tmp_path: Path) -> None:
    waits = {"direct": right(2, 20, ttfat_s=0.1), "cascade": right(12, 20, ttfat_s=2.1)}
    folder = write_evaluation(tmp_path / "a", waits, row={"delay_s": None})
    rows = compare({"a": [folder]}, str(tmp_path / "out"), between="mode")
    assert one(rows, "cascade")["difference"]["value"] == 0.5
    assert one(rows, "cascade", "ttfat_s", "p90")["difference"]["value"] == 2.0
    assert {json.dumps(row["row"]) for row in rows} == {'{"delay_s": null}'}
    with pytest.raises(ConfigError, match=r"no field 'back_end'|No row has a field 'back_end'.*mode, delay_s"):
        compare({"a": [folder]}, str(tmp_path / "out"), between="back_end")


def test_what_was_not_run_alike_is_refused_or_left_out_by_name(tmp_path: Path) -> None:
    a = write_evaluation(tmp_path / "a", {"tandem": right(5, 10)})
    judged = write_evaluation(tmp_path / "b", {"tandem": right(5, 10)}, judge="gpt", version=2)
    fewer = write_evaluation(tmp_path / "c", {"tandem": right(5, 8)})
    out = str(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"b cannot be compared, because they differ in: judge, version\."):
        compare({"a": [a], "b": [judged]}, out)
    with pytest.raises(ConfigError, match="differ in: items of mode tandem"):
        compare({"a": [a], "c": [fewer]}, out)
    rows = compare({"a": [a], "b": [judged], "c": [fewer]}, out, leave_out=True)
    assert {row["system"] for row in rows} == {"a"}
    report = (tmp_path / "out" / "report.md").read_text()
    assert f"Excluded: {judged}, which differs in judge, version." in report
    assert f"Excluded: {fewer}, which differs in items of mode tandem." in report


def test_other_weights_and_rows_that_only_one_has_are_no_hindrance(tmp_path: Path) -> None:
    a = write_evaluation(tmp_path / "a", {"direct": right(5, 10)}, system={"back_end": None})
    b = write_evaluation(tmp_path / "b", {"direct": right(6, 10), "cascade": right(9, 10)})
    rows = compare({"a": [a], "b": [b]}, str(tmp_path / "out"))
    differences = {row["row"]["mode"]: row["difference"] for row in rows if row["system"] == "b"}
    assert differences["direct"]["value"] == 0.1
    assert differences["cascade"] is None


def test_evaluations_that_are_no_seeds_of_one_system_are_refused(tmp_path: Path) -> None:
    cold, warm = (
        write_evaluation(tmp_path / name, {"direct": right(5, 10)}, seed=seed, system={"sampling": {"temp": seed}})
        for seed, name in enumerate(("cold", "warm"))
    )
    with pytest.raises(ConfigError, match="differ in: system's sampling"):
        compare({"mine": [cold, warm]}, str(tmp_path / "out"))
    assert compare({"cold": [cold], "warm": [warm]}, str(tmp_path / "out"))
    more = write_evaluation(
        tmp_path / "more", {"direct": right(5, 10), "cascade": right(9, 10)}, system={"sampling": {"temp": 0}}
    )
    with pytest.raises(ConfigError, match="differ in: rows"):
        compare({"mine": [cold, more]}, str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="A folder of mine is given twice"):
        compare({"mine": [cold, f"{cold}/"]}, str(tmp_path / "out"))


def test_a_folder_without_an_evaluation_of_today_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        compare({"a": [str(tmp_path)]}, str(tmp_path / "out"))
    old = write_evaluation(tmp_path / "old", {"direct": right(5, 10)})
    (tmp_path / "old" / ITEMS).write_text('{"of": "x"}\n{"item": "q0", "said": "five"}\n')
    with pytest.raises(DatasetError, match="holds no evaluation that can be compared"):
        compare({"a": [old]}, str(tmp_path / "out"))


def test_figures_of_fewer_items_than_the_file_holds_are_told(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "a", {"direct": right(5, 10)})
    told = read_figures(folder)
    told["rows"][0]["n"] = 8
    (tmp_path / "a" / FIGURES).write_text(json.dumps(told))
    with pytest.raises(DatasetError, match=r"the figures of mode direct count 8 items, but items.jsonl has 10"):
        compare({"a": [folder]}, str(tmp_path / "out"))


def test_the_command_writes_report_figures_and_a_picture(tmp_path: Path) -> None:
    a = write_evaluation(tmp_path / "a", {"tandem": right(5, 60, ttfat_s=0.5), "direct": right(5, 60, ttfat_s=0.1)})
    b = write_evaluation(tmp_path / "b", {"tandem": right(45, 60, ttfat_s=0.5), "direct": right(5, 60, ttfat_s=0.1)})
    out = tmp_path / "both"
    done = CliRunner().invoke(app, ["evaluate", "compare", f"small={a}", f"large={b}", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "16 figures; 1 differ significantly (95%)" in done.output
    report = (out / "report.md").read_text()
    assert "| answer_accuracy | 60 | 8.3% [" in report
    assert "| **+66.7% [" in report
    assert "| ttfat_s, p90 | 60 | 0.5 [0.5, 0.5] | 0.5 [0.5, 0.5] | +0 [+0, +0] |" in report
    assert read_figures(str(out))["run"]["systems"] == {"small": [a], "large": [b]}
    with Image.open(out / "plots" / "compared.png") as picture:
        seen = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= seen, "both systems are drawn"


def test_a_name_or_a_folder_that_is_empty_is_refused(tmp_path: Path) -> None:
    for typed, told in (("=o1", "has an empty name"), ("o1=", "has an empty folder")):
        done = CliRunner().invoke(app, ["evaluate", "compare", typed, "--out", str(tmp_path / "out"), "--json"])
        assert (done.exit_code, told in done.output) == (2, True)
