"""Several servers of one chat model: who is asked next, and who is left out for a while because he does not answer.

They are one endpoint: cache, fingerprints, price and budget know its name alone, and which server answered is nowhere
recorded.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from backends.chat.faults import TryAgainError
from backends.fault_log import place_of

FIRST_LEFT_OUT_S, LONGEST_LEFT_OUT_S = 2.0, 60.0
"""How long a server that failed is not asked, seconds; twice as long each time it fails again without an answer."""
_log = logging.getLogger(__name__)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(eq=False, slots=True)
class Server:
    """One of an endpoint's servers.

    Attributes:
        url: base URL.
        n_asked: requests that it has not answered yet.
        n_begun: requests that it has been given so far.
        n_failed: how often it has failed since it last answered.
        left_out_s: when it was last left out, and until when it is not asked, by the event loop's clock.
    """

    url: str
    n_asked: int = 0
    n_begun: int = 0
    n_failed: int = 0
    left_out_s: tuple[float, float] = (0.0, 0.0)


class Servers:
    """Balances requests by how many each server has not answered yet.

    A server that failed is left out for a while, and then given one request, which tells whether it answers again.
    Where all are left out the one is asked whose time ends first, so that whoever asks finds out that nobody answers.
    Belongs to an endpoint, and outlives the clients and event loops that use it one after another.

    Args:
        urls: base URLs, one at least; of a single one nothing is ever left out.
        clock_s: seconds, never going back.
    """

    def __init__(self, urls: Sequence[str], clock_s: Callable[[], float] = _now_s) -> None:
        self.all = [Server(url) for url in urls]
        self._clock_s = clock_s

    def choose(self, tried: Collection[Server] = ()) -> Server:
        """The server to ask next.

        Args:
            tried: those that have failed this request; not all.
        """
        now_s = self._clock_s()
        left = [each for each in self.all if each not in tried]
        able = [each for each in left if not each.n_failed or (each.left_out_s[1] <= now_s and not each.n_asked)]
        if able:
            return min(able, key=lambda each: (each.n_asked, each.n_begun))
        return min(left, key=lambda each: (each.left_out_s[1], each.n_asked))

    @contextmanager
    def asking(self, server: Server) -> Iterator[None]:
        """For the time of the block the server is asked; what becomes of it is noted."""
        begun_s = self._clock_s()
        server.n_asked += 1
        server.n_begun += 1
        try:
            yield
        except TryAgainError as fault:
            self._note_fault(server, fault, begun_s)
            raise
        else:
            self._note_answer(server)
        finally:
            server.n_asked -= 1

    def may_ask_another(self, fault: TryAgainError, tried: Collection[Server]) -> bool:
        """Whether a request that a server has not worked on goes to another one at once."""
        is_untouched = not fault.may_be_paid and (fault.endpoint_gone or fault.overloaded)
        return is_untouched and len(tried) < len(self.all)

    def _note_answer(self, server: Server) -> None:
        if server.n_failed:
            _log.warning("The chat server at %s answers again.", place_of(server.url))
        server.n_failed = 0

    def _note_fault(self, server: Server, fault: TryAgainError, begun_s: float) -> None:
        """Leaves a server out; all requests that were with it together count as one."""
        is_told_of = begun_s < server.left_out_s[0] and server.n_failed
        if len(self.all) == 1 or is_told_of or not _is_of_server(fault):
            return
        now_s = self._clock_s()
        server.n_failed += 1
        left_out_s = min(LONGEST_LEFT_OUT_S, FIRST_LEFT_OUT_S * 2 ** (server.n_failed - 1))
        left_out_s = max(left_out_s, fault.retry_after_s)
        server.left_out_s = (now_s, now_s + left_out_s)
        _log.warning(
            "The chat server at %s is left out for %g s: %s.",
            place_of(server.url),
            left_out_s,
            describe_status(fault.status),
        )


def _is_of_server(fault: TryAgainError) -> bool:
    """Whether a fault tells something of the server; an answer without a text tells of the question alone."""
    return fault.endpoint_gone or fault.overloaded or fault.status.isdigit()


def describe_status(status: str) -> str:
    """A fault's status for the log, which has none of a server's own words."""
    return f"HTTP {status}" if status.isdigit() else status or "a fault"
