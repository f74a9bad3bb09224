"""The server's web app: one ASGI app for the web sockets, HTTP beside them, and the page.

All answers have common headers, all errors one form; long bodies are rejected, and uvicorn's logs contain no token.
"""

import logging
import re
from functools import partial
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data_schemas.config.serving import CareConfig
from kame_model.serve.processes.shared_counts import SharedCounts
from kame_model.serve.processes.siblings import COUNT_IF_UNKNOWN
from kame_model.serve.server import KameServer
from kame_model.serve.web.access import AccessControl, Denied
from kame_model.serve.web.client_websocket import ConnectionManager
from kame_model.serve.web.connections import Connections, find_most_connections
from kame_model.serve.web.control import ErrorBody, create_control_routes
from kame_model.serve.web.metrics import Metrics
from kame_model.serve.web.moshi_websocket import serve_moshi
from kame_model.serve.web.realtime_websocket import serve_realtime

MAX_BODY_BYTES = 65_536
"""No request to this server is longer."""
_ANSWERS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
_HOST = re.compile(r"[A-Za-z0-9._-]+(?::\d+)?|\[[0-9A-Fa-f:.]+\](?::\d+)?")
"""A name or an address, with or without a port: nothing that could end a directive and begin another."""
_POLICY = (
    # Worklets and the page's own audio are blobs.
    "default-src 'self'; connect-src {connect}; media-src 'self' blob:; worker-src 'self' blob:; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE_PAGE = (
    ("Permissions-Policy", "microphone=(self), camera=(), geolocation=()"),
    ("Referrer-Policy", "no-referrer"),  # a token may be in the page's address
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-cache"),
)
_TOKEN = re.compile(r"(\btoken=)[^&\s\"']+")
_CLIENTS_FAULT = "Invalid UTF-8 sequence received from client."
"""uvicorn 0.54 logs it with a traceback of its own lines (protocols/websockets/websockets_sansio_impl.py)."""
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_long"}


def create_app(server: KameServer, page: Path | None = None, counts: SharedCounts | None = None) -> FastAPI:
    """Creates the app of a started server, and keeps tokens out of uvicorn's logs from now on.

    Args:
        server: has the sessions.
        page: folder of the web client, served at `/`, or None.
        counts: shared by all processes of the server, or None if there is one.

    Returns:
        the app; `WebServer` counts connections by its `state.connections`.

    Raises:
        ConfigError: the token is set but empty, a trusted proxy's address is invalid, or too few files may be open.
    """
    keep_tokens_out_of_logs()
    care, limits = server.config.care, server.config.limits
    access = AccessControl(care, host=server.config.host, counts=counts)
    connections = Connections(limits, access.get_counted_address, find_most_connections(limits))
    manager = ConnectionManager(server, access, Metrics(server, connections))
    app = FastAPI(
        title="KAME",
        summary="Speak with a front-end. Web sockets: /api/chat (Moshi's protocol), /v1/realtime (OpenAI's).",
        docs_url=None,  # their pages fetch scripts from elsewhere
        redoc_url=None,
        responses={413: {"model": ErrorBody}},
    )
    app.state.connections = connections
    _add_error_handlers(app, manager.metrics)
    app.include_router(create_control_routes(manager))

    async def reject_socket(socket: WebSocket) -> None:
        await manager.refuse(socket, Denied(404, "not_found", "There is no web socket at this path."))

    app.add_api_websocket_route("/api/chat", partial(serve_moshi, manager))
    app.add_api_websocket_route("/v1/realtime", partial(serve_realtime, manager))
    app.add_api_websocket_route("/{path:path}", reject_socket)  # or the static files would be searched for it
    if care.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=care.origins,
            allow_methods=["GET", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(AnswerMiddleware, headers=make_common_headers(care))
    if page is not None:
        app.mount("/", StaticFiles(directory=page, html=True))
    return app


def make_common_headers(care: CareConfig) -> list[tuple[str, str]]:
    """Returns the headers of every answer: the configured notice, and HSTS if the server itself does TLS.

    Text beyond ASCII is percent-encoded UTF-8; HSTS (RFC 6797) makes browsers use only TLS from now on.
    """
    headers = []
    if notice := " ".join(care.notice.split()):
        headers.append(("Kame-Notice", notice if notice.isascii() and notice.isprintable() else quote(notice)))
    if care.certificate is not None and care.hsts_s:
        headers.append(("Strict-Transport-Security", f"max-age={care.hsts_s}"))
    return headers


class _LogFilter(logging.Filter):
    """Removes tokens, and tracebacks of client errors, from log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Passes every record, without tokens, and a client's invalid UTF-8 as a warning without a traceback."""
        if record.msg == _CLIENTS_FAULT:
            record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
        if isinstance(record.args, tuple):
            record.args = tuple(_TOKEN.sub(r"\1...", each) if isinstance(each, str) else each for each in record.args)
        return True


_LOG_FILTER = _LogFilter()


def keep_tokens_out_of_logs() -> None:
    """Removes tokens, and tracebacks of client errors, from uvicorn's logs from now on."""
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).addFilter(_LOG_FILTER)


class AnswerMiddleware:
    """ASGI middleware around the whole app: adds headers to every answer, also of sockets, and limits bodies."""

    def __init__(self, app: ASGIApp, headers: list[tuple[str, str]]) -> None:
        self._app = app
        self._headers = {"websocket": headers, "http": (*_SAFE_PAGE, *headers)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request or socket to the app, limits its body, and adds the headers to its answer."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            """Sends a message of the app, with the headers if it starts an answer."""
            if message["type"] in _ANSWERS:
                headers = MutableHeaders(raw=list(message.get("headers", [])))
                if scope["type"] == "http":
                    headers["Content-Security-Policy"] = _make_policy(Headers(scope=scope).get("host", ""))
                for name, value in self._headers[scope["type"]]:
                    headers[name] = value
                message["headers"] = headers.raw
            await send(message)

        await self._app(scope, _limit_body(scope, receive) if scope["type"] == "http" else receive, send_with_headers)


def _make_policy(host: str) -> str:
    """Returns the content security policy of our page: it may connect only to this server, by the name it used.

    The web sockets are listed, since not every browser includes those of "self" in 'self'.
    """
    own = f"'self' ws://{host} wss://{host}" if _HOST.fullmatch(host) else "'self'"
    return _POLICY.format(connect=own)


def _limit_body(scope: Scope, receive: Receive) -> Receive:
    """Returns a `receive` that raises an HTTPException (413) if the body is too long.

    If the headers announce a length that is too long, it raises before the body is read.
    """
    promised = Headers(scope=scope).get("content-length", "")
    n_promised = int(promised) if promised.isdecimal() else 0
    n_read = 0

    async def receive_limited() -> Message:
        """Receives the next part of the body, or raises 413 if the body is too long."""
        nonlocal n_read
        message: Message = {} if n_promised > MAX_BODY_BYTES else await receive()
        n_read += len(message.get("body", b""))
        if max(n_read, n_promised) > MAX_BODY_BYTES:
            raise HTTPException(413, f"A request may have at most {MAX_BODY_BYTES} bytes.")
        return message

    return receive_limited


def _add_error_handlers(app: FastAPI, metrics: Metrics) -> None:
    """Adds handlers that answer the app's exceptions in the one form of errors (`ErrorBody`).

    They are Denied, which is also counted, invalid requests (422), and HTTP errors.
    """

    async def handle_denied(request: Request, error: Exception) -> Response:
        assert isinstance(error, Denied)
        counts = request.scope.get(COUNT_IF_UNKNOWN)
        if counts is not None and error.status == 404:  # another process may have the session
            counts.append(partial(metrics.n_denied.update, [error.code]))
        else:
            metrics.n_denied[error.code] += 1
        return error.make_response()

    async def handle_invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"])
        return Denied(422, "invalid", f"{where}: {first['msg']}").make_response()

    async def handle_http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _CODES.get(error.status_code, f"http_{error.status_code}")
        answer = Denied(error.status_code, code, str(error.detail)).make_response()
        answer.headers.update(error.headers or {})
        return answer

    app.add_exception_handler(Denied, handle_denied)
    app.add_exception_handler(RequestValidationError, handle_invalid)
    app.add_exception_handler(HTTPException, handle_http_error)
