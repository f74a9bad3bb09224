"""What a server bears, found out while asking: requests in flight and a minute, another try, and whether it answers.

`AdaptiveLimit` goes as TCP does: it doubles while that pays, then adds an eighth at a time, and halves on a 429 or a
timeout (additive increase, multiplicative decrease). Growth pays while latency holds, that is, while it rises by less
than the number in flight, so that more answers come a second; where it does not, the added requests only queue in the
server and the limit goes back. A fixed bound on latency would not do: on one GPU each answer takes longer among 64, and
yet all of them together a tenth of the time.

Why not a library: aiolimiter keeps a rate, but a token rate is charged an estimate before and what it took after, which
its bucket cannot take back; what PyPI has for adaptive concurrency are first versions of one author.
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
from backends.chat.servers import Servers
from data_schemas.config import ChatConfig

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_LIMIT = 32
"""In flight before anything is known of a server; most APIs and every GPU bear that."""
MIN_WINDOW = 8
"""Fewest answers by which a limit is judged."""
MIN_GAIN = 0.5
"""Growth pays when throughput rises by at least this share of it: doubled, by half. A mere queue shows as a third."""
N_WINDOWS_HELD = 8
"""Windows that pass after growth did not pay, before it is tried again: servers change."""
BURST_S = 1.0
"""A rate's allowance that may be used at once after a pause, in seconds of it; providers watch spans that short."""


@dataclass(frozen=True, slots=True)
class Delays:
    """What a client waits to spare a server, seconds.

    Args:
        first_backoff_s: most before the second try; doubled with each further one, and a random share of it is waited.
        longest_backoff_s: where the doubling ends.
        gather_s: how long nothing more must be asked before a batch is handed in.
        first_look_s: between the first looks at a batch; doubled with each.
        longest_look_s: where the doubling ends.
    """

    first_backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    gather_s: float = 2.0
    first_look_s: float = 5.0
    longest_look_s: float = 60.0


DELAYS = Delays()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


class AdaptiveLimit:
    """Places in flight, given out in the order of asking; never more than `bound`.

    Belongs to an endpoint, and outlives the clients and event loops that use it one after another.
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
    async def place(self) -> AsyncIterator[None]:
        """A place for the time of a block; waits for one in turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the place came at the moment of giving up
            raise
        try:
            yield
        finally:
            self._release()

    def answered(self, begun_s: float, ended_s: float) -> None:
        """Notes an answer by when it was asked for and came, seconds of the event loop's clock; may grow the limit."""
        if begun_s < self._set_at_s or not self._waiting:
            return  # asked under another limit, or there was nothing to fill this one with
        self._latencies_s.append(ended_s - begun_s)
        if len(self._latencies_s) >= max(MIN_WINDOW, self.limit):
            self._judge(self.limit * len(self._latencies_s) / max(sum(self._latencies_s), 1e-9))

    def overloaded(self, begun_s: float) -> None:
        """Notes a refusal or timeout by when it was asked for. All that were in flight together count as one."""
        if begun_s < self._cut_at_s:
            return
        self._set(max(1, self.limit // 2))
        self._was_cut, self._cut_at_s = True, self._set_at_s
        self._best_limit, self._best_rate = 0, 0.0

    def _judge(self, rate: float) -> None:
        """Compares answers a second (Little's law: limit ÷ mean latency) with those at the best limit so far."""
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
        step = max(1, self.limit // 8) if self._was_cut else self.limit
        if self.limit < self._bound:
            self._set(min(self._bound, self.limit + step))
        self._hand_out()

    def _set(self, limit: int) -> None:
        self.limit = limit
        self._set_at_s = _now_s()
        self._latencies_s.clear()

    def _release(self) -> None:
        self._n_held -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._n_held < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._n_held += 1
                turn.set_result(None)


class RateLimit:
    """At most so much a minute, first come, first served; without a bound nothing waits.

    Kept as the moment up to which all that was taken is paid for, so that a correction is a sum.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._s_each = 60.0 / per_minute if per_minute else 0.0
        self._paid_until_s = -math.inf

    async def take(self, amount: int) -> None:
        """Waits until so much may be taken. An amount above the bound takes longer than a minute, and passes."""
        now_s = _now_s()
        self._paid_until_s = max(self._paid_until_s, now_s - BURST_S)
        wait_s = self._paid_until_s - now_s
        self._paid_until_s += amount * self._s_each
        if wait_s > 0:
            try:
                await asyncio.sleep(wait_s)
            except asyncio.CancelledError:
                self.correct(-amount)  # those behind need not wait for what is not taken
                raise

    def correct(self, amount: int) -> None:
        """Takes so much more, or gives back where it is negative, without waiting."""
        self._paid_until_s += amount * self._s_each


class Pace:
    """What is known of one endpoint: when a request may begin, its health, and who of its servers answers.

    Share it among an endpoint's clients.
    """

    def __init__(self, config: ChatConfig) -> None:
        self.servers = Servers(config.base_urls)
        self.health = Health()
        self.places = AdaptiveLimit(config.n_in_flight)
        self.tokens = RateLimit(config.max_tokens_per_minute)
        self._requests = RateLimit(config.max_requests_per_minute)
        self._paused_until_s = 0.0

    async def ready(self, n_tokens: int) -> None:
        """Waits until a request of about so many tokens may begin."""
        await self._requests.take(1)
        await self.tokens.take(n_tokens)
        while (wait_s := self._paused_until_s - _now_s()) > 0:
            await asyncio.sleep(wait_s)

    def pause(self, wait_s: float) -> None:
        """Lets nothing begin for so many seconds: what a server asks of one request it asks of us all."""
        self._paused_until_s = max(self._paused_until_s, _now_s() + wait_s)


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


def retry_options(
    max_attempts: int, delays: Delays, on_retry: Callable[["RetryCallState"], None] | None = None
) -> dict[str, Any]:
    """Arguments of tenacity's `Retrying` and `AsyncRetrying`: what raises `TryAgainError` is tried again.

    The wait is random and grows, so that those refused together do not come back together; what the server asks for
    (Retry-After) is waited first. The last try's error is raised as it is.

    Args:
        on_retry: called before each wait.
    """
    from tenacity import retry_if_exception_type, stop_after_attempt

    return {
        "stop": stop_after_attempt(max_attempts),
        "wait": partial(_wait_s, delays),
        "before_sleep": on_retry,
        "retry": retry_if_exception_type(TryAgainError),
        "reraise": True,
    }


def _wait_s(delays: Delays, state: "RetryCallState") -> float:
    from tenacity import wait_random_exponential

    backoff_s = wait_random_exponential(multiplier=delays.first_backoff_s, max=delays.longest_backoff_s)(state)
    error = state.outcome.exception() if state.outcome else None
    return backoff_s + (error.retry_after_s if isinstance(error, TryAgainError) else 0.0)
