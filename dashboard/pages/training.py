"""Pages of training runs: list, and live curves of one or several runs."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse

from dashboard.free_running import MOST_STEPS, FreeRunningFeed
from dashboard.metrics_feed import MetricsFeed
from dashboard.site import Site
from dashboard.training import MOST_RUNS, TrainingRun, compare_configs, list_runs, open_runs, summarise

_LOOK_EVERY_S: Final = 0.5
_QUIET_S: Final = 10.0

_Keys = Annotated[list[str], Query(alias="run", min_length=1, max_length=MOST_RUNS)]


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of training runs."""
    routes = APIRouter(prefix="/training")

    @routes.get("", response_class=HTMLResponse)
    def list_training(request: Request) -> HTMLResponse:
        """Shows all training runs: those at work first, then by the age of their last metrics, the newest first."""
        summaries = [summarise(run) for run in list_runs(site.catalog.roots)]
        summaries.sort(key=lambda each: (each.state != "running", each.age_s or 0.0))
        return site.render(
            request, "training.html", part="training", summaries=summaries, roots=site.catalog.roots, most=MOST_RUNS
        )

    @routes.get("/runs", response_class=HTMLResponse)
    def show_runs(request: Request, keys: _Keys) -> HTMLResponse:
        """Shows the curves of one or several training runs, and the settings in which they differ."""
        runs = open_runs(site.catalog.roots, keys)
        shown = {run.key for run in runs}
        others = [run.key for run in list_runs(site.catalog.roots) if run.key not in shown]
        return site.render(
            request,
            "training_runs.html",
            part="training",
            summaries=[summarise(run) for run in runs],
            others=others if len(runs) < MOST_RUNS else [],
            settings=compare_configs(runs),
            most_steps=MOST_STEPS,
            view={name: request.query_params.get(name, "") for name in ("x", "smooth")},
        )

    @routes.get("/events")
    def follow_runs(request: Request, keys: _Keys) -> StreamingResponse:
        """Streams the metrics of training runs as server-sent events: first all, then new ones, until it is closed."""
        runs = open_runs(site.catalog.roots, keys)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # a proxy would hold the lines back
        return StreamingResponse(_stream_updates(site, request, runs), media_type="text/event-stream", headers=headers)

    return routes


async def _stream_updates(site: Site, request: Request, runs: list[TrainingRun]) -> AsyncIterator[bytes]:
    """Yields server-sent events with the new metrics of each run, until the page is closed or the server stops."""
    feeds = [MetricsFeed(run.metrics) for run in runs]
    texts = FreeRunningFeed(runs[0].folder) if len(runs) == 1 else None  # several runs are compared by figures alone
    states: list[str | None] = [None] * len(runs)
    quiet_s = 0.0
    while not site.is_ending.is_set() and not await request.is_disconnected():
        quiet_s += _LOOK_EVERY_S
        for number, (run, feed) in enumerate(zip(runs, feeds, strict=True)):
            event = await run_in_threadpool(_read_update, run, feed, texts, states[number])
            if event is not None:
                states[number], quiet_s = event["state"], 0.0
                yield f"data: {json.dumps({'run': number, **event}, allow_nan=False)}\n\n".encode()
        if quiet_s >= _QUIET_S:
            quiet_s = 0.0
            yield b":\n\n"  # so that no proxy takes it for dead
        await asyncio.sleep(_LOOK_EVERY_S)


def _read_update(
    run: TrainingRun, feed: MetricsFeed, texts: FreeRunningFeed | None, state_before: str | None
) -> dict[str, Any] | None:
    """Returns a run's state and age, with new metrics and texts of free running; None if nothing has changed.

    The state is `gone` if the run's folder does not exist any more.
    """
    update, state = feed.read(), run.read_state() if run.folder.is_dir() else "gone"
    said = texts.read() if texts else None
    if update is None and said is None and state == state_before:
        return None
    event = {"state": state, "age_s": run.compute_age_s(), **(update.to_json() if update else {})}
    return {**event, "free": said.to_json()} if said else event
