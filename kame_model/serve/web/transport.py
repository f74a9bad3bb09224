"""uvicorn with connection limits: connections are counted before TLS, and their data before it is parsed.

uvicorn 0.54 itself answers pings and collects fragments of messages, buffers without limit what clients do not read,
and waits for handshakes without a timeout. Here its protocols (`h11_impl`, `websockets_sansio_impl`) report to
`Connections`, which closes connections that exceed a limit.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from data_schemas.config.serving import ServeConfig
from kame_model.serve.web.accepting import accept_clients
from kame_model.serve.web.access import Denied
from kame_model.serve.web.connections import Connection, Connections

MAX_LINE_BYTES = 8000
"""Longest URL and longest header of a web socket's request: the parser of websockets takes 8,192 in a line, with the
rest of it, and does not answer longer ones. RFC 9110, 4.1 asks for at least 8,000.
"""
MAX_HEADERS = 128
"""The same parser takes no more headers."""
MAX_HEAD_BYTES = 16_384
"""Limit of an incomplete request head; h11's own default."""
_FULL = Denied(503, "too_many_connections", "Too many connections are open; try again later.")
_TOO_FAST = Denied(429, "too_many_requests", "Your address sends too many requests; try again later.", retry_after_s=1)
_UNREADABLE = Denied(400, "unreadable", "This is not a valid web socket request.")
_LONG_HEADERS = Denied(431, "headers_too_long", f"The headers are too long: {MAX_LINE_BYTES} bytes each are allowed.")
_LONG_ADDRESS = Denied(
    414,
    "address_too_long",
    f"The URL is too long: {MAX_LINE_BYTES} bytes are allowed. Send a long prompt in the first message.",
)
_log = logging.getLogger(__name__)


class _ReportingProtocol(asyncio.Protocol):
    """Base of both of uvicorn's protocols here: reports the connection's state to its `Connection`."""

    connection: Connection

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            super().connection_lost(exc)
        finally:
            self.connection.end()

    def pause_writing(self) -> None:
        self.connection.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume()
        super().resume_writing()


class _Requests(h11.Connection):
    """Parses the HTTP of one connection, until a request is rejected.

    Args:
        may_ask: called for each request as soon as its head has been read.
    """

    def __init__(self, may_ask: Callable[[], bool]) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self._may_ask = may_ask

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns the next part of a request, or NEED_DATA for a rejected one."""
        event = super().next_event()
        return h11.NEED_DATA if isinstance(event, h11.Request) and not self._may_ask() else event


class _HttpProtocol(_ReportingProtocol, H11Protocol):
    """HTTP of one connection, until it becomes a web socket."""

    def __init__(
        self, connection: Connection, connections: Connections, config: uvicorn.Config, state: ServerState, app: Any
    ) -> None:
        super().__init__(config=config, server_state=state, app_state=app)
        self.connection, self._connections = connection, connections
        self.conn = _Requests(self._may_ask)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in H11Protocol
        self.connection.open(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parses the client's data, unless it exceeds the limit of bytes, which closes the connection."""
        if self.connection.take_bytes(data):
            super().data_received(data)
            self.connection.is_asking = self.cycle is not None and not self.cycle.response_complete

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Passes the connection on to `_WebSocketProtocol`, or refuses it: too many, or too long a head."""
        denied = None if self._connections.may_enter else _FULL
        if any(len(name) + len(value) > MAX_LINE_BYTES for name, value in event.headers) or (
            len(event.headers) > MAX_HEADERS
        ):
            denied = _LONG_HEADERS
        if len(event.target) > MAX_LINE_BYTES:
            denied = _LONG_ADDRESS
        if denied is not None:
            _refuse(self.transport, denied)
            return
        self.ws_protocol_class = cast(type[asyncio.Protocol], partial(_WebSocketProtocol, self.connection))
        super().handle_websocket_upgrade(event)

    def _may_ask(self) -> bool:
        """Counts a request of this address; returns False, and answers 429, if there were too many."""
        may = self._connections.take_request(self.connection.address)
        if not may:
            _refuse(self.transport, _TOO_FAST)
        return may

    def send_400_response(self, msg: str) -> None:
        """Answers an invalid request: 414 or 431 if its head is too long, otherwise 400. It counts as a request."""
        self._connections.take_request(self.connection.address)  # this connection is closed anyhow
        unread, _ = self.conn.trailing_data
        if len(unread) > MAX_HEAD_BYTES:
            _refuse(self.transport, _LONG_HEADERS if b"\n" in unread else _LONG_ADDRESS)
        else:
            super().send_400_response(msg)

    def on_response_complete(self) -> None:
        self.connection.answer()
        super().on_response_complete()


class _WebSocketProtocol(_ReportingProtocol, WebSocketsSansIOProtocol):
    """The web socket of one connection."""

    def __init__(self, connection: Connection, **given: Any) -> None:
        super().__init__(**given)
        self.connection = connection

    def data_received(self, data: bytes) -> None:
        """Parses the request's head, whose errors are answered with 400, and then frames, until they exceed a limit,
        which closes the connection.
        """
        if self.handshake_initiated:
            if self.connection.take_frames(data):
                super().data_received(data)
                self.connection.check_unwritten()
            return
        super().data_received(data)  # the request's head, which `_HttpProtocol` has read
        if not self.handshake_initiated:
            _refuse(self.transport, _UNREADABLE)

    async def send(self, message: Any) -> None:
        """Sends a message of the app, and records when it accepts the web socket or has refused it."""
        await super().send(message)
        if message["type"] == "websocket.accept":
            self.connection.has_entered = True
        elif message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # otherwise uvicorn logs an error, as if nothing had been answered


class WebServer(uvicorn.Server):
    """A uvicorn server that limits its connections, leaves signals to its caller, and reports when it has started.

    Args:
        app: from `create_app`.
        config: of the server.
        closing_s: how long connections may take to close when it ends, seconds.

    Attributes:
        has_started: set when clients can connect.
    """

    def __init__(self, app: FastAPI, config: ServeConfig, closing_s: int = 5) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                ws="websockets-sansio",
                ws_max_size=config.limits.max_message_bytes,
                ws_per_message_deflate=False,  # audio is not compressible
                proxy_headers=False,  # the app decides by care.trusted_proxies
                server_header=False,
                timeout_graceful_shutdown=closing_s,
                ssl_certfile=config.care.certificate,
                ssl_keyfile=config.care.private_key,
            )
        )
        self.has_started = asyncio.Event()
        self._limits = config.limits
        self._connections: Connections = app.state.connections
        self._work: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the app, listens at the sockets, and sets `has_started`."""
        await super().startup([])  # uvicorn itself does not listen
        accept = partial(
            accept_clients, take=self.take, backlog=self.config.backlog, give_way=self._connections.close_oldest
        )
        for work in (self._connections.watch(), *map(accept, sockets or [])):
            task = asyncio.create_task(work)
            task.add_done_callback(self._on_work_done)
            self._keep_task(task)
        self.has_started.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening, and ends open connections."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures no signals."""
        yield

    def take(self, accepted: socket.socket) -> None:
        """Serves a client that has connected, or refuses it (429, 503); the socket is closed at its end."""
        try:
            peer = str(accepted.getpeername()[0])
            accepted.setblocking(False)
        except OSError:  # it has gone already
            accepted.close()
            return
        if not self._connections.may_ask(peer):
            self._refuse(accepted, _TOO_FAST)
        elif (connection := self._connections.open(peer)) is None:
            self._refuse(accepted, _FULL)
        else:
            self._connect(accepted, connection)

    def _refuse(self, accepted: socket.socket, denied: Denied) -> None:
        """Closes a client that gets no place, with an HTTP answer unless the server uses TLS."""
        with accepted, suppress(OSError):
            if self.config.ssl is None:
                accepted.send(_encode_response(denied))

    def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        """Starts a task that passes a client on to uvicorn. Its connection ends if that fails or takes too long."""

        def on_done(task: "asyncio.Task[None]") -> None:
            """Ends the connection if the task was cancelled or failed; only errors of our own code are logged."""
            error = None if task.cancelled() else task.exception()
            if error is None and not task.cancelled():
                return
            accepted.close()  # by a timeout, or by the client in its handshake
            connection.end()
            if error is not None and not isinstance(error, OSError):  # TLS and timeouts raise these, too
                _log.error("A client could not connect because of an internal error.", exc_info=error)

        task = asyncio.create_task(self._hand_over(accepted, connection))
        connection.abort = task.cancel
        task.add_done_callback(on_done)
        self._keep_task(task)

    async def _hand_over(self, accepted: socket.socket, connection: Connection) -> None:
        """Passes a client's socket to uvicorn's protocol, and waits for the handshake if the server uses TLS."""
        config, limits = self.config, self._limits
        http = partial(_HttpProtocol, connection, self._connections, config, self.server_state, self.lifespan.state)
        await asyncio.get_running_loop().connect_accepted_socket(
            http,
            accepted,
            ssl=config.ssl,
            ssl_handshake_timeout=None if config.ssl is None else limits.entry_timeout_s,
            ssl_shutdown_timeout=None if config.ssl is None else limits.write_timeout_s,
        )

    def _on_work_done(self, task: "asyncio.Task[None]") -> None:
        """Stops the server if a background task has failed."""
        if not task.cancelled() and task.exception() is not None:
            _log.critical("The server has stopped listening because of an internal error.", exc_info=task.exception())
            self.should_exit = True

    def _keep_task(self, task: "asyncio.Task[None]") -> None:
        """Keeps a reference to a task until it is done, so that it is not garbage-collected."""
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _refuse(transport: asyncio.Transport, denied: Denied) -> None:
    """Answers a request that the app does not see, and closes its connection."""
    transport.write(_encode_response(denied))
    transport.close()


def _encode_response(denied: Denied) -> bytes:
    """Returns the bytes of a complete HTTP response that closes the connection."""
    response = denied.make_response()
    status = f"HTTP/1.1 {denied.status} {HTTPStatus(denied.status).phrase}".encode()
    headers = [name + b": " + value for name, value in (*response.raw_headers, (b"connection", b"close"))]
    return b"\r\n".join([status, *headers, b"", bytes(response.body)])
