"""Conformance test of chat engines, built-in ones and plug-ins: the server must implement OpenAI's protocol."""

import socket
from typing import Any
from urllib.parse import urlsplit

from backends.chat.connection import open_sync
from backends.chat.protocol import ChatEngine, Endpoint
from backends.chat.providers import Provider
from backends.conformance import require

_TIMEOUT_S = 120.0
_N_TOKENS = 8


def check_chat_engine(engine: ChatEngine, *, is_ours: bool = True) -> None:
    """Checks the promises of `ChatEngine` by starting the engine twice and sending two short requests each time.

    Args:
        is_ours: whether the engine starts its server, which must be gone after the block.

    Raises:
        PromiseBroken: a promise does not hold.
    """
    described = engine.describe()
    require(described.name and described.model, "`describe` returns the endpoint's name and model")
    require(engine.describe() == described, "`describe` returns the same each time")
    for _ in range(2):
        with engine.serve() as endpoint:
            require(
                _has_same_identity(endpoint, described),
                "the served endpoint has the name, model and digest of `describe`",
            )
            require(endpoint.base_url.startswith(("http://", "https://")), "`base_url` is the address of a server")
            _check_answers(endpoint)
        require(not (is_ours and _is_listening(endpoint.base_url)), "the server is gone after the block")


def _has_same_identity(endpoint: Endpoint, described: Endpoint) -> bool:
    """Returns whether a served endpoint has the name, model and digest that `describe` returned."""
    return (endpoint.name, endpoint.model, endpoint.model_digest) == (
        described.name,
        described.model,
        described.model_digest,
    )


def _check_answers(endpoint: Endpoint) -> None:
    """Checks a whole answer and a streamed one, both of at most `_N_TOKENS` tokens."""
    with open_sync(endpoint.base_url, "", _TIMEOUT_S, Provider()) as server:
        asked: dict[str, Any] = {
            "model": endpoint.model,
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": _N_TOKENS,
            "temperature": 0.0,
        }
        whole = server.chat.completions.create(**asked)
        require(whole.choices and whole.choices[0].message.content, "an answer has text")
        require(whole.choices[0].finish_reason, "an answer has a finish reason")
        usage = whole.usage
        require(usage and usage.prompt_tokens > 0, "an answer reports its prompt tokens")
        require(usage and 0 < usage.completion_tokens <= _N_TOKENS, "an answer has `max_tokens` tokens at most")
        events = list(server.chat.completions.create(stream=True, **asked))
    pieces = [event.choices[0].delta.content or "" for event in events if event.choices]
    require("".join(pieces), "a streamed answer has text")
    has_ended = any(event.choices and event.choices[0].finish_reason for event in events)
    require(has_ended, "a streamed answer has a finish reason")


def _is_listening(base_url: str) -> bool:
    parts = urlsplit(base_url)
    with socket.socket() as probe:
        return probe.connect_ex((str(parts.hostname), int(parts.port or 0))) == 0
