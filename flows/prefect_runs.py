"""Prefect's API as the scheduler of the dashboard: runs, logs, starts and cancellations, and schedules."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, get_args
from uuid import UUID

import httpx
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    LogFilter,
    LogFilterFlowRunId,
    TaskRunFilter,
    TaskRunFilterId,
    TaskRunFilterState,
    TaskRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import Artifact, FlowRun, Log, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule
from prefect.client.schemas.sorting import ArtifactSort, FlowRunSort, LogSort, TaskRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling

from dashboard.catalog import MissingError
from dashboard.runs import (
    KINDS,
    PLANNED_KINDS,
    Blocker,
    LogLine,
    RefusedRunError,
    Run,
    Schedule,
    SchedulerGoneError,
    State,
)
from data_schemas.errors import ConfigError
from data_schemas.rates import PlanFigure
from flows.automations import PREFIX, list_automations, train_after_refresh
from flows.prefect_client import connect
from flows.run_names import name_run
from flows.settings import list_choices, validate_settings

Row = TypeVar("Row")

TIMEOUT_S: Final = 10.0
MAX_PAGE: Final = 200
"""Maximum number of rows that Prefect returns in one response."""
_MAX_NAMES_KEPT: Final = 10_000
_LEVELS: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}
_STATES: Final[Mapping[str, State]] = {each: each for each in get_args(State)}
_LINK: Final = "markdown"
"""Prefect's type of link artifacts, which reports of other runs have as well."""
_URL = re.compile(r"\((https?://[^)\s]+)\)")


class PrefectRuns:
    """Runs of this project's flows on a Prefect server (`dashboard.runs.RunScheduler`).

    Args:
        api_url: URL of the server's API, as in `PREFECT_API_URL`.
    """

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url
        self._client = connect(api_url, TIMEOUT_S)
        self._kinds: dict[UUID, str] = {}
        self._task_names: dict[UUID, str] = {}

    def list_runs(self, kinds: Sequence[str], states: Sequence[State], first: int, n: int) -> list[Run]:
        """Returns up to `n` runs of some kinds and states, the newest first, from an offset on; no states: all of them.

        Runs that are scheduled for later than the next minute are left out.

        Args:
            n: at most `MAX_PAGE`.
        """
        soon = datetime.now(UTC) + timedelta(minutes=1)
        with self._translate_errors():
            self._read_kinds()
            runs = self._client.read_flow_runs(
                flow_filter=FlowFilter(name=FlowFilterName(any_=list(kinds))),
                flow_run_filter=FlowRunFilter(
                    state=_filter_states(states) if states else None,
                    expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"before_": soon}),
                ),
                sort=FlowRunSort.EXPECTED_START_TIME_DESC,
                limit=n,
                offset=first,
            )
            return self._make_runs(runs)

    def read_run(self, run_id: str) -> Run:
        """Returns a run with its current state.

        Raises:
            MissingError: there is no such run, or it is not one of this project's.
        """
        with self._translate_errors(f"run {run_id!r}"):
            flow_run = self._client.read_flow_run(_parse_uuid(run_id))
            if flow_run.flow_id not in self._kinds:
                self._read_kinds()
            (run,) = self._make_runs([flow_run])
            return run

    def read_log(self, run_id: str, first: int, n: int) -> list[LogLine]:
        """Returns up to `n` lines of a run's log in order, from an offset on; none if there is no such run.

        Raises:
            MissingError: the id is not a UUID.
        """
        log_filter = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[_parse_uuid(run_id)]))
        lines: list[LogLine] = []
        with self._translate_errors(f"run {run_id!r}"):
            while len(lines) < n:
                page = self._client.read_logs(
                    log_filter,
                    limit=min(MAX_PAGE, n - len(lines)),
                    offset=first + len(lines),
                    sort=LogSort.TIMESTAMP_ASC,
                )
                names = self._read_task_names(page)
                lines += [_make_line(each, names) for each in page]
                if len(page) < MAX_PAGE:
                    break
        return lines

    def cancel(self, run_id: str) -> None:
        """Requests the cancellation of a run; one that has ended is not changed."""
        with self._translate_errors(f"run {run_id!r}"):
            self._client.set_flow_run_state(_parse_uuid(run_id), Cancelling())

    def start(self, kind: str, settings: Mapping[str, Any]) -> str:
        """Schedules a run to start as soon as a worker is free, and returns its id.

        Raises:
            RefusedRunError: the kind has no deployment, or the settings are rejected.
        """
        with self._translate_errors(f"deployment {kind}/{kind}"):
            deployment = self._client.read_deployment_by_name(f"{kind}/{kind}")
            made = self._client.create_flow_run_from_deployment(
                deployment.id, parameters={"config": settings}, name=name_run(self._client, kind, settings)
            )
            return str(made.id)

    def list_schedules(self) -> list[Schedule]:
        """Returns all schedules of this project's flows, each with the start of its next run if one is planned."""
        flow_filter = FlowFilter(name=FlowFilterName(any_=list(KINDS)))
        with self._translate_errors():
            self._read_kinds()
            deployments = self._client.read_deployments(flow_filter=flow_filter)
            planned = self._client.read_flow_runs(
                flow_filter=flow_filter,
                flow_run_filter=FlowRunFilter(
                    state=_filter_states(["scheduled"]),
                    expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"after_": datetime.now(UTC)}),
                ),
                sort=FlowRunSort.EXPECTED_START_TIME_ASC,
                limit=MAX_PAGE,
            )
        next_at: dict[UUID, datetime] = {}
        for each in planned:
            if each.created_by is not None and each.created_by.id is not None and each.expected_start_time is not None:
                next_at.setdefault(each.created_by.id, each.expected_start_time)
        return [
            _make_schedule(self._kinds[deployment.flow_id], deployment, index, next_at)
            for deployment in deployments
            for index in range(len(deployment.schedules))
        ]

    def add_schedule(self, kind: str, settings: Mapping[str, Any], cron: str, timezone: str) -> None:
        """Adds a schedule that starts runs of a kind with these settings.

        Raises:
            RefusedRunError: the cron expression or time zone is invalid, the kind has no deployment, or the server
                rejects the settings.
        """
        try:
            when = CronSchedule(cron=cron, timezone=timezone)
        except ValueError as error:
            raise RefusedRunError(
                f"{cron!r} in time zone {timezone!r} is not a valid schedule.",
                "Write a cron expression (minute, hour, day, month, weekday), such as 0 3 * * 1, and a time zone "
                "such as Europe/Zurich.",
            ) from error
        with self._translate_errors(f"deployment {kind}/{kind}"):
            deployment = self._client.read_deployment_by_name(f"{kind}/{kind}")
            made = DeploymentScheduleCreate(schedule=when, active=True, parameters={"config": settings})
            self._client.create_deployment_schedules(deployment.id, [made])

    def set_schedule_active(self, kind: str, schedule_id: str, is_active: bool) -> None:
        """Pauses or resumes a schedule.

        Raises:
            MissingError: there is no such schedule.
        """
        with self._translate_errors(f"schedule {schedule_id!r}"):
            deployment = self._client.read_deployment_by_name(f"{kind}/{kind}")
            found = [each for each in deployment.schedules if each.id == _parse_uuid(schedule_id)]
            if not found:
                raise MissingError(f"There is no schedule {schedule_id!r}.", "Choose one from the list of runs.")
            # Prefect forgets the parameters where they are not given again
            self._client.update_deployment_schedule(
                deployment.id, found[0].id, active=is_active, parameters=found[0].parameters
            )

    def remove_schedule(self, kind: str, schedule_id: str) -> None:
        """Deletes a schedule.

        Raises:
            MissingError: there is no such schedule.
        """
        with self._translate_errors(f"schedule {schedule_id!r}"):
            deployment = self._client.read_deployment_by_name(f"{kind}/{kind}")
            self._client.delete_deployment_schedule(deployment.id, _parse_uuid(schedule_id))

    def train_after_refresh(self, dataset: str, settings: Mapping[str, Any]) -> None:
        """Adds an automation that starts a training whenever a refresh has changed a dataset.

        It replaces an earlier one of the same dataset; see `flows.automations.train_after_refresh`.

        Raises:
            RefusedRunError: the server has no deployment of trainings.
        """
        with self._translate_errors("deployment train/train"):
            try:
                train_after_refresh(self._client, dataset, settings)
            except ConfigError as error:
                raise RefusedRunError(error.what, error.remedy) from error

    def list_automations(self) -> list[str]:
        """Returns the names of this project's active automations, sorted and without their common prefix."""
        with self._translate_errors():
            return [each.name.removeprefix(PREFIX) for each in list_automations(self._client) if each.enabled]

    def list_choices(self) -> Mapping[str, Sequence[str]]:
        """Returns the engines, sources, voices and sample files that exist on this machine, by name of the setting.

        They are searched once in a process, so what is installed later is missing.
        """
        return list_choices()

    def get_sample_settings(self) -> Mapping[str, Any]:
        """Returns the settings of a refresh of the sample questions; empty if the project's folder does not exist."""
        from flows.settings import list_sample_sources

        sources = [each.model_dump(mode="json", exclude_defaults=True) for each in list_sample_sources()]
        return {"sources": sources} if sources else {}

    def plan(self, kind: str, settings: Mapping[str, Any]) -> list[PlanFigure]:
        """Estimates a run with these settings, without starting it; an empty list for kinds without an estimate.

        For a refresh, the rows of its sources are read, to count them.

        Raises:
            KameError: a setting is invalid, a source cannot be read, or something that is named does not exist.
        """
        from flows.runs.plan import plan_settings

        return plan_settings(validate_settings(KINDS[kind].config, settings)) if kind in PLANNED_KINDS else []

    def _read_kinds(self) -> None:
        """Reads the kind of each flow by its id to `_kinds`; ids do not change while the server keeps its database."""
        flow_filter = FlowFilter(name=FlowFilterName(any_=list(KINDS)))
        self._kinds = {each.id: each.name for each in self._client.read_flows(flow_filter=flow_filter)}

    def _read_task_names(self, logs: Sequence[Log]) -> Mapping[UUID, str]:
        """Returns names of tasks by id, at least of those that wrote these lines; names are read once and cached."""
        wanted = {each.task_run_id for each in logs if each.task_run_id is not None} - self._task_names.keys()
        if wanted:
            found = self._client.read_task_runs(task_run_filter=TaskRunFilter(id=TaskRunFilterId(any_=list(wanted))))
            if len(self._task_names) > _MAX_NAMES_KEPT:
                self._task_names = {}
            self._task_names = self._task_names | {each.id: each.name for each in found}
        return self._task_names

    def _make_runs(self, flow_runs: Sequence[FlowRun]) -> list[Run]:
        """Converts Prefect's flow runs, adding the current step, progress and link, and what late ones wait for.

        Raises:
            MissingError: a run is not of one of this project's flows.
        """
        at_work = [each.id for each in flow_runs if each.state is not None and not each.state.is_final()]
        artifacts = self._read_artifacts([each.id for each in flow_runs])
        steps: dict[UUID, str] = {}
        if at_work:
            of_runs = FlowRunFilter(id=FlowRunFilterId(any_=at_work))
            running = TaskRunFilter(state=TaskRunFilterState(type=TaskRunFilterStateType(any_=[StateType.RUNNING])))
            for task in _read_pages(
                lambda offset: self._client.read_task_runs(
                    flow_run_filter=of_runs,
                    task_run_filter=running,
                    sort=TaskRunSort.ID_DESC,
                    limit=MAX_PAGE,
                    offset=offset,
                )
            ):
                if task.flow_run_id is not None:
                    steps[task.flow_run_id] = task.name
        made, blocked = [], dict[str, tuple[str, list[Blocker]]]()  # what late runs wait for, by work pool
        for each in flow_runs:
            if each.flow_id not in self._kinds:
                raise MissingError(
                    f"The run {str(each.id)!r} is not of one of KAME's flows.", "Open it on Prefect's own page."
                )
            is_late = each.state is not None and each.state.name == "Late"
            pool = each.work_pool_name or ""
            if is_late and pool not in blocked:
                blocked[pool] = self._find_blockers(pool)
            waits_for, blockers = blocked[pool] if is_late else ("", [])
            step = steps.get(each.id, "")
            run = _make_run(each, self._kinds[each.flow_id], artifacts.get(each.id, {}), step)
            made.append(replace(run, waits_for=waits_for, blockers=blockers))
        return made

    def _find_blockers(self, pool: str) -> tuple[str, list[Blocker]]:
        """Returns what a late run of a work pool waits for, as text, and the runs that use up the pool's limit.

        No runs are returned if the limit is 0, or if it is not reached: then the run waits for a worker.
        """
        if not pool:
            return "a process that serves its deployment", []
        limit = self._client.read_work_pool(pool).concurrency_limit
        if limit == 0:
            return f"a concurrency limit above 0 of the work pool {pool}", []
        if limit is not None:
            at_work = _read_pages(
                lambda offset: self._client.read_flow_runs(
                    work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[pool])),
                    flow_run_filter=FlowRunFilter(state=_filter_states(["pending", "running", "cancelling"])),
                    sort=FlowRunSort.ID_DESC,
                    limit=MAX_PAGE,
                    offset=offset,
                )
            )
            if len(at_work) >= limit:
                blockers = [Blocker(str(each.id), each.name, self._kinds.get(each.flow_id, "")) for each in at_work]
                return f"the end of {' or '.join(each.name for each in at_work)} (work pool {pool})", blockers
        return f"a worker of the work pool {pool}", []

    def _read_artifacts(self, run_ids: Sequence[UUID]) -> dict[UUID, dict[str, Artifact]]:
        """Reads the newest progress and link artifact of each run, by run and type."""
        found: dict[UUID, dict[str, Artifact]] = {}
        if not run_ids:
            return found
        of_runs = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=list(run_ids)), type=ArtifactFilterType(any_=["progress", _LINK])
        )
        artifacts = _read_pages(
            lambda offset: self._client.read_artifacts(
                artifact_filter=of_runs, sort=ArtifactSort.ID_DESC, limit=MAX_PAGE, offset=offset
            )
        )
        for each in sorted(artifacts, key=lambda made: made.updated or datetime.min):
            if each.flow_run_id is not None and each.type is not None:
                found.setdefault(each.flow_run_id, {})[each.type] = each
        return found

    @contextmanager
    def _translate_errors(self, what: str = "") -> Iterator[None]:
        """Translates errors of Prefect's client in a `with` block to those of the protocol.

        Args:
            what: the requested object, for the message if it does not exist; text that begins with `deployment`
                means a deployment.

        Raises:
            MissingError: the object does not exist, and is not a deployment.
            RefusedRunError: the request was rejected, or the object is a deployment that does not exist.
            SchedulerGoneError: the server does not answer, or failed.
        """
        try:
            yield
        except ObjectNotFound as error:
            if what.startswith("deployment"):
                raise RefusedRunError(
                    f"Prefect has no {what}.", "Start `kame up`, or run: prefect --no-prompt deploy --all"
                ) from error
            raise MissingError(f"There is no {what}.", "Choose one from the list of runs.") from error
        except httpx.HTTPStatusError as error:
            if error.response.is_client_error:
                raise RefusedRunError(f"Prefect rejected the request: {_get_detail(error.response)}") from error
            raise SchedulerGoneError(
                f"Prefect's server at {self._api_url} failed: HTTP {error.response.status_code}.",
                "See the output of `prefect server start`; `kame up` writes it to up/prefect.log in its cache folder.",
            ) from error
        except httpx.HTTPError as error:
            raise SchedulerGoneError(
                f"Prefect's server at {self._api_url} does not answer: {error or type(error).__name__}.",
                "Start it (`kame up`, or `prefect server start`) and reload this page; active runs continue.",
            ) from error


def _read_pages(read: Callable[[int], list[Row]]) -> list[Row]:
    """Reads all pages of `MAX_PAGE` rows by a function that reads the page from an offset on."""
    rows: list[Row] = []
    while len(page := read(len(rows))) == MAX_PAGE:
        rows += page
    return rows + page


def _make_line(log: Log, task_names: Mapping[UUID, str]) -> LogLine:
    """Converts a log line of Prefect; its text begins with the name of the task that wrote it, if that is known."""
    task = task_names.get(log.task_run_id, "") if log.task_run_id is not None else ""
    text = f"{task}: {log.message}" if task else log.message
    return LogLine(str(log.id), log.timestamp, _LEVELS.get(log.level, str(log.level)), text)


def _make_run(flow_run: FlowRun, kind: str, artifacts: Mapping[str, Artifact], step: str) -> Run:
    """Converts a flow run of Prefect to a run.

    A completed run has 100 percent; others have the percentage of their progress artifact, or None. Only a running
    server has a URL.
    """
    state = flow_run.state
    state_type = _STATES[state.type.value.lower()] if state else "pending"
    took = flow_run.estimated_run_time if state and not state.is_final() else flow_run.total_run_time
    config = flow_run.parameters.get("config", {})
    percent = artifacts["progress"].data if "progress" in artifacts else None
    link = _URL.search(str(artifacts[_LINK].data)) if kind == "serve" and _LINK in artifacts else None
    return Run(
        run_id=str(flow_run.id),
        name=flow_run.name,
        kind=kind,
        state=state_type,
        state_name=(state.name if state else None) or state_type,
        message=(state.message if state else None) or "",
        settings=config if isinstance(config, dict) else {},
        due=flow_run.expected_start_time,
        began=flow_run.start_time,
        duration_s=took.total_seconds(),
        percent=100.0 if state_type == "completed" else percent if isinstance(percent, float | int) else None,
        step=step,
        url=link[1] if link and state_type == "running" else "",
    )


def _make_schedule(kind: str, deployment: DeploymentResponse, index: int, next_at: Mapping[UUID, datetime]) -> Schedule:
    """Converts one of the schedules of a deployment; without settings of its own, it has those of the deployment.

    Args:
        next_at: start of the next run by id of the schedule.
    """
    made = deployment.schedules[index]
    when, times, timezone = made.schedule, "", "UTC"
    if isinstance(when, CronSchedule):
        times, timezone = when.cron, when.timezone or "UTC"
    elif isinstance(when, IntervalSchedule):
        times = f"every {when.interval}"
    elif isinstance(when, RRuleSchedule):
        times = when.rrule
    settings = made.parameters.get("config") or deployment.parameters.get("config") or {}
    next_time = next_at.get(made.id) if made.active else None
    return Schedule(str(made.id), kind, times, timezone, made.active, settings, next_time)


def _filter_states(states: Sequence[State]) -> FlowRunFilterState:
    """Makes Prefect's filter for runs in one of these states, each of which is a Prefect state type in lower case."""
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType(each.upper()) for each in states]))


def _parse_uuid(text: str) -> UUID:
    """Parses an id of a run or schedule.

    Raises:
        MissingError: it is not a UUID, so nothing has that id.
    """
    try:
        return UUID(text)
    except ValueError as error:
        raise MissingError(f"{text[:80]!r} is not an id.", "Choose one from the list of runs.") from error


def _get_detail(answer: httpx.Response) -> str:
    """Returns the error message in a response of the server, or without one the whole body; at most 500 characters."""
    try:
        body = answer.json()
    except ValueError:
        return answer.text[:500]
    detail = body.get("detail") or body.get("exception_detail") or body if isinstance(body, dict) else body
    return str(detail)[:500]
