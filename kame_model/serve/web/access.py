"""Who comes in: the token, the page's origin, the caller's address; and how somebody who does not is told."""

import hmac
import ipaddress
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from data_schemas.config.serving import CareConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.server import Refused

NOTICE_HEADER = "Kame-Notice"
"""Says that the speech is a machine's; text beyond ASCII is percent-encoded UTF-8."""
REALTIME_PROTOCOL = "realtime"
"""Subprotocol of OpenAI's realtime socket."""
KEY_PROTOCOL = "openai-insecure-api-key."
"""A page cannot set headers: OpenAI's browser clients put the key behind this, among the subprotocols."""
WRONG_AT_ONCE, WRONG_EVERY_S = 10, 5.0
"""Wrong tokens that one address may show at once, and after how many seconds it may show another one."""
MAX_TOKENS = 2
"""Different tokens that one request may show: one in a header or subprotocol, and one in the query."""
MAX_ADDRESSES = 4096
"""Addresses of which wrong tokens are remembered; the one that showed its last the longest ago is forgotten first."""
_RETRY_AFTER_S = 5
_STATUS = {"too_many_sessions": 429, "too_many_starts": 429}


class Denied(Exception):
    """A request or a caller that is not let in.

    Attributes:
        status: of the HTTP answer.
        code: one word for programs.
        message: a sentence for people.
        retry_after_s: where later may help (429, 503), how much later, seconds.
    """

    def __init__(self, status: int, code: str, message: str, retry_after_s: int = _RETRY_AFTER_S) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s

    @classmethod
    def because(cls, error: Refused | ConfigError | BackendError) -> "Denied":
        """What the server's own refusal is over HTTP: 503 where later may help, 429 where the caller asks too much."""
        if isinstance(error, Refused):
            return cls(_STATUS.get(error.reason, 503), error.reason, error.detail)
        if isinstance(error, ConfigError):
            return cls(400, "not_possible", str(error))
        return cls(503, "backend", "The server's recogniser does not work.")  # the error's text is the operator's

    def response(self) -> JSONResponse:
        """The answer, with `error.code` and `error.message`."""
        headers = {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        elif self.status in (429, 503):
            headers["Retry-After"] = str(self.retry_after_s)
        return JSONResponse({"error": {"code": self.code, "message": self.message}}, self.status, headers)


class WrongTokens:
    """How often each address has shown a wrong token of late, in constant memory.

    Args:
        clock_s: seconds, never going back.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._clear_s: OrderedDict[str, float] = OrderedDict()  # when nothing is left of what an address has shown

    @property
    def n_addresses(self) -> int:
        """Addresses that are remembered."""
        return len(self._clear_s)

    def wait_s(self, address: str, n_tokens: int = 1) -> float:
        """How long it must wait until it may show so many more, seconds; 0: it need not."""
        left_s = self._clear_s.get(address, 0.0) - self._clock_s()
        return max(0.0, left_s - (WRONG_AT_ONCE - n_tokens) * WRONG_EVERY_S)

    def add(self, address: str, n_tokens: int) -> None:
        """It has shown so many."""
        now_s = self._clock_s()
        clear_s = max(now_s, self._clear_s.pop(address, now_s)) + n_tokens * WRONG_EVERY_S
        self._clear_s[address] = min(clear_s, now_s + WRONG_AT_ONCE * WRONG_EVERY_S)
        if len(self._clear_s) > MAX_ADDRESSES:
            self._clear_s.popitem(last=False)


class Door:
    """Looks at everyone who comes.

    Args:
        care: who may.
        environ: where the tokens are.
        host: where the server listens; callers may call it so.
        wrong: counts wrong tokens of those who would come in.
        wrong_for_metrics: counts those shown for the figures, apart: who watches the server locks no caller out.

    Raises:
        ConfigError: a token is set and empty, or a proxy's address is none.
    """

    def __init__(
        self,
        care: CareConfig,
        environ: Mapping[str, str] = os.environ,
        host: str = "localhost",
        wrong: WrongTokens | None = None,
        wrong_for_metrics: WrongTokens | None = None,
    ) -> None:
        self._wrong = WrongTokens() if wrong is None else wrong
        self._wrong_for_metrics = WrongTokens() if wrong_for_metrics is None else wrong_for_metrics
        self._token = _token(environ, care.token_env, "let everybody in")
        metrics_token = _token(environ, care.metrics_token_env, "have the token to enter open /metrics")
        self._metrics_token = self._token if metrics_token is None else metrics_token
        self._origins = frozenset(origin.rstrip("/").lower() for origin in care.origins)
        self._hosts = frozenset(_hostname(each) for each in (*care.hosts, host, "localhost"))
        try:
            self._proxies = [ipaddress.ip_network(each, strict=False) for each in care.trusted_proxies]
        except ValueError as error:
            raise ConfigError(f"care.trusted_proxies: {error}.", "Give addresses or networks as 10.0.0.0/8.") from error

    @property
    def needs_token(self) -> bool:
        """Whether callers need one."""
        return self._token is not None

    def check(self, connection: HTTPConnection) -> None:
        """Lets a connection in, or not.

        Raises:
            Denied: 421 for a name that is not this server's, 403 for a page of another origin, 401 without the token,
                400 for too many tokens, none of which is then looked at, 429 for an address that has shown wrong ones:
                then none of its tokens is looked at for some seconds.
        """
        self._check(connection, self._token, self._wrong)

    def check_metrics(self, connection: HTTPConnection) -> None:
        """Lets a connection have the figures, or not; raises as `check` does."""
        self._check(connection, self._metrics_token, self._wrong_for_metrics)

    def _check(self, connection: HTTPConnection, token: bytes | None, wrong: WrongTokens) -> None:
        self.check_host(connection)
        if not self._may_connect(connection):
            raise Denied(
                403, "origin", "Pages of this origin may not connect; the server's care.origins lists those that may."
            )
        if token is None:
            return
        shown, address = _tokens(connection), self.address_of(connection)
        if len(shown) > MAX_TOKENS:
            raise Denied(400, "too_many_tokens", f"A request shows {MAX_TOKENS} different tokens at most.")
        wait_s = wrong.wait_s(address, len(shown)) if shown else 0.0
        if wait_s > 0:
            message = f"Wrong tokens came from your address; none is looked at for {math.ceil(wait_s)} s."
            raise Denied(429, "wrong_tokens", message, math.ceil(wait_s))
        if not any(hmac.compare_digest(token, each) for each in shown):
            if shown:
                wrong.add(address, len(shown))
            raise Denied(401, "token", "A token is needed: Authorization: Bearer TOKEN.")

    def check_host(self, connection: HTTPConnection) -> None:
        """Asks by which name a connection came.

        A page may have its own name lead to this server (DNS rebinding), and would be of the server's own origin then:
        by an address or a name of ours it cannot come. Where the origins are listed, names do not decide.

        Raises:
            Denied: 421 for any other name.
        """
        host = connection.headers.get("host")
        if host is None or self._origins or "*" in self._hosts:  # whoever sends no name is no browser
            return
        name = _hostname(host)
        if name not in self._hosts and not _is_address(name):
            raise Denied(421, "host", "This server is not called so; its care.hosts lists the names it has.")

    def address_of(self, connection: HTTPConnection) -> str:
        """Where the caller is: the nearest hop of X-Forwarded-For that is no trusted proxy, or the connection's end.

        Of IPv6 it is the network of 64 bits, which is what one customer has at the least (RFC 6177): by single
        addresses one machine would be as many callers as it likes.
        """
        end = "unknown" if connection.client is None else connection.client.host
        address = _plain(end) or end
        hops = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
        while hops and self._is_proxy(address):
            hop = _plain(hops.pop())
            if not hop:
                break
            address = hop
        return _customer(address)

    def counted_as(self, end: str) -> str | None:
        """What a connection is counted by, as `address_of` counts callers; None: a trusted proxy, for many come by it.

        Args:
            end: address of the connection's other end.
        """
        address = _plain(end) or end
        return None if self._is_proxy(address) else _customer(address)

    def _may_connect(self, connection: HTTPConnection) -> bool:
        """Whether no page sent it, or one that may.

        Browsers name no origin for what a page embeds (an image, a script); that another site's page asks they say over
        TLS and to this machine (W3C, Fetch Metadata Request Headers, 2.3).
        """
        origin = connection.headers.get("origin")
        if "*" in self._origins:
            return True
        if origin is None:
            return connection.headers.get("sec-fetch-site") != "cross-site"
        if self._origins:
            return origin.lower() in self._origins
        return _is_own(origin, connection.headers.get("host", ""))

    def _is_proxy(self, address: str) -> bool:
        try:
            place = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(place in network for network in self._proxies)


def notice_headers(notice: str) -> Sequence[tuple[str, str]]:
    """The header that says what speaks, if anything is to be said."""
    text = " ".join(notice.split())
    return [(NOTICE_HEADER, text if text.isascii() and text.isprintable() else quote(text))] if text else []


def _token(environ: Mapping[str, str], name: str, otherwise: str) -> bytes | None:
    """The token in a variable; None where it is unset.

    Raises:
        ConfigError: it is set and empty.
    """
    token = environ.get(name)
    if token is not None and not token.strip():
        raise ConfigError(f"{name} is set and empty.", f"Unset it to {otherwise}, or put a token there.")
    return None if token is None else token.strip().encode()


def tls_headers(care: CareConfig) -> Sequence[tuple[str, str]]:
    """The header by which browsers come by TLS alone from now on (RFC 6797), where the server itself has TLS."""
    if care.certificate is None or not care.hsts_s:
        return []
    return [("Strict-Transport-Security", f"max-age={care.hsts_s}")]


def chosen_protocol(connection: HTTPConnection) -> str | None:
    """The subprotocol to answer with, where the client offers the realtime one."""
    return REALTIME_PROTOCOL if REALTIME_PROTOCOL in _protocols(connection) else None


def _tokens(connection: HTTPConnection) -> list[bytes]:
    """Every different token that a connection shows."""
    kind, _, value = connection.headers.get("authorization", "").partition(" ")
    shown = [value.strip()] if kind.lower() == "bearer" else []
    shown += connection.query_params.getlist("token")
    shown += [each.removeprefix(KEY_PROTOCOL) for each in _protocols(connection) if each.startswith(KEY_PROTOCOL)]
    return [each.encode(errors="surrogateescape") for each in dict.fromkeys(shown) if each]


def _protocols(connection: HTTPConnection) -> list[str]:
    return [each.strip() for each in connection.headers.get("sec-websocket-protocol", "").split(",")]


def _is_own(origin: str, host: str) -> bool:
    """Whether a page comes from this server: same host and port; behind a proxy the scheme may be another."""
    try:
        page = urlsplit(origin)
        port = page.port or {"http": 80, "https": 443}.get(page.scheme)
        own = urlsplit(f"//{host}")
        return page.hostname is not None and page.hostname == own.hostname and port == (own.port or port)
    except ValueError:
        return False


def _hostname(host: str) -> str:
    """A name or address without its port, brackets and last dot, in small letters; empty where there is none."""
    if host.count(":") > 1 and not host.startswith("["):  # an IPv6 address as people configure it
        return host.lower()
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _customer(address: str) -> str:
    """What limits count by: an IPv4 address, or the /64 of an IPv6 one."""
    if not _is_address(address) or ipaddress.ip_address(address).version == 4:
        return address
    return str(ipaddress.ip_network((int(ipaddress.IPv6Address(address)), 64), strict=False))


def _plain(hop: str) -> str:
    """An address without its port; an IPv4 one that came over IPv6 as IPv4; empty where it is none."""
    hop = hop.strip()
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    try:
        address = ipaddress.ip_address(hop)
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
