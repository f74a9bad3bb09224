"""Profiles: functions that return a full configuration."""

from collections.abc import Callable

from data_schemas.config import ChatConfig, RefreshConfig


def embedded() -> RefreshConfig:
    """Everything on this machine: Kokoro, pocketsphinx, SmolLM2 on llama.cpp; no account, no GPU."""
    return RefreshConfig()


def gpu() -> RefreshConfig:
    """A vLLM server on this machine behind the oracle, many requests in flight; speech as in `embedded`."""
    chat = ChatConfig(engine="openai", base_url="http://127.0.0.1:8000/v1", max_in_flight=64)
    return RefreshConfig(chat=chat)


PROFILES: dict[str, Callable[[], RefreshConfig]] = {"embedded": embedded, "gpu": gpu}
