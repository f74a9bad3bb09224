"""Ends runs whose process is gone, so that none stands as running for ever.

A run at work gives signs: it sends heartbeats, and its state changes. Whoever looks again and again ends a run that
gave none for `SILENT_S`, of which only time counts in which the server answered. No clocks of two machines are
compared, and after a server was away, or a machine slept, every run has its full time again. That is why this is no
automation of Prefect's: one that waits for heartbeats counts the server's own absence too, and crashes runs that are
at work when the server comes back.
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
"""Prefect's least."""
SILENT_S: Final = 100.0
"""More than three heartbeats."""
PENDING_S: Final = 600.0
"""A run that is pending sends no heartbeats: its worker fetches code, or its process imports it."""
LOOK_EVERY_S: Final = 10.0
HEARTBEATS: Final = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S)}
"""Environment of runs; without it Prefect sends one every 180 s."""
_GONE: Final = "Its process is gone. Running again goes on where it was."


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last sign of a run, and when it was seen first."""

    sign: tuple[UUID | None, UUID | None]
    since_s: float


class LostRuns:
    """Looks for runs whose process is gone, and ends them.

    Args:
        client: of the server whose runs these are.
        clock: seconds that go on evenly, and not while this machine sleeps.
    """

    def __init__(self, client: SyncPrefectClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._seen: dict[UUID, _Seen] = {}

    def look(self) -> list[FlowRun]:
        """Looks once; gives the runs that were ended.

        Raises:
            httpx.HTTPError: the server does not answer; all runs have their full time again.
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
        of_run = EventFilter(
            event=EventNameFilter(name=["prefect.flow-run.heartbeat"]),
            resource=EventResourceFilter(id=[f"prefect.flow-run.{run_id}"]),
        )
        events = self._client.read_events(of_run, limit=1).events
        return events[0].id if events else None


def _get_patience_s(run: FlowRun) -> float:
    return PENDING_S if run.state is not None and run.state.is_pending() else SILENT_S


def read_runs_at_work(client: SyncPrefectClient) -> list[FlowRun]:
    """Runs of our kinds that a process should be at work on."""
    at_work = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=list(KINDS))),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=at_work))),
    )


def end_run(client: SyncPrefectClient, run: FlowRun) -> None:
    """Shows a run whose process is gone as crashed, or as cancelled where that was asked for; not one that is over."""
    is_cancelled = run.state is not None and run.state.is_cancelling()
    end: State[None] = Cancelled(message=_GONE) if is_cancelled else Crashed(message=_GONE)
    client.set_flow_run_state(run.id, end)


def watch_in_background(api_url: str) -> None:
    """Looks every `LOOK_EVERY_S` in a thread, as long as this process lives; a server may go and come again."""

    def watch() -> None:
        logger = get_logger("kame.lost_runs")
        runs = LostRuns(connect(api_url, LOOK_EVERY_S))
        while True:
            try:
                for run in runs.look():
                    logger.warning("Run %s is ended: %s", run.name, _GONE)
            except (httpx.HTTPError, ObjectNotFound) as error:  # the pages say that the server is away
                logger.debug("Not looked for lost runs: %s", error)
            time.sleep(LOOK_EVERY_S)

    threading.Thread(target=watch, name="lost-runs", daemon=True).start()
