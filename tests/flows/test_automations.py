"""What a real Prefect server does by itself: it trains on what has changed, tells of runs, and lets some wait."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun, State
from prefect.concurrency.sync import concurrency
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Completed, Crashed, Failed, Late, Running
from typer.testing import CliRunner

from data_schemas.config import AlignmentConfig, ChatConfig, GateConfig, RefreshConfig, SpeechConfig
from flows.automations import list_automations, notify_by_webhook, remove_automation, train_after_refresh
from flows.cli.app import app
from flows.deployments import deploy
from flows.prefect_runs import PrefectRuns
from flows.prefect_tasks import CHAT_MODEL
from flows.refresh import run_as_flow
from flows.settings import list_sample_sources
from tests.support.http_servers import QuietHandler, http_server
from tests.support.mail import mail_server
from tests.support.prefect_servers import ROOT, Prefect, prefect_server, wait_until

pytestmark = pytest.mark.slow

LIMIT_S = 900.0


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as prefect:
        with prefect.client() as client:
            deploy(client, ROOT, has_gpu=True)
        EventsWorker.drain_all()  # a process has one sender of events, which keeps to the first server it met
        yield prefect


@pytest.fixture
def client(prefect: Prefect) -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: f"{prefect.url}/api"}), prefect.client() as client:
        yield client
        for each in list_automations(client):
            remove_automation(client, each.name)
        for run in runs_of(client, "train"):
            client.delete_flow_run(run.id)


def runs_of(client: SyncPrefectClient, flow: str) -> list[FlowRun]:
    return client.read_flow_runs(flow_filter=FlowFilter(name=FlowFilterName(any_=[flow])))


def plan(client: SyncPrefectClient, **config: object) -> UUID:
    """A run of `train` that is due."""
    deployment = client.read_deployment_by_name("train/train")
    return client.create_flow_run_from_deployment(deployment.id, parameters={"config": config}, name="train of ours").id


def end_run(client: SyncPrefectClient, end: State[None]) -> None:
    run_id = plan(client, datasets=["here"])
    client.set_flow_run_state(run_id, Running())
    client.set_flow_run_state(run_id, end)


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The address of a team's chat, and what was posted to it."""
    posts: list[dict[str, str]] = []

    class Handler(QuietHandler):
        def posted(self, body: bytes) -> None:
            posts.append(json.loads(body))
            self.answer(200, b"{}")

    with http_server(Handler) as url:
        yield url, posts


def test_a_run_that_ends_is_posted(client: SyncPrefectClient) -> None:
    with receiver() as (url, posts):
        notify_by_webhook(client, url, pages="http://kame.example/")
        end_run(client, Cancelled())
        end_run(client, Completed())
        wait_until(lambda: posts, LIMIT_S, "a message")
        end_run(client, Failed(message='It "broke" \\ {{ here }}.'))
        wait_until(lambda: len(posts) > 1, LIMIT_S, "a second message")
    told, broken = posts
    assert (told["run"], told["state"]) == ("train of ours", "Completed"), "of a cancelled one nobody is told"
    assert told["url"].startswith("http://kame.example/runs/")
    assert broken["message"] == 'It "broke" \\ {{ here }}.'
    assert broken["text"] == 'train of ours: Failed It "broke" \\ {{ here }}.'


def test_a_run_that_fails_is_mailed_and_addresses_come_from_the_environment(
    prefect: Prefect, client: SyncPrefectClient
) -> None:
    with mail_server() as (port, messages):
        address = f"mailto://127.0.0.1:{port}?from=kame@here.example&to=team@here.example&name=KAME"
        environment = {"PREFECT_API_URL": f"{prefect.url}/api", "TEAM_MAIL": address}
        typed = ["automation", "notify", "--email-env", "TEAM_MAIL", "--only-failures"]
        said = CliRunner().invoke(app, typed, env=environment)
        assert (said.exit_code, said.output) == (0, "Added: kame: tell by e-mail how runs ended\n")
        end_run(client, Completed())
        end_run(client, Crashed(message="The process of the run is gone."))
        wait_until(lambda: messages, LIMIT_S, "a message")
    (message,) = messages
    assert "Subject: train of ours: Crashed" in message
    assert "team@here.example" in message
    shown = CliRunner().invoke(app, ["automation", "list"], env=environment)
    assert shown.output == "kame: tell by e-mail how runs ended: Of runs that are Failed, Crashed.\n"
    answers = json.dumps(prefect.ask("/block_documents/filter"))
    assert "here.example" not in answers, "Prefect shows the address to nobody"


def test_said_again_it_takes_the_place_of_the_one_before(client: SyncPrefectClient) -> None:
    with receiver() as (url, posts), receiver() as (other, no_posts):
        notify_by_webhook(client, other)
        name = notify_by_webhook(client, url, only_failures=True)
        (automation,) = list_automations(client)
        assert automation.name == name
        end_run(client, Crashed())
        wait_until(lambda: posts, LIMIT_S, "a message")
    assert no_posts == []


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (["notify"], "No receiver is given"),
        (["notify", "--webhook-env", "NOT_THERE"], "NOT_THERE is not set"),
        (["notify", "--email-env", "WEB"], "does not begin with mailto"),
        (["remove", "no such"], "There is no automation"),
        (["train", "demo", "--set", "max_steps=0"], "max_steps"),
    ],
)
def test_what_cannot_be_set_up_is_told(prefect: Prefect, client: SyncPrefectClient, typed: list[str], why: str) -> None:
    environment = {"PREFECT_API_URL": f"{prefect.url}/api", "WEB": "http://here.example"}
    said = CliRunner().invoke(app, ["automation", *typed], env=environment)
    assert said.exit_code == 2
    assert why in said.output
    assert list_automations(client) == []


def refresh_config(out: Path, limit: int) -> RefreshConfig:
    return RefreshConfig(
        out=str(out),
        sources=list_sample_sources()[:1],
        limit=limit,
        workers=1,
        speech=SpeechConfig(tts="double"),
        gate=GateConfig(asr="none"),
        alignment=AlignmentConfig(aligner="double"),
        chat=ChatConfig(engine="double"),
    )


def test_a_refresh_that_finds_new_items_starts_a_training_and_one_that_does_not_starts_none(
    client: SyncPrefectClient, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    run_as_flow(refresh_config(out, 2))
    train_after_refresh(client, str(out), {"out": "front-end", "preset": "nano", "max_steps": 20})
    run_as_flow(refresh_config(out, 2))
    _, manifest, _ = run_as_flow(refresh_config(out, 4))
    (run,) = wait_until(lambda: runs_of(client, "train"), LIMIT_S, "a training")
    assert run.parameters["config"] == {
        "datasets": [str(out)],
        "out": f"front-end-{manifest.fingerprint[:8]}",
        "preset": "nano",
        "max_steps": 20,
    }
    assert run.deployment_id == client.read_deployment_by_name("train/train").id


def test_a_second_run_of_the_gpu_waits_until_the_first_has_ended(client: SyncPrefectClient) -> None:
    def due() -> set[UUID]:
        """What a worker of the pool would be given now."""
        return {each.flow_run.id for each in client.get_scheduled_flow_runs_for_work_pool("gpu")}

    first, second = (plan(client, datasets=[name]) for name in ("a", "b"))
    assert len(due()) == 1, "there is room for one"
    client.set_flow_run_state(first, Running())
    assert due() == set()
    client.set_flow_run_state(second, Late(scheduled_time=datetime.now(UTC)))
    shown = PrefectRuns(str(client.api_url)).read_run(str(second))
    assert shown.waits_for == "the end of train of ours (work pool gpu)"
    assert [(each.run_id, each.kind) for each in shown.blockers] == [(str(first), "train")]
    client.set_flow_run_state(first, Crashed())
    assert due() == {second}, "one that crashed holds its place no longer"
    shown = PrefectRuns(str(client.api_url)).read_run(str(second))
    assert (shown.waits_for, list(shown.blockers)) == ("a worker of the work pool gpu", [])
    client.update_work_pool("gpu", WorkPoolUpdate(concurrency_limit=0))
    shown = PrefectRuns(str(client.api_url)).read_run(str(second))
    assert (shown.waits_for, list(shown.blockers)) == ("a concurrency limit above 0 of the work pool gpu", [])
    client.update_work_pool("gpu", WorkPoolUpdate(concurrency_limit=1))


@pytest.mark.parametrize(("has_gpu", "pool"), [(False, "local"), (True, "gpu")])
def test_a_server_keeps_trainings_waiting_only_where_they_share_a_gpu(
    client: SyncPrefectClient, has_gpu: bool, pool: str
) -> None:
    deploy(client, ROOT, has_gpu=has_gpu)
    assert client.read_deployment_by_name("serve/serve").work_pool_name == pool
    assert client.read_deployment_by_name("train/train").work_pool_name == "gpu"


def test_limits_that_somebody_has_set_stay(client: SyncPrefectClient) -> None:
    client.update_work_pool("gpu", WorkPoolUpdate(concurrency_limit=4))
    client.upsert_global_concurrency_limit_by_name(CHAT_MODEL, 3)
    deploy(client, ROOT, has_gpu=True)
    assert client.read_work_pool("gpu").concurrency_limit == 4
    assert client.read_global_concurrency_limit_by_name(CHAT_MODEL).limit == 3
    client.update_work_pool("gpu", WorkPoolUpdate(concurrency_limit=1))
    client.upsert_global_concurrency_limit_by_name(CHAT_MODEL, 1)


def test_a_refresh_waits_for_the_chat_model(client: SyncPrefectClient, tmp_path: Path) -> None:
    out, done = tmp_path / "dataset", threading.Event()

    def run() -> None:
        with temporary_settings({PREFECT_API_URL: str(client.api_url)}):
            run_as_flow(refresh_config(out, 1))
        done.set()

    thread = threading.Thread(target=run)
    with concurrency(CHAT_MODEL):
        thread.start()
        parts = out / ".store" / "parts"
        wait_until(lambda: list(parts.rglob("mixing*")), LIMIT_S, "all before the oracles is made")
        assert not done.wait(3)
        assert not list(parts.rglob("oracle*"))
    thread.join(LIMIT_S)
    assert done.is_set()
