"""Access control of the dashboard: host names, cross-site requests, the access token, and content security policy."""

import hmac
import ipaddress
import re
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data_schemas.errors import KameError

MAX_BODY_BYTES = 65_536
"""Maximum size of a request body, in bytes."""
_TOO_LARGE = f"The request is larger than {MAX_BODY_BYTES} bytes.", "Shorten the form or the SQL text."
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
    ("Permissions-Policy", "microphone=(), camera=(), geolocation=()"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
_READS = ("GET", "HEAD")


class RefusedError(KameError):
    """A request was rejected.

    Args:
        code: the HTTP status.
    """

    def __init__(self, code: int, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy, str(code))
        self.code = code


class AccessMiddleware:
    """ASGI middleware for access control around the whole app.

    Reads are open to everyone who reaches the server under its own name: requests under another host name (DNS
    rebinding) are rejected. Requests that change something need the access token and must come from one of the
    dashboard's own pages.

    Args:
        token: access token for changes; with None, all requests that change something are rejected.
        host: address that the server listens on, which is also an allowed name.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str) -> None:
        self._app = app
        self._token = token
        self._hosts = {"localhost", host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rejects a request with its reason as JSON, or passes it on; adds security headers to either response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        nonce = secrets.token_urlsafe(16)
        request.state.nonce = nonce

        async def send_with_headers(message: Message) -> None:
            """Sends a message, after adding the security headers to the start of a response."""
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", [])))
                set_policy(headers, nonce)
                message["headers"] = headers.raw
            await send(message)

        try:
            self._check_access(request)
            body = await self._read_body(request, receive)
        except RefusedError as error:
            answer = JSONResponse({"error": error.what, "remedy": error.remedy}, error.code)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, body, send_with_headers)

    def _check_access(self, request: Request) -> None:
        """Checks the host name, and the origin and the token of a request that changes something.

        Raises:
            RefusedError: the request is not allowed.
        """
        host = request.headers.get("host", "")
        if not self._is_allowed_host(host):
            raise RefusedError(
                421,
                f"The host name {host!r} is not allowed.",
                "Use the IP address, or the name given with --host; a proxy must set the Host header to it.",
            )
        if request.method in _READS:
            return
        if not is_same_origin(request.headers):
            raise RefusedError(
                403, "Cross-site request: it comes from a page of another server.", "Use this server's own pages."
            )
        if self._token is None:
            raise RefusedError(
                403, "The dashboard is read-only.", "Start `kame dashboard` with --token-env to allow changes."
            )
        kind, _, shown = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), self._token.encode()):
            raise RefusedError(
                401, "The token is missing or wrong.", "Ask the person who started the dashboard for it."
            )

    def _is_allowed_host(self, host: str) -> bool:
        """Returns whether a `Host` header has an IP address or one of the names of this server."""
        name = _get_hostname(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    async def _read_body(self, request: Request, receive: Receive) -> Receive:
        """Reads the body of a request that may change something, and returns a `receive` function that repeats it.

        The body of a request that only reads is left unread.

        Raises:
            RefusedError: the body is too large.
        """
        promised = request.headers.get("content-length", "0")
        body, is_more = b"", request.method not in _READS
        if not re.fullmatch(r"\d{1,6}", promised) or int(promised) > MAX_BODY_BYTES:
            raise RefusedError(413, *_TOO_LARGE)
        while is_more:
            message = await receive()
            body += message.get("body", b"")
            is_more = message.get("more_body", False)
            if len(body) > MAX_BODY_BYTES:
                raise RefusedError(413, *_TOO_LARGE)
        is_delivered = False

        async def replay() -> Message:
            """Returns the whole body at the first call, and then what the server sends next."""
            nonlocal is_delivered
            if is_delivered or request.method in _READS:
                return await receive()
            is_delivered = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay


def set_policy(headers: MutableHeaders, nonce: str) -> None:
    """Sets the content security policy, other security headers and, if there is none, `Cache-Control: no-cache`.

    Args:
        nonce: nonce of the page's own styles.
    """
    headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
    for name, value in _HEADERS:
        headers[name] = value
    headers.setdefault("Cache-Control", "no-cache")


def is_same_origin(headers: Headers) -> bool:
    """Returns whether a request comes from a page of this server, or from a program, which sends no such headers.

    `Sec-Fetch-Site` cannot be set by pages and is correct behind proxies; if browsers omit it (plain HTTP), the page's
    origin must be the name by which this server was reached.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _get_hostname(host: str) -> str:
    """Returns the name in a `Host` header without its port; empty if the header is invalid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
