"""What a run spends, counted per model on disk, and the budget that stops it.

Counts stand in the file of the answers, by run, so that all clients of a run share one budget, those in other processes
too. A budget bounds what new answers take; stored ones cost nothing, so the same command goes on where it stopped.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from backends.chat.answers import estimated_tokens
from backends.chat.cache import ReplyCache, StoredReply
from backends.chat.model_names import NOT_TOLD
from backends.chat.protocol import Endpoint
from data_schemas.config import BudgetConfig, PriceConfig
from data_schemas.errors import BudgetError, ConfigError

RUN_ENV = "KAME_RUN_ID"
"""Environment variable with the run's id, so that worker processes inherit it."""

_UNNAMED = f"unnamed-{uuid.uuid4().hex[:12]}"
"""Run of whoever names none; a process id would be given again, and its old counts with it."""

_ADD = """
INSERT INTO spending (run, endpoint, model, n_requests, n_tokens_in, n_tokens_cached, n_tokens_out, usd, n_estimated)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    n_requests = n_requests + excluded.n_requests, n_tokens_in = n_tokens_in + excluded.n_tokens_in,
    n_tokens_cached = coalesce(n_tokens_cached + excluded.n_tokens_cached, n_tokens_cached, excluded.n_tokens_cached),
    n_tokens_out = n_tokens_out + excluded.n_tokens_out, usd = usd + excluded.usd,
    n_estimated = n_estimated + excluded.n_estimated
"""
_SPENT = """
SELECT endpoint, model, n_requests, n_tokens_in, n_tokens_cached, n_tokens_out, usd, n_estimated
FROM spending WHERE run = ? ORDER BY endpoint, model
"""
_TOTALS = "SELECT total(n_tokens_in + n_tokens_out), total(usd) FROM spending WHERE run = ?"
_ADD_ANSWERER = """
INSERT INTO answerers VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET n_requests = n_requests + 1
"""
_ANSWERERS = """
SELECT endpoint, model, answered_by, system_fingerprint, n_requests FROM answerers WHERE run = ?
ORDER BY answered_by, system_fingerprint
"""


@dataclass(slots=True)
class ChatUsage:
    """What a client has caused so far. Tokens are those of new answers only: cached ones cost nothing again.

    Answers without a text count with their tokens and not as requests; `n_estimated` are those of either kind whose
    tokens the server did not tell, so that ours are counted. `n_tokens_cached` is of the answers that told it; None
    where none did.
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
    def total(cls, usages: Iterable["ChatUsage"]) -> "ChatUsage":
        """What several clients have caused together."""
        total = cls()
        for usage in usages:
            for each in fields(cls):
                setattr(total, each.name, total_of_told((getattr(total, each.name), getattr(usage, each.name))))
        return total


@dataclass(frozen=True, slots=True)
class ModelSpending:
    """What one model's new answers took in a run; `usd` is None where a price is not known, and `n_tokens_cached` where
    no answer told it, never 0.

    `n_estimated` are answers whose tokens are our estimate, because the server did not tell. `answered_by` counts
    answers by the model that gave them, and `system_fingerprints` by the state it was in, as the server names both.
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
def run_named(run_id: str) -> Iterator[None]:
    """What is spent in the block, in this process and those started from it, counts for that run."""
    before = os.environ.get(RUN_ENV)
    os.environ[RUN_ENV] = run_id
    try:
        yield
    finally:
        os.environ.pop(RUN_ENV)
        if before is not None:
            os.environ[RUN_ENV] = before


def spent(cache: ReplyCache, run_id: str) -> list[ModelSpending]:
    """What a run has spent so far, by endpoint and model."""
    models = {(row[0], row[1]): ModelSpending(*row) for row in cache.run(_SPENT, (run_id,))}
    for endpoint, model, answered_by, fingerprint, n_requests in cache.run(_ANSWERERS, (run_id,)):
        asked = models[endpoint, model]
        asked.answered_by[answered_by] = asked.answered_by.get(answered_by, 0) + n_requests
        asked.system_fingerprints[fingerprint] = asked.system_fingerprints.get(fingerprint, 0) + n_requests
    return list(models.values())


def total_of_told(counts: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def usd_of(price: PriceConfig, n_tokens_in: int, n_tokens_cached: int | None, n_tokens_out: int) -> float:
    """US dollars for so many tokens; cached ones are among those read, and where they are not known there are none."""
    n_tokens_cached = n_tokens_cached or 0
    cached_usd = price.in_usd_per_mtok if price.cached_usd_per_mtok is None else price.cached_usd_per_mtok
    fresh_usd = (n_tokens_in - n_tokens_cached) * price.in_usd_per_mtok
    return (fresh_usd + n_tokens_cached * cached_usd + n_tokens_out * price.out_usd_per_mtok) / 1e6


def check_price(endpoint: Endpoint, price: PriceConfig | None, budget: BudgetConfig) -> None:
    """Whether a budget can be kept at all.

    Raises:
        ConfigError: it is in dollars, and there is no price to reckon by.
    """
    if budget.usd is not None and price is None:
        raise ConfigError(
            f"There is a budget in US dollars, but no price is known of {endpoint.model!r} at {endpoint.name!r}.",
            "Set chat.price (0 for a machine of your own), or bound the tokens: --budget-tokens.",
        )


class Spending:
    """Counts what one client's answers take and asks, before each request, whether the run may still pay for it.

    Args:
        cache: its file keeps the counts.
        endpoint: whose answers are counted.
        price: what they cost; None where it is not known.
        budget: of the whole run.

    Raises:
        ConfigError: a budget in dollars, and no price to reckon by.
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
    async def reserved(self, payload: dict[str, Any]) -> AsyncIterator[None]:
        """Keeps back what a payload may take while it is in flight, so that those beside it do not spend it too.

        Where too little is left it waits for those in flight, which mostly take less than was kept back for them.

        Raises:
            BudgetError: there is too little left, and nothing in flight.
        """
        n_in, n_out = estimated_tokens(payload)
        n_tokens, usd = n_in + n_out, usd_of(self._price, n_in, 0, n_out) if self._price else 0.0
        while (shortfall := self._shortfall(n_tokens, usd)) is not None:
            if self.is_used_up or not self._n_in_flight:
                raise self._stop(shortfall)
            self._landed.clear()
            await self._landed.wait()
        self._hold(n_tokens, usd, 1)
        try:
            yield
        finally:
            self._hold(-n_tokens, -usd, -1)
            self._landed.set()

    def add(self, reply: StoredReply, *, is_usable: bool = True) -> None:
        """Counts a new answer, or one without a text, which costs as much."""
        counts = (reply.n_tokens_in, reply.n_tokens_cached, reply.n_tokens_out)
        self.usage.n_requests += is_usable
        self.usage.n_tokens_in += reply.n_tokens_in
        self.usage.n_tokens_cached = total_of_told((self.usage.n_tokens_cached, reply.n_tokens_cached))
        self.usage.n_tokens_out += reply.n_tokens_out
        self.usage.n_estimated += reply.is_estimated
        usd = usd_of(self._price, *counts) if self._price else None
        whose = (self._run_id, self._endpoint.name, self._endpoint.model)
        self._cache.run(_ADD, (*whose, int(is_usable), *counts, usd, int(reply.is_estimated)))
        if is_usable:
            who = (reply.answered_by or NOT_TOLD, reply.system_fingerprint or NOT_TOLD)
            self._cache.run(_ADD_ANSWERER, (*whose, *who))

    def count_retry(self, _: object = None) -> None:
        """Counts one more try of a request, as `on_retry` of `retry_options`."""
        self.usage.n_retries += 1

    def _hold(self, n_tokens: int, usd: float, n_requests: int) -> None:
        self._n_reserved_tokens += n_tokens
        self._reserved_usd += usd
        self._n_in_flight += n_requests

    def _shortfall(self, n_tokens: int, usd: float) -> "BudgetShortfall | None":
        """The bound that so much more would break, if one does."""
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
        self.is_used_up = True
        return shortfall.error()


@dataclass(frozen=True, slots=True)
class BudgetShortfall:
    """One bound and what stands against it, all in its unit, which `form` writes."""

    form: str
    bound: float
    used: float
    reserved: float
    needed: float

    def is_broken(self) -> bool:
        """Whether what is needed does not fit any more."""
        return self.used + self.reserved + self.needed > self.bound

    def error(self) -> BudgetError:
        """The error that stops the run, with what is spent, reserved and needed."""
        parts = [f"{self.form.format(self.used)} are spent"]
        if self.reserved > 0:
            parts.append(f"{self.form.format(self.reserved)} are kept back for requests in flight")
        if self.needed > 0:
            parts.append(f"the next one may take {self.form.format(self.needed)}")
        what = f"The run's budget of {self.form.format(self.bound)} does not allow another request: {', '.join(parts)}."
        if self.needed > self.bound:
            return BudgetError(
                what, f"Raise it to at least {self.form.format(self.needed)}, for one request alone may take so much."
            )
        return BudgetError(
            what,
            "Run the same command again to go on, with a budget of its own: answers are kept and cost nothing again.",
        )
