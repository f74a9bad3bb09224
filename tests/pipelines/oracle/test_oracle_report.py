"""The ladder measured: what is near by level and source, chance, and the files that are written."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from data_schemas.config import OracleConfig
from data_schemas.errors import DatasetError
from data_schemas.reader import DatasetReader
from data_schemas.records import Dialogue, Turn
from flows.cli.oracle import app
from pipelines.oracle.ladder import Simulator
from pipelines.oracle.ladder_section import format_ladders, list_report_paths
from pipelines.oracle.nearness import NOTHING
from pipelines.oracle.plot import plot_ladder, write_report
from pipelines.oracle.random_answers import RandomOracleStage
from pipelines.oracle.report import find_question_turn, measure_ladder
from tests.support.embedding_server import embedding_server
from tests.support.oracle_datasets import dataset, rows_of
from tests.support.oracle_dialogues import Scripted, batch_of, greeting, plain

pytestmark = pytest.mark.full


def climbing(payload: dict[str, Any], attempt: int) -> str:
    """Says more of the true answer at each level, by what the prompt shows."""
    prompt = payload["messages"][-1]["content"].rsplit("\n", 1)[-1]
    if "Hidden answer: " in prompt:
        return str(prompt.split("Hidden answer: ")[1].split(".")[0])
    if "none" in prompt:
        return "I would guess at quite a lot of them."
    notes = prompt.split("Hidden notes: ")[1].split(".")[0].replace(",", "").split()
    return f"I guess it is {' '.join(notes)}."


NUMBERS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve"]


def bearing_its_answer(dialogue: Dialogue) -> Dialogue:
    """The dialogue with its last turn as the one that answers the item's question."""
    *before, last = dialogue.turns
    return replace(dialogue, turns=(*before, replace(last, answer_word_index=3)))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Ten items with oracles of a model that climbs."""
    dialogues = []
    for at, n in enumerate(NUMBERS):
        asks = f"How many red apples has Anna got when she buys {n} bags of them and then eats one of the green ones?"
        says = f"Yellow boats and {n} bags, green boxes, wooden houses, and quiet towns near long rivers."
        key = {"item_id": f"mine-{at}", "dialogue_id": f"mine-{at}-v0", "answer": f"{n} bags"}
        dialogues.append(bearing_its_answer(plain(asks, says, form="plain", **key)))
    oracles = {
        "default": rows_of(dialogues, Scripted(climbing)),
        "deaf": rows_of(dialogues, Scripted(lambda *_: "I would guess a few."), "deaf"),
    }
    return dataset(tmp_path / "dataset", oracles, dialogues)


def test_a_ladder_is_measured_with_its_chance_and_whether_it_rises(made: Path) -> None:
    report = measure_ladder(DatasetReader(str(made)))
    wrote = Simulator(simulator="llm", endpoint="double", model="double", prompts="v2", n_dialogues=10)
    assert report.simulators == [wrote]
    figures = report.sources["mine"]
    means = [figures.levels[level].word_f1.value for level in range(5)]
    assert figures.n_items == 10
    assert means == sorted(means, key=lambda value: value or 0)
    assert means[4] == 1
    assert figures.levels[4].answer_found.value == 1
    assert figures.levels[0].answer_found.value == 0
    assert figures.word_f1.spearman.value is not None
    assert figures.word_f1.spearman.value > 0.8
    assert figures.rises
    chance, above = figures.word_f1.chance, figures.word_f1.above_chance
    assert (above.value, above.low, above.high) == pytest.approx((0, 0, 0)), "level 0 is no nearer than chance"
    assert chance.value == pytest.approx(figures.levels[0].word_f1.value)
    assert figures.answer_found.chance.value == 0
    same = measure_ladder(DatasetReader(str(made), "deaf")).sources["mine"]
    assert (same.word_f1.spearman, same.rises) == (NOTHING, False), "oracles that never change have no ladder"


def test_answers_found_have_their_chance_too(tmp_path: Path) -> None:
    dialogues = [answered_by_two(number) for number in range(10)]
    knowing = Scripted(lambda *_: "I would guess that it is two bags of them.")
    rows = dataset(tmp_path / "two", {"default": rows_of(dialogues, knowing)}, dialogues)
    figures = measure_ladder(DatasetReader(str(rows))).sources["mine"]
    assert figures.levels[0].answer_found.value == 0.5
    assert figures.answer_found.chance.value == pytest.approx(0.5)
    assert figures.answer_found.above_chance.value == pytest.approx(0)
    assert figures.answer_found.spearman.value == pytest.approx(0)


def answered_by_two(number: int) -> Dialogue:
    """A dialogue whose answer is two bags or three."""
    bags = f"{NUMBERS[number % 2]} bags"
    asks = f"How many red apples has Anna got when Ben brings her {NUMBERS[number]} of the green ones in the evening?"
    key = {"item_id": f"mine-{number}", "dialogue_id": f"mine-{number}-v0", "group_id": f"q-{number}"}
    return bearing_its_answer(plain(asks, f"Then there are {bags} of them.", answer=bags, form="plain", **key))


def test_few_items_have_no_intervals_on_page_and_picture(tmp_path: Path) -> None:
    dialogues = [answered_by_two(number) for number in range(9)]
    reader = DatasetReader(str(dataset(tmp_path, {"default": rows_of(dialogues, Scripted(climbing))}, dialogues)))
    write_report(reader.store, measure_ladder(reader))
    page = (tmp_path / list_report_paths("default")[2]).read_text(encoding="utf-8")
    assert re.search(r"\| 0 \| \d+ \| 0 \| 0\.\d+ \(few\), 9/\d+ \|", page)
    assert " to 0." not in page
    assert (tmp_path / list_report_paths("default")[0]).read_bytes()[:4] == b"\x89PNG"


def test_json_a_picture_and_a_page_with_all_of_it_are_written_alike_each_time(made: Path) -> None:
    reader = DatasetReader(str(made))
    written = write_report(reader.store, measure_ladder(reader))
    picture, figures, page = list_report_paths("default")
    assert written == [picture, figures, page]
    assert (made / picture).read_bytes()[:4] == b"\x89PNG"
    told = json.loads((made / figures).read_text())
    assert told["sources"]["mine"]["levels"]["4"]["word_f1"]["value"] == 1
    assert plot_ladder(measure_ladder(reader)) == (made / picture).read_bytes()
    text = (made / page).read_text(encoding="utf-8")
    assert "Written by double (endpoint double) with prompts v2: 10 dialogues." in text
    assert "![nearness by level](oracle-default.png)" in text
    assert "### mine: 10 items, 0 events failed" in text
    assert re.search(r"- Spearman of level and word F1: [01]\.\d+ \([01]\.\d+ to [01]\.\d+\), 10/\d+\.", text)
    assert re.search(r"- Level 0 less chance, word F1: .* shuffled within the source\): 0\.\d+", text)


def test_the_command_shows_the_ladder_or_the_versions_that_are_there(made: Path) -> None:
    shown = CliRunner().invoke(app, ["report", str(made)])
    assert shown.exit_code == 0, shown.output
    assert "mine: 10 items, 0 events failed" in shown.output
    as_json = json.loads(CliRunner().invoke(app, ["report", str(made), "--version", "deaf", "--json"]).output)
    assert (as_json["version"], as_json["files"]) == ("deaf", [*list_report_paths("deaf"), "README.md"])
    with pytest.raises(DatasetError, match=r"no oracles of version 'other'\. Choose one with --version: deaf, default"):
        measure_ladder(DatasetReader(str(made), "other"))


def test_a_report_is_for_the_card_of_the_files_that_it_measured_alone(made: Path) -> None:
    reader = DatasetReader(str(made))
    assert format_ladders(reader.store, reader.manifest.fingerprint) == ""
    write_report(reader.store, measure_ladder(reader))
    (made / "report" / "notes.json").write_text("mine", encoding="utf-8")
    shown = format_ladders(reader.store, reader.manifest.fingerprint)
    assert shown.startswith("## The ladder measured, version default\n")
    assert "![nearness by level](report/oracle-default.png)" in shown
    assert "| 4 | 10 | 0 | 1.000 (1.000 to 1.000), 10/10 | 1.000 (1.000 to 1.000), 10/10 | 100 |" in shown
    assert "| level | 0 | 1 | 2 | 3 | 4 |\n| --- | --- | --- | --- | --- | --- |\n| 10 to 30 words % | 0 | " in shown
    assert "similarity" not in shown
    assert format_ladders(reader.store, "another") == ""
    figures = made / list_report_paths("default")[1]
    figures.write_text(json.dumps(json.loads(figures.read_text()) | {"format": 1}), encoding="utf-8")
    assert format_ladders(reader.store, reader.manifest.fingerprint) == "", "a report of an earlier version"


def test_similarity_by_embeddings_stands_beside_word_f1(made: Path) -> None:
    with embedding_server() as server:
        typed = ["report", str(made), "--embeddings-url", server.url, "--embeddings-model", "counts"]
        shown = CliRunner().invoke(app, typed)
        assert shown.exit_code == 0, shown.output
        assert len(server.texts) == len(set(server.texts)), "each text once"
    told = json.loads((made / list_report_paths("default")[1]).read_text(encoding="utf-8"))
    assert told["embeddings"] == "counts"
    figures = told["sources"]["mine"]
    means = [figures["levels"][str(level)]["similarity"]["value"] for level in range(5)]
    assert means == sorted(means)
    assert means[4] == pytest.approx(1)
    assert figures["similarity"]["spearman"]["value"] > 0.8
    assert 0 < figures["similarity"]["chance"]["value"] < 0.5
    page = (made / list_report_paths("default")[2]).read_text(encoding="utf-8")
    assert "| answer found (95%), n | similarity (95%), n |" in page
    assert "Spearman of level and similarity (cosine, counts)" in page


def test_half_a_wish_for_embeddings_and_a_server_that_has_none_are_told(made: Path) -> None:
    half = CliRunner().invoke(app, ["report", str(made), "--embeddings-url", "http://127.0.0.1:9/v1"])
    assert (half.exit_code, "need a URL and a model" in half.stderr) == (2, True)
    with embedding_server() as server:
        typed = ["report", str(made), "--embeddings-url", f"{server.url}/v2", "--embeddings-model", "counts"]
        wrong = CliRunner().invoke(app, typed)
    assert (wrong.exit_code, wrong.stderr.count("kame: ")) == (4, 1)
    assert not (made / "report").exists()


@pytest.mark.parametrize(
    ("turns", "asked"),
    [
        ([(0, "B", None), (1, "A", 4)], 0),
        ([(0, "B", None), (1, "A", None), (2, "B", None), (3, "A", 0), (4, "B", None), (5, "A", 2)], 2),
        ([(0, "B", None), (1, "A", 4), (2, "B", None), (3, "A", 4)], 0),
        ([(0, "B", None), (1, "A", None)], None),
    ],
)
def test_the_question_is_the_turn_before_answers(turns: list[tuple[int, str, int | None]], asked: int | None) -> None:
    assert find_question_turn(turns) == asked


def greeted(number: int) -> Dialogue:
    """A dialogue of which the greeting has nothing of the item; the answer begins with no word of the greeting."""
    return bearing_its_answer(greeting(item_id=f"mine-{number}", dialogue_id=f"mine-{number}-v0"))


def test_turns_that_ask_something_else_are_figures_of_their_own(tmp_path: Path) -> None:
    dialogues = [greeted(number) for number in range(2)]
    rows = rows_of(dialogues, Scripted(lambda *_: "Hello, what is it?"), both_directions=True)
    report = measure_ladder(DatasetReader(str(dataset(tmp_path / "greeted", {"default": rows}, dialogues))))
    by_group = [report.sources["mine"], report.other_turns["mine"], report.user_words["mine"]]
    question, other = (max(own.word_f1.value or 0 for own in each.levels.values()) for each in by_group[:2])
    assert question < 0.5
    assert other == 1
    n_events = [sum(own.n_events for own in figures.levels.values()) for figures in by_group]
    events = [event for row in rows for event in row.events if event.status == "answered"]
    asked = Counter((event.turn_index, event.speaker) for event in events)
    assert n_events == [asked[key] for key in ((2, "A"), (0, "A"), (1, "B"))]


def test_failures_are_counted_by_level_and_short_answers_told(tmp_path: Path) -> None:
    dialogues = [greeted(number) for number in range(2)]
    model = Scripted(lambda payload, _: "" if "none" in payload["messages"][-1]["content"] else "It may be so.")
    rows = rows_of(dialogues, model, max_failed_share=1.0)
    reader = DatasetReader(str(dataset(tmp_path / "failed", {"default": rows}, dialogues)))
    figures = measure_ladder(reader).sources["mine"]
    events = [event for row in rows for event in row.events if event.status == "failed"]
    failed = Counter(event.level for event in events if event.turn_index == 2)
    assert failed[0] > 0
    assert [figures.levels[level].n_failed for level in range(5)] == [failed[level] for level in range(5)]
    assert figures.n_failed == failed.total()
    assert {own.length_share for own in figures.levels.values() if own.n_events} == {0}
    assert {own.length_share for own in figures.levels.values() if not own.n_events} == {None}


def test_random_answers_have_no_chance_beside_them(made: Path, tmp_path: Path) -> None:
    dialogues = [greeted(number) for number in range(4)]
    others = [replace(each, group_id=f"q-{number}") for number, each in enumerate(dialogues)]
    varied = [replace(each, turns=(*each.turns[:-1], _saying(each, number))) for number, each in enumerate(others)]
    rows = RandomOracleStage(OracleConfig(simulator="random", version="random"), 0).run(batch_of(varied)).outputs
    figures = measure_ladder(DatasetReader(str(dataset(tmp_path / "random", {"random": rows}, varied)))).sources["mine"]
    assert figures.levels[0].n_events > 0
    assert figures.word_f1.chance == figures.word_f1.above_chance == NOTHING
    assert figures.answer_found.chance == NOTHING


def _saying(dialogue: Dialogue, number: int) -> Turn:
    return replace(dialogue.turns[-1], body=f"It is {NUMBERS[number]}.")
