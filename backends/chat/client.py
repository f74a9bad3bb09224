"""The one client for every request to a chat model: many in flight, retried, cached, counted.

What a run may rely on: an answer once received is never asked for again (`cache.py`), two askers of the same thing at
the same time cause one request, and an error says whether this request is lost (`RequestError`) or the run must stop
(`BackendError`). A place in flight is kept while a request waits for its next try, so an overloaded server gets fewer.
"""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from backends.chat.cache import ReplyCache, StoredReply, reply_key, request_id
from backends.chat.connection import open_async, read_api_key
from backends.chat.faults import FaultTranslator, TryAgainError
from backends.protocols import ChatClient, ChatReply, Endpoint
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, RequestError

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_BACKOFF_S = 0.5
"""Most seconds before the second try; doubled with each further one, and a random share of it is waited."""
MAX_BACKOFF_S = 30.0
MIN_FAILURES = 8
MAX_FAILED_SHARE = 0.9
"""From so many failures on, and when so many of all requests failed, the endpoint is at fault and not they."""


@dataclass(slots=True)
class ChatUsage:
    """What a client has caused so far. Tokens are those of new answers only: cached ones cost nothing again."""

    n_requests: int = 0
    n_from_cache: int = 0
    n_retries: int = 0
    n_failed: int = 0
    n_tokens_in: int = 0
    n_tokens_cached: int = 0
    n_tokens_out: int = 0


class OpenAIChatClient:
    """Asks any OpenAI-compatible endpoint; use as `async with`, which closes its connections.

    The key is read from the environment variable that `config` names and goes into no message and no file.
    Times (`config.timeout_s`, `first_backoff_s`) are seconds; tests make the backoff short.
    """

    def __init__(
        self, endpoint: Endpoint, config: ChatConfig, cache: ReplyCache, first_backoff_s: float = FIRST_BACKOFF_S
    ) -> None:
        self.usage = ChatUsage()
        self._endpoint = endpoint
        self._config = config
        self._cache = cache
        self._first_backoff_s = first_backoff_s
        self._places = asyncio.Semaphore(config.n_in_flight)
        self._in_flight: dict[str, asyncio.Task[ChatReply]] = {}
        key = read_api_key(config)
        self._faults = FaultTranslator(endpoint, key, config.api_key_env, longest_wait_s=config.timeout_s)
        self._openai = open_async(endpoint.base_url, key, config.timeout_s)

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        """The answer to a chat-completions payload (without `model`), from the cache where it has been given.

        Another `attempt` of the same payload is another question to the cache: for asking again after an answer
        that the caller could not use.

        Raises:
            RequestError: refused as such, or failed in every try.
            BackendError: our key is refused, the model is unknown, or the endpoint answers nobody.
            StoreError: the cache cannot be read or written.
        """
        key = reply_key(self._endpoint, payload, attempt)
        stored = self._cache.get(key)
        if stored is not None:
            self.usage.n_from_cache += 1
            return _as_reply(stored, key, from_cache=True)
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
        """Gives up what is still in flight and closes the connections."""
        running = list(self._in_flight.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._openai.close()

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
        async with self._places:
            try:
                answer = await self._with_retries(request_id(key), payload)
            except RequestError as error:
                self._count_failure(error)
                raise
        self.usage.n_requests += 1
        self.usage.n_tokens_in += answer.n_tokens_in
        self.usage.n_tokens_cached += answer.n_tokens_cached
        self.usage.n_tokens_out += answer.n_tokens_out
        return _as_reply(self._cache.put(key, answer, self._endpoint), key, from_cache=False)

    def _count_failure(self, error: RequestError) -> None:
        self.usage.n_failed += 1
        n_failed, n_answered = self.usage.n_failed, self.usage.n_requests + self.usage.n_from_cache
        if n_failed < MIN_FAILURES or n_failed < MAX_FAILED_SHARE * (n_failed + n_answered):
            return
        raise BackendError(
            f"{n_failed} requests to {self._endpoint.name!r} failed and {n_answered} were answered: {error.what}",
            "Mend the endpoint or the payload's settings and run again: answers are kept.",
        ) from error

    async def _with_retries(self, request: str, payload: dict[str, Any]) -> StoredReply:
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._config.max_attempts),
            wait=self._wait_s,
            retry=retry_if_exception_type(TryAgainError),
            reraise=True,
        )
        try:
            return await retrying(self._try_once, request, payload)
        except TryAgainError as last:
            raise self._faults.give_up(last, request, self._config.max_attempts) from last

    def _wait_s(self, state: "RetryCallState") -> float:
        from tenacity import wait_random_exponential

        self.usage.n_retries += 1
        backoff_s = wait_random_exponential(multiplier=self._first_backoff_s, max=MAX_BACKOFF_S)(state)
        error = state.outcome.exception() if state.outcome else None
        return backoff_s + (error.retry_after_s if isinstance(error, TryAgainError) else 0.0)

    async def _try_once(self, request: str, payload: dict[str, Any]) -> StoredReply:
        import openai

        body = {name: value for name, value in payload.items() if name != "messages"}
        try:
            async with asyncio.timeout(self._config.timeout_s):  # openai's own limit is between two bytes
                raw = await self._openai.chat.completions.with_raw_response.create(
                    model=self._endpoint.model, messages=payload["messages"], extra_body=body
                )
        except TimeoutError as error:
            raise TryAgainError(f"no answer in {self._config.timeout_s:g} s") from error
        except openai.APIError as error:
            raise self._faults.translate(error, request) from None  # its text may quote the key
        return read_answer(raw.text)


def read_answer(text: str) -> StoredReply:
    """The answer in a chat-completions response. An empty one is an answer; what it is worth is the caller's to say.

    Raises:
        TryAgainError: it is not JSON, or has no choice with a text.
    """
    try:
        response = json.loads(text)
        content = response["choices"][0]["message"]["content"]
        usage = response.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        counts = [usage.get("prompt_tokens"), details.get("cached_tokens"), usage.get("completion_tokens")]
        if not isinstance(content, str):
            raise TypeError("its content is no text")
        content.encode()  # half a surrogate pair is no text either
        return StoredReply(content, *(int(count or 0) for count in counts))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise TryAgainError(f"an answer without a usable choice ({type(error).__name__}: {error})") from error


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
    """

    async def one(index: int, payload: dict[str, Any]) -> ChatReply | RequestError:
        outcome: ChatReply | RequestError
        try:
            outcome = await client.ask(payload, attempt)
        except RequestError as error:
            outcome = error
        if on_done is not None:
            on_done(index, outcome)
        return outcome

    tasks = [asyncio.create_task(one(index, payload)) for index, payload in enumerate(payloads)]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _as_reply(stored: StoredReply, key: str, *, from_cache: bool) -> ChatReply:
    counts = (stored.n_tokens_in, stored.n_tokens_cached, stored.n_tokens_out)
    return ChatReply(stored.text, request_id(key), *counts, from_cache)
