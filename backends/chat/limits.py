"""Concurrency and rate limits (throttling), retries and health of a chat endpoint, adapted to what its server can bear.

`AdaptiveLimit` works like TCP: it doubles while that pays, then adds an eighth at a time, and halves on a 429 or a
timeout (additive increase, multiplicative decrease). Growth pays while latency rises by less than the number in flight,
so that more answers come per second; otherwise the added requests only queue in the server and the limit is taken back.
A fixed bound on latency would not work: on one GPU each of 64 concurrent answers takes longer, and yet all together
take a tenth of the time.

Why not a library: aiolimiter keeps a rate, but a token rate is charged an estimate first and the difference to the real
count later, which its bucket cannot take back; PyPI's packages for adaptive concurrency are first versions of one
author.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from backends.chat.faults import TryAgainError
from backends.chat.servers import EndpointServers
from data_schemas.config import ChatConfig

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_LIMIT = 32
"""Requests in flight before anything is known of a server; most APIs and every GPU can handle that."""
MIN_WINDOW = 8
"""Minimum number of answers by which a limit is judged."""
MIN_GAIN = 0.5
"""Growth pays if throughput rises by at least this share of it: doubled, by half. A mere queue shows as a third."""
N_WINDOWS_HELD = 8
"""Windows to wait after growth that did not pay before it is tried again, as servers change."""
BURST_S = 1.0
"""Allowance that may be used at once after a pause, in seconds of the rate; providers check spans that short."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Waiting times of a client that spare the server, seconds.

    Args:
        first_backoff_s: maximum before the second attempt; doubled with each further one, and a random share is waited.
        longest_backoff_s: upper bound of the backoff.
        gather_s: time without a further request before a batch is created.
        first_look_s: time between the first checks of a batch; doubled with each.
        longest_look_s: upper bound of that time.
    """

    first_backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    gather_s: float = 2.0
    first_look_s: float = 5.0
    longest_look_s: float = 60.0


DELAYS = Delays()


def _get_time_s() -> float:
    """Returns the time of the running event loop's clock."""
    return asyncio.get_running_loop().time()


class AdaptiveLimit:
    """Limits the requests in flight, first come, first served; never more than `bound`.

    Belongs to an endpoint, and outlives its consecutive clients and event loops.
    """

    def __init__(self, bound: int) -> None:
        self.limit = min(FIRST_LIMIT, bound)
        self._bound = bound
        self._n_held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._was_cut = False
        self._cut_at_s = self._set_at_s = 0.0
        self._latencies_s: list[float] = []
        self._best_limit, self._best_rate = 0, 0.0
        self._n_windows_to_hold = 0

    @asynccontextmanager
    async def take_place(self) -> AsyncIterator[None]:
        """Waits until the limit allows one more request in flight, and counts one for the duration of the block."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit_waiting()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the place was given at the moment of cancellation
            raise
        try:
            yield
        finally:
            self._release()

    def record_answer(self, begun_s: float, ended_s: float) -> None:
        """Records an answer by its start and end, seconds of the event loop's clock; may change the limit.

        It does not count if it started under another limit, or while no request waits for a place.
        """
        if begun_s < self._set_at_s or not self._waiting:
            return  # started under another limit, or too few requests to fill this one
        self._latencies_s.append(ended_s - begun_s)
        if len(self._latencies_s) >= max(MIN_WINDOW, self.limit):
            self._judge(self.limit * len(self._latencies_s) / max(sum(self._latencies_s), 1e-9))

    def record_overload(self, begun_s: float) -> None:
        """Halves the limit after a rejection or timeout of a request that started at `begun_s`.

        All that were in flight together count as one.
        """
        if begun_s < self._cut_at_s:
            return
        self._set(max(1, self.limit // 2))
        self._was_cut, self._cut_at_s = True, self._set_at_s
        self._best_limit, self._best_rate = 0, 0.0

    def _judge(self, rate: float) -> None:
        """Compares answers per second (Little's law: limit ÷ mean latency) with those at the best limit so far.

        Raises the limit if its growth paid; else returns to the best limit, keeps it for `N_WINDOWS_HELD` windows, in
        which that limit's rate is updated, and then raises it again.
        """
        self._latencies_s.clear()
        if self.limit == self._best_limit:
            self._best_rate = (self._best_rate + rate) / 2
            self._n_windows_to_hold -= 1
            if self._n_windows_to_hold <= 0:
                self._grow()
            return
        growth = self.limit / self._best_limit - 1 if self._best_limit else 0.0
        if rate >= self._best_rate * (1 + MIN_GAIN * growth):
            self._best_limit, self._best_rate = self.limit, rate
            self._grow()
        else:
            self._n_windows_to_hold = N_WINDOWS_HELD
            self._set(self._best_limit)

    def _grow(self) -> None:
        """Doubles the limit, or adds an eighth after a first overload, up to the bound; admits waiting requests."""
        step = max(1, self.limit // 8) if self._was_cut else self.limit
        if self.limit < self._bound:
            self._set(min(self._bound, self.limit + step))
        self._admit_waiting()

    def _set(self, limit: int) -> None:
        """Sets the limit and forgets the latencies that were measured under the old one."""
        self.limit = limit
        self._set_at_s = _get_time_s()
        self._latencies_s.clear()

    def _release(self) -> None:
        """Frees a place, and admits waiting requests."""
        self._n_held -= 1
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Admits waiting requests, in the order of their calls, while places are free."""
        while self._waiting and self._n_held < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._n_held += 1
                turn.set_result(None)


class RateLimit:
    """A rate limit per minute, first come, first served; without a bound nothing waits.

    Its state is a single time, which each amount moves on; when it lies in the future, callers wait until then.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._s_each = 60.0 / per_minute if per_minute else 0.0
        self._paid_until_s = -math.inf

    async def take(self, amount: int) -> None:
        """Waits until the rate allows this amount, which may be above the rate of a minute, and counts it."""
        now_s = _get_time_s()
        self._paid_until_s = max(self._paid_until_s, now_s - BURST_S)
        wait_s = self._paid_until_s - now_s
        self._paid_until_s += amount * self._s_each
        if wait_s > 0:
            try:
                await asyncio.sleep(wait_s)
            except asyncio.CancelledError:
                self.correct(-amount)  # the next ones need not wait for what is not taken
                raise

    def correct(self, amount: int) -> None:
        """Counts a further amount without waiting; a negative amount is given back."""
        self._paid_until_s += amount * self._s_each


class Pace:
    """The shared state of one endpoint's clients: when a request may start, the endpoint's health and its servers."""

    def __init__(self, config: ChatConfig) -> None:
        self.servers = EndpointServers(config.base_urls)
        self.health = Health()
        self.places = AdaptiveLimit(config.n_in_flight)
        self.tokens = RateLimit(config.max_tokens_per_minute)
        self._requests = RateLimit(config.max_requests_per_minute)
        self._paused_until_s = 0.0

    async def wait_until_ready(self, n_tokens: int) -> None:
        """Waits until a request of about this many tokens may start, and counts it in both rate limits."""
        await self._requests.take(1)
        await self.tokens.take(n_tokens)
        while (wait_s := self._paused_until_s - _get_time_s()) > 0:
            await asyncio.sleep(wait_s)

    def pause(self, wait_s: float) -> None:
        """Lets no request start for this many seconds; a server's Retry-After for one request applies to all."""
        self._paused_until_s = max(self._paused_until_s, _get_time_s() + wait_s)


N_RECENT = 40
MIN_FAILURES = 8
MAX_FAILED_SHARE = 0.9
"""If this share of the last `N_RECENT` requests failed, at least eight, the endpoint is faulty and not the requests."""
MAX_GIVEN_UP = 3
"""Requests that failed in a row after all retries, by which an endpoint counts as answering none."""


class Health:
    """How the last requests to an endpoint ended; cached or old answers do not count.

    Belongs to an endpoint, and outlives its consecutive clients.
    """

    def __init__(self) -> None:
        self.n_given_up = 0
        self._recent: deque[bool] = deque(maxlen=N_RECENT)

    @property
    def answers_nobody(self) -> bool:
        """Whether several requests in a row failed after all their retries."""
        return self.n_given_up >= MAX_GIVEN_UP

    def record_answer(self) -> None:
        """Records an answer, and sets `n_given_up` to 0."""
        self.n_given_up = 0
        self._recent.append(True)

    def record_failure(self) -> None:
        """Records a request that failed finally, for whatever reason; the caller counts `n_given_up`."""
        self._recent.append(False)

    def describe_fault(self) -> str:
        """Returns what is wrong with the endpoint, as a clause of a message.

        It is empty if fewer than `MIN_FAILURES`, or less than `MAX_FAILED_SHARE`, of the last requests failed.
        """
        n, n_failed = len(self._recent), self._recent.count(False)
        if n_failed < MIN_FAILURES or n_failed < MAX_FAILED_SHARE * n:
            return ""
        return f"{n_failed} of the last {n} requests failed and {n - n_failed} were answered"


def make_retry_options(
    max_attempts: int, delays: Delays, on_retry: Callable[["RetryCallState"], None] | None = None
) -> dict[str, Any]:
    """Makes the arguments of tenacity's `Retrying` and `AsyncRetrying`, which retry on `TryAgainError`.

    The backoff is random and exponential, so that requests rejected together do not come back together; the server's
    Retry-After is waited in addition. The last attempt's error is raised as it is.

    Args:
        on_retry: called before each wait.
    """
    from tenacity import retry_if_exception_type, stop_after_attempt

    return {
        "stop": stop_after_attempt(max_attempts),
        "wait": partial(_compute_wait_s, delays),
        "before_sleep": on_retry,
        "retry": retry_if_exception_type(TryAgainError),
        "reraise": True,
    }


def _compute_wait_s(delays: Delays, state: "RetryCallState") -> float:
    """Computes the wait before the next attempt, seconds: a random exponential backoff and the server's Retry-After."""
    from tenacity import wait_random_exponential

    backoff_s = wait_random_exponential(multiplier=delays.first_backoff_s, max=delays.longest_backoff_s)(state)
    error = state.outcome.exception() if state.outcome else None
    return backoff_s + (error.retry_after_s if isinstance(error, TryAgainError) else 0.0)
