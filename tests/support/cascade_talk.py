"""A cascade on a simulated clock, with a chat model that writes as slowly as it is told to."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from backends.engine import Samples
from backends.tts.double import DoubleTts
from backends.tts.protocol import TextToSpeech
from data_schemas.config.serving import CascadeConfig
from data_schemas.units import FRAME_S
from kame_model.serve.cascade.cascade import Cascade
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.requests import RequestCounts, Requests
from kame_model.serve.oracle.routing import BackEnd, Choice, Router
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.voice.speaker import Speaker
from tests.support.inline_threads import InlineThreads
from tests.support.jumping_clock import beside

ANSWER = ["It is ", "eighteen eggs. ", "She sells ", "nine of them. ", "That makes $18."]


class SlowChat:
    """A chat model that writes a piece of an answer every `gap_s`; an exception among the pieces is raised.

    Each request takes the next one of the answers.
    """

    def __init__(self, *answers: Sequence[str | Exception], gap_s: float = 0.2) -> None:
        self.answers, self.gap_s = list(answers), gap_s
        self.asked: list[dict[str, Any]] = []
        self.n_open = 0

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        self.asked.append(payload)
        self.n_open += 1
        try:
            for piece in self.answers.pop(0):
                await asyncio.sleep(self.gap_s)
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.n_open -= 1

    async def aclose(self) -> None:
        """Nothing is open."""


class Talk:
    """A cascade with its conversation, driven a frame at a time as a session does."""

    def __init__(
        self,
        asked: SlowChat | Choice,
        tts: TextToSpeech | None = None,
        threads: Executor | None = None,
        max_tokens: int = 256,
    ) -> None:
        self.frames: list[tuple[Samples, str]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.conversation = Conversation(12, lambda: FRAME_S * len(self.frames))
        if isinstance(asked, Choice):
            choice = asked
        else:
            back_end = BackEnd("default", asked, load_prompt("cascade"), answer_max_tokens=max_tokens)
            choice = Choice({"default": back_end}, Router(["default"]))
        self.counts = RequestCounts()
        speaker = Speaker(tts or DoubleTts(), CascadeConfig(tts="double"), threads or InlineThreads())
        requests = Requests(
            choice,
            self.conversation,
            lambda kind, data: self.events.append((kind, data)),
            self.counts,
            5.0,
            is_answer=True,
        )
        self.cascade = Cascade(requests, self.conversation, speaker)

    def ask(self, text: str) -> None:
        """Ends a turn of the user, who has said this text."""
        self.conversation.add_user_text(text, is_final=True)
        self.cascade.on_turn_end(text)

    async def listen(self, n_frames: int) -> list[tuple[Samples, str]]:
        """Takes the next frames, one every 80 ms, and returns them."""
        for _ in range(n_frames):
            await asyncio.sleep(FRAME_S)
            frame = self.cascade.take_frame()
            self.conversation.add_assistant_text(frame[1])
            self.frames.append(frame)
        return self.frames[-n_frames:]

    def plays(self, *steps: str | int | Callable[[], object]) -> None:
        """Runs a course on a clock that jumps: turns of the user, frames to listen for, and what is done then."""

        async def course() -> None:
            for step in steps:
                if isinstance(step, str):
                    self.ask(step)
                elif callable(step):
                    step()
                else:
                    await self.listen(step)

        beside(self.cascade.run(), course, self.cascade.aclose)

    @property
    def text(self) -> str:
        """The text of all frames so far."""
        return "".join(text for _, text in self.frames)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Returns the data of all events of a kind, in order."""
        return [data for each, data in self.events if each == kind]


def is_loud(frame: tuple[Samples, str]) -> bool:
    return float(np.abs(frame[0]).max()) > 1e-3
