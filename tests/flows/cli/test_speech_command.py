"""`kame speech`: what it prints, and how it fails."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from tests.support.sentences import speech_config


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    config = speech_config(tmp_path)
    options = {
        "--source": f"gsm8k={config.sources[0].path}",
        "--hours": 0.01,
        "--out": config.out,
        "--tts": "double",
        "--codec": "double",
        "--tokenizer": config.tokenizer,
        "--workers": 1,
        "--set": "alignment.aligner=double",
    }
    return ["speech", *(str(each) for pair in options.items() for each in pair)]


def test_it_says_how_much_speech_there_is_and_what_was_refused(arguments: list[str], tmp_path: Path) -> None:
    told = CliRunner().invoke(app, [*arguments, "--set", "max_words=6"])
    assert told.exit_code == 0, told.output
    assert "speech: 24 rows in 1 parts, 0.02 hours of speech." in told.stdout.replace("\n", "")
    assert "4 sentences were rejected: wrong_length 4." in told.stderr
    assert "They are listed in" in told.stderr.replace("\n", "")


def test_json_for_programs(arguments: list[str], tmp_path: Path) -> None:
    told = json.loads(CliRunner().invoke(app, [*arguments, "--seed", "3", "--voice", "double_b", "--json"]).stdout)
    assert told["n_rows"] > 0
    assert (told["n_events"], told["parts"]) == (0, 1)
    assert told["hours"] >= 0.01
    assert told["fingerprint"] == json.loads((tmp_path / "speech" / "tokens.json").read_text())["fingerprint"]
    assert json.loads((tmp_path / "speech" / "speech.json").read_text())["voice"] == "double double_b"


@pytest.mark.parametrize(
    ("option", "value", "exit_code", "says"),
    [
        ("--hours", "0", 2, "hours: Input should be greater than 0"),
        ("--tts", "nobody", 2, "There is no tts back-end 'nobody'"),
        ("--voice", "nobody", 2, "has no voice nobody"),
        ("--source", "gsm9k", 2, "gsm9k"),
        ("--codec", "opus", 2, "There is no codec back-end 'opus'"),
        ("--set", "codec_minutes=0", 2, "codec_minutes: Input should be greater than 0"),
        ("--set", "shares.songs=1", 2, "shares.songs: Extra inputs are not permitted"),
        ("--without", "/nowhere", 6, "/nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], option: str, value: str, exit_code: int, says: str
) -> None:
    told = CliRunner().invoke(app, [*arguments, option, value])
    assert told.exit_code == exit_code, told.output
    assert says in told.stderr
    assert "Traceback" not in told.output
