"""The web application: pages for datasets, runs, training and checkpoints.

In datasets it writes only `flags.jsonl`; the scheduler executes runs.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dashboard.access import AccessMiddleware, RefusedError, set_policy
from dashboard.catalog import Catalog, MissingError
from dashboard.checkpoints import CheckpointReader, Checkpoints
from dashboard.figures import (
    format_age,
    format_bytes,
    format_duration,
    format_figure,
    format_moment,
    format_number,
    format_yaml,
)
from dashboard.index import IndexBeingMade, Indexes
from dashboard.limits import RunLimits
from dashboard.pages import checkpoints as checkpoint_pages
from dashboard.pages import compare, datasets, dialogue, rejects, runs, sql, start, tables, training
from dashboard.query import format_range
from dashboard.results import QueryError, SqlBox
from dashboard.runs import RefusedRunError, RunScheduler, SchedulerGoneError
from dashboard.site import Site
from dashboard.sounds import AudioCache
from dashboard.token_rows import TokenRows
from data_schemas.errors import ConfigError, KameError

_HERE = Path(__file__).parent


def create_app(
    roots: Sequence[Path],
    cache: Path,
    token: str | None = None,
    host: str = "localhost",
    scheduler: RunScheduler | None = None,
    token_rows: TokenRows | None = None,
    checkpoints: CheckpointReader | None = None,
    serve_token: str | None = None,
    allowed_hosts: Sequence[str] = (),
) -> FastAPI:
    """Creates the web application for some folders.

    `app.state.end_streams()` ends its event streams, for which a shutdown of the server would wait.

    Args:
        roots: datasets, or folders that are searched two levels deep for them.
        cache: folder of indexes and digests; its content can be deleted at any time.
        token: access token for changes; with None, nothing can be changed.
        host: name by which it is reached, besides IP addresses and localhost.
        scheduler: lists and starts runs; with None, the pages of runs describe how to get one.
        token_rows: finds and reads token rows; with None, pages show none.
        checkpoints: reads checkpoints and evaluations; with None, there are no pages for them.
        serve_token: access token of servers that are started here; pages pass it to users who have `token`.
        allowed_hosts: hosts that runs of the forms may contact besides this machine (`dashboard.limits.RunLimits`).

    Raises:
        ConfigError: a root is not a folder, the token is empty, or an allowed host is not the name of one.
    """
    if token is not None and not token.strip():
        raise ConfigError("The dashboard's token is empty.", "Set that environment variable to a secret.")
    catalog = Catalog(roots)
    site = Site(
        catalog,
        Indexes(cache),
        AudioCache(),
        SqlBox(),
        _make_templates(),
        token is not None,
        scheduler=scheduler,
        token_rows=token_rows,
        checkpoints=None if checkpoints is None else Checkpoints(catalog.roots, checkpoints, cache / "weights"),
        limits=RunLimits(allowed_hosts),
        serve_token=serve_token,
    )
    site.templates.globals["has_checkpoints"] = site.checkpoints is not None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        """Closes the indexes when the application ends."""
        yield
        await run_in_threadpool(site.indexes.close)

    app = FastAPI(title="KAME dashboard", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.end_streams = site.is_ending.set

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        """Health check, with the version."""
        return {"status": "ok", "version": version("kame-pipeline")}

    for page in (datasets, tables, rejects, dialogue, compare, sql, training, runs, start):
        app.include_router(page.create_routes(site))
    if site.checkpoints is not None:
        app.include_router(checkpoint_pages.create_routes(site, site.checkpoints))
    app.mount("/static", StaticFiles(directory=_HERE / "static"))
    _add_error_handlers(app, site)
    app.add_middleware(AccessMiddleware, token=token, host=host)
    return app


def _make_templates() -> Environment:
    """Makes the environment of the page templates, with filters that format numbers, sizes and times."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["range_text"] = format_range
    formats = {"duration": format_duration, "bytes": format_bytes, "moment": format_moment, "yaml": format_yaml}
    made.filters |= {"number": format_number, "figure": format_figure, "age": format_age, **formats}
    return made


def _add_error_handlers(app: FastAPI, site: Site) -> None:
    """Adds handlers that show errors as pages to browsers and as JSON to scripts, each with what to do."""

    async def answer_ours(code: int, request: Request, error: Exception) -> Response:
        """Answers an error of this project with a status, its message and its remedy."""
        assert isinstance(error, KameError)
        return _make_error_response(site, request, code, error.what, error.remedy)

    async def answer_http(request: Request, error: Exception) -> Response:
        """Answers an HTTP error of the framework, such as an unknown page, with its status."""
        assert isinstance(error, HTTPException)
        remedy = "Start from the list of datasets."
        if error.status_code == 405:
            remedy = f"Use {(error.headers or {}).get('Allow', 'another method')}."
        return _make_error_response(site, request, error.status_code, f"{error.detail}.", remedy, error.headers)

    async def answer_invalid(request: Request, error: Exception) -> Response:
        """Answers a request with an invalid parameter or body with status 422, naming the first one."""
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
        return _make_error_response(site, request, 422, what, "Correct that value in the address or in the request.")

    async def answer_waiting(request: Request, error: Exception) -> Response:
        """Answers while an index is built: a page that reloads itself (202), or for scripts status 503."""
        assert isinstance(error, IndexBeingMade)
        if _wants_page(request):
            page = site.render(request, "indexing.html", n_done=error.n_done, n_files=error.n_files)
            return HTMLResponse(page.body, 202, {"Refresh": "1", "Cache-Control": "no-store"})
        return JSONResponse({"error": f"{error}.", "remedy": "Ask again."}, 503, {"Retry-After": "1"})

    async def answer_refused(request: Request, error: Exception) -> Response:
        """Answers a rejected request with the status of its error."""
        assert isinstance(error, RefusedError)
        return await answer_ours(error.code, request, error)

    async def answer_unforeseen(request: Request, error: Exception) -> Response:
        """Answers an error that nothing else handles with status 500, as a page or as JSON."""
        remedy = "Try again. The log of the dashboard has the whole error."
        answer = _make_error_response(
            site, request, 500, f"The dashboard failed to answer: {type(error).__name__}.", remedy
        )
        set_policy(answer.headers, request.state.nonce)  # it is sent outside of the middleware that does so
        return answer

    app.add_exception_handler(RefusedError, answer_refused)
    codes = {MissingError: 404, ConfigError: 400, QueryError: 400, RefusedRunError: 400, SchedulerGoneError: 503}
    for kind, code in {**codes, KameError: 500}.items():
        app.add_exception_handler(kind, partial(answer_ours, code))
    app.add_exception_handler(Exception, answer_unforeseen)
    app.add_exception_handler(HTTPException, answer_http)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(IndexBeingMade, answer_waiting)


def _wants_page(request: Request) -> bool:
    """Returns whether a request accepts HTML, as those of browsers do."""
    return "text/html" in request.headers.get("accept", "")


def _make_error_response(
    site: Site, request: Request, code: int, what: str, remedy: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Makes the response to a failed request: a page for browsers, JSON for scripts."""
    what = what.encode(errors="replace").decode()  # it may quote half a character, which cannot be sent
    content: dict[str, Any] = {"error": what, "remedy": remedy}
    if not _wants_page(request):
        return JSONResponse(content, code, dict(headers or {}))
    page = site.render(request, "error.html", code=code, what=what, remedy=remedy)
    return HTMLResponse(page.body, code, dict(headers or {}))
