"""Dashboard, server and worker killed as processes: nothing is lost, and no run stands as running for ever."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import State
from prefect.events import Event, Resource
from prefect.states import Cancelling, Completed, Pending, Running

from flows.deployments import deploy
from flows.lost_runs import HEARTBEATS, PENDING_S, SILENT_S, LostRuns
from tests.support.prefect_servers import ROOT, Prefect, make_prefect, wait_until

pytestmark = pytest.mark.slow

LIMIT_S = 900.0


class Clock:
    """Seconds that go on when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Server:
    """A server that can be killed and started again."""

    prefect: Prefect
    running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        self.process = self.running.enter_context(self.prefect.serving())

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with our deployments, of which `train` only waits."""
    prefect = make_prefect(tmp_path_factory.mktemp("prefect"))
    with ExitStack() as running:
        server = Server(prefect, running)
        server.start()
        with prefect.client() as client:
            deploy(client, ROOT, has_gpu=True)
            client.create_deployment(
                client.create_flow_from_name("train"),
                "train",
                entrypoint="tests/support/waiting_flow.py:train",
                work_pool_name="gpu",
                job_variables={"working_dir": str(ROOT), "env": HEARTBEATS},
            )
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[SyncPrefectClient]:
    with server.prefect.client() as client:
        yield client


def plan(client: SyncPrefectClient, out: Path) -> UUID:
    deployment = client.read_deployment_by_name("train/train")
    return client.create_flow_run_from_deployment(deployment.id, parameters={"config": {"out": str(out)}}).id


def state_of(client: SyncPrefectClient, run_id: UUID) -> str:
    state = client.read_flow_run(run_id).state
    return state.name or "" if state else ""


def process_of(run_id: UUID) -> psutil.Process:
    """The process that is at work on a run."""
    for each in psutil.process_iter():
        try:
            if each.environ().get("PREFECT__FLOW_RUN_ID") == str(run_id):
                return each
        except psutil.Error:
            continue
    raise AssertionError(f"no process is at work on {run_id}")


@contextmanager
def dashboard(prefect: Prefect, root: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`kame dashboard` as a process, and its address."""
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", "dashboard", str(root), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--token-env", "TOKEN"],
        env=prefect.environment | {"TOKEN": "t", "KAME_CACHE": str(root / "cache")},
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("state", "patience_s", "end"),
    [(Running(), SILENT_S, "Crashed"), (Pending(), PENDING_S, "Crashed"), (Cancelling(), SILENT_S, "Cancelled")],
)
def test_a_run_without_a_process_is_ended(
    client: SyncPrefectClient, tmp_path: Path, state: State[None], patience_s: float, end: str
) -> None:
    clock = Clock()
    run_id, lost = plan(client, tmp_path), LostRuns(client, clock)
    if state.is_cancelling():
        client.set_flow_run_state(run_id, Running())
        client.update_flow_run(run_id, infrastructure_pid="host:1")  # one without any is cancelled at once
    client.set_flow_run_state(run_id, state)
    assert lost.end_silent_runs() == []
    clock.now_s = patience_s - 1
    assert lost.end_silent_runs() == []
    clock.now_s = patience_s
    assert [each.id for each in lost.end_silent_runs()] == [run_id]
    assert state_of(client, run_id) == end
    assert "process of the run is gone" in str(client.read_flow_run(run_id).state)
    assert lost.end_silent_runs() == []


def test_a_run_that_sends_heartbeats_goes_on(server: Server, client: SyncPrefectClient, tmp_path: Path) -> None:
    clock = Clock()
    run_id, lost = plan(client, tmp_path), LostRuns(client, clock)
    client.set_flow_run_state(run_id, Running())
    assert lost.end_silent_runs() == []
    resource = {"prefect.resource.id": f"prefect.flow-run.{run_id}"}
    heartbeat = Event(event="prefect.flow-run.heartbeat", resource=Resource(resource))
    # By hand: a process has one sender of events, which keeps to the first server it met.
    sent = httpx.post(f"{server.prefect.url}/api/events", json=[heartbeat.model_dump(mode="json")], timeout=60)
    assert sent.is_success, sent.text
    events = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": list(resource.values())}}
    wait_until(lambda: server.prefect.ask("/events/filter", filter=events)["events"], LIMIT_S, "the heartbeat is there")
    clock.now_s = SILENT_S
    assert lost.end_silent_runs() == []
    client.set_flow_run_state(run_id, Completed())


def test_server_worker_and_dashboard_are_killed_and_what_is_shown_is_true(
    server: Server, client: SyncPrefectClient, tmp_path: Path
) -> None:
    clock, lasting, doomed = Clock(), tmp_path / "lasting", tmp_path / "doomed"
    lost = LostRuns(client, clock)
    with server.prefect.started("worker", "start", "--pool", "gpu") as worker:
        run_id = plan(client, lasting)
        wait_until((lasting / "begun").exists, LIMIT_S, "the run is at work")
        with dashboard(server.prefect, tmp_path) as (page, url):
            assert re.search(r"state-running", httpx.get(f"{url}runs", timeout=60).text)
            page.kill()
        assert lost.end_silent_runs() == []
        server.kill()
        clock.now_s += SILENT_S
        with pytest.raises(httpx.HTTPError):
            lost.end_silent_runs()
        server.start()
        assert lost.end_silent_runs() == [], "the time without a server counts for nobody"
        assert state_of(client, run_id) == "Running"
        worker.kill()
        worker.wait()
        (lasting / "end").touch()
        wait_until(lambda: state_of(client, run_id) == "Completed", LIMIT_S, "a run outlives server and worker")

    with server.prefect.started("worker", "start", "--pool", "gpu") as worker:
        run_id = plan(client, doomed)
        wait_until((doomed / "begun").exists, LIMIT_S, "the second run is at work")
        worker.kill()
        process_of(run_id).kill()
        worker.wait()
    with dashboard(server.prefect, tmp_path) as (_, url):
        assert lost.end_silent_runs() == []
        clock.now_s += SILENT_S
        assert [each.id for each in lost.end_silent_runs()] == [run_id]
        shown = httpx.get(f"{url}runs", timeout=60).text
    assert state_of(client, run_id) == "Crashed"
    assert "state-running" not in shown
    assert "state-crashed" in shown
    assert "state-completed" in shown
