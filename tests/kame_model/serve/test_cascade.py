"""The cascade on a simulated clock: what is asked, when it is said, and what an interruption leaves."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from backends.protocols import Samples, Speech, TextToSpeech
from backends.tts.double import DoubleTts
from data_schemas.config.serving import CascadeConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_S
from kame_model.serve.cascade import AHEAD_S, Cascade
from kame_model.serve.conversation import Conversation
from kame_model.serve.prompts import load_prompt
from kame_model.serve.routing import BackEnd
from kame_model.serve.speaker import Speaker
from pipelines.script.speakable import speak
from tests.inline_threads import InlineThreads

ANSWER = ["It is ", "eighteen eggs. ", "She sells ", "nine of them. ", "That makes $18."]


class SlowChat:
    """Writes a piece of each answer every `gap_s`; an exception among the pieces is raised."""

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

    def __init__(self, chat: SlowChat, tts: TextToSpeech | None = None, threads: Executor | None = None) -> None:
        self.frames: list[tuple[Samples, str]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.conversation = Conversation(12, lambda: FRAME_S * len(self.frames))
        back_end = BackEnd("default", chat, load_prompt("tandem"))
        speaker = Speaker(tts or DoubleTts(), CascadeConfig(tts="double"), speak, threads or InlineThreads())
        self.cascade = Cascade(
            lambda: back_end,
            self.conversation,
            speaker,
            lambda kind, data: self.events.append((kind, data)),
            5.0,
        )

    def ask(self, text: str) -> None:
        self.conversation.user_says(text, is_final=True)
        self.cascade.on_turn_end(text)

    async def listen(self, n_frames: int) -> list[tuple[Samples, str]]:
        """The next frames, one each 80 ms."""
        for _ in range(n_frames):
            await asyncio.sleep(FRAME_S)
            frame = self.cascade.next_frame()
            self.conversation.assistant_says(frame[1])
            self.frames.append(frame)
        return self.frames[-n_frames:]

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.frames)

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [data for each, data in self.events if each == kind]


def talking(talk: Talk, course: Callable[[], Awaitable[None]]) -> None:
    """Runs a course of a talk while its cascade runs, on a clock that jumps."""
    import looptime

    async def whole() -> None:
        running = asyncio.create_task(talk.cascade.run())
        try:
            await course()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await talk.cascade.aclose()

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


def is_loud(frame: tuple[Samples, str]) -> bool:
    return float(np.abs(frame[0]).max()) > 1e-3


def test_an_answer_is_said_while_it_is_being_written() -> None:
    chat = SlowChat(ANSWER, gap_s=0.5)
    talk = Talk(chat)

    async def course() -> None:
        talk.ask("How many eggs are left?")
        await talk.listen(200)

    talking(talk, course)
    first_loud = next(at for at, frame in enumerate(talk.frames) if is_loud(frame))
    written = talk.told("oracle")
    assert first_loud * FRAME_S < 1.0 + 2 * FRAME_S  # the first sentence was whole after 1 s, the last after 2.5 s
    assert " ".join(each["text"] for each in written) == "".join(ANSWER)  # as those who show it join it
    assert written[-1]["age_s"] == 2.5
    assert talk.text == " It is eighteen eggs. She sells nine of them. That makes eighteen dollars."
    assert talk.told("oracle_done") == [{"oracle": "cascade-1", "n_tokens": len(ANSWER)}]
    assert not is_loud(talk.frames[-1])


def test_the_chat_model_is_told_what_was_said_before() -> None:
    chat = SlowChat(["It is nine."], ["Ten."])
    talk = Talk(chat)

    async def course() -> None:
        talk.ask("What is four and five?")
        await talk.listen(60)
        talk.ask("And one more?")
        await talk.listen(60)

    talking(talk, course)
    last = chat.asked[1]["messages"][-1]["content"]
    assert "What is four and five?" in last
    assert "It is nine." in last
    assert last.index("It is nine.") < last.index("And one more?")


def test_who_speaks_in_is_heard_within_two_frames_and_the_rest_is_neither_said_nor_told() -> None:
    chat = SlowChat(ANSWER, ["Yes."], gap_s=0.5)
    talk = Talk(chat)

    async def course() -> None:
        talk.ask("How many eggs are left?")
        await talk.listen(18)
        assert is_loud(talk.frames[-1])
        talk.cascade.on_speech_started()
        fading, *after = await talk.listen(30)
        assert is_loud(fading)
        assert abs(float(fading[0][-1])) < 1e-3  # faded, not chopped
        assert not any(is_loud(each) or each[1] for each in after)
        assert chat.n_open == 0
        talk.ask("Are you sure?")
        await talk.listen(40)

    talking(talk, course)
    assert "eighteen" in talk.text
    assert "nine of them" not in talk.text
    assert talk.text.endswith(" Yes.")
    assert "nine of them" not in str(chat.asked[1]["messages"])
    assert talk.told("oracle_done") == [{"oracle": "cascade-2", "n_tokens": 1}]


def test_a_reset_leaves_nothing_to_say() -> None:
    chat = SlowChat(ANSWER, gap_s=0.1)
    talk = Talk(chat)

    async def course() -> None:
        talk.ask("How many eggs are left?")
        await talk.listen(10)
        assert is_loud(talk.frames[-1])
        talk.cascade.reset()
        assert not any(is_loud(each) or each[1] for each in await talk.listen(30))
        assert chat.n_open == 0

    talking(talk, course)


def test_a_turn_without_words_asks_for_nothing() -> None:
    chat = SlowChat()
    talk = Talk(chat)

    async def course() -> None:
        talk.cascade.on_turn_end("  ")
        await talk.listen(5)

    talking(talk, course)
    assert chat.asked == []


@pytest.mark.parametrize(
    ("pieces", "gap_s", "reason"),
    [([BackendError("nobody there")], 0.1, "nobody there"), (["Never."], 60.0, "nothing came for 5 s")],
)
def test_a_chat_model_that_fails_is_told_and_the_next_turn_is_answered(
    pieces: list[str | Exception], gap_s: float, reason: str
) -> None:
    chat = SlowChat(pieces, ["All is well."], gap_s=gap_s)
    talk = Talk(chat)

    async def course() -> None:
        talk.ask("Are you there?")
        await talk.listen(100)
        chat.gap_s = 0.1
        talk.ask("Are you there now?")
        await talk.listen(60)

    talking(talk, course)
    assert talk.told("oracle_failed") == [{"oracle": "cascade-1", "back_end": "default", "reason": reason}]
    assert talk.text == " All is well."
    assert chat.n_open == 0


def test_a_sentence_that_cannot_be_said_is_left_out_and_told() -> None:
    talk = Talk(SlowChat(["Here it is. <br/><table> Good luck.\n", "Bye."]))

    async def course() -> None:
        talk.ask("Show me.")
        await talk.listen(60)

    talking(talk, course)
    assert talk.text == " Here it is. Bye."
    assert "left out" in talk.told("oracle_failed")[0]["reason"]


def test_no_more_is_synthesised_than_will_soon_be_said() -> None:
    n_said = 0

    class Counting(DoubleTts):
        def synthesise(self, text: str, voice: str, speed: float) -> Speech:
            nonlocal n_said
            n_said += 1
            return super().synthesise(text, voice, speed)

    talk = Talk(SlowChat(["One and two and three and four. "] * 100, gap_s=0.0), Counting())

    async def course() -> None:
        talk.ask("Count.")
        await talk.listen(20)

    talking(talk, course)
    assert n_said <= AHEAD_S / 2 + 3  # each lasts two seconds and a half


def test_a_slow_voice_holds_nobody_up_and_what_it_says_too_late_is_thrown_away() -> None:
    may_speak, has_begun = threading.Event(), threading.Event()

    class Slow(DoubleTts):
        def synthesise(self, text: str, voice: str, speed: float) -> Speech:
            has_begun.set()
            may_speak.wait(30)
            return super().synthesise(text, voice, speed)

    async def course() -> None:
        running = asyncio.create_task(talk.cascade.run())
        talk.ask("How many?")
        while not has_begun.is_set():
            await asyncio.sleep(0)
        silent = [talk.cascade.next_frame() for _ in range(5)]  # while the thread speaks
        talk.cascade.on_speech_started()
        may_speak.set()
        await asyncio.get_running_loop().run_in_executor(threads, lambda: None)  # the thread is done
        silent += [talk.cascade.next_frame() for _ in range(5)]
        assert not any(is_loud(each) for each in silent)
        running.cancel()
        await talk.cascade.aclose()

    with ThreadPoolExecutor(1) as threads:
        talk = Talk(SlowChat(["Nine. "], gap_s=0.0), Slow(), threads)
        asyncio.run(course())


def test_a_voice_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="double_a"):
        Speaker(DoubleTts(), CascadeConfig(voice="nobody"), speak, InlineThreads())
