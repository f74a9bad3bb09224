"""What a chat model's server, its client and a live answer must do."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat model one can ask: an OpenAI-compatible base URL and what stands for the model behind it."""

    name: str
    base_url: str
    model: str
    model_digest: str


class ChatEngine(Protocol):
    """Gives an endpoint for the time of a `with` block, starting and stopping whatever that takes."""

    def serve(self) -> AbstractContextManager[Endpoint]:
        """The endpoint, healthy on entry, gone on exit."""

    def describe(self) -> Endpoint:
        """The endpoint without starting anything (`base_url` may be empty): for fingerprints."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A chat model's answer with what it cost; `request_id` is the cache's key, the same on every machine.

    `finish_reason` is the server's word for why the answer ends (`stop`; `length`: cut at `max_tokens`), `answered_by`
    its name for the model that answered and `system_fingerprint` for that model's state. They and `n_tokens_cached` are
    None where it did not tell. `thought` is what a model that thinks wrote before its answer, no part of `text`.
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
    """Asks a chat model: async, many in flight, retried, cached, counted."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        """The answer to a chat-completions payload (without `model`), from the cache where it has been given.

        Raises:
            RequestError: this request failed for good (the event is marked failed).
            BackendError: the endpoint itself is gone or refuses us (the run stops, resumable).
        """


class LiveChat(Protocol):
    """Asks a chat model for an answer that is used while it is being written: no cache, no second try."""

    def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """The pieces of the answer to a chat-completions payload (without `model`); closing it cancels the request.

        An empty piece says that the model thinks; what it thinks is not told.

        Raises:
            RequestError: this request failed; `AnswerCut` at its end: the model might write no more;
                `UnexpectedThought`: what was told was thought.
            BackendError: the endpoint refuses us or is gone.
        """

    async def aclose(self) -> None:
        """Closes its connections."""
