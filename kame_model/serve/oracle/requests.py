"""A session's requests to chat models, whatever their answers are used for: how each is asked, told and counted."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from backends.fault_log import FaultLog, name_fault
from backends.tts.protocol import SpeechRefused
from data_schemas.config.serving import BackendName
from data_schemas.errors import AnswerCut, KameError
from kame_model.serve.oracle.routing import BackEnd, Choice
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.session.events import EventKind
from spoken.conversation import Message
from spoken.oracle_text import UnusableAnswer

_LOG = logging.getLogger(__name__)

Emit = Callable[[EventKind, dict[str, Any]], None]
"""Takes what happens: kind and data of a `SessionEvent`."""

_PIECES_PER_TOKEN: Final = 2
_CHARS_PER_TOKEN: Final = 32
"""Of each token that was allowed, no more is taken: a server that knows no `max_tokens` may write for ever."""

_THINKS: Final = "thinks"
_TELL_IT: Final = "Tell it not to think, or give it more max_tokens (docs/llm.md, Models that think)."
_TELL_IT_SOON: Final = "Tell it not to think (docs/llm.md, Models that think), or raise back_ends[].max_thought_s."


@dataclass
class RequestCounts:
    """What became of the requests of all sessions of a server, those of the cascades too; only figures, and the log."""

    n_asked: int = 0
    n_answered: int = 0
    n_given_up: int = 0
    n_failed: int = 0

    def __post_init__(self) -> None:
        self._faults = FaultLog(_LOG)  # no field: those are figures

    def tell(self, who: str, place: str, error: Exception) -> None:
        """Tells a fault in the log: never the error's text, which may quote the server."""
        fault = "timeout" if isinstance(error, TimeoutError) else name_fault(error)
        self._faults.report(who, place, fault, error.remedy if isinstance(error, KameError) else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is being written.

    Attributes:
        oracle: its number or name in events.
        back_end: who writes it.
        pieces: raise what `read_answer` does.
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
        self, oracle: int | str, heard: str, use: Callable[[Answer], Awaitable[int]], *, as_finished: bool = False
    ) -> KameError | TimeoutError | None:
        """Asks for an answer and has it used; who waits no more cancels this, which closes the connection.

        Args:
            oracle: its number or name in events.
            heard: what the user says so far.
            use: takes the pieces as they come, and returns of how many tokens the answer was.
            as_finished: see `Conversation.messages`.

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
            messages = self._conversation.messages(back_end.prompt, as_finished=as_finished)
            async with aclosing(read_answer(back_end, messages, self._most_wait_s)) as pieces:
                n_tokens = await use(Answer(oracle, asked, pieces, lambda words: self._tell(oracle, words, asked_s)))
        except asyncio.CancelledError:
            self._counts.n_given_up += 1
            raise
        except (KameError, TimeoutError) as error:
            if _is_given_up():  # and only its connection was closed in disorder
                self._counts.n_given_up += 1
                raise asyncio.CancelledError from error
            self._counts.n_failed += 1
            self._counts.tell(f"Back-end {asked}", place, error)
            reason = error.what if isinstance(error, KameError) else f"nothing came for {self._most_wait_s:g} s"
            self._tell_failed(oracle, asked, reason)
            return error
        self._counts.n_answered += 1
        self._emit("oracle_done", {"oracle": oracle, "n_tokens": n_tokens})
        return None

    def tell_left_out(self, answer: Answer, refusal: SpeechRefused | UnusableAnswer) -> None:
        """Tells that a sentence of an answer cannot be said: by the engine, or without garbling it."""
        who = "Back-end text-to-speech" if isinstance(refusal, SpeechRefused) else f"Back-end {answer.back_end}"
        self._counts.tell(who, "", refusal)
        told = {"oracle": answer.oracle, "back_end": answer.back_end, "reason": str(refusal)}
        self._emit("sentence_left_out", told)

    def _tell_failed(self, oracle: int | str, back_end: BackendName, reason: str) -> None:
        self._emit("oracle_failed", {"oracle": oracle, "back_end": back_end, "reason": reason})

    def _tell(self, oracle: int | str, words: str, asked_s: float) -> None:
        age_s = asyncio.get_running_loop().time() - asked_s
        self._emit("oracle", {"oracle": oracle, "text": words, "age_s": round(age_s, 3)})


def _is_given_up() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def read_answer(back_end: BackEnd, messages: list[Message], most_wait_s: float) -> AsyncGenerator[str, None]:
    """The pieces of an answer to what the user says; closing it cancels the request.

    An empty piece of `LiveChat.stream` is a sign of thinking. What is longer than was allowed is cut, and told in the
    log.

    Raises:
        AnswerCut: at the end, where it is not whole.
        UnusableAnswer: the chat model thinks for too long, or wrote nothing but what it thought.
        TimeoutError: nothing came for so long.
        UnexpectedThought, RequestError, BackendError: see `LiveChat.stream`.
    """
    clock, most = asyncio.get_running_loop().time, back_end.max_tokens
    think_until_s, is_thinking = clock() + back_end.max_thought_s, False
    n_pieces = n_chars = 0
    async with aclosing(back_end.chat.stream(_payload(back_end, messages))) as written:
        while n_pieces < _PIECES_PER_TOKEN * most and n_chars < _CHARS_PER_TOKEN * most:
            thought_s = think_until_s - clock() if is_thinking else most_wait_s
            try:
                async with asyncio.timeout(min(most_wait_s, thought_s)):
                    piece = await anext(written, None)
            except TimeoutError:
                if thought_s < most_wait_s:
                    what = f"The chat model was still thinking after {back_end.max_thought_s:g} s."
                    raise UnusableAnswer(what, _TELL_IT_SOON, _THINKS) from None
                raise
            except AnswerCut:
                if not is_thinking:
                    raise
                piece = None
            if piece is None and is_thinking:
                raise UnusableAnswer("The chat model wrote nothing but what it thought.", _TELL_IT, _THINKS)
            if piece is None:
                return
            if piece:
                n_pieces += 1
                n_chars += len(piece)
                yield piece
            is_thinking = not n_pieces
    _LOG.warning("Back-end %s writes far more than the %d tokens it was asked for; it is cut.", back_end.name, most)
    raise AnswerCut(f"Back-end {back_end.name} writes far more than it was asked for.")


def _payload(back_end: BackEnd, messages: list[Message]) -> dict[str, Any]:
    return {
        "messages": messages,
        "max_tokens": back_end.max_tokens,
        "temperature": back_end.temperature,
        **({"stop": back_end.prompt.stop} if back_end.prompt.stop else {}),
    }
