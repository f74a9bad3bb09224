"""`kame llm serve`: a server for as long as the command runs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner

from backends.chat.remote import RemoteEngine
from data_schemas.config import ChatConfig
from flows.cli.app import app
from tests.backends.chat.fake_vllm import script_in

pytestmark = pytest.mark.full

KAME = Path(sys.executable).with_name("kame")


def end_of(process: subprocess.Popen[str]) -> str:
    """What a command that is ending says on its error stream; one that does not end is killed, and the test fails."""
    try:
        return process.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
def test_it_prints_the_base_url_and_stops_with_the_command(engine: str, how: signal.Signals, tmp_path: Path) -> None:
    vllm = ["lab/model", "--executable", str(script_in(tmp_path)), "--", "--max-model-len", "4096"]
    options = vllm if engine == "vllm" else ["--slots", "1"]
    command = [str(KAME), "llm", "serve", "--engine", engine, "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        told = json.loads(serving.stdout.readline())
        config = ChatConfig(engine="openai", base_url=told["base_url"])
        with RemoteEngine(config).serve() as endpoint:
            assert endpoint.model == told["model"]
        servers = psutil.Process(serving.pid).children(recursive=True)
        assert len(servers) >= 1
        serving.send_signal(how)
        said = end_of(serving)
    assert serving.returncode == 0
    assert "Traceback" not in said
    _, left = psutil.wait_procs(servers, timeout=20)
    assert left == []


def test_a_server_that_ends_by_itself_ends_the_command_with_its_log(tmp_path: Path) -> None:
    command = [str(KAME), "llm", "serve", "--engine", "vllm", "lab/model", "--executable", str(script_in(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        pids = json.loads((tmp_path / "started.json").read_text(encoding="utf-8"))["pids"]
        os.kill(pids[0], signal.SIGKILL)
        said = end_of(serving)
    assert serving.returncode == 4
    assert "The vLLM server stopped while it was needed" in said


def test_what_is_missing_is_told_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_CACHE", str(tmp_path))
    done = CliRunner().invoke(app, ["llm", "serve", "--engine", "vllm", "lab/model"])
    assert (done.exit_code, "kame backends install vllm" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["llm", "serve", "--engine", "vllm", "--executable", str(tmp_path / "vllm")])
    assert (done.exit_code, "has no model" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["llm", "serve", "none.gguf"])
    assert (done.exit_code, "no GGUF file" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("engine", "option", "value", "other"),
    [
        ("vllm", "--slots", "2", "llamacpp"),
        ("vllm", "--context", "512", "llamacpp"),
        ("llamacpp", "--revision", "main", "vllm"),
        ("llamacpp", "--executable", "vllm", "vllm"),
        ("llamacpp", "--", "--flash-attn", "vllm"),
    ],
)
def test_an_option_of_another_engine_is_refused(engine: str, option: str, value: str, other: str) -> None:
    done = CliRunner().invoke(app, ["llm", "serve", "some/model", "--engine", engine, option, value])
    assert done.exit_code == 2
    option = option.replace("--", "-- ARGS") if option == "--" else option
    assert f"The engine {engine} has no option {option}. Omit it, or use --engine {other}." in done.output
