"""Logs failures of servers without secrets: name, host, status and remedy, but none of the server's own words.

Servers quote requests and API keys; a URL may contain a key too.
"""

import asyncio
import logging
from typing import Final
from urllib.parse import urlsplit

from data_schemas.errors import KameError

EVERY_S: Final = 60.0
"""The same fault of the same back-end is logged at most once in this time, seconds, as every request may have it."""


def extract_host(url: str) -> str:
    """Returns the host and port of a URL without possible secrets: user, path and query."""
    return urlsplit(url).netloc.rpartition("@")[2]


def name_fault(error: BaseException) -> str:
    """Returns a short name of an error for logs: `HTTP 429` or another status if it has one, else its class."""
    status = error.status if isinstance(error, KameError) else ""
    return f"HTTP {status}" if status.isdigit() else status or type(error).__name__


class FaultLog:
    """Logs faults, each at most once a minute. Must be called in an event loop's thread.

    Args:
        log: receives them as warnings.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}  # time of the last message, and occurrences since

    def report(self, who: str, place: str, fault: str, remedy: str = "") -> None:
        """Logs a fault, unless the same one of `who` was logged in the last minute; the next message says how often.

        Args:
            who: what failed, by its name in the configuration.
            place: see `extract_host`; empty: it has none.
            fault: see `name_fault`.
            remedy: what to do, in KAME's own words, not the server's.
        """
        now_s = asyncio.get_running_loop().time()
        logged_s, n_since = self._logged.get((who, fault), (float("-inf"), 0))
        if now_s - logged_s < EVERY_S:
            self._logged[who, fault] = (logged_s, n_since + 1)
            return
        self._logged[who, fault] = (now_s, 0)
        where = f" at {place}" if place else ""
        again = f" This happened {n_since} more times since the last message." if n_since else ""
        self._log.warning("%s%s failed: %s.%s%s", who, where, fault, f" {remedy}" if remedy else "", again)
