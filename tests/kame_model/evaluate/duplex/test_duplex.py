"""Full-Duplex-Bench's folders, made small, through a real server on a simulated clock."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from pydantic import ValidationError
from typer.testing import CliRunner

from backends.engine import Samples
from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech
from data_schemas.config.duplex import DuplexConfig
from data_schemas.errors import ConfigError, SourceError
from data_schemas.flags import set_flag
from data_schemas.records import Audio, AudioDialogue
from data_schemas.store import Store
from flows.cli.app import app
from kame_model.checkpoint.registry import read_test_evaluations
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.delays import find_audible_spans
from kame_model.evaluate.duplex.evaluate import evaluate_duplex
from kame_model.evaluate.duplex.items import find_items
from kame_model.evaluate.report.folder import read_figures
from pipelines.audio import to_flac
from tests.support.builders import make_utterance
from tests.support.chat_server import MODEL, Behaviour, served
from tests.support.counting_chat import CountingChat, parts_with
from tests.support.serving import saying, serve_config
from tests.support.small_datasets import write_dataset
from tests.support.spoken_question import silence, spoken_question
from tests.support.token_rows import audio_dialogue, said_turn, timed

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("nothing_is_probed")]

DOUBLE_CHAT = {"engine": "double"}
BACK_END = {"chat": {"engine": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "double"}}


class WordRecogniser:
    """Hears a word in every 0.4 s of sound."""

    name, digest, max_calls_in_flight = "words", "1", 1

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        return " ".join(["word"] * max(1, round(len(samples) / sample_rate_hz / 0.4)))


def sound(*frames: int) -> Samples:
    """Words and silences in turn, so many frames of 80 ms each."""
    pieces = [saying(None if number % 2 else "alpha", n) for number, n in enumerate(frames)]
    return np.concatenate(pieces)


def put(root: Path, subset: str, user: Samples, rate_hz: int = 16_000, name: str = "1", **annotation: Any) -> None:
    folder = root / subset / name
    folder.mkdir(parents=True)
    soundfile.write(folder / "input.wav", soxr.resample(user, 24_000, rate_hz), rate_hz, subtype="PCM_16")
    for file, told in annotation.items():
        (folder / f"{file}.json").write_text(json.dumps(told))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One item of each folder, two of pauses: one pause that ends a turn by the server's rule, one that does not."""
    root = tmp_path_factory.mktemp("bench") / "v1.0"
    pause = [{"text": "[PAUSE]", "timestamp": [0.8, 2.8]}]
    put(root, "candor_pause_handling", sound(10, 40, 5), 48_000, pause=pause)
    put(root, "candor_pause_handling", sound(10, 2, 10), 48_000, name="2", pause=pause)
    put(root, "synthetic_pause_handling", sound(10, 2, 10), pause=pause)
    put(root, "icc_backchannel", sound(30))
    (root / "icc_gt_distribution.json").write_text(json.dumps({"1": [0.1, 0.2, 0.7]}))
    put(root, "candor_turn_taking", sound(10, 40), turn_taking=[{"text": "[TURN-TAKING]", "timestamp": [0.8, 2.0]}])
    put(
        root,
        "synthetic_user_interruption",
        sound(10, 40, 10, 40),
        interrupt=[{"context": "How many?", "interrupt": "And how many white ones?", "timestamp": [4.0, 4.8]}],
    )
    return root.parent


def config(path: Path, checkpoint: str, **settings: Any) -> DuplexConfig:
    values = {"serving": serve_config(checkpoint=checkpoint, back_ends=[BACK_END]), "path": str(path)}
    return DuplexConfig.model_validate({**values, "modes": ["cascade"], "delays_s": [0.5], **settings})


def run(asked: DuplexConfig, out: Path, find_segments: Any = find_audible_spans, **given: Any) -> list[dict[str, Any]]:
    parts = parts_with(CountingChat("That would be nine eggs, all of them white."))
    return evaluate_duplex(
        asked, str(out), parts=parts, recogniser=WordRecogniser(), find_segments=find_segments, **given
    )


def test_a_cascade_answers_after_its_silence_and_takes_a_long_pause_for_the_end(
    bench: Path, checkpoint: str, tmp_path: Path
) -> None:
    rows = {row["subset"]: row for row in run(config(bench, checkpoint), tmp_path)}
    assert rows["candor_pause_handling"]["take_over"] == 0.5
    assert rows["synthetic_pause_handling"]["take_over"] == 0
    turn = rows["candor_turn_taking"]
    assert turn["take_over"] == turn["take_over_text"] == 1
    assert turn["latency_s"] == turn["ttfat_s"]
    assert 0.24 + 0.5 <= turn["latency_s"] <= 0.74 + 2 * 0.08, "three silent frames, the chat model, then the voice"
    interrupted = rows["synthetic_user_interruption"]
    assert (interrupted["take_over"], interrupted["n"]) == (1, 1)
    assert 0.74 <= interrupted["latency_s"] <= 0.74 + 2 * 0.08
    listened = rows["icc_backchannel"]
    assert (listened["take_over"], listened["backchannels_per_s"], listened["jsd"]) == (0, 0, 1)
    assert listened["turn_text"] == 0
    assert "take_over_text" not in listened, "take_over is of segments of sound there"
    assert "| cascade | 0.5 | candor_pause_handling | 2 | 50% [" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "plots" / "turns.png").stat().st_size > 10_000
    assert len(list((tmp_path / "sound").iterdir())) == 6
    assert_outputs_are_what_the_benchs_scripts_read(bench, tmp_path / "outputs" / "cascade-0.5s")


def assert_outputs_are_what_the_benchs_scripts_read(bench: Path, outputs: Path) -> None:
    for place in bench.glob("v1.0/*/*/input.wav"):
        folder = outputs / place.parent.relative_to(bench / "v1.0")
        said, rate_hz = soundfile.read(folder / "output.wav")
        asked, asked_rate_hz = soundfile.read(place)
        assert (said.ndim, rate_hz) == (1, 16_000)
        assert len(said) / rate_hz == pytest.approx(len(asked) / asked_rate_hz, abs=1e-3)
        told = json.loads((folder / "output.json").read_text())
        times = [time_s for chunk in told["chunks"] for time_s in chunk["timestamp"]]
        assert times == sorted(times)
        assert told["text"].split() == [chunk["text"] for chunk in told["chunks"]]
        annotations = {each.name: json.loads(each.read_text()) for each in place.parent.glob("*.json")}
        assert {each.name for each in folder.iterdir()} == {"output.wav", "output.json", *annotations}
        assert all(json.loads((folder / name).read_text()) == each for name, each in annotations.items())
    interrupted = json.loads((outputs / "synthetic_user_interruption" / "1" / "output.json").read_text())
    assert interrupted["chunks"][0]["timestamp"][0] >= 4.8, "what was said before the interruption's end does not count"


def test_the_noise_of_a_silent_assistant_is_no_speech(
    bench: Path, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_call = CalledServer.call

    def call_noise(server: CalledServer, *given: Any, **named: Any) -> Call:
        call = make_call(server, *given, **named)
        noise = np.random.default_rng(0).normal(0, 0.004, len(call.user)).astype(np.float32)
        return replace(call, assistant=noise)

    monkeypatch.setattr(CalledServer, "call", call_noise)
    asked = config(bench, checkpoint, tasks=["turn_taking", "user_interruption"])
    rows = run(asked, tmp_path, find_segments=lambda sound: [])
    assert [(row["overlap_share"], row["ttfat_s"]) for row in rows] == [(0.0, None), (0.0, None)]
    assert rows[1]["stop_s"] is None


def test_a_judge_rates_what_was_said_to_an_interruption(bench: Path, checkpoint: str, tmp_path: Path) -> None:
    with served(Behaviour(ending="\nRating: [[0]]")) as (root, server):
        judge = {"chat": {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL}}
        rows = run(config(bench, checkpoint, tasks=["user_interruption", "turn_taking"], judge=judge), tmp_path)
        asked_heard, asked_text = (body["messages"][-1]["content"] for body in server.counts.bodies)
    assert "And how many white ones?" in asked_heard
    assert "nine eggs" in asked_text
    by_subset = {row["subset"]: row for row in rows}
    row = by_subset["synthetic_user_interruption"]
    assert (row["relevance"], row["relevance_text"]) == (0, 0)
    assert "relevance" not in by_subset["candor_turn_taking"]


def test_what_is_not_of_the_benchs_form_is_named(bench: Path, checkpoint: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no folder of Full-Duplex-Bench for pause_handling"):
        find_items(config(tmp_path, checkpoint, tasks=["pause_handling"]))
    put(tmp_path, "candor_turn_taking", sound(10), turn_taking=[{"text": "[TURN-TAKING]"}])
    with pytest.raises(SourceError, match=r"turn_taking\.json has no valid times"):
        find_items(config(tmp_path, checkpoint))
    (tmp_path / "candor_turn_taking" / "1" / "input.wav").unlink()
    with pytest.raises(SourceError, match=r"candor_turn_taking/1 has no input\.wav"):
        find_items(config(tmp_path, checkpoint))


def made_dialogue(number: int, form: str) -> AudioDialogue:
    """Five seconds: the user asks until 1.6, with a pause in which the assistant says "okay", and cuts in at 3."""
    asked = said_turn(
        0, "B", "So how many eggs?", ("so", 0.0, 0.2), ("how", 0.2, 0.4), ("many", 1.2, 1.4), ("eggs", 1.4, 1.6)
    )
    okay = replace(make_utterance("Okay.", timed(("okay", 1.0, 1.2))), start_s=1.0, end_s=1.2, kind="backchannel")
    told = said_turn(1, "A", "Nine eggs.", ("nine", 2.0, 2.4), ("eggs", 2.4, 2.9))
    cut_in = said_turn(2, "B", "Wait, what?", ("wait", 3.0, 3.2), ("what", 3.3, 3.6))
    turns = [
        replace(asked, start_s=0.0, end_s=1.6),
        replace(told, start_s=1.0, end_s=2.9, utterances=(okay, *told.utterances)),
        *([replace(cut_in, start_s=3.0, end_s=3.6)] if form == "interruption" else []),
    ]
    channels = np.zeros((120_000, 2), np.float32)
    channels[:, 1] = np.repeat(np.arange(5), 24_000) / 10  # the user's sound tells its second
    name = f"mine-{number}-v0"
    dialogue = audio_dialogue(
        *turns, duration_s=5.0, dialogue_id=name, item_id=f"mine-{number}", split="test", form=form
    )
    return replace(dialogue, audio=Audio(bytes=to_flac(channels), path=f"{name}.flac"))


def test_the_same_is_asked_of_dialogues_of_ones_own(checkpoint: str, tmp_path: Path) -> None:
    forms = ["thinking_pause", "backchannel", "plain", "interruption", "greeting"]
    write_dataset(tmp_path, [[made_dialogue(number, form) for number, form in enumerate(forms)]])
    items = {item.task: item for item in find_items(config(tmp_path, checkpoint, wait_s=2.0, splits=["test"])).items}
    assert {task: (item.unit, item.dialogue_id) for task, item in items.items()} == {
        "pause_handling": ("own_pause_handling/1", "mine-0-v0"),
        "backchannel": ("own_backchannel/1", "mine-1-v0"),
        "turn_taking": ("own_turn_taking/1", "mine-2-v0"),
        "user_interruption": ("own_user_interruption/1", "mine-3-v0"),
    }
    lengths_s = {task: len(item.read()) / 24_000 for task, item in items.items()}
    assert lengths_s == {"pause_handling": 1.6, "backchannel": 1.6, "turn_taking": 3.6, "user_interruption": 5.6}
    assert items["pause_handling"].annotation == [{"text": "[PAUSE]", "timestamp": [0.4, 1.2]}]
    assert items["turn_taking"].turn == (0.0, 1.6)
    assert items["user_interruption"].annotation[0] == {
        "context": "So how many eggs?",
        "interrupt": "Wait, what?",
        "timestamp": [3.0, 3.6],
    }
    assert items["backchannel"].people is not None
    assert np.argmax(items["backchannel"].people) == 5
    interrupted = items["user_interruption"].read()
    assert interrupted[round(3.5 * 24_000)] == pytest.approx(0.3, abs=1e-3)
    assert not interrupted[round(3.6 * 24_000) :].any(), "what the user said later is not played"


def test_a_flag_gives_no_dialogue_the_number_of_another(checkpoint: str, tmp_path: Path) -> None:
    write_dataset(tmp_path, [[made_dialogue(number, "plain") for number in range(3)]])
    set_flag(Store(str(tmp_path)), "mine-0-v0", "It is noise.")
    found = find_items(config(tmp_path, checkpoint, wait_s=2.0, splits=["test"])).items
    assert [(item.name, item.dialogue_id) for item in found] == [("2", "mine-1-v0"), ("3", "mine-2-v0")]


def test_each_look_at_a_datasets_test_items_is_counted(checkpoint: str, tmp_path: Path) -> None:
    write_dataset(tmp_path / "data", [[made_dialogue(0, "plain")]])
    register, out = tmp_path / "register", tmp_path / "out"

    def look(out: Path, again: bool = False, **settings: Any) -> Any:
        asked = config(tmp_path / "data", checkpoint, wait_s=2.0, splits=["test"], n_sounds=0, **settings)
        run(asked, out, register=str(register), again=again)
        return read_figures(str(out))["looks_at_test"]

    assert look(out) == look(out) == 1
    assert "evaluated on them 1 time**" in (out / "report.md").read_text()
    with pytest.raises(ConfigError, match="evaluated on test items before: duplex"):
        look(tmp_path / "second", seed=1)
    assert not (tmp_path / "second").exists()
    with pytest.raises(ConfigError, match="differ in: seed"):
        look(out, again=True, seed=1)
    assert [each.kind for each in read_test_evaluations(str(register))] == ["duplex"], "who is refused has seen nothing"
    assert look(tmp_path / "second", again=True, seed=1) == 2
    assert read_figures(str(out))["run"]["splits"] == ["test"], "in which items are numbered"
    with pytest.raises(ValidationError, match="test cannot be combined"):
        config(tmp_path / "data", checkpoint, splits=["validation", "test"])


def test_the_command_says_when_it_took_the_turn(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speech = spoken_question()
    end_s = len(speech) / 24_000
    monkeypatch.setattr(DoubleTts, "synthesise", lambda *_: Speech(speech))  # what silero-vad takes for speech
    monkeypatch.setattr("backends.asr.double.DoubleRecogniser", WordRecogniser)
    turn = [{"text": "[TURN-TAKING]", "timestamp": [end_s, end_s + 0.5]}]
    put(tmp_path / "bench", "candor_turn_taking", np.concatenate([speech, silence(4.5)]), turn_taking=turn)
    server = tmp_path / "server.yaml"
    doubles = {"listener": {"engine": "double"}, "cascade": {"tts": "double"}, "back_ends": [{"chat": DOUBLE_CHAT}]}
    server.write_text(json.dumps(doubles))
    out = tmp_path / "out"
    typed = ["--path", str(tmp_path / "bench"), "--config", str(server), "--set", "recogniser=double"]
    typed += ["--modes", "direct,cascade", "--delay-s", "0.5", "--tasks", "turn_taking", "--out", str(out)]
    done = CliRunner().invoke(app, ["evaluate", "duplex", checkpoint, *typed])
    assert done.exit_code == 0, done.output
    assert "direct, candor_turn_taking: takes the turn in 0%" in done.output, "random weights say no words"
    assert "cascade, back-end after 0.5 s, candor_turn_taking: takes the turn in 100%" in done.output
    direct, cascade = read_figures(str(out))["rows"]
    assert (direct["take_over"], direct["latency_s"]) == (0.0, None)
    assert (cascade["subset"], cascade["take_over"]) == ("candor_turn_taking", 1.0)
    (place,) = out.glob("outputs/cascade-0.5s/*/1/output.json")
    chunks = json.loads(place.read_text())["chunks"]
    assert [chunk["text"] for chunk in chunks] == ["word"] * len(chunks)
    starts_s, ends_s = zip(*(chunk["timestamp"] for chunk in chunks), strict=True)
    assert starts_s[0] - end_s == pytest.approx(cascade["latency_s"], abs=0.01)
    assert starts_s[0] == pytest.approx(end_s + cascade["ttfat_s"], abs=0.15), "where silero-vad finds the voice"
    assert ends_s[-1] - starts_s[0] == pytest.approx(end_s, abs=0.3), "and as long as it speaks"
