"""The launcher of vLLM, against a `vllm` that is a real server without a model."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient
from backends.chat.protocol import ChatReply, Endpoint
from backends.chat.vllm import VllmEngine
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError
from tests.backends.chat.fake_vllm import script_in

pytestmark = pytest.mark.full

CONFIG = ChatConfig(engine="vllm", model="lab/model", revision="abc")
PARENT = """
import sys
from pathlib import Path
from backends.chat.vllm import VllmEngine
from data_schemas.config import ChatConfig
with VllmEngine(ChatConfig(engine="vllm", model="m"), Path(sys.argv[1])).serve() as endpoint:
    print(endpoint.base_url, flush=True)
    sys.stdin.read()
"""


def started(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "started.json").read_text(encoding="utf-8"))
    return told


def alive(pids: list[int]) -> list[int]:
    """Those of the processes that have not ended; waits for the end of those that are ending."""
    found = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, left = psutil.wait_procs(found, timeout=20)
    return [each.pid for each in left if each.status() != psutil.STATUS_ZOMBIE]


async def ask(endpoint: Endpoint, folder: Path) -> ChatReply:
    with ReplyCache(folder / "replies.sqlite") as cache:
        async with OpenAIChatClient(endpoint, CONFIG, cache) as client:
            return await client.ask({"messages": [{"role": "user", "content": "hello"}]})


def test_it_serves_with_prefix_caching_and_leaves_no_process(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"serve_args": ["--max-model-len", "4096"]})
    engine = VllmEngine(config, script_in(tmp_path))
    with engine.serve() as endpoint:
        reply = asyncio.run(ask(endpoint, tmp_path))
        assert (reply.text, reply.n_tokens_cached) == ("a fake", 1)
    told = started(tmp_path)
    assert told["arguments"][:3] == ["serve", "lab/model", "--enable-prefix-caching"]
    assert told["arguments"][-4:] == ["--revision", "abc", "--max-model-len", "4096"]
    assert alive(told["pids"]) == []
    assert endpoint == Endpoint("vllm", endpoint.base_url, "lab/model", "abc")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_ours(how: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(script_in(tmp_path))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().startswith("http://127.0.0.1:")
        parent.send_signal(how)
    assert alive(started(tmp_path)["pids"]) == []


def test_one_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guardian = Path("backends/chat/guardian.py").read_text(encoding="utf-8")
    quick = tmp_path / "guardian.py"
    quick.write_text(guardian.replace("STOP_LIMIT_S = 10.0", "STOP_LIMIT_S = 0.1"), encoding="utf-8")
    monkeypatch.setattr("backends.chat.vllm.GUARDIAN", quick)
    with VllmEngine(CONFIG, script_in(tmp_path, stubborn=True)).serve():
        pass
    assert alive(started(tmp_path)["pids"]) == []


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"(?s)vLLM server did not start; exit code 1.*needs 99 GiB"):
        VllmEngine(CONFIG, script_in(tmp_path, broken=True)).serve().__enter__()
    with pytest.raises(BackendError, match=r"(?s)did not start; exit code 127.*nothing: No such file"):
        VllmEngine(CONFIG, tmp_path / "nothing").serve().__enter__()


def test_one_that_ends_while_it_is_needed_stops_the_run(tmp_path: Path) -> None:
    def kill_and_ask() -> None:
        with VllmEngine(CONFIG, script_in(tmp_path)).serve() as endpoint:
            os.kill(started(tmp_path)["pids"][0], signal.SIGKILL)
            while socket.socket().connect_ex(("127.0.0.1", int(endpoint.base_url[:-3].rpartition(":")[2]))) == 0:
                time.sleep(0.01)
            raise BackendError("nobody answers")

    with pytest.raises(BackendError, match=r"stopped while it was needed \(nobody answers\)"):
        kill_and_ask()


def test_a_port_in_use_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = CONFIG.model_copy(update={"port": taken.getsockname()[1]})
        with pytest.raises(BackendError, match=r"vLLM server cannot use port \d+.*chat\.port"):
            VllmEngine(config, script_in(tmp_path)).serve().__enter__()
    assert not (tmp_path / "started.json").exists()


def test_without_its_environment_the_line_to_type_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match="Type: kame backends install vllm"):
        VllmEngine(CONFIG).serve().__enter__()
    with pytest.raises(ConfigError, match=r"no model.*chat\.model"):
        VllmEngine(ChatConfig(engine="vllm"))


def test_a_folder_is_known_by_its_files_not_by_its_place_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(place: str, weights: bytes) -> Endpoint:
        folder = tmp_path / place / "tuned"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(20):
            (folder / f"{number}.safetensors").write_bytes(weights)
        return VllmEngine(ChatConfig(engine="vllm", model=str(folder))).describe()

    opened: list[str] = []
    open_path = Path.open

    def noted(path: Path, *arguments: Any, **named: Any) -> Any:
        opened.append(path.name)
        return open_path(path, *arguments, **named)

    one, moved = described("a", b"1"), described("b", b"1")
    assert one == moved
    assert one.model == "tuned"
    assert described("b", b"2").model_digest != one.model_digest
    monkeypatch.setattr(Path, "open", noted)
    assert VllmEngine(ChatConfig(engine="vllm", model=str(tmp_path / "a" / "tuned"))).describe() == one
    assert opened == []


def test_its_output_does_not_block_it(tmp_path: Path) -> None:
    """A log of any length goes to a file; a full pipe would stop the server."""
    script = script_in(tmp_path)
    text = script.read_text(encoding="utf-8").replace("from tests", "print('x' * 1_000_000)\nfrom tests")
    script.write_text(text, encoding="utf-8")
    with VllmEngine(CONFIG, script).serve() as endpoint:
        assert endpoint.base_url
