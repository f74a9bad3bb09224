"""Every connection of the server: how many there may be, what each may send, how long each may keep it waiting.

A connection is before its entry until its web socket is accepted; one that only asks by HTTP stays so. Those have
places of their own. Where too many come, the oldest of them is closed: whoever asks as soon as it has connected, as
probes of `/healthz` do, is answered while all other places are taken by clients that say nothing.
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
"""Why the server closed a connection: no place for it · the place was given to a newer one · it did not ask, or was not
answered, in time · it read nothing for too long · too much waits to be read by it · it sent too much · its address
asked too often."""
REQUESTS_AT_ONCE_S = 4.0
"""Requests of an address that may come at once, as seconds of their rate: a page is loaded with all its files."""

_FEWEST = 8
"""A server with fewer places for connections is not worth starting."""
_CHECK_S = 0.2
_LONGER_LENGTHS = {126: 2, 127: 8}
"""Values of the 7-bit length that say how many bytes of a longer one follow."""
_MASK_BYTES = 4
_log = logging.getLogger(__name__)


class WsFrameCounter:
    """Counts a client's web socket frames by their headers alone (RFC 6455, 5.2), before any of them is parsed.

    Control frames are counted too; the bytes may be cut anywhere.
    """

    def __init__(self) -> None:
        self._head = b""  # of a frame whose header has not come whole
        self._n_payload = 0  # bytes of the last frame's payload that are still to come

    def count(self, data: bytes, most: float = float("inf")) -> int:
        """How many frames' headers end in the next bytes of the connection.

        Args:
            most: where there are more, one more is counted, and the rest is not looked at.
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
        abort: ends it now and gives its descriptor back, without waiting for the client.
        is_asking: it has asked, and is being answered.
        has_entered: its web socket has been accepted: from now on it is the session's own limits that end it.
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
        """Says that it can be written to; under TLS, that the handshake is over."""
        self._transport = transport
        self.abort = transport.abort
        transport.set_write_buffer_limits(self._limits.max_unwritten_bytes // 4)

    def take_bytes(self, data: bytes) -> bool:
        """Counts what the client has sent; False where it was too much, and the connection is closed."""
        return self._n_bytes.take(len(data)) or self._close("too_many_bytes")

    def take_frames(self, data: bytes) -> bool:
        """Counts what the client has sent over its web socket; False where it was too much, and it is closed."""
        n_frames = self._frames.count(data, self._n_frames.get_amount_left)
        return self.take_bytes(data) and (self._n_frames.take(n_frames) or self._close("too_many_frames"))

    def check_unwritten(self) -> None:
        """Closes it where more waits to be read by the client than may."""
        if self._transport is not None and self._transport.get_write_buffer_size() > self._limits.max_unwritten_bytes:
            self._close("unread")

    def answer(self) -> None:
        """Says that a request has been answered: it may ask the next one."""
        self.is_asking = False
        self._since_s = _get_time_s()

    def pause(self) -> None:
        """Says that the client does not read what waits for it."""
        if self._stuck_s is None:
            self._stuck_s = _get_time_s()

    def resume(self) -> None:
        """Says that it does again."""
        self._stuck_s = None

    def end(self) -> None:
        """Says that it is over."""
        self._home.forget(self)

    def check_time(self) -> None:
        """Closes it where it has kept the server waiting for too long."""
        if self._transport is not None and self._transport.is_closing():
            self.pause()  # what is left to be read is all that it waits for
        if self._stuck_s is not None and _get_time_s() - self._stuck_s > self._limits.write_timeout_s:
            self._close("write_timeout")
        elif not self.has_entered and _get_time_s() - self._since_s > self._limits.entry_timeout_s:
            self._close("entry_timeout")

    def _close(self, reason: Reason) -> bool:
        self._home.close(self, reason)
        return False


class Connections(Collector):
    """All connections of one server.

    Args:
        limits: how many there may be, and what each may do.
        counted_as: from a peer's address to what it is counted by; None: a trusted proxy, behind which are many.
        most: of all of them together; `find_most_connections` finds it.

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
        """Connections now."""
        return len(self._all)

    @property
    def n_before_entry(self) -> int:
        """Of them, those without a session."""
        return len(self._list_waiting())

    @property
    def may_enter(self) -> bool:
        """Whether there is room for one more web socket."""
        return len(self._all) - len(self._list_waiting()) < self._most - self._most_before_entry

    def open(self, peer: str) -> Connection | None:
        """A place for a client that has connected from an address; None: there is none, and none can be made."""
        address = self._counted_as(peer)
        if not self._make_room(address):
            self.n_closed["refused"] += 1
            return None
        connection = Connection(self, self._limits, address)
        self._all[connection] = None
        return connection

    def may_ask(self, peer: str) -> bool:
        """Whether an address has a request left; one that has none need not connect, which costs more than this."""
        address = self._counted_as(peer)
        if address is None or self._requests.get_amount_left(address) >= 1:
            return True
        self.n_closed["too_many_requests"] += 1
        return False

    def take_request(self, address: str | None) -> bool:
        """Counts a request of an address; False, and counted as closed, where it has asked too often."""
        if address is None or self._requests.take(address):
            return True
        self.n_closed["too_many_requests"] += 1
        return False

    def push_out_oldest(self) -> None:
        """Closes the oldest connection before its entry, if there is one: descriptors are wanted."""
        self._push_out(lambda _: True)

    def forget(self, connection: Connection) -> None:
        """Gives its place back."""
        self._all.pop(connection, None)

    def close(self, connection: Connection, reason: Reason) -> None:
        """Ends a connection now, and counts why."""
        self.n_closed[reason] += 1
        self.forget(connection)
        connection.abort()

    async def watch(self) -> None:
        """Closes those that keep the server waiting for too long, until it is cancelled."""
        while True:
            for connection in list(self._all):
                connection.check_time()
            await asyncio.sleep(_CHECK_S)

    def collect(self) -> Iterator[Metric]:
        """What `/metrics` tells of them."""
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
        return [each for each in self._all if not each.has_entered]

    def _make_room(self, address: str | None) -> bool:
        """Closes connections before their entry until there is room for one more; False where it cannot be had."""
        n_here = sum(each.address == address for each in self._all)
        is_full = address is not None and n_here >= self._limits.max_connections_per_address
        if is_full and not self._push_out(lambda each: each.address == address):
            return False
        before_entry = self._list_waiting()
        if len(before_entry) < self._most_before_entry and len(self._all) < self._most:
            return True
        counts = Counter(each.address for each in before_entry)
        crowded = max(counts, key=counts.__getitem__, default=None)
        return self._push_out(lambda each: each.address == crowded)

    def _push_out(self, is_meant: Callable[[Connection], bool]) -> bool:
        """Closes the oldest one before its entry that is meant, a silent one if there is any; False: there is none."""
        meant = filter(is_meant, self._list_waiting())
        oldest = min(meant, key=lambda each: each.is_asking, default=None)  # the first of equals
        if oldest is not None:
            self.close(oldest, "pushed_out")
        return oldest is not None


def find_most_connections(limits: LimitsConfig) -> int:
    """How many connections this process can hold: `limits.max_connections`, or fewer by its limit of descriptors.

    Raises:
        ConfigError: it can hold next to none.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return limits.max_connections
    n_open = sum(1 for _ in Path("/dev/fd").iterdir())
    n_left = most - n_open - limits.reserved_descriptors
    if n_left < _FEWEST:
        raise ConfigError(
            f"This process may have {most} files and connections open; {n_open} are, and limits.reserved_descriptors="
            f"{limits.reserved_descriptors} are kept for other things than callers, which leaves {max(0, n_left)}.",
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
