"""Opens HTTP clients of the `openai` package with our timeouts, proxy rules and authentication headers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backends.chat.providers import Provider

if TYPE_CHECKING:
    import openai

CONNECT_LIMIT_S = 10.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def open_async(url: str, api_key: str, timeout_s: float, provider: Provider) -> "openai.AsyncOpenAI":
    """Opens an async client without retries; `timeout_s` limits each wait for bytes, and connecting (at most 10 s)."""
    import openai

    http = openai.DefaultAsyncHttpxClient(trust_env=_may_use_proxy(url), auth=_make_auth(provider))
    return openai.AsyncOpenAI(**_make_options(url, api_key, timeout_s, provider), http_client=http)


def open_sync(url: str, api_key: str, timeout_s: float, provider: Provider) -> "openai.OpenAI":
    """Opens a synchronous client like `open_async`."""
    import openai

    http = openai.DefaultHttpxClient(trust_env=_may_use_proxy(url), auth=_make_auth(provider))
    return openai.OpenAI(**_make_options(url, api_key, timeout_s, provider), http_client=http)


def _make_options(url: str, api_key: str, timeout_s: float, provider: Provider) -> dict[str, Any]:
    """Makes the arguments that both kinds of clients have in common."""
    import openai

    options: dict[str, Any] = {
        "base_url": url,
        "api_key": api_key or "none",  # openai requires one even if the server does not
        "max_retries": 0,
        "timeout": openai.Timeout(timeout_s, connect=min(CONNECT_LIMIT_S, timeout_s)),
        "default_query": provider.query,
    }
    if provider.api_key_header:
        options["default_headers"] = {provider.api_key_header: api_key}
    return options


def _make_auth(provider: Provider) -> Callable[[Any], Any] | None:
    """Returns a function that removes the header that openai always sends, if the key is in another header."""

    def remove_authorization(request: Any) -> Any:
        del request.headers["Authorization"]
        return request

    return remove_authorization if provider.api_key_header else None


def _may_use_proxy(url: str) -> bool:
    """Returns whether the environment's proxy may be used, which cannot reach this machine's own address."""
    return urlsplit(url).hostname not in _LOOPBACK
