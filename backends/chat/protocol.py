"""Protocols of the chat back-end: engine (server), client, and live client for streamed answers."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible base URL with the name and digest of the model behind it."""

    name: str
    base_url: str
    model: str
    model_digest: str


class ChatEngine(Protocol):
    """Provides an endpoint for the duration of a `with` block; starts and stops what that needs."""

    def serve(self) -> AbstractContextManager[Endpoint]:
        """Returns a context manager that yields the endpoint once it answers; a server started for it ends on exit.

        Raises:
            ConfigError: the engine is not installed, or the remote endpoint does not have the model.
            BackendError: the server does not start or answer, or rejects us.
        """

    def describe(self) -> Endpoint:
        """Returns the endpoint for fingerprints without starting anything (`base_url` may be empty)."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's answer with its cost; `request_id` derives from the cache key and is the same on every machine.

    `finish_reason` is the server's reason for the end of the answer (`stop`; `length`: cut off at `max_tokens`),
    `answered_by` its name for the answering model and `system_fingerprint` for that model's state. They and
    `n_tokens_cached` are None if not reported. `thought` is what a thinking model wrote before its answer; `text` does
    not contain it.
    """

    text: str
    request_id: str
    n_tokens_in: int
    n_tokens_cached: int | None
    n_tokens_out: int
    from_cache: bool
    finish_reason: str | None = None
    answered_by: str | None = None
    system_fingerprint: str | None = None
    thought: str = ""


class ChatClient(Protocol):
    """Asynchronous chat client with concurrency, retries, caching and token counts."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        """Returns the answer to a chat-completions payload (without `model`), from the cache if it is stored there.

        Raises:
            RequestError: this request failed finally (the event is marked as failed).
            BackendError: the endpoint is gone or rejects us (the run stops and can be resumed).
            BudgetError: the budget of the run does not allow the request.
        """


class LiveChat(Protocol):
    """Streams answers that are used while they are being written, without cache or retries."""

    def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """Yields the pieces of the answer to a chat-completions payload (without `model`); closing cancels the request.

        An empty piece says that the model thinks; its thoughts are not yielded.

        Raises:
            RequestError: this request failed; at its end `AnswerCut`: the token limit was reached; `AnswerRefused`: the
                model or its provider's filter ended it; `UnexpectedThought`: it has thoughts, perhaps among the text
                that was yielded, though the model is not configured to think.
            BackendError: the endpoint rejects us or is gone.
        """

    async def aclose(self) -> None:
        """Closes its connections."""
