"""Who may do what: names by which the server is called, pages that may post, the token, and what a page may load."""

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
"""No request says more."""
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
    """A request that is not let in.

    Args:
        code: the HTTP status.
    """

    def __init__(self, code: int, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy, str(code))
        self.code = code


class AccessMiddleware:
    """ASGI middleware around the whole app.

    Reads are open to whoever reaches the server under its own name: a page from elsewhere whose name leads here (DNS
    rebinding) is refused. Whatever changes something needs the token and comes from a page of ours.

    Args:
        token: None: nothing can be changed.
        host: where the server listens; it may be called so.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str) -> None:
        self._app = app
        self._token = token
        self._hosts = {"localhost", host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        nonce = secrets.token_urlsafe(16)
        request.state.nonce = nonce

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", [])))
                set_policy(headers, nonce)
                message["headers"] = headers.raw
            await send(message)

        try:
            self._check(request)
            body = await self._read_body(request, receive)
        except RefusedError as error:
            answer = JSONResponse({"error": error.what, "remedy": error.remedy}, error.code)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, body, send_with_headers)

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            raise RefusedError(
                421,
                f"This server is not called {host!r}.",
                "Reach it by its address, or by the name given with --host; a proxy passes the address on as Host.",
            )
        if request.method in _READS:
            return
        if not is_same_origin(request.headers):
            raise RefusedError(403, "The request comes from a page of another server.", "Use this server's own pages.")
        if self._token is None:
            raise RefusedError(
                403, "Nothing can be changed here.", "Start `kame dashboard` with --token-env to allow it."
            )
        kind, _, shown = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), self._token.encode()):
            raise RefusedError(401, "The token is missing or wrong.", "Ask whoever started the dashboard for it.")

    def _is_ours(self, host: str) -> bool:
        name = _get_hostname(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    async def _read_body(self, request: Request, receive: Receive) -> Receive:
        """The request's body, read as a whole."""
        promised = request.headers.get("content-length", "0")
        body, is_more = b"", request.method not in _READS
        if not re.fullmatch(r"\d{1,6}", promised) or int(promised) > MAX_BODY_BYTES:
            raise RefusedError(413, f"A request may have {MAX_BODY_BYTES} bytes.", "Send less at once.")
        while is_more:
            message = await receive()
            body += message.get("body", b"")
            is_more = message.get("more_body", False)
            if len(body) > MAX_BODY_BYTES:
                raise RefusedError(413, f"A request may have {MAX_BODY_BYTES} bytes.", "Send less at once.")
        is_told = False

        async def replay() -> Message:
            nonlocal is_told
            if is_told or request.method in _READS:
                return await receive()
            is_told = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay


def set_policy(headers: MutableHeaders, nonce: str) -> None:
    """Says in an answer's headers what its page may load and do.

    Args:
        nonce: what the page's own styles carry.
    """
    headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
    for name, value in _HEADERS:
        headers[name] = value
    headers.setdefault("Cache-Control", "no-cache")


def is_same_origin(headers: Headers) -> bool:
    """Whether a browser says that a page of this server asks; a program, which says nothing, is no page.

    `Sec-Fetch-Site` cannot be set by pages and holds behind proxies; where browsers leave it out (plain HTTP), the
    page's origin must be the name by which this server was reached.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _get_hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
