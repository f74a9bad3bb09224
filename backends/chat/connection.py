"""Opens openai's clients the way this product needs them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backends.chat.providers import Provider

if TYPE_CHECKING:
    import openai

CONNECT_LIMIT_S = 10.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def open_async(url: str, api_key: str, timeout_s: float, provider: Provider) -> "openai.AsyncOpenAI":
    """A client that does not retry by itself; a timeout bounds connecting and each wait for bytes, seconds."""
    import openai

    http = openai.DefaultAsyncHttpxClient(trust_env=_may_use_proxy(url), auth=_key_by(provider))
    return openai.AsyncOpenAI(**_options(url, api_key, timeout_s, provider), http_client=http)


def open_sync(url: str, api_key: str, timeout_s: float, provider: Provider) -> "openai.OpenAI":
    """As `open_async`, for the one question before a run starts."""
    import openai

    http = openai.DefaultHttpxClient(trust_env=_may_use_proxy(url), auth=_key_by(provider))
    return openai.OpenAI(**_options(url, api_key, timeout_s, provider), http_client=http)


def _options(url: str, api_key: str, timeout_s: float, provider: Provider) -> dict[str, Any]:
    import openai

    options: dict[str, Any] = {
        "base_url": url,
        "api_key": api_key or "none",  # openai wants one even where the server does not
        "max_retries": 0,
        "timeout": openai.Timeout(timeout_s, connect=min(CONNECT_LIMIT_S, timeout_s)),
        "default_query": provider.query,
    }
    if provider.api_key_header:
        options["default_headers"] = {provider.api_key_header: api_key}
    return options


def _key_by(provider: Provider) -> Callable[[Any], Any] | None:
    """What takes away the header that openai always sends, where the key is in another."""

    def without_authorization(request: Any) -> Any:
        del request.headers["Authorization"]
        return request

    return without_authorization if provider.api_key_header else None


def _may_use_proxy(url: str) -> bool:
    # A proxy named in the environment cannot reach this machine's own address.
    return urlsplit(url).hostname not in _LOOPBACK
