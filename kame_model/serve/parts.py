"""What a server is put together from besides its checkpoint, made from the configuration."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from backends import registry
from backends.chat.live import OpenAILiveChat
from backends.protocols import ChatEngine, LiveChat, Samples, StreamingRecogniser, TextToSpeech
from backends.vad import TurnDetector
from data_schemas.config import ChatConfig
from data_schemas.config.serving import BackendName, ServeConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.serve.prompts import load_prompt
from kame_model.serve.recordings import About, Recordings
from kame_model.serve.routing import BackEnd

_LOG = logging.getLogger(__name__)

_REMOTE = "openai"
"""The chat engine that starts nothing."""

_N_VOICES = 2
"""Sentences of all the cascades that are synthesised at once; an engine's session has one thread each."""


class Detector(Protocol):
    """Tells when somebody begins to speak and when a turn has ended (backends/vad.py, `TurnDetector`)."""

    def feed(self, samples: Samples) -> list[Literal["started", "stopped"]]:
        """What happened in the next sound of the caller, 24 kHz, of any length."""

    def reset(self) -> None:
        """Forgets everything."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What all sessions share.

    Attributes:
        recogniser: hears the users.
        detector: makes one for each session.
        back_ends: the chat models by name, the default first.
        tts: voice of the cascade; None: this server has no such mode.
        tts_threads: where it speaks, since it blocks; there wherever it is.
        recordings: of callers who agree; None: this server records nobody.
    """

    recogniser: StreamingRecogniser
    detector: Callable[[], Detector]
    back_ends: Mapping[BackendName, BackEnd]
    tts: TextToSpeech | None = None
    tts_threads: Executor | None = None
    recordings: Recordings | None = None


@asynccontextmanager
async def build_parts(config: ServeConfig) -> AsyncIterator[Parts]:
    """The parts a configuration names, for the time of the block; servers that it embeds (llama.cpp) are started.

    Endpoints elsewhere are not asked whether they live: a back-end that is down must not stop the server.

    Raises:
        ConfigError: a plug-in or a prompt is unknown, not installed, or does not take its options.
        BackendError: an engine does not start.
        StoreError: the folder of recordings cannot be used.
    """
    async with AsyncExitStack() as stack:
        back_ends = await _back_ends(config, stack)
        listener = config.listener
        recogniser: StreamingRecogniser = await asyncio.to_thread(
            registry.build, "listener", listener.engine, listener.options
        )
        stack.push_async_callback(asyncio.to_thread, recogniser.close)
        detector = partial(TurnDetector, listener.speech_probability, listener.turn_end_silence_s)
        await asyncio.to_thread(lambda: detector().feed(np.zeros(FRAME_N_SAMPLES, np.float32)))  # its model is loaded
        tts = await asyncio.to_thread(_voice, config)
        threads = ThreadPoolExecutor(_N_VOICES, "voice")
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        yield Parts(recogniser, detector, back_ends, tts, threads, await _recordings(config, recogniser.name, stack))


class UnaskedChat:
    """A chat model elsewhere of which nothing is known until the first request.

    Args:
        config: of an engine that starts nothing. Where it names no model the server's only one is asked for, then.

    Raises:
        ConfigError: there is no base URL, or no such provider.
    """

    def __init__(self, config: ChatConfig) -> None:
        self._config = config
        self._engine: ChatEngine = registry.load("chat", config.engine)(config)
        self._chat: OpenAILiveChat | None = None

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """As `LiveChat.stream`; while the server cannot be asked for its model, each request asks anew."""
        if self._chat is None:
            endpoint = await asyncio.to_thread(self._engine.describe)
            self._chat = self._chat or OpenAILiveChat(endpoint, self._config)
        async with aclosing(self._chat.stream(payload)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """Closes its connections, if it has any."""
        if self._chat is not None:
            await self._chat.aclose()


async def _back_ends(config: ServeConfig, stack: AsyncExitStack) -> dict[BackendName, BackEnd]:
    """The chat models; those of one configuration are one, so that two prompts do not start two servers."""
    chats: dict[str, LiveChat] = {}
    back_ends = {}
    for each in config.back_ends:
        key = each.chat.model_dump_json()
        if key not in chats:
            chats[key] = await _chat(each.chat, stack)
            stack.push_async_callback(chats[key].aclose)
        prompt = load_prompt(each.prompt)
        back_ends[each.name] = BackEnd(each.name, chats[key], prompt, each.max_tokens, each.temperature)
    return back_ends


async def _chat(config: ChatConfig, stack: AsyncExitStack) -> LiveChat:
    if config.engine == _REMOTE:
        return UnaskedChat(config)
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    served = engine.serve()
    endpoint = await asyncio.to_thread(served.__enter__)
    stack.push_async_callback(asyncio.to_thread, served.__exit__, None, None, None)
    return OpenAILiveChat(endpoint, config)


def _voice(config: ServeConfig) -> TextToSpeech | None:
    """The cascade's voice. Without one a server has the other modes, unless the cascade is what it begins with."""
    try:
        tts: TextToSpeech = registry.build("tts", config.cascade.tts, {})
    except ConfigError as error:
        if config.mode == "cascade":
            raise
        _LOG.warning("There is no mode cascade: %s", error)
        return None
    return tts


async def _recordings(config: ServeConfig, recogniser: str, stack: AsyncExitStack) -> Recordings | None:
    """The recordings, which are swept as long as the stack lives."""
    if config.record.folder is None:
        return None
    about = About(checkpoint=config.checkpoint, recogniser=recogniser, notice=config.record.notice)
    recordings = Recordings(config.record, about)
    stack.push_async_callback(recordings.aclose)
    stack.push_async_callback(_cancelled, asyncio.create_task(recordings.run()))
    return recordings


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
