"""The mode without a front-end: recogniser, chat model and text-to-speech, one turn after the other.

When the user's turn has ended the chat model is asked; each sentence of its answer is said as soon as it is written,
while the next ones are being written and synthesised. When the user begins to speak, what is being said falls silent
and the rest is given up. Who hears and who tells turns apart is the session's affair, as in the other modes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

from backends.protocols import Samples, SpeechRefused
from data_schemas.config.serving import BackendName
from data_schemas.errors import AnswerCut, BackendError, RequestError
from kame_model.serve.asking import answer_of
from kame_model.serve.conversation import Conversation
from kame_model.serve.events import EventKind
from kame_model.serve.request_counts import RequestCounts
from kame_model.serve.routing import BackEnd
from kame_model.serve.sentences import Sentences
from kame_model.serve.speaker import SoundQueue, Speaker

AHEAD_S: Final = 5.0
"""So much is synthesised ahead of what is said: enough never to run dry, and little is lost by an interruption."""


class Cascade:
    """One session's cascade. All methods are called on the event loop's thread.

    The session tells the conversation what is heard, and what was said as it comes out of `next_frame`: an answer that
    was interrupted stands in the history as far as it was said.

    Args:
        back_end: the chat model to ask for an answer to these words; raises what `Choice.back_end` does.
        conversation: of the session.
        speaker: the voice; shared.
        emit: takes what happens: kind and data of a `SessionEvent`. An answer is told by the events of an oracle, its
            number a text of its own ("cascade-1").
        most_wait_s: a chat model that writes nothing for so long has failed.
        counts: what becomes of each request is counted here.
    """

    def __init__(
        self,
        back_end: Callable[[str], Awaitable[BackEnd]],
        conversation: Conversation,
        speaker: Speaker,
        emit: Callable[[EventKind, dict[str, Any]], None],
        most_wait_s: float,
        counts: RequestCounts,
    ) -> None:
        self._back_end, self._conversation, self._speaker = back_end, conversation, speaker
        self._emit, self._most_wait_s, self._counts = emit, most_wait_s, counts
        self._sound = SoundQueue()
        self._has_room, self._has_question = asyncio.Event(), asyncio.Event()
        self._answering: asyncio.Task[None] | None = None
        self._n_asked = 0

    def on_speech_started(self) -> None:
        """The user speaks: what is being said fades out within the next frame, and its answer is given up."""
        self._give_up()
        self._sound.cut()

    def on_turn_end(self, text: str) -> None:
        """The user's turn has ended, with this text; the conversation has heard it. An empty one asks for nothing."""
        self.on_speech_started()
        if text.strip():
            self._has_question.set()

    def next_frame(self) -> tuple[Samples, str]:
        """80 ms of what is said, float32[1920], and the words that begin in it, each after a space."""
        frame = self._sound.next_frame()
        if self._sound.waiting_s < AHEAD_S:
            self._has_room.set()
        return frame

    async def run(self) -> None:
        """Answers turn after turn, until it is cancelled."""
        while True:
            await self._has_question.wait()
            self._has_question.clear()
            self._answering = asyncio.create_task(self._answer())
            try:
                await asyncio.wait([self._answering])
                if not self._answering.cancelled():
                    self._answering.result()  # a fault of ours ends the session
            finally:
                self._answering.cancel()

    def reset(self) -> None:
        """Gives up the answer and forgets what was to be said."""
        self._give_up()
        self._sound.clear()

    async def aclose(self) -> None:
        """As `reset`, and waits until the chat model's connection is closed."""
        self.reset()
        if self._answering is not None:
            await asyncio.gather(self._answering, return_exceptions=True)

    def _give_up(self) -> None:
        self._has_question.clear()
        if self._answering is not None:
            self._answering.cancel()

    async def _answer(self) -> None:
        """Asks, and has the answer said sentence by sentence while it is being written."""
        self._n_asked += 1
        self._counts.n_asked += 1
        oracle, asked, place = f"cascade-{self._n_asked}", "", ""
        sentences: asyncio.Queue[str | None] = asyncio.Queue()
        writing: asyncio.Task[int] | None = None
        try:
            async with asyncio.timeout(self._most_wait_s):
                back_end = await self._back_end(self._conversation.heard)
            asked, place = back_end.name, back_end.place
            writing = asyncio.create_task(self._write(oracle, back_end, sentences))
            while (sentence := await sentences.get()) is not None:
                try:
                    await self._say(sentence)
                except SpeechRefused as refusal:  # the others are said all the same
                    self._counts.tell("text-to-speech", "", refusal)
                    self._failed(oracle, asked, f"a sentence is left out: {refusal}")
            self._emit("oracle_done", {"oracle": oracle, "n_tokens": await writing})
            self._counts.n_answered += 1
        except (BackendError, RequestError, TimeoutError) as error:
            self._counts.failed(asked, place, error)
            reason = f"nothing came for {self._most_wait_s:g} s" if isinstance(error, TimeoutError) else str(error)
            self._failed(oracle, asked, reason)
        except asyncio.CancelledError:
            self._counts.n_given_up += 1
            raise
        finally:
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    def _failed(self, oracle: str, back_end: BackendName, reason: str) -> None:
        self._emit("oracle_failed", {"oracle": oracle, "back_end": back_end, "reason": reason})

    async def _write(self, oracle: str, back_end: BackEnd, sentences: asyncio.Queue[str | None]) -> int:
        """Puts each sentence of the answer as it is written, and None at its end, however it ends.

        Returns:
            The pieces in which it came: most servers send a token in each.
        """
        clock, parted, n_pieces = asyncio.get_running_loop().time, Sentences(), 0
        asked_s = clock()
        n_words = len(self._conversation.heard.split())
        self._emit("oracle_asked", {"oracle": oracle, "back_end": back_end.name, "n_words": n_words})

        def written(sentence: str) -> None:
            self._emit("oracle", {"oracle": oracle, "text": sentence, "age_s": round(clock() - asked_s, 3)})
            sentences.put_nowait(sentence)

        try:
            with suppress(AnswerCut):  # what was written is said
                async with aclosing(answer_of(back_end, self._conversation, self._most_wait_s)) as pieces:
                    async for piece in pieces:
                        n_pieces += 1
                        for sentence in parted.add(piece):
                            written(sentence)
            if rest := parted.rest():
                written(rest)
        finally:
            sentences.put_nowait(None)
        return n_pieces

    async def _say(self, sentence: str) -> None:
        """Has a sentence said after those before it, once there is room for it."""
        spoken = await self._speaker.say(sentence)
        while self._sound.waiting_s >= AHEAD_S:
            self._has_room.clear()
            await self._has_room.wait()
        self._sound.add(spoken)
