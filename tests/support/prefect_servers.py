"""A Prefect server of a test's own, as a process, and what is typed to it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import Artifact

from backends.chat.child_server import find_free_port

ROOT = Path(__file__).resolve().parents[2]

Answer = TypeVar("Answer")


@dataclass
class Prefect:
    """A server and a worker of our own, spoken to by the commands of docs/prefect.md."""

    url: str
    environment: dict[str, str]
    folder: Path

    def type(self, *words: str, timeout_s: float = 600) -> str:
        """Runs `prefect …` in the repository's folder to its end, and returns its output; asserts that it succeeded."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *words],
            cwd=ROOT,
            env=self.environment,
            text=True,
            timeout=timeout_s,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextmanager
    def started(self, *words: str, into: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """Runs `prefect …` in the background during a `with` block, after which it and whatever it started are ended.

        Args:
            into: file descriptor of its output; None: NAME.log in the folder, after its first word.
        """
        with (self.folder / f"{words[0]}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "prefect", *words],
                cwd=ROOT,
                env=self.environment,
                stdout=into or log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                _stop(process)

    def run_of(self, flow: str) -> dict[str, Any]:
        """Returns the only run of a flow, as it is now."""
        (flow_run,) = self.ask("/flow_runs/filter", flows={"name": {"any_": [flow]}})
        return dict(flow_run)

    def ask(self, path: str, **body: Any) -> Any:
        """Sends a POST request to the server's API, and returns the JSON that it answers."""
        answer = httpx.post(f"{self.url}/api{path}", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def client(self) -> SyncPrefectClient:
        """Prefect's own client of this server."""
        return SyncPrefectClient(f"{self.url}/api")

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        """The server for the time of a block, which begins when it answers; the next one has the same database."""
        with self.started("server", "start", "--port", self.url.rsplit(":", 1)[1]) as process:
            wait_until(self.answers, 900, "the server answers")
            yield process

    def answers(self) -> bool:
        """Whether the server runs."""
        try:
            return httpx.get(f"{self.url}/api/health", timeout=10).is_success
        except httpx.TransportError:
            return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        with suppress(ProcessLookupError):  # what it left behind, if anything
            os.killpg(process.pid, signal.SIGKILL)


def wait_until(look: Callable[[], Answer], limit_s: float, what: str) -> Answer:
    """Calls a function several times a second until its answer is true, and returns the answer.

    Raises:
        AssertionError: it is not true after `limit_s`.
    """
    until = time.monotonic() + limit_s
    while not (answer := look()):
        assert time.monotonic() < until, f"not within {limit_s:.0f} s: {what}"
        time.sleep(0.2)
    return answer


def make_prefect(folder: Path) -> Prefect:
    """A server that does not run yet, with its database in a folder."""
    url = f"http://127.0.0.1:{find_free_port(0, 'test')}"
    settings = {"PREFECT_HOME": str(folder), "PREFECT_API_URL": f"{url}/api", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    return Prefect(url, os.environ | settings | {"PYTHONUNBUFFERED": "1"}, folder)


@contextmanager
def prefect_server(folder: Path) -> Iterator[Prefect]:
    """A server that runs for the time of the block."""
    prefect = make_prefect(folder)
    with prefect.serving():
        yield prefect


def read_artifacts() -> dict[str, Artifact]:
    """The last artifact of each key, at the server of the settings."""
    with get_client(sync_client=True) as client:
        found = client.read_artifacts()
    return {str(each.key): each for each in sorted(found, key=lambda each: str(each.created))}
