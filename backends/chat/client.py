"""The client for every request to a chat model: concurrent, with retries, caching, token counts and a budget.

A run may rely on this: an answer that was received is never requested again (`cache.py`), identical concurrent requests
are sent once, and an error says whether only this request failed (`RequestError`) or the run must stop (`BackendError`,
`BudgetError`). The transport decides how a request is sent: `direct.py` or `batch.py`.
"""

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from backends.chat.batch import BatchTransport
from backends.chat.budget import ChatUsage, Spending
from backends.chat.cache import ReplyCache, StoredReply, make_reply_key, make_request_id
from backends.chat.direct import DirectTransport
from backends.chat.faults import FaultTranslator
from backends.chat.limits import DELAYS, Delays, Pace
from backends.chat.model_names import is_as_asked
from backends.chat.protocol import ChatClient, ChatReply, Endpoint
from backends.chat.providers import get_key_env, get_price, get_provider, read_api_key
from backends.chat.thoughts import split_thought
from data_schemas.config import BudgetConfig, ChatConfig
from data_schemas.errors import BackendError, BudgetError, RequestError

_log = logging.getLogger(__name__)


class Transport(Protocol):
    """Sends a request to an endpoint."""

    async def fetch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        """Requests and returns the answer to a payload that is not in the cache under its key, and counts its cost.

        It may store the answer under that key.
        """

    def is_sent(self, key: str) -> bool:
        """Returns whether a request is at the endpoint: cancelling it could lose an answer that is paid for."""

    async def aclose(self) -> None:
        """Releases its resources."""


class OpenAIChatClient:
    """Client of any OpenAI-compatible endpoint; use it as `async with`, which closes its connections.

    The API key is read from the environment and appears in no message, log or file.

    Args:
        endpoint, config, cache: the endpoint, the client's settings, and where answers are stored.
        budget: the budget of the whole run (`budget.py`).
        pace: rate limits and health, shared by consecutive clients of the same endpoint to keep what was learned.
        delays: waiting times between attempts and requests; tests make them short.

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
        provider = get_provider(config)
        price = get_price(config, endpoint.model)
        faults = FaultTranslator(endpoint, read_api_key(config), get_key_env(config), longest_wait_s=config.max_wait_s)
        self._endpoint = endpoint
        self._cache = cache
        self._in_flight: dict[str, asyncio.Task[ChatReply]] = {}
        self._n_callers: Counter[str] = Counter()
        self._answerers: set[str] = set()
        self._is_deployment = "{model}" in provider.path  # requested by a name of the account's own, not by a model's
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
        """The token usage so far: one object that is updated."""
        return self._spending.usage

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        """Returns the answer to a chat-completions payload (without `model`), from the cache if it is stored there.

        A different `attempt` of the same payload has a different cache key: it asks again after an unusable answer.
        Cancelling a call, the only one for its request, cancels the request unless it has been sent: its answer is then
        still stored. `aclose` cancels it.

        Raises:
            RequestError: the request was rejected, or all attempts failed.
            BackendError: authentication failed, the model is unknown, the endpoint answers no request, or nearly all
                recent requests failed.
            BudgetError: the budget does not allow it; requests in flight are still completed and stored.
            StoreError: the cache cannot be read or written.
        """
        key = make_reply_key(self._endpoint, payload, attempt)
        stored = self._cache.get(key)
        if stored is not None:
            self.usage.n_from_cache += 1
            return self._make_reply(stored, key, from_cache=True)
        running = self._in_flight.get(key)
        if running is not None:
            reply = await self._wait_for(key, running)
            self.usage.n_from_cache += 1
            return dataclasses.replace(reply, from_cache=True)
        task = asyncio.create_task(self._fetch(key, payload))
        self._in_flight[key] = task
        task.add_done_callback(lambda done: self._remove_finished(key, done))
        return await self._wait_for(key, task)

    async def aclose(self) -> None:
        """Cancels requests in flight, or awaits them if the budget is used up (they are paid); closes connections."""
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

    async def _wait_for(self, key: str, task: asyncio.Task[ChatReply]) -> ChatReply:
        """Returns the reply of a request; cancelled as its last caller, cancels the request if it has not been sent."""
        self._n_callers[key] += 1
        try:
            return await asyncio.shield(task)  # cancelling one caller does not cancel the others
        finally:
            self._n_callers[key] -= 1
            if not self._n_callers[key]:
                del self._n_callers[key]
                if not (task.done() or self._transport.is_sent(key)):
                    del self._in_flight[key]  # another call must not wait for what is being cancelled
                    task.cancel()

    def _remove_finished(self, key: str, task: asyncio.Task[ChatReply]) -> None:
        if self._in_flight.get(key) is task:
            del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved: all callers may have gone

    async def _fetch(self, key: str, payload: dict[str, Any]) -> ChatReply:
        """Sends a request, stores its answer and returns the reply; records either outcome for the endpoint's health.

        Raises:
            RequestError: it failed, and the endpoint counts as healthy (`Health.describe_fault`).
            BackendError: as `ask`.
        """
        try:
            answer = await self._transport.fetch(key, payload)
        except RequestError as error:
            self.usage.n_failed += 1
            self._health.record_failure()
            if verdict := self._health.describe_fault():
                raise BackendError(
                    f"The chat endpoint {self._endpoint.name!r} fails too often: {verdict}. {error.what}",
                    "Fix the endpoint or the payload's settings and run again: completed answers are cached.",
                ) from error
            raise
        self._health.record_answer()
        return self._make_reply(self._cache.put(key, answer, self._endpoint), key, from_cache=False)

    def _make_reply(self, stored: StoredReply, key: str, *, from_cache: bool) -> ChatReply:
        """Makes the reply of a stored answer, with its thoughts separated from its text.

        Warns if another model gave it.
        """
        self._warn_if_other_model(stored.answered_by)
        counts = (stored.n_tokens_in, stored.n_tokens_cached, stored.n_tokens_out)
        who = (stored.answered_by, stored.system_fingerprint)
        thought, text = split_thought(stored.text)
        return ChatReply(text, make_request_id(key), *counts, from_cache, stored.finish_reason, *who, thought)

    def _warn_if_other_model(self, answered_by: str | None) -> None:
        """Warns, once per name, if another model answered than was requested."""
        if answered_by is None or answered_by in self._answerers:
            return
        self._answerers.add(answered_by)
        if not self._is_deployment and not is_as_asked(answered_by, self._endpoint.model):
            _log.warning(
                "The chat endpoint %r was asked for model %r, but %r answered. This is recorded as answered_by.",
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
    """Requests the answers to many payloads and returns them in order; a failed request is returned as its error.

    Args:
        client: decides how many requests are in flight at once.
        payloads: chat-completions payloads (without `model`).
        on_done: called when each request is done, with its index and outcome; not for requests that the budget stopped.
        attempt: the attempt number of all of them.

    Raises:
        BackendError, StoreError: see `OpenAIChatClient.ask`; requests that have not been sent are cancelled, and those
            in flight are no longer awaited, but the client continues them until its `aclose`.
        BudgetError: the budget is used up; requests in flight have been answered and stored.
    """
    stopped: list[BudgetError] = []

    async def ask_one(index: int, payload: dict[str, Any]) -> ChatReply | RequestError:
        """Returns an answer, or the error of a failed request; keeps a BudgetError, which is raised at the end."""
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

    tasks = [asyncio.create_task(ask_one(index, payload)) for index, payload in enumerate(payloads)]
    try:
        outcomes = list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if stopped:
        raise stopped[0]
    return outcomes
