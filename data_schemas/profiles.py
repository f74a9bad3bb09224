"""Profiles: functions that return a full configuration."""

from collections.abc import Callable

from data_schemas.config import ChatConfig, RefreshConfig


def make_embedded_profile() -> RefreshConfig:
    """Returns a configuration for this machine: Kokoro, pocketsphinx, SmolLM2 on llama.cpp; no account, no GPU."""
    return RefreshConfig()


def make_gpu_profile() -> RefreshConfig:
    """Returns a configuration with a vLLM server for the oracle and many concurrent requests; speech as in `embedded`.

    It makes 1.9 dialogues of each item, as in the paper's corpus.

    The model is Apache-2.0 and needs no account. Its weights alone are 14.2 GiB (7.6e9 parameters of two bytes), so by
    calculation it needs a GPU of 24 GB, which has not been tried. Choose another model by name, or a running server by
    its URL. Like all models except the embedded one, it uses the paper's prompts (set `whole`; not measured so far).
    """
    chat = ChatConfig(engine="vllm", model="Qwen/Qwen2.5-7B-Instruct", max_in_flight=256)
    # 1.9: dialogues per item in the corpus of the paper
    return RefreshConfig(chat=chat, variants=1.9)


PROFILES: dict[str, Callable[[], RefreshConfig]] = {"embedded": make_embedded_profile, "gpu": make_gpu_profile}
