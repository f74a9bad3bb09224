"""What the log tells of a server that fails: who and where it is, its status, and what to do; never a word of its own.

Servers quote what they were asked, and keys; a URL may hold a key too.
"""

import asyncio
import logging
from typing import Final
from urllib.parse import urlsplit

from data_schemas.errors import KameError

EVERY_S: Final = 60.0
"""The same fault of the same back-end is told once in so long, seconds; it may befall every request."""


def place_of(url: str) -> str:
    """Host and port of a URL, without what may be a secret: user, path and query."""
    return urlsplit(url).netloc.rpartition("@")[2]


def name_fault(error: BaseException) -> str:
    """A fault in one or two words of ours: a status where there is one, or else its class."""
    status = error.status if isinstance(error, KameError) else ""
    return f"HTTP {status}" if status.isdigit() else status or type(error).__name__


class FaultLog:
    """Tells faults in a log, each once a minute. Called in an event loop's thread.

    Args:
        log: takes them, as warnings.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how often since

    def tell(self, who: str, place: str, fault: str, remedy: str = "") -> None:
        """Tells a fault, unless the same one was told just now.

        Args:
            who: what failed, as the configuration calls it.
            place: see `place_of`; empty: it has none.
            fault: see `name_fault`.
            remedy: what to do, in words of ours.
        """
        now_s = asyncio.get_running_loop().time()
        told_s, n_since = self._told.get((who, fault), (float("-inf"), 0))
        if now_s - told_s < EVERY_S:
            self._told[who, fault] = (told_s, n_since + 1)
            return
        self._told[who, fault] = (now_s, 0)
        where = f" at {place}" if place else ""
        again = f" So it was {n_since} times more since this was last told." if n_since else ""
        self._log.warning("%s%s failed: %s.%s%s", who, where, fault, f" {remedy}" if remedy else "", again)
