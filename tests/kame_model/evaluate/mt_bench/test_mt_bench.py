"""Spoken MT-Bench on doubles: both turns are asked and judged, what is missing is told, and nothing is done twice."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from typer.testing import CliRunner

from backends.asr.double import DoubleRecogniser
from backends.asr.protocol import HearingRefused
from data_schemas.config import ChatConfig
from data_schemas.config.mt_bench import MtBenchConfig
from data_schemas.errors import ConfigError, SourceError
from flows.cli.app import app
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.judge import RATINGS
from kame_model.evaluate.mt_bench.evaluate import evaluate_mt_bench
from kame_model.evaluate.mt_bench.questions import read_questions
from kame_model.evaluate.report.folder import read_figures, read_items
from tests.support.chat_server import MODEL, Behaviour, ChatServer, served
from tests.support.counting_chat import CountingChat, parts_with
from tests.support.serving import serve_config

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("nothing_is_probed")]

QUESTIONS = [
    {"question_id": 101, "category": "reasoning", "turns": ["Who is second?", "And who is last?"], "reference": []},
    {"question_id": 141, "category": "stem", "turns": ["What is light?\n\n===\n\n* Be brief.", "Is that sure?"]},
    {"question_id": 142, "category": "stem", "turns": ["Solve |x| > {y}.", "Why?"]},
    {"question_id": 143, "category": "stem", "turns": ["What is heat?", "Is it fast?"]},
    {"question_id": 121, "category": "coding", "turns": ["Write a sort.", "Faster."]},
]
REFERENCES = [{"question_id": 101, "choices": [{"index": 0, "turns": ["You are.", "Nobody is."]}]}]
HEARD = "nine eggs I think"


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the recogniser hears in any sound: its first element."""
    told = [HEARD]
    monkeypatch.setattr(DoubleRecogniser, "transcribe", lambda *_: told[0])
    return told


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A folder in FastChat's form."""
    folder = tmp_path / "mt_bench"
    (folder / "reference_answer").mkdir(parents=True)
    for name, rows in (("question.jsonl", QUESTIONS), ("reference_answer/gpt-4.jsonl", REFERENCES)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def rate(
    checkpoint: str, bench: Path, out: Path, rating: int, **changes: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of an evaluation whose judge rates all alike, of one question to a cascade where nothing else is told.

    And what the judge was asked.
    """
    settings = {
        "serving": serve_config(checkpoint=checkpoint).model_dump(),
        "path": str(bench),
        "categories": ["reasoning", "stem"],
        "modes": ["cascade"],
        "n_questions": 1,
        "n_runs": 1,
        "tts": "double",
        "recogniser": "double",
        "max_answer_s": 4.0,
        "n_sounds": 1,
    }
    with served(Behaviour(ending=f"\nRating: [[{rating}]]")) as (root, server):
        judge = {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL, "endpoint": "judge", "max_attempts": 1}
        given = {"judge": {"chat": ChatConfig.model_validate(judge).model_dump()}, **settings, **changes}
        chat = CountingChat("There are ", "nine eggs.")
        return evaluate_mt_bench(MtBenchConfig.model_validate(given), str(out), parts=parts_with(chat)), judged(server)


def judged(server: ChatServer) -> list[str]:
    return [body["messages"][-1]["content"] for body in server.counts.bodies]


def row_of(rows: list[dict[str, Any]], mode: str, **more: Any) -> dict[str, Any]:
    wanted = {"mode": mode, "delay_s": None, **more}
    (row,) = [
        row
        for row in rows
        if all(row.get(name) == value for name, value in wanted.items()) and ("category" in row) == ("category" in more)
    ]
    return row


def test_both_turns_are_asked_and_judged_in_three_modes(checkpoint: str, bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    modes = ["direct", "tandem", "cascade"]
    rows, asked = rate(checkpoint, bench, out, 7, modes=modes, max_answer_s=1.6, n_questions=2)
    figures = read_figures(str(out))
    assert figures["rows"] == rows
    assert [(row["mode"], row.get("category")) for row in rows] == [
        (mode, category) for mode in modes for category in (None, "reasoning", "stem")
    ]
    cascade = row_of(rows, "cascade")
    assert (cascade["n"], cascade["n_answers"]) == (2, 4)
    assert (cascade["score"], cascade["score_text"], cascade["score_oracle"]) == (7.0, 7.0, 7.0)
    assert cascade["ttfat_s_median"] > 0
    assert cascade["heard_word_errors"] == 1.0  # two words are missing, two are added, of four
    assert row_of(rows, "direct")["score_oracle"] is None
    assert row_of(rows, "tandem")["score_oracle"] == 7.0
    assert figures["left_out"]["unspeakable"].keys() == {"142"}
    items = list(read_items(str(out)))
    assert len(items) == 2 * 3 * 2
    first = next(each for each in items if each["item"] == "cascade/run0/101/turn1")
    assert first["answer"] == {"heard": HEARD, "text": "There are nine eggs.", "oracle": "There are nine eggs."}
    assert first["row"] == {"mode": "cascade", "delay_s": None, "category": "reasoning"}
    beside_reference = [text for text in asked if "You are." in text]
    assert len([text for text in beside_reference if "Nobody is." in text]) > 0
    assert all("Who is second?" in text for text in beside_reference)
    assert not any("Write a sort." in text or "Solve" in text for text in asked)
    report = (out / "report.md").read_text()
    assert "far too small to judge" not in report
    assert "cascade: what the recogniser hears has little to do with the model's text" in report
    assert "Question 142 cannot be spoken and was skipped" in report
    assert (out / "plots" / "scores.png").stat().st_size > 1000
    sound, _ = soundfile.read(out / "sound" / "cascade-run0-101.wav")
    assert sound.shape[1] == 2
    assert abs(sound).max(axis=0).min() > 0.05  # both are heard


def test_what_is_said_before_the_questions_end_is_no_part_of_the_answer(
    checkpoint: str, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_call = CalledServer.call

    def call_early(server: CalledServer, *given: Any, **named: Any) -> Call:
        call = make_call(server, *given, **named)
        return replace(call, pieces=[(call.turns[0][1] - 0.01, "Early "), *call.pieces])

    monkeypatch.setattr(CalledServer, "call", call_early)
    rate(checkpoint, bench, tmp_path, 7)
    assert {item["answer"]["text"] for item in read_items(str(tmp_path))} == {"There are nine eggs."}


def test_answers_that_loop_are_rated_as_any_other_and_counted(
    checkpoint: str, bench: Path, tmp_path: Path, heard: list[str]
) -> None:
    heard[0] = "nine eggs " * 5
    row = row_of(rate(checkpoint, bench, tmp_path, 9)[0], "cascade")
    assert (row["score"], row["n_degenerate"], row["n_degenerate_text"]) == (9.0, 2, 0)
    assert "of which loops" in (tmp_path / "report.md").read_text()


def test_what_is_not_rated_counts_in_no_mean_and_is_told(checkpoint: str, bench: Path, tmp_path: Path) -> None:
    row = row_of(rate(checkpoint, bench, tmp_path, 17)[0], "cascade")
    assert (row["score"], row["n_unrated"]["score"], row["faults"]["score"]) == (None, 2, {"out_of_range": 2})
    assert "cascade, heard: 2 of 2 not rated: 2 out_of_range" in (tmp_path / "report.md").read_text()


def test_an_answer_of_nothing_has_the_lowest_rating_and_the_judge_is_not_asked(
    checkpoint: str, bench: Path, tmp_path: Path, heard: list[str]
) -> None:
    heard[0] = ""
    rows, asked = rate(checkpoint, bench, tmp_path / "out", 9, n_questions=3)
    row = row_of(rows, "cascade")
    assert (row["score"], row["score_text"], row["n_empty"], row["n_empty_text"]) == (1.0, 9.0, 6, 0)
    assert len(asked) == 6  # own text and last oracle are the same, and judged once


def test_a_sound_that_the_recogniser_refuses_is_not_rated(
    checkpoint: str, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise HearingRefused("Too long.")

    monkeypatch.setattr(DoubleRecogniser, "transcribe", refuse)
    row = row_of(rate(checkpoint, bench, tmp_path / "out", 9)[0], "cascade")
    assert (row["score"], row["score_text"], row["n_empty"]) == (None, 9.0, 0)
    assert row["faults"]["score"] == {"unheard": 2}


def test_a_forced_delay_is_heard_and_drawn(checkpoint: str, bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows, _ = rate(checkpoint, bench, out, 7, delays_s=[0.0, 2.0])
    early, late = (row_of(rows, "cascade", delay_s=delay_s) for delay_s in (0.0, 2.0))
    assert late["ttfat_s"] - early["ttfat_s"] == pytest.approx(2.0, abs=0.2)
    assert (out / "plots" / "score_by_delay.png").stat().st_size > 1000
    report = (out / "report.md").read_text()
    assert "score_by_delay.png" in report
    assert "| cascade | 2 | reasoning | 1 | 7.00 |" in report


def test_questions_are_taken_from_the_categories_in_turn(bench: Path) -> None:
    found = read_questions(str(bench), ["stem", "reasoning"], 2)
    assert [each.question_id for each in found.questions] == ["101", "141"]
    assert found.questions[1].spoken[0] == "What is light? Be brief."
    assert found.digest == read_questions(str(bench), ["stem", "reasoning"]).digest
    assert found.digest == read_questions(str(bench), ["stem"]).digest, "a category more keeps what is finished"
    references = bench / "reference_answer" / "gpt-4.jsonl"
    references.write_text(references.read_text() + "\n")
    assert found.digest != read_questions(str(bench), ["stem", "reasoning"], 2).digest


def test_a_question_without_its_reference_and_a_category_that_is_not_there_are_told(bench: Path) -> None:
    with pytest.raises(SourceError, match="no answers to 121"):
        read_questions(str(bench), ["coding"])
    with pytest.raises(ConfigError, match="no category roleplay"):
        read_questions(str(bench), ["roleplay"])
    (bench / "reference_answer" / "gpt-4.jsonl").unlink()
    assert len(read_questions(str(bench), ["stem"]).questions) == 2
    with pytest.raises(SourceError, match=r"reasoning"):
        read_questions(str(bench), ["reasoning"])
    (bench / "question.jsonl").write_text('{"question_id": 1, "category": "stem", "turns": ["One?"]}\n')
    with pytest.raises(SourceError, match="1 turns"):
        read_questions(str(bench), ["stem"])


def test_most_of_the_real_questions_can_be_said(shared_data: Path) -> None:
    found = read_questions(str(shared_data / "mt_bench"), ["reasoning", "stem", "humanities"])
    assert (len(found.questions), found.unspeakable) == (30, {})
    assert all(bool(each.references) == (each.category == "reasoning") for each in found.questions)


def test_the_command_speaks_to_a_whole_server_of_doubles(checkpoint: str, bench: Path, tmp_path: Path) -> None:
    own = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, own)
    facts = json.loads((own / "kame.json").read_text())
    facts["sampling"]["temp_text"] = 0.25
    (own / "kame.json").write_text(json.dumps(facts))
    server_file = tmp_path / "server.yaml"
    server_file.write_text(
        "{listener: {engine: double}, cascade: {tts: double}, back_ends: [{chat: {engine: double}}]}", encoding="utf-8"
    )
    template = {"type": "single", "system_prompt": "", "prompt_template": "FastChat's prompt: {question} {answer}"}
    prompts = [{"name": name, **template} for name in RATINGS]
    (bench.parent / "judge_prompts.jsonl").write_text("\n".join(map(json.dumps, prompts)), encoding="utf-8")
    doubles = ["tts=espeak", "voices=[en-gb]", "recogniser=double", "max_answer_s=4"]
    with served(Behaviour(ending="\nRating: [[6]]")) as (root, server):
        command = ["evaluate", "mt-bench", str(own), "--path", str(bench), "--out", str(tmp_path / "out"), "--json"]
        command += ["--category", "stem", "--n", "1", "--runs", "1", "--config", str(server_file)]
        command += ["--judge-url", f"{root}/v1", "--judge-model", MODEL, "--modes", "cascade"]
        done = CliRunner().invoke(app, [*command, *(part for each in doubles for part in ("--set", each))])
        assert done.exit_code == 0, done.output
        assert any(text.startswith("FastChat's prompt: What is light?") for text in judged(server))
    sampling = read_figures(str(tmp_path / "out"))["run"]["system"]["serving"]["sampling"]
    assert sampling["temp_text"] == 0.25  # as the checkpoint says
    rows = json.loads(done.stdout)
    assert rows == read_figures(str(tmp_path / "out"))["rows"]
    assert {row["mode"] for row in rows} == {"cascade"}
