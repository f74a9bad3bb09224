"""Work pools, deployments and concurrency limits of the flows on a Prefect server."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    GlobalConcurrencyLimitCreate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.states import Cancelling
from prefect.utilities.callables import parameter_schema

from dashboard.runs import KINDS
from flows.lost_runs import HEARTBEATS, end_run, read_runs_at_work
from flows.prefect_tasks import CHAT_MODEL

POOLS: Final = ("local", "gpu")
_POOL_OF: Final = {"refresh": "local", "speech": "local", "train": "gpu", "evaluate": "gpu", "serve": "gpu"}
_SERVE: Final = "serve"
_POOL_OF_SERVERS_ON_CPU: Final = "local"
"""Without a GPU, servers have their own pool beside trainings; on a GPU, they would hold memory that trainings need."""
_AT_ONCE: Final = {"serve": 1}
"""Concurrency limit of servers: a second one would find the port in use."""
_RUNS_AT_ONCE: Final = {"gpu": 1}
"""Concurrency limits of pools: two trainings on one GPU run out of memory, or take twice as long each."""
_CHATS_AT_ONCE: Final = 1
STOP_S: Final = 40.0
"""Timeout of a cancellation: Prefect gives a run 30 s, and its worker polls every few seconds."""


def deploy(client: SyncPrefectClient, folder: Path, *, has_gpu: bool) -> None:
    """Creates or updates work pools, limits and deployments.

    Existing schedules and existing limits of pools and of the chat model are kept; limits of deployments are set again.

    Args:
        folder: working folder of runs, to which relative paths in their settings are relative.
        has_gpu: whether the workers' machine has a GPU, which servers and trainings use in turn; without one, servers
            run in the pool `local`, beside trainings.
    """
    _make_pools(client)
    for kind in KINDS.values():
        schedules = _read_schedules(client, kind.name)
        client.create_deployment(
            client.create_flow_from_name(kind.name),
            kind.name,
            entrypoint=f"flows.{kind.name}.{kind.name}",
            description=kind.does,
            tags=["kame"],
            schedules=schedules,
            work_pool_name=_POOL_OF_SERVERS_ON_CPU if kind.name == _SERVE and not has_gpu else _POOL_OF[kind.name],
            concurrency_limit=_AT_ONCE.get(kind.name),
            parameter_openapi_schema=_make_schema(kind.config),
            enforce_parameter_schema=True,
            job_variables={"working_dir": str(folder), "env": HEARTBEATS},
        )


def _make_pools(client: SyncPrefectClient) -> None:
    """Creates missing work pools and the limit of the chat model, and sets the limits of pools that have none."""
    for pool in POOLS:
        limit = _RUNS_AT_ONCE.get(pool)
        try:
            if client.read_work_pool(pool).concurrency_limit is None and limit is not None:
                client.update_work_pool(pool, WorkPoolUpdate(concurrency_limit=limit))
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=pool, type="process", concurrency_limit=limit))
    with suppress(ObjectAlreadyExists):
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=CHAT_MODEL, limit=_CHATS_AT_ONCE))


def _read_schedules(client: SyncPrefectClient, kind: str) -> list[DeploymentScheduleCreate]:
    """Reads the schedules of a deployment, which an update has to pass again to keep them; none if there is no such."""
    try:
        there = client.read_deployment_by_name(f"{kind}/{kind}").schedules
    except ObjectNotFound:
        return []
    return [
        DeploymentScheduleCreate(schedule=each.schedule, active=each.active, parameters=each.parameters, slug=each.slug)
        for each in there
    ]


def is_served(client: SyncPrefectClient, pool: str, since: datetime) -> bool:
    """Returns whether a worker of a pool has polled since a time."""
    heard = [each.last_heartbeat_time for each in client.read_workers_for_work_pool(pool)]
    return any(each is not None and each >= since for each in heard)


def end_lost_runs(client: SyncPrefectClient) -> None:
    """Marks the active runs of the work pools as crashed, or as cancelled if a cancellation was requested.

    It is called while no worker of this server runs, so their processes are gone.
    """
    for run in _read_runs_of_pools(client):
        end_run(client, run)


def stop_runs(client: SyncPrefectClient, report: Callable[[int], None]) -> None:
    """Cancels the active runs of the work pools, and waits until all have ended, at most `STOP_S`.

    Args:
        report: called once with the number of runs, before they are cancelled; not called if there are none.
    """
    if runs := _read_runs_of_pools(client):
        report(len(runs))
    for run in runs:
        client.set_flow_run_state(run.id, Cancelling(message="kame up was ended"))
    until = time.monotonic() + STOP_S
    while time.monotonic() < until and _read_runs_of_pools(client):
        time.sleep(0.5)


def _read_runs_of_pools(client: SyncPrefectClient) -> list[FlowRun]:
    """Reads the active runs of the work pools, without those that another command runs in its own process."""
    return [each for each in read_runs_at_work(client) if each.work_pool_name in POOLS]


def _make_schema(config: type) -> dict[str, Any]:
    """Returns the JSON schema of the parameters of a flow with this configuration class, without importing the flow."""

    def flow(config: Any) -> None:
        pass

    flow.__annotations__["config"] = config
    taken: Callable[..., Any] = flow
    return parameter_schema(taken).model_dump()
