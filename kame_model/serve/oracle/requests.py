"""A session's requests to chat models, whatever their answers are used for: how each is asked, told and counted."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from backends.tts.protocol import SpeechRefused
from data_schemas.config.serving import BackendName
from data_schemas.errors import KameError
from kame_model.serve.oracle.asking import answer_of
from kame_model.serve.oracle.request_counts import RequestCounts
from kame_model.serve.oracle.routing import Choice
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.session.events import EventKind

Emit = Callable[[EventKind, dict[str, Any]], None]
"""Takes what happens: kind and data of a `SessionEvent`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is being written.

    Attributes:
        oracle: its number or name in events.
        back_end: who writes it.
        pieces: raise what `answer_of` does.
        tell: told of the words of it that are used.
    """

    oracle: int | str
    back_end: BackendName
    pieces: AsyncIterator[str]
    tell: Callable[[str], None]


class Requests:
    """One session's requests for one use of their answers. All methods are called on the event loop's thread.

    Args:
        choice: whom the session asks.
        conversation: of the session.
        emit: told of each request and what becomes of it, by the events of an oracle.
        counts: what becomes of each is counted here.
        most_wait_s: a chat model that writes nothing for so long has failed.
        is_answer: see `Choice.back_end`.
    """

    def __init__(
        self,
        choice: Choice,
        conversation: Conversation,
        emit: Emit,
        counts: RequestCounts,
        most_wait_s: float,
        *,
        is_answer: bool = False,
    ) -> None:
        self._choice, self._conversation, self._is_answer = choice, conversation, is_answer
        self._emit, self._counts, self._most_wait_s = emit, counts, most_wait_s

    async def ask(
        self, oracle: int | str, heard: str, use: Callable[[Answer], Awaitable[int]]
    ) -> KameError | TimeoutError | None:
        """Asks for an answer and has it used; who waits no more cancels this, which closes the connection.

        Args:
            oracle: its number or name in events.
            heard: what the user says so far.
            use: takes the pieces as they come, and returns of how many tokens the answer was.

        Returns:
            Why it failed, which has been told and counted; None where it did not.
        """
        asked, place, asked_s = self._choice.own, "", asyncio.get_running_loop().time()
        self._counts.n_asked += 1
        try:
            async with asyncio.timeout(self._most_wait_s):
                back_end = await self._choice.back_end(heard, is_answer=self._is_answer)
            asked, place = back_end.name, back_end.place
            self._emit("oracle_asked", {"oracle": oracle, "back_end": asked, "n_words": len(heard.split())})
            async with aclosing(answer_of(back_end, self._conversation, self._most_wait_s)) as pieces:
                n_tokens = await use(Answer(oracle, asked, pieces, lambda words: self._tell(oracle, words, asked_s)))
        except asyncio.CancelledError:
            self._counts.n_given_up += 1
            raise
        except (KameError, TimeoutError) as error:
            if _is_given_up():  # and only its connection was closed in disorder
                self._counts.n_given_up += 1
                raise asyncio.CancelledError from error
            self._counts.failed(asked, place, error)
            reason = error.what if isinstance(error, KameError) else f"nothing came for {self._most_wait_s:g} s"
            self._tell_failed(oracle, asked, reason)
            return error
        self._counts.n_answered += 1
        self._emit("oracle_done", {"oracle": oracle, "n_tokens": n_tokens})
        return None

    def tell_left_out(self, answer: Answer, refusal: SpeechRefused) -> None:
        """Tells that a sentence of an answer cannot be said."""
        self._counts.tell("text-to-speech", "", refusal)
        self._tell_failed(answer.oracle, answer.back_end, f"a sentence is left out: {refusal}")

    def _tell_failed(self, oracle: int | str, back_end: BackendName, reason: str) -> None:
        self._emit("oracle_failed", {"oracle": oracle, "back_end": back_end, "reason": reason})

    def _tell(self, oracle: int | str, words: str, asked_s: float) -> None:
        age_s = asyncio.get_running_loop().time() - asked_s
        self._emit("oracle", {"oracle": oracle, "text": words, "age_s": round(age_s, 3)})


def _is_given_up() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
