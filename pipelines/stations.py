"""Configuration to stages: the one place where back-ends are chosen by name and handed to the stations."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from backends import registry
from backends.chat.cache import ReplyCache
from backends.chat.client import ChatUsage, OpenAIChatClient
from backends.protocols import ChatClient, ChatEngine, Endpoint
from data_schemas.config import ChatConfig, RefreshConfig
from pipelines.alignment.stage import AlignmentStage
from pipelines.oracle.stage import OracleStage
from pipelines.script.stage import ScriptStage
from pipelines.speech.mixing import MixingStage
from pipelines.speech.stage import SpeechStage
from pipelines.stage import Stage

CPU_STAGES = ("script", "speech", "alignment", "mixing")
"""Stages that fill processors: run in worker processes. The oracle stage waits for a server: run in one."""

ORACLE = "oracle"
ALL_STAGES = (*CPU_STAGES, ORACLE)

OnUsage = Callable[[ChatUsage], None]


@lru_cache(maxsize=1)
def _cpu_stages(config_json: str) -> dict[str, Stage[Any]]:
    config = RefreshConfig.model_validate_json(config_json)
    tts = registry.load("tts", config.speech.tts)()
    aligner = registry.load("aligner", config.alignment.aligner)()
    stages: list[Stage[Any]] = [
        ScriptStage(config.script, config.seed),
        SpeechStage(config.speech, tts, config.seed),
        AlignmentStage(config.alignment, aligner),
        MixingStage(config.mixing, config.seed),
    ]
    return {stage.name: stage for stage in stages}


def cpu_stages(config: RefreshConfig) -> dict[str, Stage[Any]]:
    """The stages that need no server, in order; models are loaded when first used, once a process."""
    return _cpu_stages(config.model_dump_json())


def chat_engine(config: ChatConfig) -> ChatEngine:
    """The engine that serves, or reaches, the chat model."""
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    return engine


def oracle_stage(config: RefreshConfig, endpoint: Endpoint, cache_path: str, on_usage: OnUsage) -> OracleStage:
    """The oracle stage against a running endpoint, answers cached in `cache_path`.

    With an endpoint that is only described (no base URL) it serves for fingerprints, not to run.

    Args:
        on_usage: is given the client's counts at the start of each part; they grow while it runs.
    """

    @asynccontextmanager
    async def open_client() -> AsyncIterator[ChatClient]:
        with ReplyCache(cache_path) as cache:
            async with OpenAIChatClient(endpoint, config.chat, cache) as client:
                on_usage(client.usage)
                yield client

    return OracleStage(config.oracle, config.seed, endpoint, open_client)
