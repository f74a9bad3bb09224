"""The server's web: one ASGI app of the sockets, HTTP beside them, and the page."""

from pathlib import Path

from fastapi import FastAPI, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kame_model.serve.server import KameServer
from kame_model.serve.web.access import Denied, Door, notice_headers, tls_headers
from kame_model.serve.web.caller import Hall
from kame_model.serve.web.chat_socket import chat
from kame_model.serve.web.connections import Connections, most_connections
from kame_model.serve.web.control import ErrorBody, control_routes
from kame_model.serve.web.http_envelope import Envelope
from kame_model.serve.web.logs import be_discreet
from kame_model.serve.web.metrics import Metrics
from kame_model.serve.web.realtime import realtime

_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_long"}


def create_app(server: KameServer, page: Path | None = None) -> FastAPI:
    """The app around a server that has been started.

    Args:
        server: has the sessions.
        page: folder of the page to talk by, served at `/`; None: there is none.

    Returns:
        the app; its `state.connections` is what `WebServer` counts connections by.

    Raises:
        ConfigError: the token is set and empty, a trusted proxy has no address, or too few files may be open.
    """
    be_discreet()
    care, limits = server.config.care, server.config.limits
    door = Door(care, host=server.config.host)
    connections = Connections(limits, door.counted_as, most_connections(limits))
    hall = Hall(server, door, Metrics(server, connections))
    app = FastAPI(
        title="KAME",
        summary="Speak with a front-end. Sockets: /api/chat as Moshi has it, /v1/realtime as OpenAI has it.",
        docs_url=None,  # their pages fetch scripts from elsewhere
        redoc_url=None,
        responses={413: {"model": ErrorBody}},
    )
    app.state.connections = connections
    _tell_errors_in_one_form(app, hall)
    app.include_router(control_routes(hall))

    async def moshi_socket(socket: WebSocket) -> None:
        await chat(hall, socket)

    async def realtime_socket(socket: WebSocket) -> None:
        await realtime(hall, socket)

    async def no_socket(socket: WebSocket) -> None:
        await hall.refuse(socket, Denied(404, "not_found", "There is no socket of this name."))

    app.add_api_websocket_route("/api/chat", moshi_socket)
    app.add_api_websocket_route("/v1/realtime", realtime_socket)
    app.add_api_websocket_route("/{path:path}", no_socket)  # or the page's files would be asked for one
    if care.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=care.origins,
            allow_methods=["GET", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Envelope, headers=[*notice_headers(care.notice), *tls_headers(care)])
    if page is not None:
        app.mount("/", StaticFiles(directory=page, html=True))
    return app


def _tell_errors_in_one_form(app: FastAPI, hall: Hall) -> None:
    async def denied(_: Request, error: Exception) -> Response:
        assert isinstance(error, Denied)
        hall.metrics.n_denied[error.code] += 1
        return error.response()

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"])
        return Denied(422, "invalid", f"{where}: {first['msg']}").response()

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _CODES.get(error.status_code, f"http_{error.status_code}")
        answer = Denied(error.status_code, code, str(error.detail)).response()
        answer.headers.update(error.headers or {})
        return answer

    app.add_exception_handler(Denied, denied)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
