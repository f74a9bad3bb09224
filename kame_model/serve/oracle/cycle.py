"""The back-end cycle: requests an answer again and again while the user speaks; the newest answer wins.

A request is sent when the transcript has grown and the last request is `interval_s` old, and always when the user's
turn has ended. An answer that is being written continues until the first words of a newer one are in the oracle queue,
and is then cancelled.

Answers to the unfinished question are guesses, which a front-end may say while it waits for the answer
(docs/evaluation.md). `config.guesses` says what happens to them (`data_schemas/guesses.py`). `withdraw`: when the whole
question is sent, they are cancelled, and their tokens that still wait in the queue are discarded. `hold`: each request
presents the question so far as if it were finished, and its answer is held. When the turn ends with the words of the
newest request, the answer to that is released and nothing is requested again; otherwise the whole question is sent. If
the user says more before an answer has begun, that answer is cancelled: the front-end would say it over the user, and
again when the next one comes.

While the maximum number of requests is in flight, a newer transcript waits for a slot: if the oldest request were
cancelled for it, a back-end that is slower than the user's speech would never answer. Only the ended turn takes a
slot: that of the newest request whose answer has not begun, or else of the newest request.

If the back-end fails, `oracle_failed` is emitted, the failure is counted, and the request is retried: with the next
words, or with the same ones if there are none, and less often after several failures in a row. The front-end continues
to speak all the time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from data_schemas.config.serving import CycleConfig
from data_schemas.errors import AnswerCut, AnswerRefused, UnexpectedThought
from kame_model.serve.oracle.requests import BackEndAnswer, Requests
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.serve.session.conversation import Conversation
from spoken.oracle_text import UnusableAnswer

MAX_DOUBLINGS: Final = 4
"""After failures in a row the interval doubles at most this many times: 0.3 s becomes 4.8 s."""

MAX_TRIES: Final = 3
"""How often the same words are requested if the back-end fails; an answer that comes later is useless."""

CLOCK_S: Final = 0.001
"""A timer may fire this much early, seconds: a shorter remaining wait counts as none."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request.

    Attributes:
        writer: writes its answer.
        heard: the user's turn when it was sent.
        is_guess: whether the turn was unfinished.
        has_begun: whether words of its answer are in the queue.
        answer: the answer, once it is being written.
        task: runs until the request has ended.
    """

    writer: OracleWriter
    heard: str
    is_guess: bool
    has_begun: bool = False
    answer: BackEndAnswer | None = None
    task: asyncio.Task[None] | None = None


class BackEndCycle:
    """One session's requests to chat models. All methods are called on the event loop's thread.

    Args:
        requests: sends the requests; the session calls `restart_request` when its back-end or prompt changes.
        conversation: of the session, which adds what is heard and said to it before it calls `on_heard`.
        new_writer: starts an oracle: `lambda is_held: OracleWriter(queue, tokenizer, max_words, is_held=is_held)`.
        config: when to send requests.
    """

    def __init__(
        self,
        requests: Requests,
        conversation: Conversation,
        new_writer: Callable[[bool], OracleWriter],
        config: CycleConfig,
    ) -> None:
        self._requests, self._conversation = requests, conversation
        self._new_writer, self._config = new_writer, config
        self._under_way: list[_Request] = []  # the oldest first
        self._fed: _Request | None = None  # the newest whose words are in the queue
        self._held: _Request | None = None  # the newest, if its answer is held and has not failed
        self._tasks: set[asyncio.Task[None]] = set()  # includes cancelled ones until they have ended
        self._fault: BaseException | None = None
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._wanted = ""
        self._asked: str | None = ""  # None: request the same again
        self._must_ask = False
        self._next_s = float("-inf")
        self._n_failures = self._n_tries = 0

    @property
    def is_asking(self) -> bool:
        """Whether a request is in flight."""
        return bool(self._under_way)

    def restart_request(self) -> None:
        """Handles a change of the session's back-end or prompt.

        If the user is still speaking, or requests are in flight, these are cancelled and the turn is sent again. An
        ended turn without requests in flight is not.
        """
        is_speaking = not self._conversation.is_finished
        if self._under_way or (self._wanted and is_speaking):
            self._cancel(*self._under_way)
            self._clear_turn()
            self._wanted, self._asked, self._must_ask = self._conversation.heard, None, not is_speaking
            self._wake.set()

    def on_heard(self, text: str, is_final: bool) -> None:
        """Handles more of the user's turn, which the conversation has already; `run` sends a request if one is due.

        Args:
            text: the turn so far; empty if it was noise.
            is_final: whether the turn has ended, so that a request is sent without delay.
        """
        if text.strip() or self._wanted:
            self._wanted = self._conversation.heard
        if text.strip() or self._has_lost_its_answer():
            self._must_ask = self._must_ask or is_final
            self._wake.set()

    async def run(self) -> None:
        """Sends requests until it is cancelled, which cancels them all; raises errors of our own code."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._fault is not None:
                    raise self._fault
                if not self._is_request_due():
                    continue
                wait_s = self._next_s - asyncio.get_running_loop().time()
                if wait_s > CLOCK_S and not self._must_ask:
                    self._wake_in(wait_s)
                elif self._conversation.is_finished and self._release_answer():
                    self._asked, self._must_ask = self._wanted, False
                elif self._make_room():
                    self._send_request()  # else the end of a request wakes this loop
        finally:
            self.reset()

    def reset(self) -> None:
        """Cancels all requests and forgets the turn, for modes without oracles, too; back-end and prompt stay."""
        self._cancel(*self._under_way)
        self._clear_turn()

    async def aclose(self) -> None:
        """Resets, and waits until the connections of all requests are closed."""
        self.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _clear_turn(self) -> None:
        """Clears everything that belongs to the user's turn, its failures and the timer, but cancels no request."""
        self._wanted = self._asked = ""
        self._fed = self._held = None
        self._must_ask = False
        self._next_s = float("-inf")
        self._n_failures = self._n_tries = 0
        self._wake_in(None)

    def _wake_in(self, wait_s: float | None) -> None:
        """Wakes the loop of `run` after a time, instead of at an earlier set one; None: not at all."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if wait_s is None else asyncio.get_running_loop().call_later(wait_s, self._wake.set)

    def _has_lost_its_answer(self) -> bool:
        """Returns whether the user's ended turn has no answer because of words that turned out to be noise.

        A turn whose last request was for the same words has been answered, refused, or answered without a word.
        """
        answered = [*self._under_way, *([self._fed] if self._fed is not None else [])]
        is_other = self._asked not in (None, self._wanted)
        return is_other and self._conversation.awaits_answer and all(each.heard != self._wanted for each in answered)

    def _is_request_due(self) -> bool:
        """Returns whether the user's turn has ended without a request, or has enough new words for one."""
        if self._must_ask:
            return True
        is_long_enough = len(self._wanted.split()) >= self._config.min_words or self._conversation.is_finished
        return bool(self._wanted) and self._wanted != self._asked and is_long_enough

    def _make_room(self) -> bool:
        """Returns whether one more request may be sent.

        If the maximum is in flight, an ended turn cancels one of them to make room; an unfinished one has to wait.
        """
        if len(self._under_way) < self._config.max_in_flight:
            return True
        if self._must_ask:
            waiting = [request for request in self._under_way if not request.has_begun]
            self._cancel((waiting or self._under_way)[-1])
        return self._must_ask

    def _send_request(self) -> None:
        """Starts a request for the newest words, and cancels older guesses that it replaces."""
        now_s = asyncio.get_running_loop().time()
        self._n_tries = self._n_tries + 1 if self._asked is None else 1
        self._asked, self._must_ask = self._wanted, False
        self._next_s = now_s + self._compute_interval_s()
        is_guess = not self._conversation.is_finished
        is_held = is_guess and self._config.guesses == "hold"
        if is_held:
            # These answer fewer words and will not be fed.
            self._cancel(*[each for each in self._under_way if not each.has_begun])
        elif not is_guess and self._config.guesses != "feed":
            self._withdraw_guesses()
        request = _Request(self._new_writer(is_held), self._wanted, is_guess)
        self._held = request if is_held else None
        self._under_way.append(request)
        request.task = asyncio.create_task(self._run_request(request, self._wanted))
        self._tasks.add(request.task)
        request.task.add_done_callback(self._on_end)

    def _release_answer(self) -> bool:
        """Queues the held answer if its request had all words of the ended turn; returns whether it had."""
        request = self._held
        if request is None or request.heard != self._wanted:
            return False
        self._held, request.is_guess = None, False
        words = request.writer.release()
        if request.answer is not None:
            self._report_queued(request, request.answer, words)
        return True

    def _withdraw_guesses(self) -> None:
        """Cancels requests of an unfinished question, and discards their tokens that wait in the queue."""
        self._cancel(*[each for each in self._under_way if each.is_guess])
        if self._fed is not None and self._fed.is_guess:
            self._fed.writer.withdraw()

    def _compute_interval_s(self) -> float:
        """Returns the minimum time between two requests, which doubles with each failure in a row after the first."""
        n_doublings = min(max(self._n_failures - 1, 0), MAX_DOUBLINGS)
        return self._config.interval_s * (1 << n_doublings)

    async def _run_request(self, request: _Request, heard: str) -> None:
        """Sends a request and writes its answer; schedules a retry after a failure, not after an unusable answer."""
        try:
            as_finished = self._config.guesses == "hold"
            write = partial(self._write_answer, request)
            failure = await self._requests.ask(request.writer.number, heard, write, as_finished=as_finished)
            if failure is not None and request is self._held:
                self._held = None
            if failure is not None and not isinstance(failure, UnusableAnswer | UnexpectedThought | AnswerRefused):
                self._schedule_retry(request)
        finally:
            self._remove(request)

    async def _write_answer(self, request: _Request, answer: BackEndAnswer) -> int:
        """Writes an answer as it arrives, until its oracle is complete; returns the number of tokens queued.

        Raises:
            UnexpectedThought: the answer was a thought; what was queued has been withdrawn.
            UnusableAnswer, RequestError: as `OracleWriter.write` and `finish`; what is in the queue stays.
            KameError, TimeoutError: as the answer's pieces raise, except for AnswerCut, which ends the answer.
        """
        writer, is_cut, request.answer = request.writer, False, answer
        try:
            async for piece in answer.pieces:
                self._report_queued(request, answer, writer.write(piece))
                self._report_skipped(writer, answer)
                if writer.is_whole:
                    break  # what the server still writes is not needed
        except AnswerCut:
            is_cut = True
        except UnexpectedThought:
            writer.withdraw()
            raise
        self._report_queued(request, answer, writer.finish(is_cut=is_cut))
        self._report_skipped(writer, answer)
        return writer.n_tokens

    def _report_skipped(self, writer: OracleWriter, answer: BackEndAnswer) -> None:
        """Reports the sentences that the writer has skipped since the last call."""
        while writer.left_out:
            self._requests.report_skipped_sentence(answer, writer.left_out.pop(0))

    def _report_queued(self, request: _Request, answer: BackEndAnswer, words: str) -> None:
        """Reports that words of an answer were queued; the first ones cancel older answers."""
        if not words:
            return
        if not request.has_begun:
            request.has_begun, self._fed = True, request
            self._n_failures = 0
            self._cancel(*[each for each in self._under_way if each.writer.number < request.writer.number])
        answer.report_words(words)

    def _schedule_retry(self, request: _Request) -> None:
        """Counts a failure of the back-end, and delays the next request.

        If the failed request is the newest one, it is repeated, unless its words have been sent `MAX_TRIES` times.
        """
        self._n_failures += 1
        self._next_s = max(self._next_s, asyncio.get_running_loop().time() + self._compute_interval_s())
        if request is self._under_way[-1] and self._n_tries < MAX_TRIES:
            self._asked = None

    def _cancel(self, *requests: _Request) -> None:
        """Cancels requests, which no longer count as being under way."""
        for request in requests:
            self._remove(request)
            if request.task is not None:
                request.task.cancel()

    def _remove(self, request: _Request) -> None:
        """Removes a request from those under way, if it is there, so that another one may be sent."""
        if request in self._under_way:
            self._under_way.remove(request)
            self._wake.set()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Forgets the task of a request that has ended; an error of our own code is then raised by `run`."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()  # a bug in our code: `run` raises it
            self._wake.set()
