"""A few dialogues end to end in memory: text, word times, oracles and sound files."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from typer.testing import CliRunner, Result

from backends.chat.cache import ReplyCache
from backends.tts.double import DoubleTts
from backends.tts.protocol import SpeechRefused
from data_schemas.config import AlignmentConfig, ChatConfig, GateConfig, RefreshConfig, SourceConfig, SpeechConfig
from data_schemas.errors import SourceError, StoreError
from flows.cli.app import app
from flows.runs.preview import TRIED_PER_DIALOGUE, find_remedy, preview
from flows.settings import list_sample_sources
from pipelines.run.execute import run_in_memory
from pipelines.run.stages import ORACLE

pytestmark = pytest.mark.full


def config(out: Path, sources: list[SourceConfig] | None = None) -> RefreshConfig:
    return RefreshConfig(
        out=str(out),
        sources=list_sample_sources() if sources is None else sources,
        workers=1,
        speech=SpeechConfig(tts="double"),
        gate=GateConfig(asr="none"),
        alignment=AlignmentConfig(aligner="double"),
        chat=ChatConfig(engine="double"),
    )


def test_dialogues_come_from_the_sources_in_turn_and_can_be_heard(tmp_path: Path) -> None:
    made = preview(config(tmp_path), 3).dialogues
    assert {each.dialogue.source for each in made} == {"gsm8k", "hssbench", "mmlu_pro"}
    for each in made:
        assert each.oracle.dialogue_id == each.dialogue.dialogue_id
        assert each.oracle.events[-1].status == "truth"
        info = soundfile.info(each.sound_file)
        assert (info.frames, info.channels) == (each.dialogue.n_samples, 2)


def test_the_shortest_questions_are_taken_and_each_preview_spends_under_a_name_of_its_own(tmp_path: Path) -> None:
    gsm8k = config(tmp_path, [each for each in list_sample_sources() if each.name == "gsm8k"])
    few = preview(gsm8k, 2).dialogues
    made = preview(gsm8k, 20).dialogues
    lengths = [len(each.dialogue.turns[0].spoken_text.split()) for each in made]
    assert len(made) == 4
    assert lengths == sorted(lengths)
    assert [each.dialogue.dialogue_id for each in few] == [each.dialogue.dialogue_id for each in made[:2]]
    with ReplyCache(tmp_path / "answers.sqlite") as cache:
        runs = [run for (run,) in cache.run("SELECT DISTINCT run FROM spending")]
    assert len(runs) == 2
    assert all(run.startswith("preview-") for run in runs)


def refuse_first(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Makes the double's voice refuse the first `n` texts, each of which is the first of a dialogue."""
    say, n_said = DoubleTts.synthesise, 0

    def synthesise(self: DoubleTts, text: str, voice: str, speed: float, take: int = 0) -> Any:
        nonlocal n_said
        n_said += 1
        if n_said <= n:
            raise SpeechRefused("it is too hard")
        return say(self, text, voice, speed)

    monkeypatch.setattr(DoubleTts, "synthesise", synthesise)


def test_another_question_takes_the_place_of_one_that_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = preview(config(tmp_path), 4).dialogues
    refuse_first(monkeypatch, 1)
    made = preview(config(tmp_path), 3)
    assert [each.dialogue.dialogue_id for each in made.dialogues] == [each.dialogue.dialogue_id for each in others]
    (rejected,) = made.rejected
    assert rejected.question == first.dialogue.question
    assert (rejected.reject.reason, rejected.reject.detail) == ("speech_refused", "it is too hard")


def test_as_many_questions_are_tried_as_are_allowed_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_first(monkeypatch, TRIED_PER_DIALOGUE - 1)
    assert len(preview(config(tmp_path), 1).dialogues) == 1
    refuse_first(monkeypatch, TRIED_PER_DIALOGUE)
    made = preview(config(tmp_path), 1)
    assert (made.dialogues, len(made.rejected)) == ([], TRIED_PER_DIALOGUE)


def test_where_nothing_comes_out_the_command_says_why_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(self: DoubleTts, text: str, voice: str, speed: float, take: int = 0) -> Any:
        raise SpeechRefused("it is too hard")

    monkeypatch.setattr(DoubleTts, "synthesise", refuses)
    shown = preview_by_command(config(tmp_path / "unused"), tmp_path, "--json")
    assert shown.exit_code == 1
    assert "All dialogues were rejected: 6 by speech speech_refused." in shown.output
    assert shown.stderr.count("it is too hard") == 6
    assert json.loads(shown.stdout)["remedy"].endswith("add to the command: --seed 1")


def test_the_command_shows_each_reject_with_its_question_reason_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_first(monkeypatch, 1)
    row = {"question": "How many are three and four?", "answer": "#### 7"}
    more = {"question": "How many are three and four and five?", "answer": "#### 12"}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(more)}\n", encoding="utf-8")
    own = config(tmp_path / "unused", [SourceConfig(name="gsm8k", path=str(tmp_path / "rows.jsonl"))])
    (tmp_path / "my.yaml").write_text(json.dumps(own.model_dump(mode="json")), encoding="utf-8")
    shown = CliRunner().invoke(
        app, ["preview", "--config", str(tmp_path / "my.yaml"), "--out", str(tmp_path / "out"), "--n", "2"]
    )
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("Listen: ") == 1
    assert "rejected as speech_refused: How many are three and four? (gsm8k); it is too hard" in shown.stderr
    assert "made 1 of 2 dialogues, and rejected 1. " in shown.stderr


@pytest.mark.parametrize(
    ("tts", "asr", "has_voices", "told"),
    [
        ("kokoro", "moonshine", False, "a speech recogniser understands it.*type: make voices"),
        ("kokoro", "moonshine", True, "a speech recogniser understands it.*--seed 1"),
        ("double", "none", False, "^To try other voices and forms of dialogue, add to the command: --seed 1"),
    ],
)
def test_the_remedy_is_a_line_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tts: str, asr: str, has_voices: bool, told: str
) -> None:
    monkeypatch.setattr("backends.tts.kokoro_assets.has_english_voices", lambda: has_voices)
    made = config(tmp_path).model_copy(update={"speech": SpeechConfig(tts=tts), "gate": GateConfig(asr=asr)})
    assert re.search(told, find_remedy(made))


def test_a_dialogue_without_oracles_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_first(config: RefreshConfig, name: str, batch: Any, answers: str) -> Any:
        made = run_in_memory(config, name, batch, answers)
        return replace(made, outputs=made.outputs[1:]) if name == ORACLE else made

    monkeypatch.setattr("flows.runs.preview.run_in_memory", without_the_first)
    made = preview(config(tmp_path), 3).dialogues
    assert len(made) == 2
    assert all(each.oracle.dialogue_id == each.dialogue.dialogue_id for each in made)


def test_sources_without_a_question_that_can_be_said_are_told(tmp_path: Path) -> None:
    rows = tmp_path / "gsm8k.jsonl"
    rows.write_text(json.dumps({"question": "金?", "answer": "#### 1"}), encoding="utf-8")
    with pytest.raises(SourceError, match="No question of these sources can be spoken"):
        preview(config(tmp_path / "out", [SourceConfig(name="gsm8k", path=str(rows))]), 3)


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match="out"):
        preview(config(tmp_path / "out"), 1)


def preview_by_command(config: RefreshConfig, folder: Path, *more: str) -> Result:
    """Two dialogues, of the sources of the settings or else of our samples."""
    (folder / "my.yaml").write_text(json.dumps(config.model_dump(mode="json")), encoding="utf-8")
    typed = ["preview", "--config", str(folder / "my.yaml"), "--out", str(folder / "out"), "--n", "2", *more]
    return CliRunner().invoke(app, typed)


def test_the_command_shows_text_times_ladder_and_where_to_listen(tmp_path: Path) -> None:
    shown = preview_by_command(config(tmp_path / "unused", []), tmp_path)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("Oracle ladder") == len(list((tmp_path / "out").glob("*.wav"))) == 2
    for file in (tmp_path / "out").glob("*.wav"):
        told = f"Listen: {file} (left: assistant, right: user)"
        assert "".join(told.split()) in "".join(shown.stdout.split())  # lines are wrapped where they are long


def test_sources_of_the_settings_go_before_our_samples(tmp_path: Path) -> None:
    row = {"question": "How many are three and four?", "answer": "#### 7"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    own = [SourceConfig(name="gsm8k", path=str(tmp_path / "rows.jsonl"))]
    shown = preview_by_command(config(tmp_path / "unused", own), tmp_path)
    assert shown.exit_code == 0, shown.output
    assert "How many are three and four?" in shown.stdout
    assert shown.stdout.count("Oracle ladder") == 1
