"""`kame talk`: a file talks with a server that is started for it, in real time."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from data_schemas.config.serving import ServeConfig
from data_schemas.units import SAMPLE_RATE_HZ
from flows import serving
from flows.cli import app
from kame_model.serve.parts import Parts
from kame_model.serve.recordings import About, Recordings
from tests.serving import doubles, saying, tiny_checkpoint

HEARD = re.compile("(delta )+golf( golf)*")
"""What is heard of the question; Opus smears its frames."""
PATIENT = ["--set", "limits.max_sessions=1", "--set", "limits.max_backlog_s=10", "--set", "limits.max_unsent_s=10"]
"""One caller, of whom nothing is dropped on a machine that is too busy for real time."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A whole checkpoint of a few thousand weights."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_checkpoint(folder)
    return str(folder / "export")


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A second of two words, then half a second of silence; the other channel says another word."""
    user = np.concatenate([saying("delta", 8), saying("golf", 5), saying(None, 6)])
    path = tmp_path / "question.wav"
    soundfile.write(path, np.stack([saying("kilo", 19), user], axis=1), SAMPLE_RATE_HZ)
    return path


@pytest.fixture(autouse=True)
def _with_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hears loudness and repeats what it heard, in place of its real parts."""

    @asynccontextmanager
    async def build(config: ServeConfig) -> AsyncIterator[Parts]:
        if config.record.folder is None:
            yield doubles()
            return
        about = About(checkpoint=config.checkpoint, recogniser="loudness", notice=config.record.notice)
        recordings = Recordings(config.record, about)
        yield doubles(recordings=recordings)
        await recordings.aclose()

    monkeypatch.setattr(serving, "build_parts", build)


def test_it_ends_with_sound_transcript_and_events(checkpoint: str, question: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--checkpoint", checkpoint, "--out", str(out), "--silence-s", "0.5", *PATIENT]
    done = CliRunner().invoke(app, ["talk", str(question), *options, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["ended"], told["out"]) == ("", str(out))
    assert {"delta", "golf"} >= {word for each in told["oracles"] for word in each["text"].split()} != set()
    assert all(each["age_s"] is None or 0 <= each["age_s"] < 5 for each in told["oracles"])
    (user,) = [each["text"] for each in told["transcript"] if each["speaker"] == "user"]
    assert HEARD.fullmatch(user)
    wav, _ = soundfile.read(out / "conversation.wav")
    said, _ = soundfile.read(question)
    assert np.allclose(wav[: len(said), 1], said[:, 1], atol=1e-3)
    assert wav[:, 0].any(), "it has answered something"
    kinds = [json.loads(line)["kind"] for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    assert kinds[0] == "started"
    assert {"heard", "speech_started", "speech_stopped", "oracle_asked", "oracle"} <= set(kinds)
    assert HEARD.search((out / "transcript.txt").read_text("utf-8"))


def test_people_see_the_notice_the_transcript_and_the_oracles(checkpoint: str, question: Path, tmp_path: Path) -> None:
    options = ["--checkpoint", checkpoint, "--out", str(tmp_path / "out"), "--silence-s", "0"]
    options += [*PATIENT, "--set", "care.notice=Nobody is here."]
    done = CliRunner().invoke(app, ["talk", str(question), *options])
    assert done.exit_code == 0, done.output
    assert "tandem, back-end default. Nobody is here." in done.stderr
    assert HEARD.search(done.stdout)
    assert "Oracles" in done.stdout
    assert "conversation.wav (left: assistant, right: user)" in done.stdout


@pytest.mark.parametrize("answer", ["y\n", "n\n", ""])
def test_only_who_agrees_is_recorded(answer: str, checkpoint: str, question: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    options = ["--checkpoint", checkpoint, "--out", str(tmp_path / "out"), "--silence-s", "0", "--record"]
    options += [*PATIENT, "--set", f"record.folder={kept}", "--set", "record.keep_days=2"]
    done = CliRunner().invoke(app, ["talk", str(question), *options], input=answer)
    assert "what is said is kept, sound and words" in done.stderr
    assert "deleted after 2 days" in done.stderr
    recorded = [path.name for path in kept.rglob("*.parquet")]
    assert (done.exit_code, len(recorded)) == ((0, 1) if answer == "y\n" else (1, 0))


def test_a_server_that_records_nobody_says_so(checkpoint: str, question: Path) -> None:
    options = ["--checkpoint", checkpoint, "--record", *PATIENT]
    done = CliRunner().invoke(app, ["talk", str(question), *options])
    assert (done.exit_code, "records nobody" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "It is not clear who talks"),
        (["a.wav", "--mic"], "It is not clear who talks"),
        (["a.wav", "--url", "http://host", "--checkpoint", "c"], "Say one of them"),
        (["a.wav", "--set", "port=1"], "Say --checkpoint too"),
        (["none.wav"], "Cannot read the sound in none.wav"),
        (["{question}", "--url", "ftp://host"], "no server's URL"),
    ],
)
def test_what_does_not_go_together_ends_with_2(options: list[str], told: str, question: Path) -> None:
    done = CliRunner().invoke(app, ["talk", *[each.format(question=question) for each in options]])
    assert (done.exit_code, told in done.output) == (2, True), done.output


def test_no_server_ends_with_4(question: Path) -> None:
    done = CliRunner().invoke(app, ["talk", str(question), "--url", "http://127.0.0.1:1"])
    assert (done.exit_code, "No server answers at http://127.0.0.1:1" in done.output) == (4, True)
