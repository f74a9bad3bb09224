"""Pages of checkpoints: list, details with card and figures, comparison, and servers to talk to."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse

from dashboard.catalog import MissingError
from dashboard.checkpoints import CARD, Checkpoint, Checkpoints, Evaluation, count_kinds
from dashboard.markdown import read_markdown, render_markdown
from dashboard.runs import Run, SchedulerGoneError
from dashboard.servers import (
    KIND,
    TalkServer,
    add_token,
    describe_server,
    find_failed_server_run,
    is_server_of,
    list_servers,
    make_server_settings,
    select_servers,
)
from dashboard.side_by_side import (
    compare_facts,
    find_comparisons,
    group_evaluations,
    list_losses,
    list_shares,
    select_comparisons,
    select_evaluations,
)
from dashboard.site import Site
from data_schemas.errors import KameError

MOST_COMPARED: Final = 8
_PLOTS: Final = "plots"
_PLOT = re.compile(rf"{_PLOTS}/([\w][\w.-]*\.png)")
_REPORT: Final = "report.md"

_Keys = Annotated[list[str], Query(alias="checkpoint", min_length=2, max_length=MOST_COMPARED)]

COLUMNS: Final[Mapping[str, tuple[str, Callable[[Checkpoint], Any]]]] = {
    "name": ("Checkpoint", lambda each: each.key),
    "preset": ("Preset", lambda each: each.get_facts().preset),
    "parameters": ("Parameters", lambda each: each.get_facts().n_parameters),
    "codec": ("Codec", lambda each: each.get_facts().codec),
    "voice": ("Voice", lambda each: each.get_facts().voice),
    "stage": ("Trained on", lambda each: (each.get_facts().stage, list(each.get_facts().data))),
    "steps": ("Steps", lambda each: each.get_facts().step),
    "text": ("Text loss", lambda each: each.get_facts().losses.get("right.text")),
    "answer": ("Answer right", lambda each: each.get_facts().losses.get("right.answer_right")),
    "said": ("Recall", lambda each: max((share.value or 0 for share in each.get_facts().shares), default=None)),
    "date": ("Date", lambda each: each.get_facts().made_at),
}
"""Sort columns of the list, with titles; damaged checkpoints are last."""


class EmptyBody(BaseModel):
    """Empty request body: the URL says everything."""

    model_config = ConfigDict(extra="forbid")


def create_routes(site: Site, checkpoints: Checkpoints) -> APIRouter:
    """Creates the routes of checkpoints."""
    routes = APIRouter(prefix="/checkpoints")

    @routes.get("", response_class=HTMLResponse)
    def list_all(request: Request, sort: str = "-date") -> HTMLResponse:
        """Shows all checkpoints with their runs and evaluations, sorted by a column (`-` before it: descending).

        The digests of their weights, by which evaluations are found, are computed in the background if not known yet.
        """
        column = sort.removeprefix("-")
        if column not in COLUMNS:
            raise MissingError(f"There is no column {column!r}.", f"Choose one of: {', '.join(COLUMNS)}.")
        evaluations = checkpoints.list_evaluations()
        found = _sort_checkpoints(checkpoints.list_checkpoints(), column, is_descending=sort.startswith("-"))
        digests, is_alive = _find_digests(checkpoints, found, 0.05)
        return site.render(
            request,
            "checkpoints.html",
            part="checkpoints",
            checkpoints=found,
            runs=checkpoints.find_runs(found),
            kinds={
                key: count_kinds(select_evaluations(evaluations, digest)) for key, digest in digests.items() if digest
            },
            is_alive=is_alive,
            columns=COLUMNS,
            sort=sort,
            roots=site.catalog.roots,
            most=MOST_COMPARED,
        )

    @routes.get("/compare", response_class=HTMLResponse)
    def compare(request: Request, keys: _Keys) -> HTMLResponse:
        """Shows where checkpoints differ: facts, losses, recall, evaluations and existing comparisons."""
        chosen = [checkpoints.open_checkpoint(key) for key in dict.fromkeys(keys)]
        evaluations = checkpoints.list_evaluations()
        digests, is_alive = _find_digests(checkpoints, chosen)
        groups, alone = group_evaluations(chosen, digests, evaluations)
        compared = find_comparisons(digests, evaluations)
        return site.render(
            request,
            "checkpoints_compared.html",
            part="checkpoints",
            checkpoints=chosen,
            others=[key for key, _ in checkpoints.list_folders() if key not in digests],
            most=MOST_COMPARED,
            is_alive=is_alive,
            facts=compare_facts(chosen),
            losses=list_losses(chosen),
            shares=list_shares(chosen),
            comparisons=[(each, _render_report(each)) for each in compared],
            groups=[(each, _format_compare_command(each.columns)) for each in groups],
            alone=alone,
        )

    @routes.get("/of/{key}", response_class=HTMLResponse)
    def show_checkpoint(request: Request, key: str) -> HTMLResponse:
        """Shows a checkpoint: facts, card, evaluations, and its servers to talk to."""
        checkpoint = checkpoints.open_checkpoint(key)
        facts = checkpoint.get_facts()
        digest, fault = _find_digest(checkpoints, checkpoint)
        evaluations = checkpoints.list_evaluations()
        card = read_markdown(checkpoint.folder, CARD)
        servers, broken, gone = _find_servers(site, request, checkpoint.folder)
        return site.render(
            request,
            "checkpoint.html",
            part="checkpoints",
            checkpoint=checkpoint,
            facts=facts,
            all_facts=compare_facts([checkpoint]),
            run=checkpoints.find_run(checkpoint),
            digest=digest,
            fault=fault,
            evaluations=select_evaluations(evaluations, digest),
            comparisons=select_comparisons(evaluations, digest),
            card=None if card is None else render_markdown(card),
            servers=select_servers(servers, checkpoint.folder),
            others=[each for each in servers if not is_server_of(each.run, checkpoint.folder)],
            broken=broken,
            gone=gone,
            has_scheduler=site.scheduler is not None,
            serve_token=site.serve_token is not None,
            line=f"kame serve {shlex.quote(str(checkpoint.folder))}",
            is_alive=(digest is None and fault is None) or bool(servers),
        )

    @routes.get("/evaluations/{key}", response_class=HTMLResponse)
    def show_evaluation(request: Request, key: str) -> HTMLResponse:
        """Shows the report of an evaluation or comparison, and the checkpoints that it is of."""
        evaluation = checkpoints.open_evaluation(key)
        digests, _ = _find_digests(checkpoints, checkpoints.list_checkpoints(), 0.05)
        return site.render(
            request,
            "evaluation.html",
            part="checkpoints",
            evaluation=evaluation,
            of=[key for key, digest in digests.items() if digest in evaluation.facts.checkpoints],
            report=_render_report(evaluation),
        )

    @routes.get("/evaluations/{key}/plots/{name}")
    def get_plot(key: str, name: str) -> FileResponse:
        """Sends a plot of an evaluation's report."""
        folder = checkpoints.open_evaluation(key).folder / _PLOTS
        found = next((each for each in folder.glob("*.png") if each.name == name), None)
        if found is None or not found.resolve().is_relative_to(folder.parent):
            raise MissingError(f"There is no plot {name!r}.", "The report shows the plots that there are.")
        return FileResponse(found, media_type="image/png")

    @routes.post("/of/{key}/talk")
    def talk(key: str, _: EmptyBody, request: Request) -> dict[str, Any]:
        """Starts a server of a checkpoint unless one is active, and returns the URL of the checkpoint's page."""
        checkpoint = checkpoints.open_checkpoint(key)
        checkpoint.get_facts()
        address = str(request.app.url_path_for("show_checkpoint", key=key))
        if not select_servers(
            list_servers(site.get_scheduler(), ""), checkpoint.folder
        ):  # a second press is not a second server
            site.get_scheduler().start(KIND, make_server_settings(checkpoint.folder))
        return {"url": address}

    @routes.post("/servers/{run_id}/stop")
    def stop(run_id: str, _: EmptyBody, request: Request) -> dict[str, Any]:
        """Requests the end of a server; returns the URL of its checkpoint's page, or of the run if that is unknown."""
        run = _read_server_run(site, run_id)
        site.get_scheduler().cancel(run_id)
        for each in checkpoints.list_checkpoints():
            if is_server_of(run, each.folder):
                return {"url": str(request.app.url_path_for("show_checkpoint", key=each.key))}
        return {"url": f"/runs/{run_id}"}

    @routes.post("/servers/{run_id}/enter")
    def enter(run_id: str, _: EmptyBody, request: Request) -> JSONResponse:
        """Returns the URL of a server's talk page, with the access token if the server takes the dashboard's."""
        server = describe_server(_read_server_run(site, run_id), request.url.hostname or "")
        if not server.url:
            raise MissingError("That server is not ready.", "Wait until its page says so, or start it again.")
        url = server.url
        if site.serve_token is not None and server.takes_token:
            url = add_token(url, site.serve_token)
        return JSONResponse({"url": url}, headers={"Cache-Control": "no-store"})

    return routes


def _sort_checkpoints(checkpoints: Sequence[Checkpoint], column: str, *, is_descending: bool) -> list[Checkpoint]:
    """Returns checkpoints sorted by a column; those without a value are last in either direction."""
    of = COLUMNS[column][1]
    with_value = [each for each in checkpoints if each.facts is not None and of(each) is not None]
    rest = [each for each in checkpoints if each not in with_value]
    return [*sorted(with_value, key=of, reverse=is_descending), *rest]


def _find_digest(
    checkpoints: Checkpoints, checkpoint: Checkpoint, wait_s: float | None = None
) -> tuple[str | None, KameError | None]:
    """Returns the digest of a checkpoint's weights, or the error of computing it; both None while it is computed."""
    try:
        waits = {} if wait_s is None else {"wait_s": wait_s}
        return checkpoints.find_digest(checkpoint, **waits), None
    except KameError as error:
        return None, error


def _find_digests(
    checkpoints: Checkpoints, chosen: Sequence[Checkpoint], wait_s: float | None = None
) -> tuple[dict[str, str | None], bool]:
    """Returns the digests of checkpoints' weights by key, None if there is none, and whether any is being computed."""
    found = {each.key: _find_digest(checkpoints, each, wait_s) for each in chosen}
    return {key: digest for key, (digest, _) in found.items()}, (None, None) in found.values()


def _render_report(evaluation: Evaluation) -> Any:
    """Returns an evaluation's report as HTML; None if there is none."""
    text = read_markdown(evaluation.folder, _REPORT)

    def find_plot_address(name: str) -> str | None:
        """Returns the URL of a plot of the report; None for other pictures."""
        found = _PLOT.fullmatch(name)
        return f"/checkpoints/evaluations/{quote(evaluation.key, safe='')}/plots/{found[1]}" if found else None

    return None if text is None else render_markdown(text, find_plot_address)


def _format_compare_command(columns: Sequence[tuple[Checkpoint, Evaluation]]) -> str:
    """Returns the command line that compares evaluations item by item."""
    arguments = [shlex.quote(f"{checkpoint.key.replace('=', '-')}={each.folder}") for checkpoint, each in columns]
    return f"kame evaluate compare {' '.join(arguments)} --out comparison"


def _find_servers(
    site: Site, request: Request, folder: Path
) -> tuple[list[TalkServer], Run | None, SchedulerGoneError | None]:
    """Returns all active servers, the newest run of a checkpoint if it failed, and why the list is unavailable.

    Without a scheduler, the list is empty and there is no error.
    """
    if site.scheduler is None:
        return [], None, None
    try:
        servers = list_servers(site.scheduler, request.url.hostname or "")
        return servers, find_failed_server_run(site.scheduler, folder), None
    except SchedulerGoneError as error:
        return [], None, error


def _read_server_run(site: Site, run_id: str) -> Run:
    """Returns the run of a server.

    Raises:
        MissingError: there is no such run, or it is not a server.
    """
    run = site.get_scheduler().read_run(run_id)
    if run.kind != KIND:
        raise MissingError(f"The run {run.name!r} is not a server.", "Choose one from the list of runs.")
    return run
