"""Token usage, cost and budget of a run: counts are stored on disk per model, and the budget stops the run.

The counts are in the file of the reply cache, by run, so that all clients of a run share one budget, also those in
other processes. A budget limits what new answers cost; cached ones cost nothing, so the same command continues where it
stopped.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from backends.chat.answers import estimate_tokens
from backends.chat.cache import ReplyCache, StoredReply
from backends.chat.model_names import NOT_REPORTED
from backends.chat.protocol import Endpoint
from data_schemas.config import BudgetConfig, PriceConfig
from data_schemas.errors import BudgetError, ConfigError

RUN_ENV = "KAME_RUN_ID"
"""Environment variable with the run's id, which worker processes inherit."""

_UNNAMED = f"unnamed-{uuid.uuid4().hex[:12]}"
"""Run id used if none is set; a process id would be reused, together with its old counts."""

_ADD = """
INSERT INTO spending AS old (
    run, endpoint, model, n_requests, n_tokens_in, n_tokens_cached, n_tokens_out, usd, n_estimated
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, endpoint, model) DO UPDATE SET
    n_requests = old.n_requests + excluded.n_requests, n_tokens_in = old.n_tokens_in + excluded.n_tokens_in,
    n_tokens_cached = coalesce(
        old.n_tokens_cached + excluded.n_tokens_cached, old.n_tokens_cached, excluded.n_tokens_cached
    ),
    n_tokens_out = old.n_tokens_out + excluded.n_tokens_out, usd = old.usd + excluded.usd,
    n_estimated = old.n_estimated + excluded.n_estimated
"""
_SPENT = """
SELECT endpoint, model, n_requests, n_tokens_in, n_tokens_cached, n_tokens_out, usd, n_estimated
FROM spending WHERE run = ? ORDER BY endpoint, model
"""
_TOTALS = """
SELECT CAST(coalesce(sum(n_tokens_in + n_tokens_out), 0) AS DOUBLE PRECISION), coalesce(sum(usd), 0.0)
FROM spending WHERE run = ?
"""
_ADD_ANSWERER = """
INSERT INTO answerers AS old VALUES (?, ?, ?, ?, ?, 1)
ON CONFLICT (run, endpoint, model, answered_by, system_fingerprint) DO UPDATE SET n_requests = old.n_requests + 1
"""
_ANSWERERS = """
SELECT endpoint, model, answered_by, system_fingerprint, n_requests FROM answerers WHERE run = ?
ORDER BY answered_by, system_fingerprint
"""


@dataclass(slots=True)
class ChatUsage:
    """The token usage of a client so far. Tokens are those of new answers only, as cached ones cost nothing again.

    Answers without text count with their tokens but not as requests. `n_estimated` counts answers of either kind whose
    usage the server did not report, so that it is estimated. `n_tokens_cached` sums the answers that reported it; None
    if none did.
    """

    n_requests: int = 0
    n_from_cache: int = 0
    n_retries: int = 0
    n_failed: int = 0
    n_tokens_in: int = 0
    n_tokens_cached: int | None = None
    n_tokens_out: int = 0
    n_estimated: int = 0

    @classmethod
    def sum(cls, usages: Iterable["ChatUsage"]) -> "ChatUsage":
        """Returns the total usage of several clients."""
        total = cls()
        for usage in usages:
            for each in fields(cls):
                setattr(total, each.name, sum_known((getattr(total, each.name), getattr(usage, each.name))))
        return total


@dataclass(frozen=True, slots=True)
class ModelSpending:
    """The cost of one model's new answers in a run; `usd` is None if a price is unknown, `n_tokens_cached` if no answer
    reported it.

    `n_estimated` counts answers whose usage is estimated because the server did not report it. `answered_by` counts
    answers by the model that gave them, and `system_fingerprints` by the state of that model, both as the server names
    them; `NOT_REPORTED` is the key of answers without such a name.
    """

    endpoint: str
    model: str
    n_requests: int
    n_tokens_in: int
    n_tokens_cached: int | None
    n_tokens_out: int
    usd: float | None
    n_estimated: int = 0
    answered_by: dict[str, int] = field(default_factory=dict)
    system_fingerprints: dict[str, int] = field(default_factory=dict)


@contextmanager
def set_run_id(run_id: str) -> Iterator[None]:
    """Sets the id of the run to which clients made in the block count their requests, also in processes started in it.

    It does so by an environment variable (`RUN_ENV`), which is restored at the end.
    """
    before = os.environ.get(RUN_ENV)
    os.environ[RUN_ENV] = run_id
    try:
        yield
    finally:
        os.environ.pop(RUN_ENV)
        if before is not None:
            os.environ[RUN_ENV] = before


def list_spending(cache: ReplyCache, run_id: str) -> list[ModelSpending]:
    """Returns a run's tokens and cost so far by endpoint and model, sorted by them; empty if it got no new answers."""
    answerers = cache.run(_ANSWERERS, (run_id,))  # first: another process counts an answer's cost before its answerer
    models = {(row[0], row[1]): ModelSpending(*row) for row in cache.run(_SPENT, (run_id,))}
    for endpoint, model, answered_by, fingerprint, n_requests in answerers:
        asked = models[endpoint, model]
        asked.answered_by[answered_by] = asked.answered_by.get(answered_by, 0) + n_requests
        asked.system_fingerprints[fingerprint] = asked.system_fingerprints.get(fingerprint, 0) + n_requests
    return list(models.values())


def sum_known(counts: Iterable[int | None]) -> int | None:
    """Returns the sum of the known counts, or None if none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def compute_usd(price: PriceConfig, n_tokens_in: int, n_tokens_cached: int | None, n_tokens_out: int) -> float:
    """Computes the price of tokens in US dollars. Cached tokens are part of the input tokens; None counts as 0."""
    n_tokens_cached = n_tokens_cached or 0
    cached_usd = price.in_usd_per_mtok if price.cached_usd_per_mtok is None else price.cached_usd_per_mtok
    fresh_usd = (n_tokens_in - n_tokens_cached) * price.in_usd_per_mtok
    return (fresh_usd + n_tokens_cached * cached_usd + n_tokens_out * price.out_usd_per_mtok) / 1e6


def check_price(endpoint: Endpoint, price: PriceConfig | None, budget: BudgetConfig) -> None:
    """Checks that a budget can be enforced.

    Raises:
        ConfigError: the budget is in dollars and the price is unknown.
    """
    if budget.usd is not None and price is None:
        raise ConfigError(
            f"There is a budget in US dollars, but the price of {endpoint.model!r} at {endpoint.name!r} is unknown.",
            "Set chat.price (0 for your own server), or limit tokens with --budget-tokens.",
        )


class Spending:
    """Counts the tokens and cost of one client's answers, and checks the budget before each request.

    Args:
        cache: its file stores the counts.
        endpoint: the endpoint whose answers are counted.
        price: the price of its tokens; None if unknown.
        budget: the budget of the whole run.

    Attributes:
        usage: the counts of this client alone.
        is_used_up: whether a request was refused because of the budget.

    Raises:
        ConfigError: the budget is in dollars and the price is unknown.
    """

    def __init__(self, cache: ReplyCache, endpoint: Endpoint, price: PriceConfig | None, budget: BudgetConfig) -> None:
        check_price(endpoint, price, budget)
        self.usage = ChatUsage()
        self.is_used_up = False
        self._cache = cache
        self._endpoint = endpoint
        self._price = price
        self._budget = budget
        self._run_id = os.environ.get(RUN_ENV) or _UNNAMED
        self._n_reserved_tokens, self._reserved_usd = 0, 0.0
        self._n_in_flight = 0
        self._landed = asyncio.Event()

    @asynccontextmanager
    async def reserve_cost(self, payload: dict[str, Any]) -> AsyncIterator[None]:
        """Reserves a payload's estimated cost for the block, so that this client's other requests do not spend it.

        Other clients of the run do not know what is reserved. If too little is left, it waits for requests in flight,
        which mostly cost less than was reserved for them.

        Raises:
            BudgetError: too little is left, and nothing is in flight or an earlier request has got this error.
        """
        n_in, n_out = estimate_tokens(payload)
        n_tokens, usd = n_in + n_out, compute_usd(self._price, n_in, 0, n_out) if self._price else 0.0
        while (shortfall := self._find_shortfall(n_tokens, usd)) is not None:
            if self.is_used_up or not self._n_in_flight:
                raise self._stop(shortfall)
            self._landed.clear()
            await self._landed.wait()
        self._reserve(n_tokens, usd, 1)
        try:
            yield
        finally:
            self._reserve(-n_tokens, -usd, -1)
            self._landed.set()

    def add(self, reply: StoredReply, *, is_usable: bool = True) -> None:
        """Adds a new answer's tokens to this client's `usage`, and its tokens and cost to the run's counts on disk.

        An answer without text (not `is_usable`) costs as much, but does not count as a request.
        """
        counts = (reply.n_tokens_in, reply.n_tokens_cached, reply.n_tokens_out)
        self.usage.n_requests += is_usable
        self.usage.n_tokens_in += reply.n_tokens_in
        self.usage.n_tokens_cached = sum_known((self.usage.n_tokens_cached, reply.n_tokens_cached))
        self.usage.n_tokens_out += reply.n_tokens_out
        self.usage.n_estimated += reply.is_estimated
        usd = compute_usd(self._price, *counts) if self._price else None
        whose = (self._run_id, self._endpoint.name, self._endpoint.model)
        self._cache.run(_ADD, (*whose, int(is_usable), *counts, usd, int(reply.is_estimated)))
        if is_usable:
            who = (reply.answered_by or NOT_REPORTED, reply.system_fingerprint or NOT_REPORTED)
            self._cache.run(_ADD_ANSWERER, (*whose, *who))

    def count_retry(self, _: object = None) -> None:
        """Counts a retry in `usage`, not on disk; used as `on_retry` of `make_retry_options`."""
        self.usage.n_retries += 1

    def _reserve(self, n_tokens: int, usd: float, n_requests: int) -> None:
        """Adds to what is reserved for requests in flight; negative numbers release it."""
        self._n_reserved_tokens += n_tokens
        self._reserved_usd += usd
        self._n_in_flight += n_requests
        if not self._n_in_flight:
            self._reserved_usd = 0.0  # sums and differences of fractions leave a rest

    def _find_shortfall(self, n_tokens: int, usd: float) -> "BudgetShortfall | None":
        """Returns the first limit of the budget that this additional cost would exceed; None if it exceeds none."""
        if self._budget.usd is None and self._budget.tokens is None:
            return None
        ((used, used_usd),) = self._cache.run(_TOTALS, (self._run_id,))
        if self._budget.tokens is not None:
            found = BudgetShortfall("{:.0f} tokens", self._budget.tokens, used, self._n_reserved_tokens, n_tokens)
            if found.is_broken():
                return found
        if self._budget.usd is not None:
            found = BudgetShortfall("{:.6g} US dollars", self._budget.usd, used_usd, self._reserved_usd, usd)
            if found.is_broken():
                return found
        return None

    def _stop(self, shortfall: "BudgetShortfall") -> BudgetError:
        """Marks the budget as used up, and returns the error for the caller to raise."""
        self.is_used_up = True
        return shortfall.make_error()


@dataclass(frozen=True, slots=True)
class BudgetShortfall:
    """A budget limit and what counts against it, all in its unit; `form` is the format string of that unit."""

    form: str
    bound: float
    used: float
    reserved: float
    needed: float

    def is_broken(self) -> bool:
        """Returns whether the amounts used, reserved and needed together exceed the limit."""
        return self.used + self.reserved + self.needed > self.bound

    def make_error(self) -> BudgetError:
        """Makes the error that stops the run, with the amounts spent, reserved and needed."""
        parts = [f"{self.form.format(self.used)} are spent"]
        if self.reserved > 0:
            parts.append(f"{self.form.format(self.reserved)} are reserved for requests in flight")
        if self.needed > 0:
            parts.append(f"the next one may take {self.form.format(self.needed)}")
        what = f"The run's budget of {self.form.format(self.bound)} does not allow another request: {', '.join(parts)}."
        if self.needed > self.bound:
            return BudgetError(
                what,
                f"Raise it to at least {self.form.format(self.needed)}, because one request alone may cost that much.",
            )
        return BudgetError(
            what,
            "Run the same command again with a new budget: completed answers are cached and cost nothing again.",
        )
