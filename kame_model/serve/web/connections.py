"""Connection limits: how many connections there may be, what each may send, and its timeouts.

A connection is *before entry* until its web socket is accepted; one that only makes HTTP requests stays so. Those have
places of their own. If too many come, the oldest of them is closed: a client that asks as soon as it has connected, as
probes of `/healthz` do, is answered even while silent clients take all other places.
"""

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from data_schemas.config.serving import LimitsConfig
from data_schemas.errors import ConfigError
from kame_model.serve.web.rate_limits import MESSAGES_AT_ONCE_S, Allowance, RateLimiter

Reason = Literal[
    "refused",
    "pushed_out",
    "entry_timeout",
    "write_timeout",
    "unread",
    "too_many_bytes",
    "too_many_frames",
    "too_many_requests",
]
"""Why the server closed a connection: no place for it · its place was given to a newer one · it sent no request, or got
no answer, in time · it read nothing for too long · too much unread data · it sent too much · its address asked too
often.
"""
REQUESTS_AT_ONCE_S = 4.0
"""Burst of requests of an address, as seconds of their rate: a page is loaded with all its files."""

_FEWEST = 8
"""A server with fewer places for connections is not started."""
_CHECK_S = 0.2
_LONGER_LENGTHS = {126: 2, 127: 8}
"""Values of the 7-bit length after which a longer length of so many bytes follows."""
_MASK_BYTES = 4
_log = logging.getLogger(__name__)


class WsFrameCounter:
    """Counts a client's web socket frames by their headers alone (RFC 6455, 5.2), before any of them is parsed.

    Control frames count, too; the bytes may be split anywhere.
    """

    def __init__(self) -> None:
        self._head = b""  # of a frame whose header is incomplete
        self._n_payload = 0  # remaining bytes of the last frame's payload

    def count(self, data: bytes, most: float = float("inf")) -> int:
        """Returns the number of frames whose headers end in the next bytes of the connection.

        Args:
            most: if there are more, one more is counted, and the rest is not parsed.
        """
        data, at, n_frames = self._head + data, self._n_payload, 0
        while n_frames <= most:
            if at + 2 > len(data):
                break
            length = data[at + 1] & 0x7F
            n_longer = _LONGER_LENGTHS.get(length, 0)
            end = at + 2 + n_longer + (_MASK_BYTES if data[at + 1] & 0x80 else 0)
            if end > len(data):
                break
            n_frames += 1
            at = end + (int.from_bytes(data[at + 2 : at + 2 + n_longer]) if n_longer else length)
        self._head, self._n_payload = data[at:], max(0, at - len(data))
        return n_frames


class Connection:
    """One client's connection, from its acceptance to its end.

    Attributes:
        address: what it is counted by; None: a trusted proxy's.
        abort: ends it now and releases its descriptor, without waiting for the client.
        is_asking: whether a request of it is being answered.
        has_entered: whether its web socket has been accepted, so that only the session's own limits apply.
    """

    def __init__(self, home: "Connections", limits: LimitsConfig, address: str | None) -> None:
        self.address = address
        self.abort: Callable[[], object] = lambda: None
        self.is_asking = self.has_entered = False
        self._home, self._limits = home, limits
        self._transport: asyncio.Transport | None = None
        self._since_s = _get_time_s()
        self._stuck_s: float | None = None
        excess, frames_per_s = limits.max_excess, limits.max_excess * limits.max_messages_per_s
        self._n_bytes = Allowance(excess * limits.max_bytes_per_s, excess * limits.max_burst_bytes)
        self._n_frames = Allowance(frames_per_s, MESSAGES_AT_ONCE_S * frames_per_s)
        self._frames = WsFrameCounter()

    def open(self, transport: asyncio.Transport) -> None:
        """Sets the transport, when it can be written to (with TLS after the handshake), and limits its buffer."""
        self._transport = transport
        self.abort = transport.abort
        transport.set_write_buffer_limits(self._limits.max_unwritten_bytes // 4)

    def take_bytes(self, data: bytes) -> bool:
        """Counts received bytes; returns False, and closes the connection, if they are too many."""
        return self._n_bytes.take(len(data)) or self._close("too_many_bytes")

    def take_frames(self, data: bytes) -> bool:
        """Counts bytes and frames received over the web socket; returns False, and closes it, if they are too many."""
        n_frames = self._frames.count(data, self._n_frames.amount_left)
        return self.take_bytes(data) and (self._n_frames.take(n_frames) or self._close("too_many_frames"))

    def check_unwritten(self) -> None:
        """Closes the connection if the client has too much unread data."""
        if self._transport is not None and self._transport.get_write_buffer_size() > self._limits.max_unwritten_bytes:
            self._close("unread")

    def answer(self) -> None:
        """Records that a request has been answered: the client may send the next one."""
        self.is_asking = False
        self._since_s = _get_time_s()

    def pause(self) -> None:
        """Records that the client does not read its data."""
        if self._stuck_s is None:
            self._stuck_s = _get_time_s()

    def resume(self) -> None:
        """Records that it reads again."""
        self._stuck_s = None

    def end(self) -> None:
        """Records the end of the connection, which releases its place."""
        self._home.forget(self)

    def check_time(self) -> None:
        """Closes the connection after a timeout: the client reads nothing, or before its entry sends no request, or
        gets no answer.
        """
        if self._transport is not None and self._transport.is_closing():
            self.pause()  # it waits only for data to be read
        if self._stuck_s is not None and _get_time_s() - self._stuck_s > self._limits.write_timeout_s:
            self._close("write_timeout")
        elif not self.has_entered and _get_time_s() - self._since_s > self._limits.entry_timeout_s:
            self._close("entry_timeout")

    def _close(self, reason: Reason) -> bool:
        """Closes the connection; always returns False."""
        self._home.close(self, reason)
        return False


class Connections(Collector):
    """All connections of one server.

    Args:
        limits: how many there may be, and what each may do.
        counted_as: maps a peer's address to what it is counted by; None: a trusted proxy, which many share.
        most: the maximum of all together, from `find_most_connections`.

    Attributes:
        n_closed: those that the server closed or refused, by reason.
    """

    def __init__(self, limits: LimitsConfig, counted_as: Callable[[str], str | None], most: int) -> None:
        self.n_closed: Counter[Reason] = Counter()
        self._limits, self._counted_as, self._most = limits, counted_as, most
        self._most_before_entry = min(limits.max_connections_before_entry, most // 2)
        self._all: dict[Connection, None] = {}  # the oldest first
        self._requests = RateLimiter(limits.max_requests_per_s, REQUESTS_AT_ONCE_S * limits.max_requests_per_s)

    @property
    def n_now(self) -> int:
        """The number of connections."""
        return len(self._all)

    @property
    def n_before_entry(self) -> int:
        """The number of connections whose web socket has not been accepted, which include all for HTTP alone."""
        return len(self._list_waiting())

    @property
    def may_enter(self) -> bool:
        """Whether there is room for one more web socket."""
        return len(self._all) - len(self._list_waiting()) < self._most - self._most_before_entry

    def open(self, peer: str) -> Connection | None:
        """Returns a new connection of a client at an address; if all places are taken, an older one is closed for it.
        Returns None, and counts a refusal, if none can be.
        """
        address = self._counted_as(peer)
        if not self._make_room(address):
            self.n_closed["refused"] += 1
            return None
        connection = Connection(self, self._limits, address)
        self._all[connection] = None
        return connection

    def may_ask(self, peer: str) -> bool:
        """Returns whether a peer has a request left, without using it up; if not, counts that in `n_closed`.

        It is called before a client is connected, because connecting one costs more.
        """
        address = self._counted_as(peer)
        if address is None or self._requests.get_amount_left(address) >= 1:
            return True
        self.n_closed["too_many_requests"] += 1
        return False

    def take_request(self, address: str | None) -> bool:
        """Uses up a request of an address; returns False, and counts it in `n_closed`, if none is left. A trusted proxy
        (None) has no limit.
        """
        if address is None or self._requests.take(address):
            return True
        self.n_closed["too_many_requests"] += 1
        return False

    def close_oldest(self) -> None:
        """Closes the oldest connection before its entry, if possible one that is not asking, to free a descriptor."""
        self._close_oldest_of(lambda _: True)

    def forget(self, connection: Connection) -> None:
        """Releases the place of a connection that has ended."""
        self._all.pop(connection, None)

    def close(self, connection: Connection, reason: Reason) -> None:
        """Ends a connection now, and counts the reason."""
        self.n_closed[reason] += 1
        self.forget(connection)
        connection.abort()

    async def watch(self) -> None:
        """Closes connections that exceed a timeout, until it is cancelled."""
        while True:
            for connection in list(self._all):
                connection.check_time()
            await asyncio.sleep(_CHECK_S)

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of the connections."""
        now = GaugeMetricFamily("kame_connections", "Connections now.", labels=["state"])
        n_before_entry = len(self._list_waiting())
        now.add_metric(["before_entry"], n_before_entry)
        now.add_metric(["entered"], len(self._all) - n_before_entry)
        yield now
        closed = CounterMetricFamily("kame_connections_closed", "Connections closed by the server.", labels=["reason"])
        for reason, n in sorted(self.n_closed.items()):
            closed.add_metric([reason], n)
        yield closed

    def _list_waiting(self) -> list[Connection]:
        """Returns the connections before entry, the oldest first."""
        return [each for each in self._all if not each.has_entered]

    def _make_room(self, address: str | None) -> bool:
        """Makes room for one more connection by closing older ones before their entry: one of the same address if that
        has too many, one of the address with the most if the server is full. Returns False if there are none to close.
        """
        n_here = sum(each.address == address for each in self._all)
        is_full = address is not None and n_here >= self._limits.max_connections_per_address
        if is_full and not self._close_oldest_of(lambda each: each.address == address):
            return False
        before_entry = self._list_waiting()
        if len(before_entry) < self._most_before_entry and len(self._all) < self._most:
            return True
        counts = Counter(each.address for each in before_entry)
        crowded = max(counts, key=counts.__getitem__, default=None)
        return self._close_oldest_of(lambda each: each.address == crowded)

    def _close_oldest_of(self, is_meant: Callable[[Connection], bool]) -> bool:
        """Closes the oldest matching connection before its entry, one that is not asking if possible.

        Returns False if there is none.
        """
        meant = filter(is_meant, self._list_waiting())
        oldest = min(meant, key=lambda each: each.is_asking, default=None)  # the first of equals
        if oldest is not None:
            self.close(oldest, "pushed_out")
        return oldest is not None


def find_most_connections(limits: LimitsConfig) -> int:
    """Returns how many connections this process can hold: `limits.max_connections`, or fewer by `ulimit -n`, with a
    warning.

    Raises:
        ConfigError: it can hold almost none.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return limits.max_connections
    n_open = sum(1 for _ in Path("/dev/fd").iterdir())
    n_left = most - n_open - limits.reserved_descriptors
    if n_left < _FEWEST:
        raise ConfigError(
            f"This process may have {most} files and connections open; {n_open} are, and limits.reserved_descriptors="
            f"{limits.reserved_descriptors} are reserved for other uses, which leaves {max(0, n_left)}.",
            "Raise the limit (`ulimit -n 4096`), or lower limits.reserved_descriptors.",
        )
    if n_left < limits.max_connections:
        _log.warning(
            "There can be %d connections in place of limits.max_connections=%d: this process may have %d files and "
            "connections open (`ulimit -n`).",
            n_left,
            limits.max_connections,
            most,
        )
    return min(n_left, limits.max_connections)


def _get_time_s() -> float:
    return asyncio.get_running_loop().time()
