"""Whatever is wrong ends with one message that says what to do, the right exit code, and nothing half written."""

import gzip
import json
import os
import re
import socket
import socketserver
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import yaml
from typer.testing import CliRunner, Result

from backends.chat.cache import ReplyCache
from backends.chat.double import DoubleEngine
from data_schemas.config import ChatConfig, RefreshConfig
from flows.cli import app
from pipelines import refresh as pipeline
from pipelines.refresh import one_run_at_a_time

DOUBLES: dict[str, dict[str, Any]] = {
    "speech": {"tts": "double"},
    "gate": {"asr": "none"},
    "alignment": {"aligner": "double"},
    "chat": {"engine": "double"},
}
ROWS = [
    {"question": f"What is the sum of {n} and two, when it is late?", "answer": f"#### {n + 2}"} for n in range(3, 7)
]
GOOD = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


class Bench:
    """A folder with a good source, settings of doubles, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.file("good.jsonl", GOOD)

    def file(self, name: str, content: bytes) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def refresh(self, *typed: object, source: str | None = None, **settings: Any) -> Result:
        """`kame refresh`, in this process, on doubles but for what is said otherwise."""
        file = self.file(
            "my.yaml", yaml.safe_dump({**DOUBLES, "out": str(self.out), "workers": 1, **settings}).encode()
        )
        named = source or f"gsm8k={self.folder / 'good.jsonl'}"
        arguments = ["refresh", "--source", named, "--config", str(file), *map(str, typed)]
        return CliRunner().invoke(app, arguments)

    def state(self) -> dict[str, bytes]:
        """Manifest, card and shards: what a run that fails must leave alone."""
        files = [path for path in self.out.rglob("*") if path.is_file()]
        kept = ("dataset.json", "README.md", "data", "oracles", "rejects")
        return {str(p.relative_to(self.out)): p.read_bytes() for p in files if p.relative_to(self.out).parts[0] in kept}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(socketserver.BaseServer, "handle_error", lambda *_: None)  # the double's, when we hang up
    made = Bench(tmp_path)
    yield made
    assert list(made.out.rglob("*.kame-writing")) == [], "something was left half written"


def assert_one_message(result: Result, exit_code: int, *says: str) -> None:
    said = [line for line in result.stderr.splitlines() if line.startswith("kame: ")]
    assert result.exit_code == exit_code, f"{result.output}\n{result.exception!r}"
    assert len(said) == 1, result.stderr
    assert "Traceback" not in result.output
    for text in says:
        assert re.search(text, result.stderr), result.stderr


def test_the_good_source_is_good(bench: Bench) -> None:
    result = bench.refresh("--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["dialogues"] == len(ROWS)


SOURCES: list[tuple[str, bytes | None, str]] = [
    ("rows.jsonl", None, "no file .*rows.jsonl"),
    ("rows.jsonl", b'{"q": 1}\n', r"column\(s\) question, answer .*there are: q"),
    ("rows.jsonl", b"", "holds no rows"),
    ("rows.jsonl.gz", gzip.compress(GOOD * 50)[:-40], "damaged or cut short"),
    ("rows.parquet", b"PAR1 and so on PAR1", "not a whole Parquet file"),
    ("rows.csv", b"question,answer\n", "neither JSONL"),
    ("rows.jsonl", b"no json\n", "there are: none"),
]


@pytest.mark.parametrize(("name", "content", "says"), SOURCES, ids=[each[2] for each in SOURCES])
def test_a_source_that_cannot_be_read(bench: Bench, name: str, content: bytes | None, says: str) -> None:
    assert bench.refresh().exit_code == 0
    before = bench.state()
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
    ([], {"oracle": {"prompt": "v99"}}, 2, "no prompt set 'v99'"),
    ([], {"chat": {"engine": "openai"}}, 2, "base"),
    (["--limit", "0"], {}, 2, "limit: Input should be greater"),
    (["--source", "mine=x.jsonl"], {}, 2, "'mine' is none of ours"),
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


def test_a_file_where_the_folder_should_be(bench: Bench) -> None:
    bench.out.write_text("in the way", encoding="utf-8")
    assert_one_message(bench.refresh(), 5, "Cannot write .*out")
    assert bench.out.read_text(encoding="utf-8") == "in the way"


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_folder_that_is_no_dataset(bench: Bench, command: str) -> None:
    result = CliRunner().invoke(app, [command, str(bench.folder)])
    assert_one_message(result, 6, "is no dataset.*kame refresh")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"{", "damaged"), (b"[]", "damaged"), (b'{"schema_version": 99}', "schema 99.*Update"), (b"\xff", "damaged")],
)
def test_a_manifest_that_cannot_be_used(dataset: Path, content: bytes, says: str) -> None:
    (dataset / "dataset.json").write_bytes(content)
    for command in ("inspect", "check"):
        assert_one_message(CliRunner().invoke(app, [command, str(dataset)]), 6, says)


def test_a_dialogue_that_is_not_there_and_sound_that_cannot_be_written(made: Path, tmp_path: Path) -> None:
    command = CliRunner()
    assert_one_message(command.invoke(app, ["inspect", str(made), "--dialogue", "x"]), 6, "has no dialogue x")
    nowhere = str(tmp_path / "no_such_folder" / "a.wav")
    assert_one_message(command.invoke(app, ["inspect", str(made), "--wav", nowhere]), 5, "no_such_folder")


def test_a_shard_that_is_damaged(dataset: Path) -> None:
    for file in (dataset / "data").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-200])
    assert_one_message(CliRunner().invoke(app, ["inspect", str(dataset)]), 5, "not a whole Parquet file")


@pytest.mark.parametrize("line", [b"no json", b"[]", b"{}", b"\xff\xfe"])
def test_flags_that_are_none(bench: Bench, line: bytes) -> None:
    assert bench.refresh().exit_code == 0
    before = bench.state()
    (bench.out / "flags.jsonl").write_bytes(b'{"dialogue_id": "x", "reason": "y"}\n' + line + b"\n")
    assert_one_message(bench.refresh(), 6, "flags.jsonl")
    assert bench.state() == before


def test_too_little_room_is_said_before_work(tiny_disk: Path, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.out = tiny_disk / "out"
    assert_one_message(bench.refresh(), 5, "MB free; 4 new dialogues may need")
    assert bench.state() == {}


@pytest.mark.parametrize("free_bytes", [0, 4_096, 30_000, 90_000, 150_000])
def test_a_disk_that_fills_up_on_the_way(
    tiny_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int
) -> None:
    monkeypatch.setattr(pipeline, "BYTES_PER_DIALOGUE", 0)
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


def server_that(engine: DoubleEngine, bench: Bench, **chat: Any) -> Result:
    """A refresh against a double that runs as a server of its own."""
    with engine.serve() as endpoint:
        reached = {"engine": "openai", "base_url": endpoint.base_url, "model": "double", "endpoint": "mine", **chat}
        return bench.refresh(chat=reached)


def test_a_chat_server_that_goes_away_on_the_way_and_comes_back(bench: Bench) -> None:
    more = [{**row, "question": f"{row['question'][:-1]} and cold?"} for row in ROWS]  # enough to be given up in a row
    bench.file("good.jsonl", GOOD + "".join(f"{json.dumps(row)}\n" for row in more).encode())
    engine = DoubleEngine(ChatConfig(), faults=[None] * 6, faults_for_ever="hang-up")
    assert_one_message(server_that(engine, bench, max_attempts=2, max_in_flight=1), 4, "run again|Run|again")
    assert bench.state() == {}
    back = DoubleEngine(ChatConfig())
    assert server_that(back, bench).exit_code == 0
    assert 0 < len(back.requests) < len(engine.requests) + len(back.requests) - 1
    asked = [json.dumps(request, sort_keys=True) for request in engine.requests[:6]]
    assert all(json.dumps(request, sort_keys=True) not in asked for request in back.requests)


def test_the_embedded_servers_process_killed_on_the_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = ReplyCache.put

    def keep_and_kill(self: ReplyCache, *answer: Any) -> Any:
        kept = keep(self, *answer)
        for child in psutil.Process().children():
            if "backends.chat.llamacpp_server" in child.cmdline():
                child.kill()
        return kept

    monkeypatch.setattr(ReplyCache, "put", keep_and_kill)
    chat = {"engine": "llamacpp", "max_attempts": 2}
    assert_one_message(bench.refresh("--limit", 1, chat=chat), 4, "embedded|127.0.0.1", "again")
    assert bench.state() == {}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_chat_server_that_refuses_us(bench: Bench, status: int) -> None:
    engine = DoubleEngine(ChatConfig(), faults_for_ever=status)
    assert_one_message(server_that(engine, bench, max_attempts=2), 4, str(status))
    assert bench.state() == {}


def test_nobody_at_the_url(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    result = bench.refresh("--llm-url", f"http://127.0.0.1:{port}/v1", "--llm-model", "x", chat={"max_attempts": 1})
    assert_one_message(result, 4, str(port))


def test_a_second_run_on_one_folder(bench: Bench) -> None:
    assert bench.refresh().exit_code == 0
    before = bench.state()
    with one_run_at_a_time(RefreshConfig(out=str(bench.out))):
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
