"""`kame serve --processes 2`: real processes with a tiny checkpoint, killed, restarted and drained under callers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

pytestmark = pytest.mark.slow

KAME = Path(sys.executable).with_name("kame")


class ServedGroup:
    """The command, and what is said at its address."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process, self.url = process, url

    def call(self) -> ClientConnection:
        """A caller who is let in, with our events."""
        socket = connect(f"{self.url.replace('http', 'ws')}/api/chat?events=1")
        assert socket.recv() == b"\x00"
        return socket

    def figures(self, name: str) -> dict[str, float]:
        """One figure by process."""
        return {
            sample.labels["process"]: sample.value
            for family in text_string_to_metric_families(httpx.get(f"{self.url}/metrics", timeout=30).text)
            for sample in family.samples
            if sample.name == name and sample.labels.get("mode", "tandem") == "tandem"
        }

    def until(self, condition: Callable[[], bool]) -> None:
        """Asks until something is so; pytest's own limit ends what never comes."""
        for _ in range(100_000):
            if condition():
                return
            assert self.process.poll() is None
        raise AssertionError("it never came")

    def read_until(self, told: str) -> None:
        """Reads the error stream until something is told there."""
        assert self.process.stderr is not None
        while told not in (line := self.process.stderr.readline()):
            assert line, f"the command ended without {told!r}"


def session_id(socket: ClientConnection) -> str:
    """The session's id, as the first event says it."""
    while True:
        message = socket.recv()
        if isinstance(message, bytes) and message[:1] == b"\x04":
            event = json.loads(message[1:])
            if event["kind"] == "started":
                return str(event["data"]["session_id"])


@pytest.fixture
def served(checkpoint: str) -> Iterator[ServedGroup]:
    """Two processes with one slot each; their chat model is down."""
    command = [str(KAME), "serve", checkpoint, "--port", "0", "--json", "--processes", "2", "--max-sessions", "1"]
    command += ["--llm-url", "http://127.0.0.1:1/v1", "--llm-model", "none", "--device", "cpu"]
    # A machine that is busy with tests must not decide who is let in.
    for setting in ("listener.engine=double", "cascade.tts=double", "limits.drain_s=600", "limits.idle_s=3600"):
        command += ["--set", setting]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told, process.stderr.read() if process.stderr else ""
            yield ServedGroup(process, json.loads(told)["url"])
        finally:
            process.kill()


def test_several_processes_are_one_server(served: ServedGroup) -> None:
    first, second = served.call(), served.call()
    served.until(lambda: served.figures("kame_sessions") == {"0": 1, "1": 1})
    full = httpx.get(f"{served.url}/readyz", timeout=30)
    assert (full.status_code, full.json()["error"]["code"]) == (503, "full")
    with pytest.raises(InvalidStatus):
        served.call()
    with httpx.Client(timeout=30) as client:  # one connection: one process answers for both
        for each in (first, second):
            changed = client.patch(f"{served.url}/v1/sessions/{session_id(each)}", json={"mode": "direct"})
            assert (changed.status_code, changed.json()["mode"]) == (200, "direct")

    # One dies: its caller is cut, the other one talks on, and it comes back.
    children = subprocess.run(
        ["/usr/bin/env", "pgrep", "-P", str(served.process.pid), "-f", "--", "--number 0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGKILL)
    served.read_until("Process 0 of the server has ended by signal 9. It is restarted; 1 callers lost")
    n_cut = 0
    for each in (first, second):
        try:
            each.ping().wait(60)
            while each.recv(timeout=0.5):
                pass
        except TimeoutError:
            continue
        except ConnectionClosed:
            n_cut += 1
    assert n_cut == 1
    served.until(lambda: served.figures("kame_process_serving") == {"0": 1, "1": 1})
    assert served.figures("kame_process_deaths_total") == {"0": 1, "1": 0}

    # Both are restarted, one after another; who talks is waited for.
    left = second if _is_open(second) else first
    served.process.send_signal(signal.SIGHUP)
    served.read_until("Process 0 serves again.")
    served.read_until("Process 1 will be restarted when its 1 callers have left.")
    assert _is_open(left)
    anew = served.call()
    left.close()
    served.read_until("Process 1 serves again.")
    assert _is_open(anew)

    # At the end who talks may finish, and nobody is let in.
    served.process.send_signal(signal.SIGTERM)
    served.read_until("new callers are refused; 1 running sessions may continue")
    draining = httpx.get(f"{served.url}/readyz", timeout=30)
    assert (draining.status_code, draining.json()["error"]["code"]) == (503, "draining")
    assert _is_open(anew)
    anew.close()
    assert served.process.wait(60) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.url)


def _is_open(socket: ClientConnection) -> bool:
    try:
        return bool(socket.ping().wait(60))
    except ConnectionClosed:
        return False
