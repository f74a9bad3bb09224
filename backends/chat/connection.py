"""Opens openai's clients the way this product needs them, and reads the key for them."""

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from data_schemas.config import ChatConfig

if TYPE_CHECKING:
    import openai

CONNECT_LIMIT_S = 10.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def read_api_key(config: ChatConfig) -> str:
    """The key from the environment variable that the configuration names; empty when it is not set."""
    return os.environ.get(config.api_key_env, "").strip()


def open_async(base_url: str, api_key: str, timeout_s: float) -> "openai.AsyncOpenAI":
    """A client that does not retry by itself; a timeout bounds connecting and each wait for bytes."""
    import openai

    http = openai.DefaultAsyncHttpxClient(trust_env=_may_use_proxy(base_url))
    return openai.AsyncOpenAI(**_options(base_url, api_key, timeout_s), http_client=http)


def open_sync(base_url: str, api_key: str, timeout_s: float) -> "openai.OpenAI":
    """As `open_async`, for the one question before a run starts."""
    import openai

    http = openai.DefaultHttpxClient(trust_env=_may_use_proxy(base_url))
    return openai.OpenAI(**_options(base_url, api_key, timeout_s), http_client=http)


def _options(base_url: str, api_key: str, timeout_s: float) -> dict[str, Any]:
    import openai

    return {
        "base_url": base_url,
        "api_key": api_key or "none",  # openai wants one even where the server does not
        "max_retries": 0,
        "timeout": openai.Timeout(timeout_s, connect=min(CONNECT_LIMIT_S, timeout_s)),
    }


def _may_use_proxy(base_url: str) -> bool:
    # A proxy named in the environment cannot reach this machine's own address.
    return urlsplit(base_url).hostname not in _LOOPBACK
