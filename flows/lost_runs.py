"""Detects runs whose process is gone, and marks them as crashed.

An active run sends heartbeats, and its state changes. A run without either for `SILENT_S` is ended; only time in which
the server answered counts. Clocks of different machines are not compared, and after an outage of the server or a
suspended machine the full time starts again. A Prefect automation cannot do this: it also counts the server's own
outage, and crashes runs that are active when the server comes back.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_logger
from prefect.states import Cancelled, Crashed

from dashboard.runs import KINDS
from flows.prefect_client import connect

HEARTBEAT_S: Final = 30
"""Interval of heartbeats in seconds; Prefect's minimum."""
SILENT_S: Final = 100.0
"""Time without a sign after which a run is ended, in seconds; more than three heartbeats."""
PENDING_S: Final = 600.0
"""The same for pending runs, which send no heartbeats while their worker fetches code or their process imports it."""
LOOK_EVERY_S: Final = 10.0
HEARTBEATS: Final = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S)}
"""Environment variables of runs; without them Prefect sends a heartbeat every 180 s."""
_GONE: Final = "The process of the run is gone. Start the run again to resume it."


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last sign of a run, and when it was first seen."""

    sign: tuple[UUID | None, UUID | None]
    since_s: float


class LostRuns:
    """Detects runs whose process is gone, and ends them.

    Args:
        client: client of the Prefect server.
        clock: monotonic clock in seconds that does not run while the machine is suspended.
    """

    def __init__(self, client: SyncPrefectClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._seen: dict[UUID, _Seen] = {}

    def end_silent_runs(self) -> list[FlowRun]:
        """Marks the active runs that have given no sign of life for too long as ended, and returns them.

        They become crashed, or cancelled if a cancellation was requested.

        Raises:
            ObjectNotFound: a run was deleted in between.
            httpx.HTTPError: the server does not answer; then all runs have their full time again.
        """
        try:
            now_s, seen = self._clock(), {}
            at_work = read_runs_at_work(self._client)
            for run in at_work:
                sign = (run.state_id, self._read_last_heartbeat(run.id))
                before = self._seen.get(run.id)
                seen[run.id] = before if before is not None and before.sign == sign else _Seen(sign, now_s)
            self._seen = seen
            lost = [run for run in at_work if now_s - seen[run.id].since_s >= _get_patience_s(run)]
            for run in lost:
                end_run(self._client, run)
            return lost
        except httpx.HTTPError:
            self._seen = {}
            raise

    def _read_last_heartbeat(self, run_id: UUID) -> UUID | None:
        """Returns the id of a run's newest heartbeat event; None if it has sent none."""
        of_run = EventFilter(
            event=EventNameFilter(name=["prefect.flow-run.heartbeat"]),
            resource=EventResourceFilter(id=[f"prefect.flow-run.{run_id}"]),
        )
        events = self._client.read_events(of_run, limit=1).events
        return events[0].id if events else None


def _get_patience_s(run: FlowRun) -> float:
    """Returns the time without a sign after which a run counts as lost, in seconds."""
    return PENDING_S if run.state is not None and run.state.is_pending() else SILENT_S


def read_runs_at_work(client: SyncPrefectClient) -> list[FlowRun]:
    """Reads the runs of this project's flows that are pending, running or being cancelled."""
    at_work = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=list(KINDS))),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=at_work))),
    )


def end_run(client: SyncPrefectClient, run: FlowRun) -> None:
    """Marks a run whose process is gone as crashed, or as cancelled if a cancellation was requested."""
    is_cancelled = run.state is not None and run.state.is_cancelling()
    end: State[None] = Cancelled(message=_GONE) if is_cancelled else Crashed(message=_GONE)
    client.set_flow_run_state(run.id, end)


def watch_in_background(api_url: str) -> None:
    """Starts a thread that ends lost runs of a Prefect server, every `LOOK_EVERY_S`.

    It runs as long as this process, and outages of the server are tolerated.
    """

    def watch() -> None:
        """Looks for lost runs, without end."""
        logger = get_logger("kame.lost_runs")
        runs = LostRuns(connect(api_url, LOOK_EVERY_S))
        while True:
            try:
                for run in runs.end_silent_runs():
                    logger.warning("Run %s is ended: %s", run.name, _GONE)
            except (httpx.HTTPError, ObjectNotFound) as error:  # the pages say that the server is away
                logger.debug("Not looked for lost runs: %s", error)
            time.sleep(LOOK_EVERY_S)

    threading.Thread(target=watch, name="lost-runs", daemon=True).start()
