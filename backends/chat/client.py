"""The one client for every request to a chat model: many in flight, retried, cached, counted.

What a run may rely on: an answer once received is never asked for again (`cache.py`), two askers of the same thing at
the same time cause one request, and an error says whether this request is lost (`RequestError`) or the run must stop
(`BackendError`, `BudgetError`). How a request travels is the transport's affair: `direct.py` or `batch.py`.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from backends.chat.batch import BatchTransport
from backends.chat.budget import ChatUsage, Spending
from backends.chat.cache import ReplyCache, StoredReply, reply_key, request_id
from backends.chat.direct import DirectTransport
from backends.chat.faults import FaultTranslator
from backends.chat.limits import DELAYS, Delays, Pace
from backends.chat.model_names import is_as_asked
from backends.chat.protocol import ChatClient, ChatReply, Endpoint
from backends.chat.providers import key_env_of, price_of, provider_of, read_api_key
from backends.chat.thoughts import without_thought
from data_schemas.config import BudgetConfig, ChatConfig
from data_schemas.errors import BackendError, BudgetError, RequestError

_log = logging.getLogger(__name__)


class Transport(Protocol):
    """How a request reaches an endpoint."""

    async def fetch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        """The endpoint's answer to a payload, which was not in the cache under its key."""

    async def aclose(self) -> None:
        """Gives back what it holds."""


class OpenAIChatClient:
    """Asks any OpenAI-compatible endpoint; use as `async with`, which closes its connections.

    The key is read from the environment and goes into no message, log or file.

    Args:
        endpoint, config, cache: whom, how, and where answers are kept.
        budget: of the whole run (`budget.py`).
        pace: shared by clients that ask the same endpoint one after another, so that what was learned of it stays.
        delays: what is waited for nobody's sake but the server's; tests make them short.

    Raises:
        ConfigError: the provider is unknown, has no batches or needs a key; or the budget needs a price.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: ChatConfig,
        cache: ReplyCache,
        *,
        budget: BudgetConfig | None = None,
        pace: Pace | None = None,
        delays: Delays = DELAYS,
    ) -> None:
        provider = provider_of(config)
        price = price_of(config, endpoint.model)
        faults = FaultTranslator(endpoint, read_api_key(config), key_env_of(config), longest_wait_s=config.max_wait_s)
        self._endpoint = endpoint
        self._cache = cache
        self._in_flight: dict[str, asyncio.Task[ChatReply]] = {}
        self._answerers: set[str] = set()
        self._is_deployment = "{model}" in provider.path  # asked for by a name of the account's own, not a model's
        self._spending = Spending(cache, endpoint, price, budget or BudgetConfig())
        about = (endpoint, config, provider, faults, self._spending)
        pace = pace or Pace(config)
        self._health = pace.health
        self._transport: Transport
        if config.transport == "batch":
            self._transport = BatchTransport(*about, cache, delays)
        else:
            self._transport = DirectTransport(*about, pace, delays)

    @property
    def usage(self) -> ChatUsage:
        """What it has caused so far: one object, which grows."""
        return self._spending.usage

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        """The answer to a chat-completions payload (without `model`), from the cache where it has been given.

        Another `attempt` of the same payload is another question to the cache: for asking again after an answer
        that the caller could not use.

        Raises:
            RequestError: refused as such, or failed in every try.
            BackendError: our key is refused, the model is unknown, or the endpoint answers nobody.
            BudgetError: the run may not pay for it; what is in flight still comes and is kept.
            StoreError: the cache cannot be read or written.
        """
        key = reply_key(self._endpoint, payload, attempt)
        stored = self._cache.get(key)
        if stored is not None:
            self.usage.n_from_cache += 1
            return self._as_reply(stored, key, from_cache=True)
        running = self._in_flight.get(key)
        if running is not None:
            reply = await asyncio.shield(running)
            self.usage.n_from_cache += 1
            return dataclasses.replace(reply, from_cache=True)
        task = asyncio.create_task(self._fetch(key, payload))
        self._in_flight[key] = task
        task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task)  # an asker that gives up does not take the answer from the others

    async def aclose(self) -> None:
        """Gives up what is still in flight, unless the budget stopped the run: it is paid for; closes connections."""
        running = list(self._in_flight.values())
        if not self._spending.is_used_up:
            for task in running:
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _landed(self, key: str, task: asyncio.Task[ChatReply]) -> None:
        del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # marks it as seen: all its askers may have gone

    async def _fetch(self, key: str, payload: dict[str, Any]) -> ChatReply:
        try:
            answer = await self._transport.fetch(key, payload)
        except RequestError as error:
            self.usage.n_failed += 1
            self._health.failed()
            if verdict := self._health.verdict():
                raise BackendError(
                    f"The chat endpoint {self._endpoint.name!r} is at fault: {verdict}. {error.what}",
                    "Mend the endpoint or the payload's settings and run again: answers are kept.",
                ) from error
            raise
        self._health.answered()
        return self._as_reply(self._cache.put(key, answer, self._endpoint), key, from_cache=False)

    def _as_reply(self, stored: StoredReply, key: str, *, from_cache: bool) -> ChatReply:
        self._check_who(stored.answered_by)
        counts = (stored.n_tokens_in, stored.n_tokens_cached, stored.n_tokens_out)
        who = (stored.answered_by, stored.system_fingerprint)
        thought, text = without_thought(stored.text)
        return ChatReply(text, request_id(key), *counts, from_cache, stored.finish_reason, *who, thought)

    def _check_who(self, answered_by: str | None) -> None:
        """Warns, once for each name, where another model answered than was asked."""
        if answered_by is None or answered_by in self._answerers:
            return
        self._answerers.add(answered_by)
        if not self._is_deployment and not is_as_asked(answered_by, self._endpoint.model):
            _log.warning(
                "The chat endpoint %r was asked for model %r, and %r answered. Records say so: see answered_by.",
                self._endpoint.name,
                self._endpoint.model,
                answered_by,
            )


async def ask_all(
    client: ChatClient,
    payloads: Sequence[dict[str, Any]],
    on_done: Callable[[int, ChatReply | RequestError], None] | None = None,
    attempt: int = 0,
) -> list[ChatReply | RequestError]:
    """The answers to many payloads, in their order; a request that failed for good stands as its error.

    Args:
        client: decides how many are in flight at once.
        payloads: chat-completions payloads (without `model`).
        on_done: called as each one is done, with its index and its outcome.
        attempt: the attempt number of all of them.

    Raises:
        BackendError: the endpoint is gone; the rest is cancelled at once.
        BudgetError: the budget is used up; what was in flight has been answered and kept.
    """
    stopped: list[BudgetError] = []

    async def one(index: int, payload: dict[str, Any]) -> ChatReply | RequestError:
        outcome: ChatReply | RequestError
        try:
            outcome = await client.ask(payload, attempt)
        except RequestError as error:
            outcome = error
        except BudgetError as error:
            stopped.append(error)
            return RequestError(error.what)
        if on_done is not None:
            on_done(index, outcome)
        return outcome

    tasks = [asyncio.create_task(one(index, payload)) for index, payload in enumerate(payloads)]
    try:
        outcomes = list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if stopped:
        raise stopped[0]
    return outcomes
