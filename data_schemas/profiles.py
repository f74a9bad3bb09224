"""Profiles: functions that return a full configuration."""

from collections.abc import Callable

from data_schemas.config import ChatConfig, RefreshConfig


def embedded() -> RefreshConfig:
    """Everything on this machine: Kokoro, pocketsphinx, SmolLM2 on llama.cpp; no account, no GPU."""
    return RefreshConfig()


def gpu() -> RefreshConfig:
    """A vLLM started for the oracle, many requests in flight; speech as in `embedded`.

    The model is Apache-2.0 and needs no account. Its weights alone are 14.2 GiB (7.6e9 parameters of two bytes), so by
    arithmetic it wants a GPU of 24 GB, which nobody has tried; any other by name, or a server that runs already
    by its URL. As all models but the embedded one it is given the paper's prompts (set `whole`; not measured so far).
    """
    chat = ChatConfig(engine="vllm", model="Qwen/Qwen2.5-7B-Instruct", max_in_flight=256)
    # 1.9: as many dialogues an item as in the corpus of the paper
    return RefreshConfig(chat=chat, variants=1.9)


PROFILES: dict[str, Callable[[], RefreshConfig]] = {"embedded": embedded, "gpu": gpu}
