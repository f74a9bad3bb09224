"""Builds the components that all sessions of a server share, besides the checkpoint, from the configuration."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from backends import registry
from backends.chat.live import LiveUsage, OpenAILiveChat
from backends.chat.protocol import ChatEngine, LiveChat
from backends.chat.providers import get_base_url
from backends.chat.remote import RemoteEngine
from backends.engine import Samples
from backends.fault_log import extract_host
from backends.listener.protocol import StreamingRecogniser, Window
from backends.listener.vad import TurnDetector
from backends.tts.protocol import TextToSpeech
from data_schemas.config import ChatConfig
from data_schemas.config.serving import REMOTE_ENGINE, BackEndConfig, BackendName, ServeConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.records.recording import FRONT_END
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.voice.speaker import SharedSpeaker, Speaker

_LOG = logging.getLogger(__name__)

_ANSWER_PROMPTS = {"tandem": "cascade"}
"""For each of our oracle prompts, the prompt for answers that are read out."""


class Detector(Protocol):
    """Detects when the caller begins to speak and when a turn has ended (backends/listener/vad.py, `TurnDetector`)."""

    @property
    def windows(self) -> Sequence[Window] | None:
        """The silero-vad windows of the last audio that was fed, for recognisers, or None for another detector."""

    def feed(self, samples: Samples) -> list[Literal["started", "stopped"]]:
        """Feeds the caller's next audio, 24 kHz, of any length, and returns what was detected in it."""

    def adjust(self, speech_probability: float, turn_end_silence_s: float) -> None:
        """Changes the settings from the next audio on. Speech that is in progress continues."""

    def reset(self) -> None:
        """Clears the state and keeps the adjusted settings."""


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The components that all sessions share.

    Attributes:
        recogniser: recognises the users' speech.
        detector: creates a turn detector for a session.
        back_ends: the chat models by name, the default first.
        speaker: the text-to-speech voice of mode cascade and of a synthesised front-end, or None without one.
        recordings: the recordings of callers who agreed, or None if this server makes none.
        usage: returns the usage of each chat model by the first of its names: the back-end's, or back-end/model.
    """

    recogniser: StreamingRecogniser
    detector: Callable[[], Detector]
    back_ends: Mapping[BackendName, BackEnd]
    speaker: SharedSpeaker | None = None
    recordings: Recordings | None = None
    usage: Callable[[], dict[BackendName, LiveUsage]] = dict


@asynccontextmanager
async def build_parts(config: ServeConfig) -> AsyncIterator[ServerParts]:
    """Context manager that builds the components of a configuration, and starts embedded servers (llama.cpp).

    All of them are closed, and the servers stopped, at the end of the block. Remote endpoints are not contacted: a
    back-end that is down must not stop the server. The voice is None if text-to-speech does not work and the
    configuration does not require it.

    Raises:
        ConfigError: a plug-in, a prompt or a voice is unknown, not installed, or rejects its options; or a remote chat
            model has no base URL.
        BackendError: an engine does not start.
        StoreError: the folder of recordings cannot be used.
    """
    async with AsyncExitStack() as stack:
        chats = await _start_chats(config, stack)
        back_ends = {each.name: _make_back_end(each, chats) for each in config.back_ends}
        listener = config.listener
        recogniser: StreamingRecogniser = await asyncio.to_thread(
            registry.build, "listener", listener.engine, listener.options
        )
        stack.push_async_callback(asyncio.to_thread, recogniser.close)
        detector = partial(TurnDetector, listener.speech_probability, listener.turn_end_silence_s)
        await asyncio.to_thread(lambda: detector().feed(np.zeros(FRAME_N_SAMPLES, np.float32)))  # loads its model
        tts, speaker = await asyncio.to_thread(_load_voice, config), None
        if tts is not None:
            threads = ThreadPoolExecutor(tts.max_calls_in_flight, "voice")  # for the sentences of all sessions
            stack.callback(threads.shutdown, wait=False, cancel_futures=True)
            speaker = Speaker(tts, config.cascade, threads)
        recordings = await _open_recordings(config, recogniser.name, speaker, stack)
        yield ServerParts(recogniser, detector, back_ends, speaker, recordings, partial(_collect_usage, config, chats))


class LazyChat:
    """A remote chat model that is contacted for the first time by the first request.

    Args:
        config: of an engine that starts no server. If it names no model, the first request uses the server's only one.

    Raises:
        ConfigError: the base URL is missing, or the provider is unknown.
    """

    def __init__(self, config: ChatConfig) -> None:
        self._config, self._engine = config, RemoteEngine(config)
        self._chat: OpenAILiveChat | None = None

    @property
    def usage(self) -> LiveUsage:
        """The tokens that its requests have used so far."""
        return LiveUsage() if self._chat is None else self._chat.usage

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """Streams an answer as `LiveChat.stream` does.

        The server is asked for the model's name before the first request, and again before each until that succeeds.

        Raises:
            ConfigError: no model is configured, and the server does not have exactly one; or the API key is missing.
            AnswerCut, UnexpectedThought, AnswerRefused, RequestError, BackendError: see `LiveChat.stream`.
        """
        if self._chat is None:
            endpoint = await self._engine.describe_once()
            self._chat = self._chat or OpenAILiveChat(endpoint, self._config)
        async with aclosing(self._chat.stream(payload)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """Closes its connections, if it has any."""
        if self._chat is not None:
            await self._chat.aclose()


_Chat = LazyChat | OpenAILiveChat


async def _start_chats(config: ServeConfig, stack: AsyncExitStack) -> dict[str, _Chat]:
    """Starts the chat models of all back-ends, which `stack` closes, and returns each by its configuration as JSON, so
    that two prompts of one model do not start two servers.
    """
    chats: dict[str, _Chat] = {}
    for each in config.back_ends:
        for chat in (each.chat, *_list_models(each).values()):
            key = chat.model_dump_json()
            if key not in chats:
                chats[key] = await _start_chat(chat, stack)
                stack.push_async_callback(chats[key].aclose)
    return chats


def _list_models(config: BackEndConfig) -> dict[str, ChatConfig]:
    """Returns the configuration of each chat model that a session may choose, by the model's name; empty if the
    back-end offers no choice.
    """
    names = dict.fromkeys([*filter(None, [config.chat.model]), *config.models])
    return {name: config.chat.model_copy(update={"model": name}) for name in names} if config.models else {}


def _make_back_end(config: BackEndConfig, chats: Mapping[str, LiveChat]) -> BackEnd:
    """Makes a back-end of a configuration, with its chat models, from `_start_chats`, and its prompts.

    Without a configured prompt for answers that are read out, the counterpart of the oracle's prompt is used, if there
    is one, else the same prompt.
    """
    answer_prompt = config.answer_prompt or _ANSWER_PROMPTS.get(config.prompt, config.prompt)
    return BackEnd(
        config.name,
        chats[config.chat.model_dump_json()],
        load_prompt(config.prompt),
        config.max_tokens,
        config.temperature,
        load_prompt(answer_prompt),
        config.answer_max_tokens,
        extract_host(get_base_url(config.chat)) if config.chat.engine == REMOTE_ENGINE else config.chat.engine,
        {name: chats[chat.model_dump_json()] for name, chat in _list_models(config).items()},
        config.max_thought_s,
    )


def _collect_usage(config: ServeConfig, chats: Mapping[str, _Chat]) -> dict[BackendName, LiveUsage]:
    """Returns the usage of each chat model so far, by the first of its names: the back-end's, or back-end/model."""
    first_names: dict[str, str] = {}
    for each in config.back_ends:
        first_names.setdefault(each.chat.model_dump_json(), each.name)
        for model, chat in _list_models(each).items():
            first_names.setdefault(chat.model_dump_json(), f"{each.name}/{model}")
    return {first_names[key]: chat.usage for key, chat in chats.items()}


async def _start_chat(config: ChatConfig, stack: AsyncExitStack) -> _Chat:
    """Returns a chat model. The server of an embedded engine is started, which `stack` stops; a remote one is not
    contacted.
    """
    if config.engine == REMOTE_ENGINE:
        return LazyChat(config)
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    served = engine.serve()
    endpoint = await asyncio.to_thread(served.__enter__)
    stack.push_async_callback(asyncio.to_thread, served.__exit__, None, None, None)
    return OpenAILiveChat(endpoint, config)


def _load_voice(config: ServeConfig) -> TextToSpeech | None:
    """Loads the text-to-speech engine, and synthesises a word, so that its model does not delay the sessions later.

    If that fails, returns None, and the server has no mode cascade. The error is raised if the engine is required: the
    server begins in mode cascade, the front-end's voice is synthesised, or the engine has options.
    """
    try:
        tts: TextToSpeech = registry.build("tts", config.cascade.tts, config.cascade.options)
        tts.synthesise("Hello.", tts.list_voices()[0].name, config.cascade.speed)
    except (ConfigError, BackendError) as error:
        if config.mode == "cascade" or config.voice == "synthesised" or config.cascade.options:
            raise
        _LOG.warning("Mode cascade is not available: %s", error)
        return None
    return tts


async def _open_recordings(
    config: ServeConfig, recogniser: str, speaker: SharedSpeaker | None, stack: AsyncExitStack
) -> Recordings | None:
    """Opens the recordings, and starts a task that deletes expired ones; both end when the stack is closed.

    None if no folder is configured.
    """
    if config.record.folder is None:
        return None
    voice = "" if speaker is None else speaker.voice_name
    about = RecordingFacts(
        checkpoint=config.checkpoint,
        recogniser=recogniser,
        notice=config.record.notice,
        cascade_voice=voice,
        front_end_voice=voice if config.voice == "synthesised" else FRONT_END,
    )
    recordings = Recordings(config.record, about)
    stack.push_async_callback(recordings.aclose)
    stack.push_async_callback(_cancel_task, asyncio.create_task(recordings.run()))
    return recordings


async def _cancel_task(task: "asyncio.Task[None]") -> None:
    """Cancels a task, and waits until it has ended; raises its error if it had failed."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
