"""A session's requests to chat models, for oracles and for spoken answers: sent, reported as events, counted."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
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
"""Receives the kind and data of a `SessionEvent`."""

_PIECES_PER_TOKEN: Final = 2
_CHARS_PER_TOKEN: Final = 32
"""Limits of an answer per allowed token, because a server that ignores `max_tokens` might never stop."""

_THINKS: Final = "thinks"
_TELL_IT: Final = "Turn its thinking off, or raise max_tokens (docs/llm.md, Models that think)."
_TELL_IT_SOON: Final = "Turn its thinking off (docs/llm.md, Models that think), or raise back_ends[].max_thought_s."


@dataclass
class RequestCounts:
    """Counts of the outcomes of all requests of a server's sessions, also those of cascades.

    Attributes:
        n_asked: all requests.
        n_answered: those that succeeded.
        n_given_up: those that were cancelled.
        n_failed: those that ended with an error.
    """

    n_asked: int = 0
    n_answered: int = 0
    n_given_up: int = 0
    n_failed: int = 0

    def __post_init__(self) -> None:
        self._faults = FaultLog(_LOG)  # not a field, because fields are counts

    def log_fault(self, who: str, place: str, error: Exception) -> None:
        """Logs a fault, each at most once a minute, but never the text of the error, which may quote the server.

        Args:
            who: the failed component.
            place: its host or engine; may be empty.
        """
        fault = "timeout" if isinstance(error, TimeoutError) else name_fault(error)
        self._faults.report(who, place, fault, error.remedy if isinstance(error, KameError) else "")


@dataclass(frozen=True, slots=True)
class BackEndAnswer:
    """An answer that is being written.

    Attributes:
        oracle: its number or name in events.
        back_end: the back-end that writes it.
        pieces: the text as it arrives; raises what `read_answer` does.
        report_words: reports which of its words are used.
    """

    oracle: int | str
    back_end: BackendName
    pieces: AsyncIterator[str]
    report_words: Callable[[str], None]


class Requests:
    """One session's requests for one use of their answers. All methods are called on the event loop's thread.

    Args:
        choice: chooses the back-end.
        conversation: of the session.
        emit: receives each request and its outcome as events of an oracle.
        counts: counts the outcomes.
        most_wait_s: the timeout after which a chat model that writes nothing has failed.
        is_answer: see `Choice.choose_back_end`.
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
        self,
        oracle: int | str,
        heard: str,
        use: Callable[[BackEndAnswer], Awaitable[int]],
        *,
        as_finished: bool = False,
    ) -> KameError | TimeoutError | None:
        """Requests an answer and passes it to `use`. Cancelling this closes the connection.

        Args:
            oracle: its number or name in events.
            heard: what the user has said so far, to choose the back-end; the messages are the conversation's.
            use: reads the pieces as they arrive, and returns the number of tokens of the answer.
            as_finished: see `Conversation.make_messages`.

        Returns:
            The error, which has been reported and counted, or None if the request succeeded.
        """
        asked, place, asked_s = self._choice.own, "", asyncio.get_running_loop().time()
        self._counts.n_asked += 1
        try:
            async with asyncio.timeout(self._most_wait_s):
                back_end = await self._choice.choose_back_end(heard, is_answer=self._is_answer)
            asked, place = back_end.name, back_end.place
            self._emit("oracle_asked", {"oracle": oracle, "back_end": asked, "n_words": len(heard.split())})
            messages = self._conversation.make_messages(back_end.prompt, as_finished=as_finished)
            async with aclosing(read_answer(back_end, messages, self._most_wait_s)) as pieces:
                n_tokens = await use(BackEndAnswer(oracle, asked, pieces, partial(self._emit_words, oracle, asked_s)))
        except asyncio.CancelledError:
            self._counts.n_given_up += 1
            raise
        except (KameError, TimeoutError) as error:
            if _is_being_cancelled():  # closing the connection raised it
                self._counts.n_given_up += 1
                raise asyncio.CancelledError from error
            self._counts.n_failed += 1
            self._counts.log_fault(f"Back-end {asked}", place, error)
            reason = error.what if isinstance(error, KameError) else f"nothing came for {self._most_wait_s:g} s"
            self._emit_failed(oracle, asked, reason)
            return error
        self._counts.n_answered += 1
        self._emit("oracle_done", {"oracle": oracle, "n_tokens": n_tokens})
        return None

    def report_skipped_sentence(self, answer: BackEndAnswer, refusal: SpeechRefused | UnusableAnswer) -> None:
        """Logs, and emits as an event, that a sentence of an answer is skipped because it cannot be said."""
        who = "Back-end text-to-speech" if isinstance(refusal, SpeechRefused) else f"Back-end {answer.back_end}"
        self._counts.log_fault(who, "", refusal)
        data = {"oracle": answer.oracle, "back_end": answer.back_end, "reason": str(refusal)}
        self._emit("sentence_left_out", data)

    def _emit_failed(self, oracle: int | str, back_end: BackendName, reason: str) -> None:
        self._emit("oracle_failed", {"oracle": oracle, "back_end": back_end, "reason": reason})

    def _emit_words(self, oracle: int | str, asked_s: float, words: str) -> None:
        """Emits words of an oracle that was requested at `asked_s`, with its age."""
        age_s = asyncio.get_running_loop().time() - asked_s
        self._emit("oracle", {"oracle": oracle, "text": words, "age_s": round(age_s, 3)})


def _is_being_cancelled() -> bool:
    """Returns whether the cancellation of the current task has been requested."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def read_answer(back_end: BackEnd, messages: list[Message], most_wait_s: float) -> AsyncGenerator[str, None]:
    """Yields the pieces of an answer, none of them empty. Closing the generator cancels the request.

    An empty piece of `LiveChat.stream` means that the model is thinking. An answer longer than allowed is cut, and a
    warning is logged.

    Raises:
        AnswerCut: at the end, if the answer is incomplete.
        UnusableAnswer: the chat model thinks for too long, or wrote nothing but thoughts.
        TimeoutError: nothing arrived for `most_wait_s`.
        AnswerRefused, UnexpectedThought, RequestError, BackendError, ConfigError: see the `stream` of the chat model.
    """
    clock, most = asyncio.get_running_loop().time, back_end.max_tokens
    think_until_s, is_thinking = clock() + back_end.max_thought_s, False
    n_pieces = n_chars = 0
    async with aclosing(back_end.chat.stream(_make_payload(back_end, messages))) as written:
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
                raise UnusableAnswer("The chat model wrote nothing but thoughts.", _TELL_IT, _THINKS)
            if piece is None:
                return
            if piece:
                n_pieces += 1
                n_chars += len(piece)
                yield piece
            is_thinking = not n_pieces
    _LOG.warning("Back-end %s writes far more than the requested %d tokens; the answer is cut.", back_end.name, most)
    raise AnswerCut(f"Back-end {back_end.name} writes far more tokens than were requested.")


def _make_payload(back_end: BackEnd, messages: list[Message]) -> dict[str, Any]:
    """Returns a request's parameters in the form of OpenAI's chat completions."""
    return {
        "messages": messages,
        "max_tokens": back_end.max_tokens,
        "temperature": back_end.temperature,
        **({"stop": back_end.prompt.stop} if back_end.prompt.stop else {}),
    }
