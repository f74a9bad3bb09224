"""Configuration to stages: the one place where back-ends are chosen by name and handed to the stations."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from backends import registry
from backends.asr.protocol import Recogniser
from backends.chat.budget import ChatUsage
from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient
from backends.chat.limits import Pace
from backends.chat.protocol import ChatClient, ChatEngine, Endpoint
from data_schemas.config import BudgetConfig, ChatConfig, GateConfig, RefreshConfig
from pipelines.alignment.stage import AlignmentStage
from pipelines.languages import check_languages
from pipelines.mixing.stage import MixingStage
from pipelines.run.ask import OpenClient
from pipelines.script.stage import ScriptStage
from pipelines.speech.spelt import SpeltAligner, SpeltSpeech
from pipelines.speech.stage import SpeechStage
from pipelines.stage import Stage
from spoken.lexicon import lexicon_of

PICTURES, SCRIPT, WORDING, MIXING, ORACLE = "pictures", "script", "wording", "mixing", "oracle"
STAGES = (PICTURES, SCRIPT, WORDING, "speech", "alignment", MIXING, ORACLE)
"""All stages, in the order they are run."""

SERVED_STAGES = (PICTURES, WORDING, ORACLE)
"""Stages that may wait for a chat model: run in one process (`served.py`). The others fill processors."""

NOBODY = "none"
"""The `asr` of a gate without a recogniser."""

OnUsage = Callable[[ChatUsage], None]


@lru_cache(maxsize=1)
def _cpu_stages(config_json: str) -> dict[str, Stage[Any]]:
    config = RefreshConfig.model_validate_json(config_json)
    lexicon = lexicon_of(config.script.lexicon)
    tts = SpeltSpeech(registry.build("tts", config.speech.tts, config.speech.tts_options), lexicon.pronunciations)
    aligner = SpeltAligner(
        registry.build("aligner", config.alignment.aligner, config.alignment.aligner_options), lexicon.pronunciations
    )
    check_languages(config.sources, tts, aligner)
    stages: list[Stage[Any]] = [
        ScriptStage(config.script, config.forms, config.variants, config.seed),
        SpeechStage(config.speech, config.gate, tts, _recogniser(config.gate), config.seed, lexicon),
        AlignmentStage(config.alignment, aligner),
        MixingStage(config.mixing, config.surroundings, config.seed),
    ]
    return {stage.name: stage for stage in stages}


def _recogniser(config: GateConfig) -> Recogniser | None:
    """Who listens to each utterance; None where nobody is to."""
    if config.asr == NOBODY:
        return None
    recogniser: Recogniser = registry.build("asr", config.asr, config.asr_options)
    return recogniser


def cpu_stages(config: RefreshConfig) -> dict[str, Stage[Any]]:
    """The stages that never ask a chat model, in order; what they need is loaded when first used, once a process.

    Raises:
        ConfigError: a back-end is not installed, or a language lacks something.
    """
    return _cpu_stages(config.model_dump_json())


def user_voices(config: RefreshConfig) -> list[str]:
    """The voices that users may have in a run.

    Raises:
        ConfigError: a back-end is not installed, or a voice asked for is not there.
    """
    speech = cpu_stages(config)["speech"]
    assert isinstance(speech, SpeechStage)
    return speech.cast.voices_b


def chat_engine(config: ChatConfig) -> ChatEngine:
    """The engine that serves, or reaches, the chat model."""
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    return engine


def open_client(
    chat: ChatConfig, endpoint: Endpoint, budget: BudgetConfig, cache_path: str, on_usage: OnUsage
) -> OpenClient:
    """How to open a client of a running endpoint, with answers cached in `cache_path`.

    Args:
        on_usage: is given the client's counts when it opens; they grow while it is open.
    """

    pace = Pace(chat)  # what one client learns of the server's limits, the next one knows

    @asynccontextmanager
    async def opened() -> AsyncIterator[ChatClient]:
        with ReplyCache(cache_path) as cache:
            async with OpenAIChatClient(endpoint, chat, cache, budget=budget, pace=pace) as client:
                on_usage(client.usage)
                yield client

    return opened
