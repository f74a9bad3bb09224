"""Spoken questions through a whole evaluation: what is right, how soon it is said, and going on after a kill."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile

from data_schemas.config.questions import QuestionsConfig
from data_schemas.config.serving import NO_CHECKPOINT
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_S, SAMPLE_RATE_HZ
from kame_model.evaluate.calls.call import CalledServer
from kame_model.evaluate.calls.measured import TIMES
from kame_model.evaluate.calls.run import Counting, show_no_progress
from kame_model.evaluate.questions import evaluate as evaluate_module
from kame_model.evaluate.questions.evaluate import evaluate_questions
from kame_model.evaluate.report.folder import FIGURES, ITEMS, read_figures, read_items
from kame_model.serve.device import slots
from tests.support.backchannel import call_with_backchannel
from tests.support.chat_server import MODEL, Behaviour, served
from tests.support.counting_chat import CountingChat, parts_with
from tests.support.serving import saying, serve_config
from tests.support.waiting_front_end import N_WORD_FRAMES, PATIENCE_N_FRAMES, PitchRecogniser, WaitingEngine

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("nothing_is_probed")]


@pytest.fixture(autouse=True)
def waiting_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "FrontEndEngine", WaitingEngine)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Three questions with their sound, whose answer is eighteen."""
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [
        ("How many eggs?", "18", "alpha"),
        ("How many hens?", "eighteen", "bravo"),
        ("And cocks?", "18.0", "charlie"),
    ]
    for at, (_, _, word) in enumerate(rows):
        soundfile.write(folder / f"{at}.wav", saying(word, 8), SAMPLE_RATE_HZ)
    lines = [
        {"id": f"q{at}", "question": question, "answer": answer, "sound": f"{at}.wav"}
        for at, (question, answer, _) in enumerate(rows)
    ]
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def evaluate(
    checkpoint: str | None,
    path: Path,
    out: Path,
    counting: Counting = show_no_progress,
    answer: str = "eighteen.",
    **more: Any,
) -> list[dict[str, Any]]:
    serving = serve_config(checkpoint=checkpoint or NO_CHECKPOINT)
    asked = {"questions": "mine", "path": str(path), "tts": "double", "delays_s": [0.4], "n_sounds": 1}
    config = QuestionsConfig.model_validate({"serving": serving, **asked, **more})
    return evaluate_questions(
        config,
        str(out),
        parts=parts_with(CountingChat("The answer is ", answer)),
        recogniser=PitchRecogniser(),
        counting=counting,
    )


def test_a_front_end_that_says_its_oracle_is_right_and_without_one_it_is_not(
    checkpoint: str, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    direct, tandem = evaluate(checkpoint, questions, out, modes=["direct", "tandem"], n_sounds=1)
    assert (tandem["mode"], tandem["delay_s"], tandem["n"]) == ("tandem", 0.4, 3)
    right = ("answer_accuracy", "answer_accuracy_text", "reference_accuracy", "response_accuracy")
    assert [tandem[name] for name in right] == [1.0] * 4
    assert tandem["n_empty"] == tandem["n_missed"] == 0
    assert (tandem["heard_word_errors"], direct["heard_word_errors"]) == (0.0, None)
    assert "little to do with" not in (out / "report.md").read_text()
    assert [direct[name] for name in right] == [0.0, 0.0, None, None]
    assert (direct["n_empty"], direct["n_empty_text"], direct["n_missed"]) == (3, 3, 3)
    items = {item["item"]: item for item in read_items(str(out))}
    item = items["tandem-0.4s/q0"]
    assert (item["heard"], item["text"]) == ("the answer is eighteen",) * 2
    assert set(item["understood"].split()) <= {"alpha", "bravo", "charlie"}
    assert len(list((out / "sound").glob("tandem-0.4s-*.wav"))) == 1
    assert "The answer is eighteen." in (out / "report.md").read_text()
    assert (out / "plots" / "answers.png").stat().st_size > 1000


def test_a_judge_decides_beside_the_rule_and_is_not_asked_about_silence(
    checkpoint: str, questions: Path, tmp_path: Path
) -> None:
    with served(Behaviour(ending="\n[[correct]]")) as (root, server):
        judge = {"chat": {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL}}
        direct, tandem = evaluate(
            checkpoint, questions, tmp_path / "out", modes=["direct", "tandem"], answer="nineteen.", judge=judge
        )
        asked = [body["messages"][-1]["content"] for body in server.counts.bodies]
    judged = ("answer_judged", "answer_judged_text", "reference_judged")
    assert [tandem[name] for name in judged] == [1.0, 1.0, 1.0]
    assert [direct[name] for name in judged] == [0.0, 0.0, None]
    assert (tandem["answer_accuracy"], tandem["reference_accuracy"], tandem["response_accuracy"]) == (0.0, 0.0, None)
    assert tandem["keyword_delay_s"] is None
    assert any("How many hens?" in text and "eighteen" in text and "nineteen" in text for text in asked)
    assert read_figures(str(tmp_path / "out"))["costs"]["judge"]["n_requests"] > 0


def test_delays_are_those_of_the_front_end(checkpoint: str, questions: Path, tmp_path: Path) -> None:
    (row,) = evaluate(checkpoint, questions, tmp_path / "out", modes=["tandem"])
    assert row["ttfat_s"] > 3 * FRAME_S + 0.4 + PATIENCE_N_FRAMES * FRAME_S  # after the turn's end, and the oracle's
    assert row["ttfat_s"] == pytest.approx(row["first_word_s"], abs=FRAME_S)
    assert row["keyword_delay_s"] == pytest.approx(3 * N_WORD_FRAMES * FRAME_S, abs=FRAME_S)
    assert row["answer_delay_s"] > row["ttfat_s"]
    assert row["overlap"] == 0.0
    later = evaluate(checkpoint, questions, tmp_path / "later", modes=["tandem"], delays_s=[1.4])[0]
    assert later["ttfat_s"] == pytest.approx(row["ttfat_s"] + 1.0, abs=FRAME_S)
    assert later["oracle_age_s"] == pytest.approx(row["oracle_age_s"] + 1.0, abs=FRAME_S)


def test_what_runs_over_the_questions_end_is_no_answer_and_is_told(
    checkpoint: str, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CalledServer, "call", call_with_backchannel)
    out = tmp_path / "out"
    (row,) = evaluate(checkpoint, questions, out, modes=["direct"])
    assert (row["ttfat_s"], row["was_speaking"]) == (pytest.approx(3.0, abs=FRAME_S), 1.0)
    assert "speaking at the question's end" in (out / "report.md").read_text()


def test_answers_that_were_cut_are_told(
    checkpoint: str, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    (row,) = evaluate(checkpoint, questions, out, modes=["tandem"])
    assert row["has_ended"] == 1.0
    assert "had not ended in time" not in (out / "report.md").read_text()
    make_call = CalledServer.call
    monkeypatch.setattr(CalledServer, "call", lambda *given, **named: replace(make_call(*given, **named), ends=[None]))
    (row,) = evaluate(checkpoint, questions, tmp_path / "cut", modes=["tandem"])
    assert row["has_ended"] == 0.0
    report = (tmp_path / "cut" / "report.md").read_text()
    assert "- tandem, back-end after 0.4 s: 100% of the answers had not ended in time" in report


def test_a_judge_is_not_asked_about_loops_which_are_wrong(questions: Path, tmp_path: Path) -> None:
    with served(Behaviour(ending="\n[[correct]]")) as (root, server):
        judge = {"chat": {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL}}
        (row,) = evaluate(
            None, questions, tmp_path / "out", modes=["cascade"], answer="eighteen " * 5 + ".", judge=judge
        )
        asked = [body["messages"][-1]["content"] for body in server.counts.bodies]
    assert (row["n_degenerate_text"], row["answer_judged_text"], row["reference_judged"]) == (3, 0.0, 0.0)
    assert not any("eighteen eighteen" in text for text in asked)


def test_a_killed_evaluation_goes_on_and_gives_the_same_figures(
    checkpoint: str, questions: Path, tmp_path: Path
) -> None:
    @contextmanager
    def killing(what: str, total: int) -> Iterator[Callable[[int], None]]:
        n_calls = 0

        def advance(n: int) -> None:
            nonlocal n_calls
            n_calls += n
            if n_calls == 4:
                raise KeyboardInterrupt

        yield advance

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    modes: dict[str, Any] = {"modes": ["tandem", "cascade"], "delays_s": []}
    with pytest.raises(KeyboardInterrupt):
        evaluate(checkpoint, questions, killed, counting=killing, **modes)
    assert not (killed / FIGURES).exists()
    rows = evaluate(checkpoint, questions, killed, **modes)
    whole.mkdir()
    shutil.copy(killed / TIMES, whole / TIMES)
    assert evaluate(checkpoint, questions, whole, **modes) == rows
    figures = read_figures(str(whole))
    assert {"request, whole", "synthesis"} <= {each["what"] for each in figures["charged"]}
    costs = figures["costs"]["back_ends"]["default"]
    assert costs["n_requests"] > 0
    assert (costs["n_tokens_out"], costs["usd"]) == (2 * costs["n_requests"], None)
    assert evaluate(checkpoint, questions, killed, **modes) == rows
    assert read_figures(str(killed))["costs"]["back_ends"]["default"] == costs  # asked once, and not again
    assert read_figures(str(whole))["rows"] == read_figures(str(killed))["rows"]


def test_calls_that_were_scored_by_other_rules_are_scored_again_without_a_call(
    checkpoint: str, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def count_calls(what: str, total: int) -> Iterator[Callable[[int], None]]:
        assert what != "calling"
        yield lambda n: None

    out = tmp_path / "out"
    rows = evaluate(checkpoint, questions, out, modes=["tandem"])
    path = out / ITEMS
    path.write_text(path.read_text().replace('"answer_accuracy": true', '"answer_accuracy": false'))
    assert evaluate(checkpoint, questions, out, counting=count_calls, modes=["tandem"])[0]["answer_accuracy"] == 0.0
    monkeypatch.setattr(evaluate_module, "SCORING", evaluate_module.SCORING + 1)
    assert evaluate(checkpoint, questions, out, counting=count_calls, modes=["tandem"]) == rows


def test_questions_without_sound_are_spoken_by_several_voices_once(tmp_path: Path) -> None:
    path, out = tmp_path / "text.jsonl", tmp_path / "out"
    rows = [{"question": f"How much is {number} and {number}?", "answer": str(2 * number)} for number in range(2, 12)]
    unsayable = [{"question": "x_{ij}^{k}\\mapsto", "answer": "4"}, {"question": "why " * 300, "answer": "5"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*unsayable, *rows]))
    evaluate(None, path, out, modes=["cascade"])
    items = list(read_items(str(out)))
    assert len(items) == 10
    assert {item["voice"] for item in items} == {"double_a", "double_b", "double_c"}
    left_out = read_figures(str(out))["left_out"]
    assert left_out["too_long"] == 1
    assert sum(left_out.values()) == 2
    assert len(list((out / "asked").glob("*.flac"))) == 10
    sounds = {file: file.stat().st_mtime_ns for file in (out / "asked").glob("*.flac")}
    evaluate(None, path, out, modes=["cascade"], delays_s=[2.0])
    assert {file: file.stat().st_mtime_ns for file in (out / "asked").glob("*.flac")} == sounds


def test_more_words_are_the_remedy_for_long_questions_alone(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    for question, is_long in (("why " * 300, True), ("x_{ij}^{k}\\mapsto", False)):
        path.write_text(json.dumps({"question": question, "answer": "5"}) + "\n")
        with pytest.raises(ConfigError, match="can be spoken") as told:
            evaluate(None, path, tmp_path / "out", modes=["cascade"])
        assert ("max_words" in told.value.remedy) == is_long
        assert not (tmp_path / "out").exists(), "who failed leaves nothing behind"
