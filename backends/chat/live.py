"""Streaming chat client for live answers: one attempt, no cache, cancelled as soon as nobody wants the answer.

The pipeline's client (`client.py`) does the opposite: it gets every answer exactly once, whatever that takes. Both use
the same provider settings, API key and error handling.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from backends.characters import CharacterStream
from backends.chat.answers import estimate_tokens, is_filtered, read_usage
from backends.chat.connection import open_async
from backends.chat.faults import REFUSED, FaultTranslator, TryAgainError
from backends.chat.protocol import Endpoint
from backends.chat.providers import get_key_env, get_provider, make_full_url, read_api_key
from backends.chat.servers import EndpointServer, EndpointServers
from backends.chat.thoughts import SET_THINKS, ThoughtStream
from data_schemas.config import ChatConfig
from data_schemas.errors import AnswerCut, AnswerRefused, BackendError, RequestError, UnexpectedThought

if TYPE_CHECKING:
    import openai

CUT_SHORT = "cut off"
"""Status of a `TryAgainError` if the server closed the connection."""

_GONE = "Check that its server runs, that its URL is right, and that the quota is not used up."

_THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields for thoughts of servers that separate them: SGLang, DeepSeek and vLLM; newer vLLM and OpenRouter."""

REQUEST = "for a live answer"
"""How errors name a request, which has no id because nothing of it is stored."""


@dataclass(slots=True)
class LiveUsage:
    """The token usage of a client so far.

    `n_given_up` counts answers that we cancelled. `n_estimated` counts answers without usage from the server, including
    cancelled ones: input tokens are estimated by the length of the request, output tokens by the pieces received.
    `n_tokens_cached` counts input tokens that the server reported to come from its cache.
    """

    n_requests: int = 0
    n_failed: int = 0
    n_given_up: int = 0
    n_tokens_in: int = 0
    n_tokens_cached: int = 0
    n_tokens_out: int = 0
    n_estimated: int = 0


class OpenAILiveChat:
    """Streams answers from any OpenAI-compatible endpoint; `aclose` (or `async with`) closes its connections.

    The API key is read from the environment and appears in no message or log. A model that is configured to think
    (`config.thinks`) is requested without stop texts, which would end its thought, and nothing of its answers is
    yielded before `</think>`. One answer never changes how others are treated, as any caller's prompt may ask for
    thought marks.

    Args:
        endpoint: the model, and its base URL unless `config` has several.
        config: with several base URLs, requests are balanced over these servers.

    Attributes:
        usage: one object that is updated.

    Raises:
        ConfigError: the provider is unknown or needs a key.
    """

    def __init__(self, endpoint: Endpoint, config: ChatConfig) -> None:
        self.usage = LiveUsage()
        self._endpoint = endpoint
        self._provider = get_provider(config)
        self._extra = config.extra
        self._thinks = config.thinks
        key = read_api_key(config)
        self._faults = FaultTranslator(endpoint, key, get_key_env(config), longest_wait_s=config.max_wait_s)
        self._servers = EndpointServers(config.base_urls if len(config.base_urls) > 1 else [endpoint.base_url])
        self._openai = {
            server: open_async(
                make_full_url(server.url, self._provider, endpoint.model), key, config.timeout_s, self._provider
            )
            for server in self._servers.all
        }

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """Yields the pieces of the answer to a chat-completions payload (without `model`); empty ones during thought.

        Closing the iterator, or cancelling the task that waits for it, closes the connection, which makes servers stop.
        The request is sent once, except if a kept-alive connection turns out to have been closed by the server, or if
        one of several servers did not accept it: then another is asked.

        Raises:
            AnswerCut: at the end, if the answer reached its token limit.
            UnexpectedThought: it contains thought, and the model is not configured to think.
            AnswerRefused: at the end, if the model or its provider's filter ended it.
            RequestError: the request was rejected, the server failed on it, or the answer cannot be parsed.
            BackendError: the endpoint rejects our key or model, is unreachable or overloaded, sends nothing for longer
                than the timeout, or closed the connection before the end of the answer.
        """
        answer = _Answer(payload, thinks=self._thinks)
        self.usage.n_requests += 1
        try:
            async with aclosing(self._read_pieces(payload, answer)) as pieces:
                async for piece in pieces:
                    yield piece
        except (asyncio.CancelledError, GeneratorExit):
            self.usage.n_given_up += 1
            raise
        except TryAgainError as fault:
            self.usage.n_failed += 1
            kind = BackendError if fault.endpoint_gone else RequestError
            what = f"The chat endpoint {self._endpoint.name!r} gave no whole answer: {fault.reason}."
            raise kind(what, _GONE if fault.endpoint_gone else "", fault.status) from fault
        except AnswerCut:
            raise
        except (BackendError, RequestError):
            self.usage.n_failed += 1
            raise
        finally:
            answer.count(self.usage)

    async def aclose(self) -> None:
        """Closes its connections."""
        for each in self._openai.values():
            await each.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _read_pieces(self, payload: dict[str, Any], answer: "_Answer") -> AsyncGenerator[str, None]:
        """Yields the answer's pieces.

        Raises:
            TryAgainError: the connection failed or was overloaded, or an event cannot be parsed.
            AnswerCut, AnswerRefused, UnexpectedThought, RequestError, BackendError: as `stream`.
        """
        import openai

        try:
            async with self._open_events(payload) as events:
                async for event in events:
                    if (piece := answer.read_piece(event)) is not None:
                        yield piece
        except openai.APIError as error:
            raise self._faults.translate(error, REQUEST) from None  # its text may quote the key
        except ValueError as error:
            raise TryAgainError(f"an event that cannot be read ({type(error).__name__})", "malformed") from error
        answer.check_is_whole()
        if rest := answer.flush():
            yield rest
        if answer.is_refused:
            raise AnswerRefused("The chat model, or its provider's filter, refused to answer.", status=REFUSED)
        if answer.is_cut:
            raise AnswerCut("The answer was cut off at its token limit.")

    @asynccontextmanager
    async def _open_events(self, payload: dict[str, Any]) -> AsyncIterator["openai.AsyncStream[object]"]:
        """Yields the answer's events from the first server that accepts the request; each is tried at most once.

        Once the events have begun, a fault is raised, and no other server is tried.
        """
        tried: list[EndpointServer] = []
        while True:
            server = self._servers.choose(tried)
            is_open = False
            try:
                with self._servers.track_request(server):
                    async with await self._open_with_retry(server, payload) as events:
                        is_open = True
                        yield events
                return
            except TryAgainError as fault:
                tried.append(server)
                if is_open or not self._servers.may_ask_another(fault, tried):
                    raise

    async def _open_with_retry(self, server: EndpointServer, payload: dict[str, Any]) -> "openai.AsyncStream[object]":
        """Opens a server's event stream, again with a new connection if the kept-alive one has been closed.

        Raises:
            TryAgainError, RequestError, BackendError: as `FaultTranslator.translate` returns.
        """
        import openai

        try:
            return await self._open(server, payload)
        except openai.APIError as error:
            fault = self._faults.translate(error, REQUEST)
            if not isinstance(error, openai.APIConnectionError) or getattr(fault, "status", "") != CUT_SHORT:
                raise fault from None  # its text may quote the key
        try:
            return await self._open(server, payload)
        except openai.APIError as error:
            raise self._faults.translate(error, REQUEST) from None

    async def _open(self, server: EndpointServer, payload: dict[str, Any]) -> "openai.AsyncStream[object]":
        """Sends the request to a server and returns its event stream; a thinking model gets no stop texts."""
        import openai

        asked = {**payload, "stream": True, "stream_options": {"include_usage": True}}
        if self._thinks:
            asked.pop("stop", None)
        body = self._provider.make_body(asked, self._endpoint.model, self._extra)
        # Not `chat.completions.create`: it builds a tree of objects for each token.
        return await self._openai[server].post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
        )


class _Answer:
    """The state of a streamed answer. `is_cut`: the token limit was reached; `is_refused`: model or filter ended it."""

    def __init__(self, payload: dict[str, Any], *, thinks: bool) -> None:
        self.is_cut = self.is_refused = False
        self._n_in, _ = estimate_tokens(payload)
        self._characters, self._thoughts = CharacterStream(), ThoughtStream(is_expected=thinks)
        self._is_said_to_think = thinks
        self._n_pieces = self._n_returned = 0
        self._usage: Any = None
        self._has_ended = False

    def read_piece(self, event: Any) -> str | None:
        """Returns the text that an event adds; empty while the model thinks, None if nothing is added.

        Raises:
            ValueError: it is not a chat completion event.
            UnexpectedThought: text that was already returned was thought.
        """
        try:
            self._usage = event.get("usage") or self._usage
            choice = next(iter(event.get("choices") or ()), None)
            if choice is None:
                return None
            reason = choice.get("finish_reason")
            self._has_ended = self._has_ended or reason is not None
            self.is_cut = self.is_cut or reason == "length"
            delta = choice.get("delta") or {}
            self.is_refused = self.is_refused or is_filtered(reason) or bool(delta.get("refusal"))
            piece = delta.get("content") or ""
            has_aside = any(delta.get(name) for name in _THOUGHT_FIELDS)
        except (AttributeError, TypeError) as error:
            raise ValueError("not a chat completion event") from error
        if not isinstance(piece, str):
            raise ValueError("content is not text")
        self._n_pieces += bool(piece) or has_aside
        said = self._thoughts.feed(self._characters.feed(piece))
        self._n_returned += bool(said)
        is_thinking = has_aside or (bool(piece) and self._thoughts.is_thinking)
        return said or ("" if is_thinking else None)

    def flush(self) -> str:
        """Returns the text that was held back until the end of the answer; may be empty.

        Raises:
            UnexpectedThought: a stop text ended the thought of a model that is not configured to think.
        """
        rest = self._thoughts.finish(is_cut=self.is_cut)
        has_answer = self._n_returned or rest or self.is_cut
        if self._thoughts.has_thought and not self._is_said_to_think and not has_answer:
            raise UnexpectedThought("The chat model wrote nothing but the beginning of a thought.", SET_THINKS)
        return rest

    def check_is_whole(self) -> None:
        """Checks that the server has marked the end of the answer.

        Raises:
            TryAgainError: it has not, as when it is killed.
        """
        if not self._has_ended:
            raise TryAgainError("cut off before the answer was whole", CUT_SHORT, endpoint_gone=True)

    def count(self, usage: LiveUsage) -> None:
        """Adds the answer's tokens to the client's usage; an answer that never began adds none."""
        if self._usage is None and not self._n_pieces and not self._has_ended:
            return
        n_in, n_cached, n_out, is_estimated = read_usage(self._usage, (self._n_in, self._n_pieces))
        usage.n_tokens_in += n_in
        usage.n_tokens_cached += n_cached or 0
        usage.n_tokens_out += n_out
        usage.n_estimated += is_estimated
