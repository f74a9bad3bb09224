"""Our flows at a Prefect server: work pools, deployments, and what ends runs whose process is gone."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events import EventTrigger, Posture, ResourceSpecification
from prefect.events.actions import ChangeFlowRunState
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling, Crashed
from prefect.utilities.callables import parameter_schema

from dashboard.runs import KINDS

POOLS: Final = ("local", "gpu")
_POOL_OF: Final = {"refresh": "local", "speech": "local", "train": "gpu", "evaluate": "gpu", "serve": "gpu"}
_AT_ONCE: Final = {"serve": 1}
"""A second server would find the port taken."""
HEARTBEAT_S: Final = 30
"""Prefect's least; a run that was not heard of for three of them is crashed."""
STOP_S: Final = 40.0
"""Prefect gives a cancelled run 30 s, and its worker looks every few seconds."""
_GONE: Final = "Its process is gone. Running again goes on where it was."
_LOST: Final = "kame: runs whose process is gone"


def deploy(client: SyncPrefectClient, folder: Path) -> None:
    """Makes pools and deployments, or brings them up to date; schedules stay as they are.

    Args:
        folder: where relative paths of runs begin.
    """
    for pool in POOLS:
        try:
            client.read_work_pool(pool)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
    for kind in KINDS.values():
        schedules = _read_schedules(client, kind.name)
        client.create_deployment(
            client.create_flow_from_name(kind.name),
            kind.name,
            entrypoint=f"flows.{kind.name}.{kind.name}",
            description=kind.does,
            tags=["kame"],
            schedules=schedules,
            work_pool_name=_POOL_OF[kind.name],
            concurrency_limit=_AT_ONCE.get(kind.name),
            parameter_openapi_schema=_schema(kind.config),
            enforce_parameter_schema=True,
            job_variables={"working_dir": str(folder)},
        )
    if not client.read_automations_by_name(_LOST):
        client.create_automation(_end_lost_runs())


def _read_schedules(client: SyncPrefectClient, kind: str) -> list[DeploymentScheduleCreate]:
    """The schedules that a deployment has, which Prefect takes away where they are not given again."""
    try:
        there = client.read_deployment_by_name(f"{kind}/{kind}").schedules
    except ObjectNotFound:
        return []
    return [
        DeploymentScheduleCreate(schedule=each.schedule, active=each.active, parameters=each.parameters, slug=each.slug)
        for each in there
    ]


def is_served(client: SyncPrefectClient, pool: str, since: datetime) -> bool:
    """Whether a worker of a pool was heard of since a moment."""
    heard = [each.last_heartbeat_time for each in client.read_workers_for_work_pool(pool)]
    return any(each is not None and each >= since for each in heard)


def end_lost_runs(client: SyncPrefectClient) -> None:
    """Ends runs that stand as being at work, at a moment when no worker of this server is: what they were is lost."""
    for run in _read_runs_at_work(client):
        is_cancelled = run.state is not None and run.state.is_cancelling()
        end: State[None] = Cancelled() if is_cancelled else Crashed(message=_GONE)
        client.set_flow_run_state(run.id, end, force=True)


def stop_runs(client: SyncPrefectClient, tell: Callable[[int], None]) -> None:
    """Cancels the runs that are at work, and waits until their workers have ended them.

    Args:
        tell: told how many they are, if any.
    """
    if runs := _read_runs_at_work(client):
        tell(len(runs))
    for run in runs:
        client.set_flow_run_state(run.id, Cancelling(message="kame up was ended"))
    until = time.monotonic() + STOP_S
    while time.monotonic() < until and _read_runs_at_work(client):
        time.sleep(0.5)


def _read_runs_at_work(client: SyncPrefectClient) -> list[FlowRun]:
    at_work = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=list(KINDS))),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=at_work))),
    )


def _schema(config: type) -> dict[str, Any]:
    """The schema of a flow's parameters, without importing the flow."""

    def flow(config: Any) -> None:
        pass

    flow.__annotations__["config"] = config
    taken: Callable[..., Any] = flow
    return parameter_schema(taken).model_dump()


def _end_lost_runs() -> AutomationCore:
    """Crashed is what becomes of a run that sent heartbeats and then neither these nor an end."""
    ends = {f"prefect.flow-run.{end}" for end in ("Completed", "Failed", "Cancelled", "Crashed")}
    return AutomationCore(
        name=_LOST,
        description="Its worker or its machine died; running again goes on where it was.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *ends},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            threshold=1,
            within=timedelta(seconds=3 * HEARTBEAT_S),
        ),
        actions=[ChangeFlowRunState(name=None, state=StateType.CRASHED, message=_GONE, force=False)],
    )
