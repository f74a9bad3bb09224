"""The list of runs at a Prefect server of its own that has more rows than one response holds."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, WorkPoolCreate
from prefect.client.schemas.objects import WorkPool
from prefect.flows import flow
from prefect.states import Late, Running
from prefect.tasks import task

from flows.prefect_runs import MAX_PAGE, PrefectRuns

pytestmark = pytest.mark.full


@flow(name="serve")
def serve() -> None:
    """Stands for the flow of this name."""


@task(name="part")
def part() -> None:
    """Stands for a task of the flow."""


@pytest.fixture
def client(server: None) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def add_runs(client: SyncPrefectClient, n: int, pool: str | None = None) -> list[UUID]:
    """Adds runs of a deployment that has a work pool or none."""
    deployment = client.create_deployment(client.create_flow(serve), f"in {pool}", work_pool_name=pool)
    return [client.create_flow_run_from_deployment(deployment).id for _ in range(n)]


def make_late(client: SyncPrefectClient, runs: list[UUID]) -> None:
    for each in runs:
        client.set_flow_run_state(each, Late(scheduled_time=datetime.now(UTC)), force=True)


def test_all_runs_of_a_page_have_their_progress_link_and_step(client: SyncPrefectClient) -> None:
    runs = add_runs(client, MAX_PAGE // 2 + 1)
    for number, run in enumerate(runs):
        client.set_flow_run_state(run, Running(), force=True)
        client.create_artifact(ArtifactCreate(type="markdown", data=f"[page](http://{run}/)", flow_run_id=run))
        client.create_artifact(ArtifactCreate(type="progress", data=7.0, flow_run_id=run))
        for n in (2 * number, 2 * number + 1):  # the first run's are on the last page
            client.create_task_run(part, run, str(n), id=UUID(int=n + 1), name=f"step of {run}", state=Running())
    shown = PrefectRuns(str(client.api_url)).list_runs(["serve"], ["running"], 0, MAX_PAGE)
    assert {(each.url, each.percent, each.step) for each in shown} == {
        (f"http://{run}/", 7.0, f"step of {run}") for run in runs
    }


def test_late_runs_of_a_large_pool_or_of_none_say_what_they_wait_for(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = SyncPrefectClient.read_work_pool

    def count(self: SyncPrefectClient, work_pool_name: str) -> WorkPool:
        asked.append(work_pool_name)
        return read(self, work_pool_name)

    client.create_work_pool(WorkPoolCreate(name="large", type="process", concurrency_limit=MAX_PAGE + 1))
    late, alone = add_runs(client, 3, "large"), add_runs(client, 1)
    make_late(client, [*late, *alone])
    monkeypatch.setattr(SyncPrefectClient, "read_work_pool", count)
    shown = {each.run_id: each.waits_for for each in PrefectRuns(str(client.api_url)).list_runs(["serve"], [], 0, 99)}
    assert {shown[str(each)] for each in late} == {"a worker of the work pool large"}
    assert shown[str(alone[0])] == "a process that serves its deployment"
    assert asked == ["large"], "asked once for all runs"
