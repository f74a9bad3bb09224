"""Pages of runs and schedules: list, one run with its live log, and actions."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard.catalog import MissingError
from dashboard.runs import KINDS, STATES_AT_WORK, Run, State
from dashboard.servers import describe_server
from dashboard.site import Site
from dashboard.training import MOST_RUNS
from dashboard.training import list_runs as list_training_runs

PAGE_RUNS: Final = 50
MAX_LOG_LINES: Final = 1000
"""Maximum number of log lines in a response; the page requests the next ones."""
MAX_LOG_FIRST: Final = 10_000_000


class ScheduleRequest(BaseModel):
    """Request to change a schedule."""

    model_config = ConfigDict(extra="forbid")
    do: Literal["pause", "resume", "remove"]


class ResultLink(NamedTuple):
    """A result of a run: its name and page."""

    title: str
    url: str


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of runs."""
    routes = APIRouter(prefix="/runs")

    @routes.get("", response_class=HTMLResponse)
    def list_runs(
        request: Request, kind: str = "", state: str = "", page: Annotated[int, Query(ge=1, le=10_000)] = 1
    ) -> HTMLResponse:
        """Shows a page of the runs of a kind and a state, and all schedules and automations."""
        if kind and kind not in KINDS:
            raise MissingError(f"There is no kind of run {kind!r}.", f"Choose one of: {', '.join(KINDS)}.")
        if state not in ("", "at-work", *get_args(State)):
            raise MissingError(f"There is no state {state!r}.", f"Choose one of: {', '.join(get_args(State))}.")
        states = STATES_AT_WORK if state == "at-work" else (cast(State, state),) if state else ()
        first = (page - 1) * PAGE_RUNS
        runs = site.get_scheduler().list_runs([kind] if kind else list(KINDS), states, first, PAGE_RUNS + 1)

        def make_address(**changed: str | int) -> str:
            """Returns the URL of this list with some of its filters changed."""
            pairs = {"kind": kind, "state": state, "page": page} | changed
            kept = {name: value for name, value in pairs.items() if value not in ("", 1)}
            return f"/runs?{urlencode(kept)}" if kept else "/runs"

        return site.render(
            request,
            "runs.html",
            part="runs",
            runs=runs[:PAGE_RUNS],
            is_more=len(runs) > PAGE_RUNS,
            is_alive=any(not each.is_over for each in runs),
            schedules=site.get_scheduler().list_schedules(),
            automations=site.get_scheduler().list_automations(),
            kinds=KINDS,
            kind=kind,
            state=state,
            page=page,
            address=make_address,
        )

    @routes.get("/{run_id}", response_class=HTMLResponse)
    def show_run(request: Request, run_id: str) -> HTMLResponse:
        """Shows a run, with its server or the pages of its results."""
        run = site.get_scheduler().read_run(run_id)
        server = describe_server(run, request.url.hostname or "")
        hands_on = site.checkpoints is not None and site.serve_token is not None
        made = _find_results(site, run)
        return site.render(
            request, "run.html", part="runs", run=run, kinds=KINDS, server=server, serve_token=hands_on, made=made
        )

    @routes.get("/{run_id}/log")
    def get_log(run_id: str, first: int = 0) -> dict[str, Any]:
        """Returns the lines of a run's log from an offset on, at most 1,000, and whether there may be more."""
        lines = site.get_scheduler().read_log(run_id, min(max(0, first), MAX_LOG_FIRST), MAX_LOG_LINES)
        entries = [
            {"id": each.line_id, "at": f"{each.at:%H:%M:%S}", "level": each.level, "text": each.text} for each in lines
        ]
        return {"lines": entries, "is_more": len(lines) == MAX_LOG_LINES}

    @routes.post("/{run_id}/cancel")
    def cancel_run(run_id: str) -> dict[str, Any]:
        """Requests the cancellation of a run, and returns the URL of its page."""
        site.get_scheduler().cancel(run_id)
        return {"url": f"/runs/{run_id}"}

    @routes.post("/schedules/{kind}/{schedule_id}")
    def change_schedule(kind: str, schedule_id: str, wanted: ScheduleRequest) -> dict[str, Any]:
        """Pauses, resumes or removes a schedule."""
        if kind not in KINDS:
            raise MissingError(f"There is no kind of run {kind!r}.", f"Choose one of: {', '.join(KINDS)}.")
        if wanted.do == "remove":
            site.get_scheduler().remove_schedule(kind, schedule_id)
        else:
            site.get_scheduler().set_schedule_active(kind, schedule_id, wanted.do == "resume")
        return {"url": "/runs"}

    return routes


def _find_results(site: Site, run: Run) -> list[ResultLink]:
    """Returns links to the results of a refresh or a training that are below the roots; none for other kinds of runs.

    Relative paths are relative to the dashboard's folder.
    """
    if run.kind not in ("refresh", "train"):
        return []
    out = run.settings.get("out") or KINDS[run.kind].config.model_fields["out"].get_default()
    try:
        folder = Path(str(out)).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # no path at all
        return []
    if run.kind == "refresh":
        return [
            ResultLink(f"Open the dataset {each.key.replace('~', ' / ')}", f"/datasets/{quote(each.key)}")
            for each in site.catalog.list_datasets()
            if each.folder == folder
        ]
    trained = [each.key for each in list_training_runs(site.catalog.roots) if each.folder.is_relative_to(folder)]
    query = urlencode([("run", key) for key in trained[:MOST_RUNS]])
    return [ResultLink("Watch its losses", f"/training/runs?{query}")] if trained else []
