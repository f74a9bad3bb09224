"""What every answer and every request has in common: headers that are always there, bodies that are never long."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 65_536
"""No request to this server says more."""
_ANSWERS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
_HOST = re.compile(r"[A-Za-z0-9._-]+(?::\d+)?|\[[0-9A-Fa-f:.]+\](?::\d+)?")
"""A name or an address, with a port or without: nothing that could end a directive and begin another."""
_POLICY = (
    # Worklets and sound made by the page are blobs.
    "default-src 'self'; connect-src {connect}; media-src 'self' blob:; worker-src 'self' blob:; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE_PAGE = (
    ("Permissions-Policy", "microphone=(self), camera=(), geolocation=()"),
    ("Referrer-Policy", "no-referrer"),  # a token may be in the page's address
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-cache"),
)


class Envelope:
    """ASGI middleware around the whole app.

    Args:
        app: what answers.
        headers: put on every answer, sockets included.
    """

    def __init__(self, app: ASGIApp, headers: Sequence[tuple[str, str]]) -> None:
        self._app = app
        self._headers = {"websocket": headers, "http": (*_SAFE_PAGE, *headers)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request or socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] in _ANSWERS:
                headers = MutableHeaders(raw=list(message.get("headers", [])))
                if scope["type"] == "http":
                    headers["Content-Security-Policy"] = _policy(Headers(scope=scope).get("host", ""))
                for name, value in self._headers[scope["type"]]:
                    headers[name] = value
                message["headers"] = headers.raw
            await send(message)

        await self._app(scope, _limited(scope, receive) if scope["type"] == "http" else receive, send_with_headers)


def _policy(host: str) -> str:
    """What a page of ours may do; it connects to this server alone, by the name it has reached it.

    Its sockets are named, for not every browser counts those of "self" to 'self'.
    """
    own = f"'self' ws://{host} wss://{host}" if _HOST.fullmatch(host) else "'self'"
    return _POLICY.format(connect=own)


def _limited(scope: Scope, receive: Receive) -> Receive:
    """A request's body, refused when it is too long; where the headers say so, before any of it is read."""
    promised = Headers(scope=scope).get("content-length", "")
    n_promised = int(promised) if promised.isdecimal() else 0
    n_read = 0

    async def limited() -> Message:
        nonlocal n_read
        message: Message = {} if n_promised > MAX_BODY_BYTES else await receive()
        n_read += len(message.get("body", b""))
        if max(n_read, n_promised) > MAX_BODY_BYTES:
            raise HTTPException(413, f"A request may have {MAX_BODY_BYTES} bytes.")
        return message

    return limited
