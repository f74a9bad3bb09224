"""`kame evaluate questions` on Llama Questions in its published form, made small: five questions with their sound."""

import json
from pathlib import Path

import pytest
import soundfile
import soxr
from typer.testing import CliRunner

from data_schemas.units import SAMPLE_RATE_HZ
from flows.cli.app import app
from kame_model.serve.device import slots
from tests.support.serving import saying
from tests.support.waiting_front_end import PitchRecogniser, WaitingEngine

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("server_of_doubles", "waiting_front_end")]

FILE_RATE_HZ = 16_000
ROWS = [
    ("Which word is it?", "Alpha", "alpha"),
    (' Which is "it" now? ', "Bravo ", "bravo"),
    ("Say the third.", "charlie", "charlie"),
    ("Say another.", "Paris", "alpha"),
    ("Say it again.", "bravo (the second)", "bravo"),
]


@pytest.fixture
def waiting_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front-end that says its oracle and nothing else, and a recogniser `double` that hears it."""
    monkeypatch.setattr(slots, "FrontEndEngine", WaitingEngine)
    monkeypatch.setattr("backends.asr.double.DoubleRecogniser", PitchRecogniser)


@pytest.fixture
def llama_questions(tmp_path: Path) -> Path:
    """A chat model that repeats what it hears is right four times of five."""
    folder = tmp_path / "LLAMA1-Test-Set"
    folder.mkdir()
    lines = ["Questions\tAnswer\tWav Filename"]
    for number, (question, answer, word) in enumerate(ROWS, start=1):
        lines.append(f"{question}\t{answer}\t{number}.wav")
        sound = soxr.resample(saying(word, 4), SAMPLE_RATE_HZ, FILE_RATE_HZ)
        soundfile.write(folder / f"{number}.wav", sound, FILE_RATE_HZ)
    (folder / "llama_questions_300.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_llama_questions_are_asked_in_every_mode(checkpoint: str, llama_questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    typed = [
        "evaluate", "questions", checkpoint, "--questions", "llama_questions", "--path", str(llama_questions),
        "--modes", "direct,tandem,cascade", "--delay-s", "0.3", "--delay-s", "1.3", "--tail-s", "6", "--n", "9",
        "--asr", "double", "--out", str(out),
    ]  # fmt: skip
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0, result.output
    assert "cascade, back-end after 1.3 s" in result.output
    rows = json.loads((out / "figures.json").read_text())["rows"]
    assert [(row["mode"], row["delay_s"], row["n"]) for row in rows] == [
        ("direct", None, 5),
        ("tandem", 0.3, 5),
        ("tandem", 1.3, 5),
        ("cascade", 0.3, 5),
        ("cascade", 1.3, 5),
    ]
    assert [rows[0][name] for name in ("answer_accuracy", "answer_accuracy_text", "n_missed")] == [0.0, 0.0, 5]
    for row in rows[1:]:
        assert row["reference_accuracy"] == 0.8
    for row in rows[1:3]:
        assert (row["answer_accuracy"], row["answer_accuracy_text"]) == (0.8, 0.8)
        assert (row["response_accuracy"], row["heard_word_errors"], row["n_empty"]) == (1.0, 0.0, 0)
    assert rows[2]["ttfat_s"] == pytest.approx(rows[1]["ttfat_s"] + 1, abs=0.08)
    for row in rows[3:]:
        assert (row["answer_accuracy_text"], row["response_accuracy_text"]) == (0.8, 1.0)
        assert row["keyword_delay_s"] == pytest.approx(0, abs=0.08)
    assert rows[4]["ttfat_s"] == pytest.approx(rows[3]["ttfat_s"] + 1, abs=0.08)
    assert CliRunner().invoke(app, [*typed, "--json"]).exit_code == 0
    assert json.loads((out / "figures.json").read_text())["rows"] == rows


def test_ones_own_file_is_mapped_and_wrong_ones_are_told(checkpoint: str, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("frage,antwort\nSay alpha.,alpha\n")
    typed = ["evaluate", "questions", "--path", str(tmp_path / "own.csv"), "--modes", "cascade", "--tts", "double",
             "--asr", "double", "--out", str(tmp_path / "out"), "--json"]  # fmt: skip
    mapped = CliRunner().invoke(app, [*typed, "--map", "question = frage, answer=antwort"])
    assert mapped.exit_code == 0, mapped.output
    assert json.loads(mapped.stdout)[0]["n"] == 1
    other = [*typed, "--map", "question=frage,answer=antwort", "--seed", "1"]
    refused = CliRunner().invoke(app, other)
    assert (refused.exit_code, "they differ in: seed" in refused.output) == (2, True)
    assert CliRunner().invoke(app, [*other, "--anew"]).exit_code == 0
    for options, told in (
        ([], "no question of the form of mine"),
        (["--map", "question"], "--map question is not a list of field=COLUMN"),
        (["--map", "question=frage,question=antwort"], "is not a list of field=COLUMN"),
        (["--map", "question=frage,answr=antwort"], "the set has no column 'answr'"),
        (["--modes", "tandem"], "without a checkpoint"),
        (["--questions", "nobody's"], "questions"),
    ):
        result = CliRunner().invoke(app, [*typed, *options])
        assert result.exit_code != 0
        assert told in json.loads(result.stdout)["error"]
