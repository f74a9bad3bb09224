"""Direct transport: sends single concurrent requests to `/chat/completions`, with an adaptive limit and retries.

A request keeps its place in flight while it waits for a retry, so an overloaded server gets fewer requests. Places are
given in the order of the calls: events of a dialogue that are requested next to each other are answered next to each
other, from one prefix cache on the server. The first request with a shared prefix (all messages except the last: system
text and examples) is sent alone; the others wait until it has been tried and then find the prefix in that cache.

Requests of one turn do not wait for the answer to its first one, as that saved nothing: llama.cpp has a cache per slot,
and 51 requests in four slots computed 4,134 tokens; with a turn's later requests held back 4,197, in one slot 2,222.
"""

import asyncio
from typing import Any

from backends.chat.answers import estimate_tokens, make_estimated_reply, read_answer
from backends.chat.budget import Spending
from backends.chat.cache import StoredReply, make_request_id
from backends.chat.connection import open_async
from backends.chat.faults import (
    NO_CONNECTION,
    TIMEOUT,
    FaultTranslator,
    TryAgainError,
    UnusableAnswerError,
    make_timeout_error,
)
from backends.chat.limits import Delays, Pace, make_retry_options
from backends.chat.log import log_try
from backends.chat.protocol import Endpoint
from backends.chat.providers import Provider, make_full_url
from backends.chat.servers import EndpointServer, EndpointServers
from data_schemas import ids
from data_schemas.config import ChatConfig


class DirectTransport:
    """Sends requests to an endpoint's `/chat/completions`; of several servers to the one with the fewest open requests.

    Args:
        endpoint, config, provider: the endpoint, the client's settings and the provider.
        faults: translates errors; knows the API key.
        spending: the budget, which is checked before each request.
        pace: decides when a request may start.
        delays: waits between attempts.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: ChatConfig,
        provider: Provider,
        faults: FaultTranslator,
        spending: Spending,
        pace: Pace,
        delays: Delays,
    ) -> None:
        self._endpoint = endpoint
        self._config = config
        self._provider = provider
        self._faults = faults
        self._spending = spending
        self._pace = pace
        self._delays = delays
        self._tried: dict[str, asyncio.Event] = {}
        self._sent: set[str] = set()
        self._servers = pace.servers if len(pace.servers.all) > 1 else EndpointServers([endpoint.base_url])
        self._openai = {
            server: open_async(
                make_full_url(server.url, provider, endpoint.model), faults.api_key, config.timeout_s, provider
            )
            for server in self._servers.all
        }

    async def fetch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        """Requests the answer to a payload and returns it; counts its cost, but leaves storing it to the caller.

        Requests with the same beginning (all messages but the last) wait until the first of them has been tried once.

        Raises:
            RequestError, BackendError: see `OpenAIChatClient.ask`.
            BudgetError: the budget does not allow the request.
        """
        beginning = ids.digest("beginning", payload["messages"][:-1])
        is_first = beginning not in self._tried
        tried = self._tried.setdefault(beginning, asyncio.Event())
        if not is_first:
            await tried.wait()
        try:
            async with self._pace.places.take_place():
                body = self._provider.make_body(payload, self._endpoint.model, self._config.extra)
                return await self._send_with_retries(make_request_id(key), body, tried)
        finally:
            tried.set()

    def is_sent(self, key: str) -> bool:
        """Returns whether an attempt of the request is at the endpoint now."""
        return make_request_id(key) in self._sent

    async def aclose(self) -> None:
        """Closes the connections."""
        for each in self._openai.values():
            await each.close()

    async def _send_with_retries(self, request: str, body: dict[str, Any], tried: asyncio.Event) -> StoredReply:
        """Sends a request, again after temporary failures, and returns the answer; sets `tried` after one attempt.

        A request whose attempts all failed is counted in the health's `n_given_up`.

        Raises:
            RequestError, BackendError, BudgetError: as `fetch`.
        """
        from tenacity import AsyncRetrying

        retrying = AsyncRetrying(
            **make_retry_options(self._config.max_attempts, self._delays, self._spending.count_retry)
        )
        n_answered = self._spending.usage.n_requests
        try:
            async for attempt in retrying:
                with attempt:
                    try:
                        reply = await self._try_once(request, body, attempt.retry_state.attempt_number)
                    finally:
                        tried.set()
        except TryAgainError as last:
            self._pace.health.n_given_up += 1
            nobody = self._is_nobody_answered(last, n_answered)
            raise self._faults.make_final_error(
                last, request, self._config.max_attempts, nobody_is_answered=nobody
            ) from last
        return reply

    def _is_nobody_answered(self, last: TryAgainError, n_answered_before: int) -> bool:
        """Returns whether a failed request shows that the endpoint answers no request at all.

        That is so if none was answered since its first attempt, and either the server is unreachable, or several in a
        row failed finally, or none was ever answered and the last attempt did not time out, as for a long answer.
        """
        n_answered = self._spending.usage.n_requests
        if n_answered > n_answered_before:
            return False
        if last.status == NO_CONNECTION or self._pace.health.answers_nobody:
            return True
        return n_answered == 0 and last.status != TIMEOUT

    async def _try_once(self, request: str, body: dict[str, Any], number: int) -> StoredReply:
        """Makes one attempt when budget and rate limits allow it, counts what it costs and logs it.

        Raises:
            TryAgainError: it failed in a way that may be temporary.
            RequestError, BackendError, BudgetError: as `fetch`.
        """
        estimate = estimate_tokens(body)
        async with self._spending.reserve_cost(body):
            await self._pace.wait_until_ready(sum(estimate))
            begun_s = asyncio.get_running_loop().time()
            self._sent.add(request)
            try:
                reply = read_answer(await self._send(request, body), estimate)
            except Exception as error:
                self._charge(_find_paid(error, estimate), estimate, is_usable=False)
                self._record_fault(error, request, number, begun_s)
                if isinstance(error, UnusableAnswerError) and error.is_final:
                    raise self._faults.make_no_text_error(error, request) from error
                raise
            finally:
                self._sent.discard(request)
            self._charge(reply, estimate)
        ended_s = asyncio.get_running_loop().time()
        self._pace.places.record_answer(begun_s, ended_s)
        self._log(request, number, ended_s - begun_s, "200", n_in=reply.n_tokens_in, n_out=reply.n_tokens_out)
        return reply

    async def _send(self, request: str, body: dict[str, Any]) -> str:
        """Returns the response's body from the first server that accepts the request; each is tried at most once."""
        tried: list[EndpointServer] = []
        while True:
            server = self._servers.choose(tried)
            try:
                with self._servers.track_request(server):
                    return await self._send_to(server, request, body)
            except TryAgainError as fault:
                tried.append(server)
                if not self._servers.may_ask_another(fault, tried):
                    raise

    async def _send_to(self, server: EndpointServer, request: str, body: dict[str, Any]) -> str:
        """Returns the response's body from one server; raises our errors instead of openai's."""
        import openai

        try:
            async with asyncio.timeout(self._config.timeout_s):  # openai's own timeout is between two bytes
                # Not `chat.completions.create`: it visits every message, which takes a fifth of a request's CPU time.
                return await self._openai[server].post("/chat/completions", cast_to=str, body=body)
        except TimeoutError as error:
            raise make_timeout_error(f"no answer in {self._config.timeout_s:g} s") from error
        except openai.APIError as error:
            raise self._faults.translate(error, request) from None  # its text may quote the key

    def _charge(self, paid: StoredReply | None, estimate: tuple[int, int], *, is_usable: bool = True) -> None:
        """Counts the cost of an attempt (None: it cost nothing), and corrects the rate limit's estimate to it."""
        if paid is not None:
            self._spending.add(paid, is_usable=is_usable)
        n_tokens = 0 if paid is None else paid.n_tokens_in + paid.n_tokens_out
        self._pace.tokens.correct(n_tokens - sum(estimate))

    def _record_fault(self, error: Exception, request: str, number: int, begun_s: float) -> None:
        """Logs a failed attempt; lowers the limit if the server is overloaded, and pauses if it asks to wait."""
        status = str(getattr(error.__context__, "status_code", type(error).__name__))  # of openai's error behind it
        if isinstance(error, TryAgainError):
            status = error.status
            if error.overloaded:
                self._pace.places.record_overload(begun_s)
            if error.retry_after_s:
                self._pace.pause(error.retry_after_s)
        # The error's text is not logged: it quotes the server, and servers quote requests.
        self._log(request, number, asyncio.get_running_loop().time() - begun_s, status)

    def _log(self, request: str, number: int, latency_s: float, status: str, **fields: Any) -> None:
        """Logs an attempt with its latency, seconds, its status and further fields."""
        log_try(
            "try",
            request_id=request,
            endpoint=self._endpoint.name,
            model=self._endpoint.model,
            attempt=number,
            status=status,
            latency_s=round(latency_s, 4),
            limit=self._pace.places.limit,
            **fields,
        )


def _find_paid(error: Exception, estimate: tuple[int, int]) -> StoredReply | None:
    """Returns what a failed attempt cost, estimated if that is not known; None if it cost nothing."""
    if isinstance(error, UnusableAnswerError):
        return error.paid
    is_open = isinstance(error, TryAgainError) and error.may_be_paid
    return make_estimated_reply(estimate) if is_open else None
