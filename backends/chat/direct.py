"""Requests sent one by one, many at once: as many as the server bears, each tried again where that may help.

A place in flight is kept while a request waits for its next try, so an overloaded server gets fewer. Places are given
in the order of asking: whoever asks for the events of a dialogue next to each other has them answered next to each
other, from one server-side prefix cache. The first request of a shared beginning (all messages but the last: system
text and examples) goes alone; the others wait until it has been tried, and then find the beginning in that cache.

Requests of one turn are not held until its first is answered: that saved nothing. llama.cpp keeps a cache for each
slot, and 51 requests in four slots computed 4,134 tokens, with a turn's later requests held 4,197, in one slot 2,222.
"""

import asyncio
from typing import Any

from backends.chat.answers import estimated_tokens, paid_by_estimate, read_answer
from backends.chat.budget import Spending
from backends.chat.cache import StoredReply, request_id
from backends.chat.connection import open_async
from backends.chat.faults import (
    NO_CONNECTION,
    TIMEOUT,
    FaultTranslator,
    TryAgainError,
    UnusableAnswerError,
    no_answer,
)
from backends.chat.limits import Delays, Pace, retry_options
from backends.chat.log import log_try
from backends.chat.protocol import Endpoint
from backends.chat.providers import Provider, full_url
from backends.chat.servers import Server, Servers
from data_schemas import ids
from data_schemas.config import ChatConfig


class DirectTransport:
    """Asks an endpoint's `/chat/completions`; of several servers the one with the fewest requests to answer.

    Args:
        endpoint, config, provider: whom, how, and with which habits.
        faults: knows the key.
        spending: asked before each request.
        pace: decides when one may begin.
        delays: between tries.
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
        self._servers = pace.servers if len(pace.servers.all) > 1 else Servers([endpoint.base_url])
        self._openai = {
            server: open_async(
                full_url(server.url, provider, endpoint.model), faults.api_key, config.timeout_s, provider
            )
            for server in self._servers.all
        }

    async def fetch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        """The answer to a payload that is not in the cache.

        Raises:
            RequestError, BackendError: see `OpenAIChatClient.ask`.
            BudgetError: the run may not pay for it.
        """
        beginning = ids.digest("beginning", payload["messages"][:-1])
        is_first = beginning not in self._tried
        tried = self._tried.setdefault(beginning, asyncio.Event())
        if not is_first:
            await tried.wait()
        try:
            async with self._pace.places.place():
                body = self._provider.body(payload, self._endpoint.model, self._config.extra)
                return await self._with_retries(request_id(key), body, tried)
        finally:
            tried.set()

    async def aclose(self) -> None:
        """Closes the connections."""
        for each in self._openai.values():
            await each.close()

    async def _with_retries(self, request: str, body: dict[str, Any], tried: asyncio.Event) -> StoredReply:
        from tenacity import AsyncRetrying

        retrying = AsyncRetrying(**retry_options(self._config.max_attempts, self._delays, self._spending.count_retry))
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
            nobody = self._nobody_is_answered(last, n_answered)
            raise self._faults.give_up(last, request, self._config.max_attempts, nobody_is_answered=nobody) from last
        return reply

    def _nobody_is_answered(self, last: TryAgainError, n_answered_before: int) -> bool:
        """Whether a request that was given up stands for all: none was answered since its first try, and either the
        server is not there, or none ever was, or several were given up in a row (a refusal may be a matter of luck, a
        timeout that of a long answer)."""
        n_answered = self._spending.usage.n_requests
        if n_answered > n_answered_before:
            return False
        if last.status == NO_CONNECTION or self._pace.health.answers_nobody:
            return True
        return n_answered == 0 and last.status != TIMEOUT

    async def _try_once(self, request: str, body: dict[str, Any], number: int) -> StoredReply:
        estimate = estimated_tokens(body)
        async with self._spending.reserved(body):
            await self._pace.ready(sum(estimate))
            begun_s = asyncio.get_running_loop().time()
            try:
                reply = read_answer(await self._send(request, body), estimate)
            except Exception as error:
                self._charge(_paid_for(error, estimate), estimate, is_usable=False)
                self._note_fault(error, request, number, begun_s)
                if isinstance(error, UnusableAnswerError) and error.is_final:
                    raise self._faults.without_text(error, request) from error
                raise
            self._charge(reply, estimate)
        ended_s = asyncio.get_running_loop().time()
        self._pace.places.answered(begun_s, ended_s)
        self._log(request, number, ended_s - begun_s, "200", n_in=reply.n_tokens_in, n_out=reply.n_tokens_out)
        return reply

    async def _send(self, request: str, body: dict[str, Any]) -> str:
        """The body of the response, of the first server that takes the request; each is asked once."""
        tried: list[Server] = []
        while True:
            server = self._servers.choose(tried)
            try:
                with self._servers.asking(server):
                    return await self._send_to(server, request, body)
            except TryAgainError as fault:
                tried.append(server)
                if not self._servers.may_ask_another(fault, tried):
                    raise

    async def _send_to(self, server: Server, request: str, body: dict[str, Any]) -> str:
        import openai

        try:
            async with asyncio.timeout(self._config.timeout_s):  # openai's own limit is between two bytes
                # Not `chat.completions.create`: it walks through every message, a fifth of a request's processor time.
                return await self._openai[server].post("/chat/completions", cast_to=str, body=body)
        except TimeoutError as error:
            raise no_answer(f"no answer in {self._config.timeout_s:g} s") from error
        except openai.APIError as error:
            raise self._faults.translate(error, request) from None  # its text may quote the key

    def _charge(self, paid: StoredReply | None, estimate: tuple[int, int], *, is_usable: bool = True) -> None:
        """Counts what a try took, and puts that in the place of the estimate that its start was delayed for."""
        if paid is not None:
            self._spending.add(paid, is_usable=is_usable)
        n_tokens = 0 if paid is None else paid.n_tokens_in + paid.n_tokens_out
        self._pace.tokens.correct(n_tokens - sum(estimate))

    def _note_fault(self, error: Exception, request: str, number: int, begun_s: float) -> None:
        status = str(getattr(error.__context__, "status_code", type(error).__name__))  # of openai's error behind it
        if isinstance(error, TryAgainError):
            status = error.status
            if error.overloaded:
                self._pace.places.overloaded(begun_s)
            if error.retry_after_s:
                self._pace.pause(error.retry_after_s)
        # Not what the error says: it quotes the server, and servers quote what they were asked.
        self._log(request, number, asyncio.get_running_loop().time() - begun_s, status)

    def _log(self, request: str, number: int, latency_s: float, status: str, **fields: Any) -> None:
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


def _paid_for(error: Exception, estimate: tuple[int, int]) -> StoredReply | None:
    """What a try that failed took; None for one that the server did not work on."""
    if isinstance(error, UnusableAnswerError):
        return error.paid
    is_open = isinstance(error, TryAgainError) and error.may_be_paid
    return paid_by_estimate(estimate) if is_open else None
