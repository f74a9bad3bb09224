"""Load balancing and failover over several servers of one chat model: which is asked next, and which are paused.

They are one endpoint: cache, fingerprints, price and budget know only its name; which server answered is not recorded.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from backends.chat.faults import TryAgainError
from backends.fault_log import extract_host

FIRST_LEFT_OUT_S, LONGEST_LEFT_OUT_S = 2.0, 60.0
"""How long a failed server gets no requests, seconds; doubled each time it fails again without an answer."""
_log = logging.getLogger(__name__)


def _get_time_s() -> float:
    """Returns the time of the running event loop's clock."""
    return asyncio.get_running_loop().time()


@dataclass(eq=False, slots=True)
class EndpointServer:
    """One of an endpoint's servers.

    Attributes:
        url: base URL.
        n_asked: open requests.
        n_begun: requests that it has received so far.
        n_failed: how often it has failed since it last answered.
        left_out_s: when it was last paused, and until when it gets no requests, by the event loop's clock.
    """

    url: str
    n_asked: int = 0
    n_begun: int = 0
    n_failed: int = 0
    left_out_s: tuple[float, float] = (0.0, 0.0)


class EndpointServers:
    """Balances requests by each server's number of open requests.

    A failed server is paused for a while and then gets one request, which shows whether it answers again. If all are
    paused, the one whose pause ends first is used, so that the caller learns that none answers. Belongs to an endpoint,
    and outlives its consecutive clients and event loops.

    Args:
        urls: base URLs, at least one; a single server is never paused.
        clock_s: a monotonic clock, seconds.
    """

    def __init__(self, urls: Sequence[str], clock_s: Callable[[], float] = _get_time_s) -> None:
        self.all = [EndpointServer(url) for url in urls]
        self._clock_s = clock_s

    def choose(self, tried: Collection[EndpointServer] = ()) -> EndpointServer:
        """Returns the server for the next attempt: the one with the fewest open requests that is not paused.

        If all are paused, it is the one whose pause ends first.

        Args:
            tried: servers that have failed this request; not all.
        """
        now_s = self._clock_s()
        left = [each for each in self.all if each not in tried]
        able = [each for each in left if not each.n_failed or (each.left_out_s[1] <= now_s and not each.n_asked)]
        if able:
            return min(able, key=lambda each: (each.n_asked, each.n_begun))
        return min(left, key=lambda each: (each.left_out_s[1], each.n_asked))

    @contextmanager
    def track_request(self, server: EndpointServer) -> Iterator[None]:
        """Counts an open request to the server for the duration of the block, and records an answer or `TryAgainError`.

        Other errors are not recorded.
        """
        begun_s = self._clock_s()
        server.n_asked += 1
        server.n_begun += 1
        try:
            yield
        except TryAgainError as fault:
            self._record_fault(server, fault, begun_s)
            raise
        else:
            self._record_answer(server)
        finally:
            server.n_asked -= 1

    def may_ask_another(self, fault: TryAgainError, tried: Collection[EndpointServer]) -> bool:
        """Returns whether a failed request may be sent to another server at once.

        It may if the server has not worked on it, and not all servers are in `tried`.
        """
        is_untouched = not fault.may_be_paid and (fault.endpoint_gone or fault.overloaded)
        return is_untouched and len(tried) < len(self.all)

    def _record_answer(self, server: EndpointServer) -> None:
        """Ends the pauses of a server that has answered; logs it if it had failed before."""
        if server.n_failed:
            _log.warning("The chat server at %s answers again.", extract_host(server.url))
        server.n_failed = 0

    def _record_fault(self, server: EndpointServer, fault: TryAgainError, begun_s: float) -> None:
        """Pauses a server after a fault that concerns it; all requests that it had together count as one failure.

        A server without others is never paused.
        """
        is_known = begun_s < server.left_out_s[0] and server.n_failed
        if len(self.all) == 1 or is_known or not _is_of_server(fault):
            return
        now_s = self._clock_s()
        server.n_failed += 1
        left_out_s = min(LONGEST_LEFT_OUT_S, FIRST_LEFT_OUT_S * 2 ** (server.n_failed - 1))
        left_out_s = max(left_out_s, fault.retry_after_s)
        server.left_out_s = (now_s, now_s + left_out_s)
        _log.warning(
            "The chat server at %s gets no requests for %g s: %s.",
            extract_host(server.url),
            left_out_s,
            describe_status(fault.status),
        )


def _is_of_server(fault: TryAgainError) -> bool:
    """Returns whether a fault concerns the server; an answer without text concerns only the request."""
    return fault.endpoint_gone or fault.overloaded or fault.status.isdigit()


def describe_status(status: str) -> str:
    """Returns a fault's status for the log: `HTTP 429` for a number, `a fault` for an empty one, else unchanged."""
    return f"HTTP {status}" if status.isdigit() else status or "a fault"
