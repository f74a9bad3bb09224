"""`kame talk`: a file talks with a server that is started for it, in real time."""

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from backends.engine import Samples
from data_schemas.config.serving import NO_CHECKPOINT, ServeConfig
from data_schemas.units import SAMPLE_RATE_HZ
from flows import settings
from flows.cli.app import app
from flows.runs import serve
from kame_model.serve.client import client
from kame_model.serve.client.client import play_in_real_time
from kame_model.serve.device.engine import FrontEndEngine
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import ServerParts
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.web import moshi_websocket
from tests.support.serving import RepeatingChat, doubles, saying

pytestmark = pytest.mark.full

HEARD = re.compile("(delta )+golf( golf)*")
"""What is heard of the question; Opus smears its frames."""
PATIENT = ["--set", "limits.max_sessions=1", "--set", "limits.max_backlog_s=10", "--set", "limits.max_unsent_s=10"]
"""One caller, of whom nothing is dropped on a machine that is too busy for real time."""


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A second of two words, then half a second of silence; the other channel says another word."""
    user = np.concatenate([saying("delta", 8), saying("golf", 5), saying(None, 6)])
    path = tmp_path / "question.wav"
    soundfile.write(path, np.stack([saying("kilo", 19), user], axis=1), SAMPLE_RATE_HZ)
    return path


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServeConfig]:
    """A server that hears loudness and repeats what it heard, in place of its real parts; how it was configured.

    No checkpoint is shipped.
    """
    configs: list[ServeConfig] = []
    monkeypatch.setattr(settings, "find_shipped_checkpoint", lambda: None)

    @asynccontextmanager
    async def build(config: ServeConfig) -> AsyncIterator[ServerParts]:
        configs.append(config)
        if config.record.folder is None:
            only = BackEnd("default", RepeatingChat(), load_prompt("tandem"), models={"big": RepeatingChat()})
            yield replace(doubles(), back_ends={"default": only})
            return
        about = RecordingFacts(checkpoint=config.checkpoint, recogniser="loudness", notice=config.record.notice)
        recordings = Recordings(config.record, about)
        yield doubles(recordings=recordings)
        await recordings.aclose()

    monkeypatch.setattr(serve, "build_parts", build)
    return configs


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


def test_the_shipped_checkpoint_is_talked_with_as_the_options_say(
    checkpoint: str, question: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[ServeConfig]
) -> None:
    monkeypatch.setattr(settings, "find_shipped_checkpoint", lambda: checkpoint)
    options = ["--out", str(tmp_path / "out"), "--silence-s", "3", "--mode", "direct", "--voice", "synthesised"]
    llm = ["--llm-url", "http://127.0.0.1:1/v1", "--llm-model", "big"]
    done = CliRunner().invoke(app, ["talk", str(question), *options, *llm, *PATIENT])
    assert done.exit_code == 0, done.output
    (config,) = started
    assert (config.checkpoint, config.mode, config.voice) == (checkpoint, "direct", "synthesised")
    assert (config.back_ends[0].chat.base_url, config.back_ends[0].chat.model) == (llm[1], "big")
    assert "direct, back-end default; its text is spoken by text-to-speech." in done.stderr
    assert re.search(r"s  assistant: \w", done.stdout)
    sound, _ = soundfile.read(tmp_path / "out" / "conversation.wav")
    assert 0.2 < np.abs(sound[:, 0]).max() < 0.5  # the double's tones


def test_each_text_is_said_when_the_one_before_has_been_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[ServeConfig]
) -> None:
    sounds = {word: np.concatenate([saying(word, 8), saying(None, 6)]) for word in ("delta", "golf")}
    monkeypatch.setattr(client, "synthesise_user", sounds.__getitem__)
    said = ["--say", "delta", "--say", "golf"]
    options = ["--out", str(tmp_path / "out"), "--silence-s", "3", "--mode", "cascade", *PATIENT, "--json"]
    done = CliRunner().invoke(app, ["talk", *said, *options])
    assert done.exit_code == 0, done.output
    assert started[0].checkpoint == NO_CHECKPOINT, "a cascade needs none"
    first, second = json.loads(done.stdout)["exchanges"]
    for word, told in (("delta", first), ("golf", second)):
        assert all(word in told[each] for each in ("question", "oracle", "text")), told
    assert "golf" not in first["question"]


def test_on_a_machine_that_is_too_slow_for_real_time_it_talks_all_the_same(
    checkpoint: str, question: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FrontEndEngine, "time_step", lambda *_: 1.0
    )  # as the server measures it; the talk is not slower
    options = ["--checkpoint", checkpoint, "--out", str(tmp_path / "out"), "--silence-s", "0", *PATIENT]
    done = CliRunner().invoke(app, ["talk", str(question), *options, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["transcript"] != []


def test_an_answer_that_does_not_end_is_told(checkpoint: str, question: Path, tmp_path: Path) -> None:
    """The tiny front-end says a piece of text with each frame."""
    options = ["--checkpoint", checkpoint, "--out", str(tmp_path / "out"), "--answer-timeout-s", "1", *PATIENT]
    done = CliRunner().invoke(app, ["talk", str(question), *options, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["lacks"] == "Timed out: the answer had not ended 1 s after what was said."


@pytest.mark.parametrize("signalled", [True, False])
def test_ctrl_c_keeps_what_was_said_until_then(
    signalled: bool, checkpoint: str, question: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken_off(sound: Samples, silence_s: float) -> AsyncIterator[Samples]:
        async for frame in play_in_real_time(sound, silence_s):
            yield frame
            said.append(frame)
            if len(said) == 6:
                if not signalled:
                    raise KeyboardInterrupt  # as SIGTERM does
                signal.raise_signal(signal.SIGINT)

    said: list[Samples] = []
    monkeypatch.setattr(client, "play_in_real_time", broken_off)
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["talk", str(question), "--checkpoint", checkpoint, "--out", str(out), *PATIENT])
    assert done.exit_code == 130, done.output
    assert f"the record until then is saved in {out}." in done.stderr
    assert "to resume" not in done.stderr
    wav, _ = soundfile.read(out / "conversation.wav")
    user = np.concatenate(said)
    assert np.allclose(wav[: len(user), 1], user, atol=1e-3)
    assert json.loads((out / "events.jsonl").read_text("utf-8").splitlines()[0])["kind"] == "started"
    assert sorted(path.name for path in out.iterdir()) == ["conversation.wav", "events.jsonl", "transcript.txt"]


def test_a_broken_message_keeps_what_was_said_until_then(
    checkpoint: str, question: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = moshi_websocket._encode_json
    monkeypatch.setattr(moshi_websocket, "_encode_json", lambda event: b"{" if event.kind == "heard" else whole(event))
    out = tmp_path / "out"
    options = ["--checkpoint", checkpoint, "--out", str(out), *PATIENT]
    done = CliRunner().invoke(app, ["talk", str(question), *options, "--json"])
    assert done.exit_code == 4
    told = json.loads(done.stdout)
    assert "does not speak Moshi's protocol" in told["error"]
    assert f"the record until then is saved in {out}." in done.stderr
    assert soundfile.read(out / "conversation.wav")[0][:, 1].any()


def test_nothing_is_written_where_no_server_answers(question: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["talk", str(question), "--url", "http://127.0.0.1:1", "--out", str(out)])
    assert (done.exit_code, "No server answers at http://127.0.0.1:1" in done.output) == (4, True)
    assert not out.exists()


def test_model_and_prompt_are_asked_for_and_people_see_what_is_said(
    checkpoint: str, question: Path, tmp_path: Path
) -> None:
    options = ["--checkpoint", checkpoint, "--out", str(tmp_path / "out"), "--silence-s", "0", *PATIENT]
    options += ["--set", "care.notice=Nobody is here."]
    done = CliRunner().invoke(app, ["talk", str(question), *options, "--model", "big", "--prompt", "cascade"])
    assert done.exit_code == 0, done.output
    assert "tandem, back-end default, model big. Nobody is here." in done.stderr
    assert HEARD.search(done.stdout)
    assert "Oracles" in done.stdout
    assert "conversation.wav (left: assistant, right: user)" in done.stdout
    for wrong in (["--model", "gpt-9"], ["--prompt", "nobodys"]):
        done = CliRunner().invoke(app, ["talk", str(question), *options, *wrong])
        assert (done.exit_code, wrong[1] in done.output) == (4, True), done.output


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
    assert (done.exit_code, "does not record" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "What to say is not given exactly once"),
        (["a.wav", "--mic"], "What to say is not given exactly once"),
        (["a.wav", "--say", "Hello."], "What to say is not given exactly once"),
        (["--say", "%", "--mode", "cascade"], "cannot be said"),
        (
            ["a.wav", "--url", "http://host", "--checkpoint", "c", "--voice", "decoded"],
            "--checkpoint, --voice is for a server that is started",
        ),
        (["a.wav", "--url", "http://host", "--set", "port=1"], "--set is for a server that is started"),
        (["a.wav", "--url", "http://host", "--llm-url", "http://llm"], "--llm-url is for a server that is started"),
        (["a.wav"], "Run kame talk FILE --checkpoint CHECKPOINT"),
        (["none.wav", "--mode", "cascade"], "Cannot read the audio file none.wav"),
        (["{question}", "--url", "ftp://host"], "not a server's URL"),
    ],
)
def test_what_does_not_go_together_ends_with_2(options: list[str], told: str, question: Path) -> None:
    done = CliRunner().invoke(app, ["talk", *[each.format(question=question) for each in options]])
    assert (done.exit_code, told in done.output) == (2, True), done.output
