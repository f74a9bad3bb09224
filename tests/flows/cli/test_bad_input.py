"""Whatever is wrong ends with one message that says what to do, the right exit code, and nothing half written."""

import gzip
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from data_schemas.config import RefreshConfig
from flows import settings
from flows.cli.app import app
from pipelines.run.plan import lock_dataset
from tests.support.refreshing import GOOD, ROWS, Bench, assert_one_message

pytestmark = pytest.mark.full


SOURCES: list[tuple[str, bytes | None, str]] = [
    ("rows.jsonl", None, "no file .*rows.jsonl"),
    ("rows.jsonl", b'{"q": 1}\n', r"column\(s\) question, answer .*there are: q"),
    ("rows.jsonl", b"", "holds no rows"),
    ("rows.jsonl.gz", gzip.compress(GOOD * 50)[:-40], "damaged or truncated"),
    ("rows.parquet", b"PAR1 and so on PAR1", "not a complete Parquet file"),
    ("rows.csv", b"question,answer\n", "neither JSONL"),
    ("rows.jsonl", b"no json\n", "there are: none"),
]


def test_sources_that_cannot_be_read(bench: Bench) -> None:
    assert bench.refresh().exit_code == 0
    before = bench.state()
    for name, content, says in SOURCES:
        path = bench.folder / name if content is None else bench.file(name, content)
        assert_one_message(bench.refresh(source=f"gsm8k={path}"), 3, says)
        assert bench.state() == before


def test_lines_that_are_no_rows_are_rejects_and_stop_nothing(bench: Bench) -> None:
    lines = [b"no json", b"[1]", b'{"question": "\\ud800?", "answer": "#### 1"}', b"7" * 5_000, b'{"question": "?"}']
    bench.file("good.jsonl", GOOD + b"\n".join(lines) + b"\n")
    told = json.loads(bench.refresh("--json").stdout)
    assert (told["dialogues"], told["rejects"]) == (len(ROWS), len(lines))


def test_a_source_of_which_all_is_refused_makes_an_empty_dataset(bench: Bench) -> None:
    bench.file("good.jsonl", b'{"question": "", "answer": "#### 1"}\n')
    told = json.loads(bench.refresh("--json").stdout)
    assert (told["dialogues"], told["rejects"]) == (0, 1)
    assert CliRunner().invoke(app, ["check", str(bench.out)]).exit_code == 0
    assert_one_message(CliRunner().invoke(app, ["inspect", str(bench.out)]), 6, "has no dialogues")


WRONG: list[tuple[list[str], dict[str, Any], int, str]] = [
    (["--profile", "tpu"], {}, 2, "no profile 'tpu'.*embedded"),
    ([], {"speech": {"tts": "parrot"}}, 2, "no tts back-end 'parrot'.*kokoro"),
    ([], {"alignment": {"aligner": "ruler"}}, 2, "no aligner back-end 'ruler'"),
    ([], {"chat": {"engine": "oracle"}}, 2, "no chat back-end 'oracle'"),
    ([], {"speech": {"tts": "double", "voice_a": "nobody"}}, 2, "has no voice nobody.*double_a"),
    ([], {"speech": {"tts": "double", "voices_b": []}}, 2, "at least one voice"),
    ([], {"speech": {"tts": "double", "tts_b": "parrot"}}, 2, "no tts back-end 'parrot'"),
    ([], {"speech": {"tts": "double", "tts_b_options": {"a": 1}}}, 2, "tts_b_options needs tts_b"),
    ([], {"oracle": {"prompt": "v99"}}, 2, "no prompt set 'v99'"),
    ([], {"chat": {"engine": "openai"}}, 2, "base"),
    (["--limit", "0"], {}, 2, "limit: Input should be greater"),
    (["--source", "mine=x.jsonl"], {}, 2, "'mine' is not built in"),
    (["--source", "gsm8k=x.jsonl"], {}, 2, "'gsm8k' is given twice"),
    (["--evaluation-set", "nowhere.jsonl"], {}, 3, "no file nowhere.jsonl"),
]


@pytest.mark.parametrize(("typed", "settings", "code", "says"), WRONG, ids=[each[3] for each in WRONG])
def test_wrong_settings(bench: Bench, typed: list[str], settings: dict[str, Any], code: int, says: str) -> None:
    assert_one_message(bench.refresh(*typed, **settings), code, says)
    assert bench.state() == {}


def test_no_source_at_all(bench: Bench) -> None:
    result = CliRunner().invoke(app, ["refresh", "--out", str(bench.out)])
    assert_one_message(result, 2, "No source is given")


@pytest.mark.parametrize("command", ["preview", "bench"])
def test_no_source_where_the_sample_questions_are_missing(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "list_sample_sources", list)
    assert_one_message(CliRunner().invoke(app, [command]), 2, r"No source is given.*examples/items.*--source gsm8k=")


def test_no_checkpoint_to_measure_training_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_shipped_checkpoint", lambda: None)
    assert_one_message(CliRunner().invoke(app, ["bench"]), 2, "No checkpoint is given.*--checkpoint.*--no-training")


def test_a_file_where_the_folder_should_be(bench: Bench) -> None:
    bench.out.write_text("in the way", encoding="utf-8")
    assert_one_message(bench.refresh(), 5, "Cannot write .*out")
    assert bench.out.read_text(encoding="utf-8") == "in the way"


def test_manifests_that_cannot_be_used(dataset: Path) -> None:
    too_new = (b'{"schema_version": 99}', "schema version 99.*Update")
    for content, says in ((b"{", "damaged"), (b"[]", "damaged"), (b"\xff", "damaged"), too_new):
        (dataset / "dataset.json").write_bytes(content)
        for command in ("inspect", "check"):
            assert_one_message(CliRunner().invoke(app, [command, str(dataset)]), 6, says)


def test_a_dialogue_that_is_not_there_and_sound_that_cannot_be_written(made: Path, tmp_path: Path) -> None:
    command = CliRunner()
    assert_one_message(command.invoke(app, ["inspect", str(made), "--dialogue", "x"]), 6, "has no dialogue x")
    for option in (["--json"], ["--wav", str(tmp_path / "a.wav")]):
        refused = command.invoke(app, ["inspect", str(made), "--open", *option])
        assert refused.exit_code == 2
        assert "--open shows a page, so it cannot be combined with --wav or --json." in refused.stderr
    nowhere = str(tmp_path / "no_such_folder" / "a.wav")
    assert_one_message(command.invoke(app, ["inspect", str(made), "--wav", nowhere]), 5, "no_such_folder")


def test_a_shard_that_is_damaged(dataset: Path) -> None:
    for file in (dataset / "data").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-200])
    assert_one_message(CliRunner().invoke(app, ["inspect", str(dataset)]), 5, "not a complete Parquet file")


def test_flags_that_are_none(bench: Bench) -> None:
    assert bench.refresh().exit_code == 0
    before = bench.state()
    for line in (b"no json", b"[]", b"{}", b"\xff\xfe"):
        (bench.out / "flags.jsonl").write_bytes(b'{"dialogue_id": "x", "reason": "y"}\n' + line + b"\n")
        assert_one_message(bench.refresh(), 6, "flags.jsonl")
        assert bench.state() == before


def test_too_little_room_is_said_before_work(tiny_disk: Path, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.out = tiny_disk / "out"
    assert_one_message(bench.refresh(), 5, "MB free; 4 new dialogues will need about")
    assert bench.state() == {}


@pytest.mark.parametrize("free_bytes", [0, 4_096, 30_000, 90_000, 150_000])
def test_a_disk_that_fills_up_on_the_way(
    tiny_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int
) -> None:
    monkeypatch.setattr("flows.runs.refresh.plan_parts", lambda *_: [])  # nothing is known of the space it needs
    bench = Bench(tmp_path)
    bench.out = tiny_disk / "out"
    there = os.statvfs(tiny_disk)
    (tiny_disk / "ballast").write_bytes(bytes(there.f_bavail * there.f_frsize - free_bytes))
    assert_one_message(bench.refresh(), 5, "No space left|full")
    assert list(bench.out.rglob("*.kame-writing")) == []
    assert "dataset.json" not in bench.state()


def test_a_port_that_is_taken(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = bench.refresh(chat={"engine": "llamacpp", "port": port})
    assert_one_message(result, 4, f"cannot use port {port}", "chat.port")
    assert bench.state() == {}


def test_a_second_run_on_one_folder(bench: Bench) -> None:
    assert bench.refresh().exit_code == 0
    before = bench.state()
    with lock_dataset(RefreshConfig(out=str(bench.out))):
        assert_one_message(bench.refresh("--limit", 2), 5, "Another run is writing")
    assert bench.state() == before


def test_a_bug_in_a_stage_is_no_message_of_ours(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.script.stage import ScriptStage

    def broken(*_: Any) -> Callable[[], None]:
        raise ZeroDivisionError

    monkeypatch.setattr(ScriptStage, "run", broken)
    result = bench.refresh()
    assert isinstance(result.exception, ZeroDivisionError), "what we did not foresee must be seen, not dressed up"
    assert bench.state() == {}
