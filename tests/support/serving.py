"""A server that is small throughout: a tiny checkpoint, and doubles that hear and answer the very sound they are given.

A caller's sound is a tone whose loudness spells a word: what the recogniser hears, the chat model repeats and the
oracle queue holds can be traced to the caller it came from.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from backends.tts.double import DoubleTts
from data_schemas.config.model import SamplingConfig
from data_schemas.config.serving import CascadeConfig, ServeConfig
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.model.front_end import build_front_end
from kame_model.serve.client.untrusted_events import read_event
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import ServerParts
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.session import Session
from kame_model.serve.voice.speaker import Speaker
from tests.support.codecs import tiny_mimi
from tests.support.front_ends import tiny_config
from tests.support.inline_threads import InlineThreads
from tests.support.vocabularies import make_vocabulary

WORDS = ("alpha", "bravo", "charlie", "delta", "foxtrot", "golf", "hotel", "india", "kilo", "lima")
"""What callers can say."""

_T = TypeVar("_T")


def tiny_checkpoint(folder: Path, seed: int = 0) -> Checkpoint:
    """Exports a tiny checkpoint with random weights, its codec and its vocabulary to a folder, and loads it."""
    codec = tiny_mimi(folder / "codec", seed)
    tokenizer = make_vocabulary(folder)
    torch.manual_seed(seed)
    front_end = build_front_end(tiny_config(), tokenizer.text_card, codec.layout)
    facts = TrainingFacts(stage="dialogues", step=1, data=[], figures={})
    export_checkpoint(front_end.eval(), tokenizer, codec, folder / "export", facts)
    return load_checkpoint(folder / "export")


def serve_config(**changes: Any) -> ServeConfig:
    """Returns the configuration of a server with four sessions at most, which always takes the likeliest token.

    Args:
        changes: settings that replace these; of `limits`, single ones.
    """
    limits = {"max_sessions": 4} | changes.pop("limits", {})
    settings = {"checkpoint": "tiny", "sampling": SamplingConfig(use_sampling=False), "limits": limits}
    return ServeConfig.model_validate(settings | changes)


def saying(word: str | None, n_frames: int = 1) -> Samples:
    """Frames in which a word is said; None: silence."""
    loudness = 0.0 if word is None else 0.1 + 0.05 * WORDS.index(word)
    tone = np.sin(2 * np.pi * 200 * np.arange(n_frames * FRAME_N_SAMPLES) / 24_000)
    return np.asarray(loudness * tone, np.float32)


def said_in(frame: Samples) -> str | None:
    """The word in a frame; None: silence."""
    loudness = float(np.abs(frame).max())
    return None if loudness < 0.05 else WORDS[min(round((loudness - 0.1) / 0.05), len(WORDS) - 1)]


class LoudnessDetector:
    """A turn is what is loud, and ends with the third silent frame, or as many as it is adjusted to."""

    windows = None

    def __init__(self) -> None:
        self._n_end_frames = 3
        self._is_in_turn, self._n_silent = False, 0

    def adjust(self, speech_probability: float, turn_end_silence_s: float) -> None:
        """Sets the silence after which a turn ends; the probability is ignored."""
        self._n_end_frames = round(turn_end_silence_s / FRAME_S)

    def feed(self, samples: Samples) -> list[Literal["started", "stopped"]]:
        """Returns what happens in a frame: a turn starts or stops, or nothing."""
        is_loud = said_in(samples) is not None
        self._n_silent = 0 if is_loud else self._n_silent + 1
        if is_loud != self._is_in_turn and (is_loud or self._n_silent == self._n_end_frames):
            self._is_in_turn = is_loud
            return ["started" if is_loud else "stopped"]
        return []

    def reset(self) -> None:
        self._is_in_turn, self._n_silent = False, 0


class LoudnessListener:
    """Hears a word in every fourth loud frame; tells once more after it was closed, as a thread that is late would."""

    def __init__(self, on_heard: Callable[[Heard], None]) -> None:
        self._on_heard = on_heard
        self._words: list[str] = []
        self._n_loud = 0
        self.is_closed = False
        self.failure: str | None = None

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Tells the words so far in this turn with every fourth loud frame, which adds one."""
        word = said_in(samples)
        if word is not None:
            self._n_loud += 1
            if self._n_loud % 4 == 1:
                self._words.append(word)
                self._tell(is_final=False)

    def end_turn(self) -> None:
        self._tell(is_final=True)
        self._words, self._n_loud = [], 0

    def close(self) -> None:
        """Tells at once, and twice more a little later, as a thread that is late would."""
        self.is_closed = True
        self._tell(is_final=True)
        for wait_s in (0.5 * FRAME_S, 2 * FRAME_S):
            asyncio.get_running_loop().call_later(wait_s, self._tell, True)

    def _tell(self, is_final: bool) -> None:
        self._on_heard(Heard(" ".join(self._words), is_final))


class LoudnessRecogniser:
    """Makes listeners of loudness, and keeps them in `listeners` to be looked at."""

    name = "loudness"
    is_immediate = True

    def __init__(self) -> None:
        self.listeners: list[LoudnessListener] = []

    def listen(self, on_heard: Callable[[Heard], None]) -> LoudnessListener:
        self.listeners.append(LoudnessListener(on_heard))
        return self.listeners[-1]

    def close(self) -> None:
        """There is nothing to give back."""


class RepeatingChat:
    """Answers with the words of callers in the last message of a request, one every `gap_s`.

    Attributes:
        asked: the payloads.
        n_open: answers that are being written.
    """

    def __init__(self, gap_s: float = 0.03) -> None:
        self.gap_s = gap_s
        self.asked: list[dict[str, Any]] = []
        self.n_open = 0

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        self.asked.append(payload)
        self.n_open += 1
        try:
            for word in words_in(payload["messages"][-1]["content"]):
                await asyncio.sleep(self.gap_s)
                yield f" {word}"
        finally:
            self.n_open -= 1

    async def aclose(self) -> None:
        """Nothing is open."""


def words_in(text: str) -> list[str]:
    """Words of callers in a text, in order."""
    bare = "".join(each if each.isalpha() else " " for each in text.lower())
    return [word for word in bare.split() if word in WORDS]


def doubles(chat: RepeatingChat | None = None, **more: Any) -> ServerParts:
    """Returns the parts of a server in which everything is traced to its caller."""
    back_end = BackEnd("default", chat or RepeatingChat(), load_prompt("tandem"))
    speaker = Speaker(DoubleTts(), CascadeConfig(), InlineThreads())
    return ServerParts(LoudnessRecogniser(), LoudnessDetector, {"default": back_end}, speaker, **more)


async def inline(work: Callable[[], _T]) -> _T:
    """Does the engine's work in the event loop's own thread: it takes no time on a simulated clock."""
    return work()


class Client:
    """A transport's side of a session: sends a frame every 80 ms, and keeps all that comes back."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.frames: list[Samples] = []
        self.texts: list[str] = []  # of the same frames
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._reading = [
            asyncio.create_task(self._read_frames()),
            asyncio.create_task(self._read(session.subscribe_to_events())),
        ]

    async def talk(self, words: Sequence[str | None]) -> None:
        """Says a word in each frame; None: silence."""
        for word in words:
            self.session.hear(saying(word))
            await asyncio.sleep(FRAME_S)

    async def over(self) -> None:
        """Waits until the session has ended and all that it sent has been read."""
        await asyncio.gather(*self._reading)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """What events of one kind said."""
        return [data for each, data in self.events if each == kind]

    async def _read_frames(self) -> None:
        async for frame in self.session.read_frames():
            self.frames.append(frame.samples)
            self.texts.append(frame.text)

    async def _read(self, events: AsyncIterator[SessionEvent]) -> None:
        async for event in events:
            read_event(json.dumps(asdict(event)).encode())  # our own client takes whatever a session tells
            self.events.append((event.kind, event.data))


async def until(condition: Callable[[], bool], most_s: float = 60.0) -> None:
    """Waits until a condition holds.

    Raises:
        TimeoutError: it does not hold after `most_s` on the loop's clock.
    """
    async with asyncio.timeout(most_s):
        while not condition():
            await asyncio.sleep(0.01)
