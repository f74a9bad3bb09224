"""Access control: access tokens, page origins, host names, callers' addresses, consent, and denied access."""

import hashlib
import hmac
import ipaddress
import math
import os
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from data_schemas.config.serving import CareConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.device.admission import Refused
from kame_model.serve.processes.shared_counts import SharedAllowance, SharedCounts
from kame_model.serve.web.rate_limits import RateLimiter

REALTIME_PROTOCOL = "realtime"
"""Subprotocol of OpenAI's realtime socket."""
KEY_PROTOCOL = "openai-insecure-api-key."
"""Prefix of the API key among the subprotocols, which OpenAI's browser clients use as a page cannot set headers."""
WRONG_AT_ONCE, WRONG_EVERY_S = 10, 5.0
"""Wrong access tokens that one address may show at once, and the seconds until it may show another one."""
MAX_TOKENS = 2
"""Different access tokens that one request may show: one in a header or subprotocol, and one in the query."""
_RETRY_AFTER_S = 5
_IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_STATUS = {"too_many_sessions": 429, "too_many_starts": 429}


class Denied(Exception):
    """A request or a caller is denied access.

    Attributes:
        status: of the HTTP answer.
        code: one word for programs.
        message: a sentence for people.
        retry_after_s: when a retry may succeed (429, 503), seconds.
    """

    def __init__(self, status: int, code: str, message: str, retry_after_s: int = _RETRY_AFTER_S) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after_s = status, code, message, retry_after_s

    @classmethod
    def from_error(cls, error: Refused | ConfigError | BackendError) -> "Denied":
        """Converts an error of the server: a refusal becomes 429 if the caller exceeds a limit, otherwise 503;
        ConfigError becomes 400, BackendError 503 without its text.
        """
        if isinstance(error, Refused):
            return cls(_STATUS.get(error.reason, 503), error.reason, error.detail)
        if isinstance(error, ConfigError):
            return cls(400, "not_possible", str(error))
        return cls(503, "backend", "The server's recogniser does not work.")  # its text is for the operator only

    def make_response(self) -> JSONResponse:
        """Returns the HTTP answer: JSON with `error.code` and `error.message`, and Retry-After with 429 and 503."""
        headers = {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        elif self.status in (429, 503):
            headers["Retry-After"] = str(self.retry_after_s)
        return JSONResponse({"error": {"code": self.code, "message": self.message}}, self.status, headers)


class AccessControl:
    """Decides by access token, origin, host name and address who may connect.

    Args:
        care: the rules.
        environ: the environment variables with the tokens.
        host: the address where the server listens, which is also a valid host name.
        clock_s: a monotonic clock for the rate limit of wrong tokens, seconds.
        counts: counts wrong tokens for all processes of the server; None: it has one process.

    Raises:
        ConfigError: a token is set but empty, or a proxy's address is invalid.
    """

    def __init__(
        self,
        care: CareConfig,
        environ: Mapping[str, str] = os.environ,
        host: str = "localhost",
        clock_s: Callable[[], float] = time.monotonic,
        counts: SharedCounts | None = None,
    ) -> None:
        # Wrong tokens for metrics are counted separately, so that whoever monitors the server locks no caller out.
        self._wrong, self._wrong_for_metrics = (
            RateLimiter(1 / WRONG_EVERY_S, WRONG_AT_ONCE, clock_s)
            if counts is None
            else counts.make_allowance(name, 1 / WRONG_EVERY_S, WRONG_AT_ONCE, clock_s)
            for name in ("wrong_tokens", "wrong_tokens_for_metrics")
        )
        self._token = _read_token(environ, care.token_env, "admit everybody")
        metrics_token = _read_token(environ, care.metrics_token_env, "protect /metrics with the access token")
        self._metrics_token = self._token if metrics_token is None else metrics_token
        self._origins = frozenset(origin.rstrip("/").lower() for origin in care.origins)
        self._hosts = frozenset(_read_hostname(each) for each in (*care.hosts, host, "localhost"))
        try:
            self._proxies = [ipaddress.ip_network(each, strict=False) for each in care.trusted_proxies]
        except ValueError as error:
            raise ConfigError(f"care.trusted_proxies: {error}.", "Give addresses or networks as 10.0.0.0/8.") from error

    @property
    def needs_token(self) -> bool:
        """Whether callers need an access token."""
        return self._token is not None

    def check(self, connection: HTTPConnection) -> None:
        """Checks host name, page's origin and access token of a connection; wrong tokens count for its address.

        Raises:
            Denied: 421 for a host name that is not this server's, 403 for a page of another origin, 401 without a valid
                token, 400 for too many tokens, none of which is then checked, 429 for an address that has shown wrong
                ones: none of its tokens is then checked for some seconds.
        """
        self._check(connection, self._token, self._wrong)

    def check_metrics(self, connection: HTTPConnection) -> None:
        """Checks like `check` whether a connection may read the metrics, with the metrics token if there is one."""
        self._check(connection, self._metrics_token, self._wrong_for_metrics)

    def check_host(self, connection: HTTPConnection) -> None:
        """Checks the host name by which a connection came.

        A page may make its own name lead to this server (DNS rebinding), and would then share the server's origin; it
        cannot come by an IP address or by one of our names. A request without a Host header passes, because browsers
        always send one. Names are not checked if the allowed origins are listed or `care.hosts` contains `*`.

        Raises:
            Denied: 421 for any other name.
        """
        host = connection.headers.get("host")
        if host is None or self._origins or "*" in self._hosts:
            return
        name = _read_hostname(host)
        if name not in self._hosts and _read_ip_address(name) is None:
            raise Denied(421, "host", "This server does not answer to this host name; add it to its care.hosts.")

    def find_address(self, connection: HTTPConnection) -> str:
        """Returns the caller's address: the nearest hop of X-Forwarded-For that is no trusted proxy, or the peer
        ("unknown" without one).

        For IPv6 it is the network of 64 bits, the least that one customer has (RFC 6177): with single addresses one
        machine would be as many callers as it likes.
        """
        end = "unknown" if connection.client is None else connection.client.host
        address = _read_ip_address(end)
        hops = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
        while hops and self._is_proxy(address):
            hop = _read_ip_address(hops.pop())
            if hop is None:
                break
            address = hop
        return end if address is None else _get_customer_network(address)

    def get_counted_address(self, peer: str) -> str | None:
        """Returns the address by which a peer's connections are counted, in the form of `find_address`.

        None for a trusted proxy, which many callers share.
        """
        address = _read_ip_address(peer)
        if self._is_proxy(address):
            return None
        return peer if address is None else _get_customer_network(address)

    def _check(self, connection: HTTPConnection, token: bytes | None, wrong: RateLimiter | SharedAllowance) -> None:
        """Checks host, origin, and the token unless that is None; raises as `check` does, and counts in `wrong`."""
        self.check_host(connection)
        if not self._has_allowed_origin(connection):
            raise Denied(
                403, "origin", "Pages of this origin may not connect; the server's care.origins lists those that may."
            )
        if token is None:
            return
        shown, address = _find_tokens(connection), self.find_address(connection)
        if len(shown) > MAX_TOKENS:
            raise Denied(400, "too_many_tokens", f"A request may contain at most {MAX_TOKENS} different tokens.")
        n_lacking = len(shown) - wrong.get_amount_left(address) if shown else 0.0
        if n_lacking > 0:
            wait_s = math.ceil(n_lacking * WRONG_EVERY_S)
            message = f"Wrong tokens came from your address; tokens are not checked for {wait_s} s."
            raise Denied(429, "wrong_tokens", message, wait_s)
        if not any(hmac.compare_digest(token, each) for each in shown):
            if shown:
                wrong.take(address, len(shown))
            raise Denied(401, "token", "A token is needed: Authorization: Bearer TOKEN.")

    def _has_allowed_origin(self, connection: HTTPConnection) -> bool:
        """Returns whether the connection comes from no page, or from an allowed one.

        Browsers send no origin for what a page embeds (an image, a script); over TLS and to this machine they do say
        that the page is of another site (W3C, Fetch Metadata Request Headers, 2.3).
        """
        origin = connection.headers.get("origin")
        if "*" in self._origins:
            return True
        if origin is None:
            return connection.headers.get("sec-fetch-site") != "cross-site"
        if self._origins:
            return origin.lower() in self._origins
        return _is_same_origin(origin, connection.headers.get("host", ""))

    def _is_proxy(self, address: _IpAddress | None) -> bool:
        return address is not None and any(address in network for network in self._proxies)


def make_consent_word(notice: str) -> str:
    """Returns the word that a caller sends to agree to be recorded (`record=`); only readers of the notice know it.

    It is derived from the notice alone: nobody has agreed to a changed notice.
    """
    return hashlib.sha256(notice.encode()).hexdigest()[:32]


def _read_token(environ: Mapping[str, str], name: str, otherwise: str) -> bytes | None:
    """Returns the access token in an environment variable, without spaces around it, or None if the variable is unset.

    Args:
        otherwise: what the server does without the token, for the error message.

    Raises:
        ConfigError: it is set but empty.
    """
    token = environ.get(name)
    if token is not None and not token.strip():
        raise ConfigError(f"{name} is set but empty.", f"Unset it to {otherwise}, or set it to an access token.")
    return None if token is None else token.strip().encode()


def choose_protocol(connection: HTTPConnection) -> str | None:
    """Returns the subprotocol to answer with: the realtime one if the client offers it, otherwise None."""
    return REALTIME_PROTOCOL if REALTIME_PROTOCOL in _read_protocols(connection) else None


def _find_tokens(connection: HTTPConnection) -> list[bytes]:
    """Returns the different access tokens in a connection's Authorization header, query and subprotocols."""
    kind, _, value = connection.headers.get("authorization", "").partition(" ")
    shown = [value.strip()] if kind.lower() == "bearer" else []
    shown += connection.query_params.getlist("token")
    shown += [each.removeprefix(KEY_PROTOCOL) for each in _read_protocols(connection) if each.startswith(KEY_PROTOCOL)]
    return [each.encode(errors="surrogateescape") for each in dict.fromkeys(shown) if each]


def _read_protocols(connection: HTTPConnection) -> list[str]:
    """Returns the subprotocols that a web socket's client offers; [""] if it offers none."""
    return [each.strip() for each in connection.headers.get("sec-websocket-protocol", "").split(",")]


def _is_same_origin(origin: str, host: str) -> bool:
    """Returns whether a page comes from this server: same host and port; behind a proxy the scheme may differ. A Host
    header without a port matches every port.
    """
    try:
        page = urlsplit(origin)
        port = page.port or {"http": 80, "https": 443}.get(page.scheme)
        own = urlsplit(f"//{host}")
        return page.hostname is not None and page.hostname == own.hostname and port == (own.port or port)
    except ValueError:
        return False


def _read_hostname(host: str) -> str:
    """Returns a name or address without port, brackets and last dot, in lower case; empty if there is none."""
    if host.count(":") > 1 and not host.startswith("["):  # an IPv6 address as people configure it
        return host.lower()
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _read_ip_address(text: str) -> _IpAddress | None:
    """Parses an IP address with or without a port; one of IPv4 over IPv6 becomes IPv4. None if it is invalid."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _get_customer_network(address: _IpAddress) -> str:
    """Returns the address or network by which limits count: an IPv4 address, or the /64 network of an IPv6 one."""
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((int(address), 64), strict=False))
