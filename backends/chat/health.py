"""Whether an endpoint still answers: what tells a broken server from requests that fail."""

from collections import deque

N_RECENT = 40
MIN_FAILURES = 8
MAX_FAILED_SHARE = 0.9
"""When so many of the last `N_RECENT` requests failed, eight at least, the endpoint is at fault and not they."""
MAX_GIVEN_UP = 3
"""Requests given up in a row, and no answer between them, that tell of an endpoint which answers nobody."""


class Health:
    """How the last real requests to an endpoint ended; what came from the cache, or long ago, is no sign of life.

    Belongs to an endpoint, and outlives the clients that use it one after another.
    """

    def __init__(self) -> None:
        self.n_given_up = 0
        self._recent: deque[bool] = deque(maxlen=N_RECENT)

    @property
    def answers_nobody(self) -> bool:
        """Whether several requests in a row were given up after all their tries."""
        return self.n_given_up >= MAX_GIVEN_UP

    def answered(self) -> None:
        """Notes an answer."""
        self.n_given_up = 0
        self._recent.append(True)

    def failed(self) -> None:
        """Notes a request that failed for good, for whatever reason."""
        self._recent.append(False)

    def verdict(self) -> str:
        """What is wrong with the endpoint, as the beginning of a sentence; empty while most are answered."""
        n, n_failed = len(self._recent), self._recent.count(False)
        if n_failed < MIN_FAILURES or n_failed < MAX_FAILED_SHARE * n:
            return ""
        return f"{n_failed} of the last {n} requests failed and {n - n_failed} were answered"
