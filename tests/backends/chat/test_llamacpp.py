"""The embedded chat model: a real llama.cpp in a child process, which must not outlive its parent."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient
from backends.chat.limits import Delays
from backends.chat.llamacpp import LlamaCppEngine, digest_file
from backends.chat.protocol import ChatReply, Endpoint
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError

pytestmark = pytest.mark.full

CONFIG = ChatConfig(n_slots=2, n_context=512, max_attempts=2)
PAYLOAD = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4, "temperature": 0.0}
PARENT = """
import sys
from backends.chat.llamacpp import LlamaCppEngine
from data_schemas.config import ChatConfig
with LlamaCppEngine(ChatConfig(n_slots=1, n_context=256)).serve() as endpoint:
    print(endpoint.base_url, flush=True)
    sys.stdin.read()
"""


async def ask(endpoint: Endpoint, folder: Path) -> ChatReply:
    with ReplyCache(folder / "replies.sqlite") as cache:
        async with OpenAIChatClient(endpoint, CONFIG, cache, delays=Delays(first_backoff_s=0.001)) as client:
            return await client.ask(PAYLOAD)


def address(base_url: str) -> tuple[str, int]:
    parts = urlsplit(base_url)
    return str(parts.hostname), int(parts.port or 0)


def is_listening(base_url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address(base_url)) == 0


def servers_of(pid: int) -> list[int]:
    """The llama.cpp servers that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if parent == pid and "llamacpp_server" in command:
            found.append(int(folder.name))
    return found


def test_it_answers_and_is_gone_after_the_block(tmp_path: Path) -> None:
    engine = LlamaCppEngine(CONFIG)
    with engine.serve() as endpoint:
        reply = asyncio.run(ask(endpoint, tmp_path))
        assert 0 < reply.n_tokens_out <= 4
        assert reply.n_tokens_in > 4
        (server,) = servers_of(os.getpid())
        with pytest.raises(BackendError, match=r"port \d+: .*chat\.port"):
            LlamaCppEngine(ChatConfig(port=address(endpoint.base_url)[1])).serve().__enter__()
    assert not Path(f"/proc/{server}").exists()
    described = engine.describe()
    assert (described.base_url, described.name) == ("", "embedded")
    assert described.model == endpoint.model == "SmolLM2-135M-Instruct.Q4_1"
    assert described.model_digest == endpoint.model_digest


def test_an_error_in_the_block_stops_it_too() -> None:
    with pytest.raises(KeyboardInterrupt), LlamaCppEngine(CONFIG).serve() as endpoint:
        raise KeyboardInterrupt
    assert not is_listening(endpoint.base_url)


def test_a_killed_server_stops_the_run(tmp_path: Path) -> None:
    def serve_kill_and_ask() -> None:
        with LlamaCppEngine(CONFIG).serve() as endpoint:
            (server,) = servers_of(os.getpid())
            os.kill(server, signal.SIGKILL)
            asyncio.run(ask(endpoint, tmp_path))

    with pytest.raises(BackendError, match=r"stopped while it was needed .*no connection") as caught:
        serve_kill_and_ask()
    assert "exit code -9" in str(caught.value)
    assert "listening on" in str(caught.value)  # the end of its log


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_server_outlives_its_parent(how: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        base_url = parent.stdout.readline().strip()
        (server,) = servers_of(parent.pid)
        ended = os.pidfd_open(server)
        try:
            assert is_listening(base_url)
            parent.send_signal(how)
            assert select.select([ended], [], [], 20)[0], "the server still runs"
        finally:
            os.close(ended)
    assert not is_listening(base_url)


def test_a_file_that_is_no_model_is_refused_with_the_servers_own_words(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF or not")
    with pytest.raises(BackendError, match=r"(?s)did not start; exit code 1.*broken\.gguf"):
        LlamaCppEngine(ChatConfig(model=str(tmp_path / "broken.gguf"))).serve().__enter__()


def test_a_file_that_changes_changes_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"one")
    first = digest_file(path)
    path.write_bytes(b"other")
    assert digest_file(path) != first == "7692c3ad3540bb80"


def test_a_missing_file_and_arguments_of_another_server_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"chat\.model"):
        LlamaCppEngine(ChatConfig(model=str(tmp_path / "none.gguf")))
    with pytest.raises(ConfigError, match=r"takes no arguments.*chat\.serve_args"):
        LlamaCppEngine(ChatConfig(serve_args=["--flash-attn"]))
