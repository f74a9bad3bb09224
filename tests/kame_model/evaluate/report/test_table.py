"""The paper's table of made evaluations: its rows, its figures, and others' below a line."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from data_schemas.errors import ConfigError
from flows.cli.app import app
from kame_model.evaluate.report.folder import EvaluationFolder, read_figures
from kame_model.evaluate.report.intervals import compute_figures
from kame_model.evaluate.report.table import Row, make_table
from tests.support.evaluations import right, write_evaluation
from tests.support.known import known

CATEGORIES = ("reasoning", "stem", "humanities")


def write_mt_bench(folder: Path, scores: dict[str, tuple[float, ...]], **run: Any) -> str:
    """An evaluation of two questions a category, rated alike, six tenths of a second late and one and four."""
    system = {"name": "nano", "checkpoint": "abc", "back_end": "gpt-4.1"}
    kept = EvaluationFolder(str(folder), {"kind": "mt-bench", "version": 1, "seed": 0, "system": system, **run})
    rows = []
    for mode, by_category in scores.items():
        for category, score in zip(CATEGORIES, by_category, strict=True):
            records = [
                {
                    "row": {"mode": mode, "delay_s": None, "category": category},
                    "unit": f"{category}-{number}",
                    "measures": {"score": score, "ttfat_s": (0.6, 1.4)[number]},
                }
                for number in range(2)
            ]
            for record in records:
                kept.keep(f"{mode}/{record['unit']}", record)
            rows.append(records[0]["row"] | compute_figures(records))  # type: ignore[operator]
    kept.write_results(rows, "", {})
    return str(folder)


def of(rows: list[Row], mode: str) -> Row:
    (row,) = (row for row in rows if row.source is None and row.mode == mode)
    return row


def test_mt_bench_stands_above_what_the_paper_published(tmp_path: Path) -> None:
    folder = write_mt_bench(
        tmp_path / "a", {"cascade": (6.0, 7.0, 8.0), "direct": (1.0, 2.0, 3.0), "tandem": (4, 5, 9)}
    )
    rows = make_table({folder: [folder]}, str(tmp_path / "out"))
    assert [row.title for row in rows[:3]] == ["nano: direct", "nano: tandem + gpt-4.1", "nano: cascade + gpt-4.1"]
    tandem = of(rows, "tandem")
    assert (tandem.n, tandem.average.value, tandem.quality["stem"].value) == (6, 6.0, 5.0)
    assert (tandem.delay_median_s, tandem.delay_p90_s, tandem.keyword_delay_s) == (1.0, 1.4, None)
    published = {(row.system, row.back_end): row for row in rows if row.source is not None}
    assert published["KAME", "GPT-4.1"].average.value == 6.43
    assert published["Unmute", "GPT-4.1"].delay_median_s == 2.1
    report = (tmp_path / "out" / "report.md").read_text().splitlines()
    line = next(number for number, each in enumerate(report) if each.startswith("| *as published* |"))
    below = [each for each in report[line + 1 :] if each.startswith("|")]
    assert len(below) == 5
    assert all("(*as published*, arXiv 2510.02327)" in each for each in below)
    assert all(each.endswith("| not defined |") for each in below)
    assert "| 6 of 6 | 1.00 | 1.40 | not defined |" in "\n".join(report), "MT-Bench has no keyword delay"
    assert not any("as published" in each for each in report[:line])


def test_question_sets_are_columns_in_percent_and_their_average_is_over_sets(tmp_path: Path) -> None:
    sets = {"web_questions": right(10, 40, ttfat_s=0.2), "halueval": right(30, 40, ttfat_s=0.4)}
    folders = [
        write_evaluation(
            tmp_path / name, {"tandem": items}, set={"name": name}, system={"name": "nano", "checkpoint": "a"}
        )
        for name, items in sets.items()
    ]
    rows = make_table({folder: [folder] for folder in folders}, str(tmp_path / "out"))
    row = of(rows, "tandem")
    assert (row.system, row.n, row.average.value) == ("nano", 80, 50.0)
    assert row.quality["halueval"].value == 75.0
    of_one, of_both = (known(each.high) - known(each.low) for each in (row.quality["halueval"], row.average))
    assert of_both < of_one, "of more items it is narrower"
    with (tmp_path / "out" / "table.csv").open(newline="") as file:
        (own, *others) = csv.DictReader(file)
    assert (own["mode"], own["halueval"], own["average"], own["source"]) == ("tandem", "75.0", "50.0", "")
    rag = next(each for each in others if each["system"] == "MoshiRAG" and each["back_end"] == "Gemma 3 27B")
    assert (rag["web_questions"], rag["halueval"], rag["average"]) == ("74.7", "36.3", ""), (
        "its average is of four sets"
    )


def test_a_forced_delay_is_a_row_of_its_own_and_questions_of_ones_own_have_no_published_rows(tmp_path: Path) -> None:
    late = write_evaluation(tmp_path / "late", {"tandem": right(3, 10)}, row={"delay_s": 1.5})
    rows = make_table({"nano": [late]}, str(tmp_path / "out"))
    assert [row.title for row in rows] == ["nano: tandem + gpt, after 1.5 s"]
    assert rows[0].delay_median_s is None


def test_what_cannot_stand_in_one_table_is_refused(tmp_path: Path) -> None:
    questions = write_evaluation(tmp_path / "q", {"tandem": right(3, 10)})
    judged = write_evaluation(tmp_path / "j", {"tandem": right(3, 10)}, judge="gpt")
    mt_bench = write_mt_bench(tmp_path / "m", {"direct": (1.0, 2.0, 3.0)})
    recall = write_evaluation(tmp_path / "r", {"tandem": right(3, 10)}, kind="recall")
    out = str(tmp_path / "out")
    with pytest.raises(ConfigError, match="these are mt-bench, questions"):
        make_table({"a": [questions], "b": [mt_bench]}, out)
    with pytest.raises(ConfigError, match="these are recall"):
        make_table({"a": [recall]}, out)
    with pytest.raises(ConfigError, match="differ in: judge"):
        make_table({"a": [questions], "b": [judged]}, out)
    with pytest.raises(ConfigError, match="No evaluation has the measure 'taste'"):
        make_table({"a": [questions]}, out, "taste")
    twin = write_evaluation(tmp_path / "t", {"tandem": right(3, 10)}, system={"name": "q"})
    with pytest.raises(ConfigError, match="both of q, but have different weights"):
        make_table({questions: [questions], twin: [twin]}, out)


def test_a_line_is_of_one_system_and_its_seeds(tmp_path: Path) -> None:
    def evaluation(name: str, temp: float, back_end: str, seed: int = 0) -> str:
        serving = {"sampling": {"temp": temp}, "back_ends": [{"model": back_end}]}
        system = {"name": "nano", "checkpoint": "a", "back_end": back_end, "serving": serving}
        items = {"direct": right(1, 10), "tandem": right(5, 10)}
        return write_evaluation(tmp_path / name, items, seed=seed, system=system)

    out = str(tmp_path / "out")
    gpt, claude = evaluation("gpt", 0.7, "gpt"), evaluation("claude", 0.7, "claude")
    again, warm = evaluation("again", 0.7, "gpt", seed=1), evaluation("warm", 0.9, "gpt")
    rows = make_table({folder: [folder] for folder in (gpt, claude, again)}, out)
    lines = [(row.title, row.n, row.n_seeds) for row in rows]
    assert lines == [("nano: direct", 10, 2), ("nano: tandem + claude", 10, 1), ("nano: tandem + gpt", 10, 2)]
    with pytest.raises(ConfigError, match="both nano in mode direct, but their systems differ in: serving"):
        make_table({folder: [folder] for folder in (gpt, warm)}, out)


def test_the_same_direct_calls_beside_two_back_ends_count_once(tmp_path: Path) -> None:
    def evaluation(name: str, back_end: str, n_right: int, **more: Any) -> str:
        system = {"name": "nano", "checkpoint": "a", "back_end": back_end, **more.pop("system", {})}
        return write_evaluation(tmp_path / name, {"direct": right(n_right, 10)}, system=system, **more)

    gpt, claude = evaluation("gpt", "gpt", 5), evaluation("claude", "claude", 5)
    seed = evaluation("seed", "gpt", 1, seed=1)
    weights = evaluation("weights", "gpt", 3, system={"checkpoint": "b"})
    others = evaluation("others", "gpt", 9, set={"name": "others"})

    def read(*folders: str) -> tuple[float | None, int | None]:
        row = of(make_table({"nano": folders}, str(tmp_path / "out")), "direct")
        return row.average.value, row.n_seeds

    assert read(gpt, claude) == (50.0, 1)
    assert read(gpt, claude, seed) == (30.0, 2)
    assert read(gpt, claude, weights) == (40.0, 2), "other weights are a seed of the training"
    assert read(gpt, claude, others) == (70.0, 1), "another set is another column"


def test_delays_stand_beside_the_number_of_answers_that_they_are_of(tmp_path: Path) -> None:
    answered = {"answer_accuracy": True, "ttfat_s": 0.1, "keyword_delay_s": 0.3}
    missed = {"answer_accuracy": False, "ttfat_s": None, "keyword_delay_s": None}
    folder = write_evaluation(tmp_path / "q", {"direct": [answered, *[missed] * 19], "tandem": [answered] * 20})
    direct = of(make_table({"nano": [folder]}, str(tmp_path / "out")), "direct")
    assert (direct.n, direct.n_turns, direct.n_answered, direct.delay_median_s) == (20, 20, 1, 0.1)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| average | answered | median delay, s | p90 delay, s | keyword delay of right answers, s |" in report
    assert "| 1 of 20 | 0.10 | 0.10 | 0.30 |" in report
    assert "| 20 of 20 | 0.10 | 0.10 | 0.30 |" in report
    with (tmp_path / "out" / "table.csv").open(newline="") as file:
        assert [(row["n_turns"], row["n_answered"]) for row in csv.DictReader(file)] == [("20", "1"), ("20", "20")]


def test_the_command_writes_table_and_picture(tmp_path: Path) -> None:
    folder = write_mt_bench(tmp_path / "a", {"direct": (1.0, 2.0, 3.0), "tandem": (4.0, 5.0, 6.0)})
    done = CliRunner().invoke(app, ["evaluate", "table", folder, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "nano: tandem + gpt-4.1: 5.00, median delay 1.00 s, 6 of 6 turns answered" in done.output
    done = CliRunner().invoke(app, ["evaluate", "table", folder, "--out", str(tmp_path / "out"), "--json"])
    assert json.loads(done.stdout) == read_figures(str(tmp_path / "out"))["rows"]
    with Image.open(tmp_path / "out" / "plots" / "quality_and_delay.png") as picture:
        seen = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= seen, "both rows are drawn"
