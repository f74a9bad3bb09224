"""Live speech recognition with recognisers of whole recordings: the turn so far is recognised again and again.

A caller's audio goes through silero-vad: silence is never recognised, and a turn whose speech has all been recognised
is final at once. While somebody speaks, the audio since the last closed pause (`turn.py`) is recognised every
`interval_s`, less often if that takes longer; each caller has at most one piece in work.
"""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.fault_log import FaultLog, name_fault
from backends.listener.background import BackgroundLoop, HeardSender
from backends.listener.protocol import Heard, Window
from backends.listener.turn import MOST_UNHEARD_S, TurnPiece, TurnSound
from backends.listener.vad import SpeechGate, SpeechMeter
from backends.options import Options
from data_schemas.errors import BackendError

_log = logging.getLogger(__name__)

_SPEECH_PROBABILITY = 0.35
"""Lower than a turn detector's threshold: recognising noise costs less than missing a word."""
_REST_SHARE = 1.0
"""Pause after each piece, as a share of the time that the piece took."""
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 15.0
"""Backoff after a failure, which doubles with each further one."""


_LOOP = re.compile(r"\b(\w+(?:\W+\w+){0,3}?)(?:\W+\1\b)+\W*$", re.IGNORECASE)
"""One to four words repeated at the end, which recognisers make of half a word."""


def drop_guesses(text: str) -> str:
    """Returns the text of an unfinished turn without what recognisers guess at its end: punctuation and repetitions.

    One to four words that are repeated are kept once.
    """
    return _LOOP.sub(r"\1", text).rstrip(" .,?!…")


class RehearingOptions(Options):
    """Options for intervals and timeouts."""

    interval_s: float = Field(default=0.4, ge=0.1, le=10, description="Minimum time between partial results, seconds.")
    final_timeout_s: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="Timeout for a turn's last words after its end, seconds; then its text so far is final.",
    )
    piece_timeout_s: float = Field(default=15.0, gt=0, le=600, description="Timeout of one partial result, seconds.")


class PieceRecogniser(Protocol):
    """What an ear needs of a recogniser; see `Rehearing`."""

    name: str
    timing: RehearingOptions
    place: str
    faults: FaultLog

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """Returns the transcript of samples at 16 kHz; urgent if a turn's end waits for it."""


class Rehearing(ABC):
    """Base class of live recognisers that recognise whole recordings.

    Args:
        place: host of its server, for the log; empty: it has none.
    """

    name: str

    def __init__(self, options: RehearingOptions, place: str = "") -> None:
        self.timing = options
        self.place, self.faults = place, FaultLog(_log)
        self._background = BackgroundLoop(f"listener-{self.name}")

    @abstractmethod
    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """Returns the transcript of samples at 16 kHz; urgent if a turn's end waits for it. Runs in the shared loop.

        Raises:
            BackendError: recognition failed.
        """

    @abstractmethod
    async def shutdown(self) -> None:
        """Releases connections and threads; runs in the listeners' loop."""

    def recognise_now(self, samples: Samples) -> str:
        """Returns the transcript of samples at 16 kHz; blocks the calling thread.

        Raises:
            BackendError: recognition failed.
        """
        return self._background.run(self.recognise(samples, is_urgent=True))

    def listen(self, on_heard: Callable[[Heard], None]) -> "RehearingStream":
        """Returns a new caller's stream.

        Raises:
            BackendError: the model of silero-vad is missing.
        """
        return RehearingStream(self, on_heard, self._background.call)

    def close(self) -> None:
        """Ends the listeners' loop; open ears stop recognising."""
        self._background.close(self.shutdown)


class RehearingStream:
    """One caller's stream.

    Args:
        recogniser: recognises pieces.
        on_heard: see `StreamingRecogniser.listen`.
        call: schedules a function, in order, in the event loop that runs everything here.
    """

    def __init__(
        self, recogniser: PieceRecogniser, on_heard: Callable[[Heard], None], call: Callable[..., object]
    ) -> None:
        self.failure: str | None = None
        self._recogniser = recogniser
        self._sender = HeardSender(on_heard)
        self._call = call
        # From here on: used only in the loop.
        self._meter = SpeechMeter()  # for audio without `windows`
        self._gate = SpeechGate(_SPEECH_PROBABILITY)
        self._turn = TurnSound()
        self._sent_text = ""
        self._work: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._next_s = 0.0
        self._retry_s = _FIRST_RETRY_S

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Queues audio, 24 kHz, for transcription in the background; `windows`, if given, are used instead of it."""
        self._call(self._hear, np.array(samples, dtype=np.float32), windows)  # a copy: it is used later

    def end_turn(self) -> None:
        """Ends the turn; a final `Heard` with the text of the whole turn follows, after at most `final_timeout_s`.

        If recognition takes longer or fails, it has the text that was recognised until then.
        """
        self._call(self._end)

    def close(self) -> None:
        """Discards the turn; `on_heard` is not called any more after this has returned."""
        self._sender.close()
        self._call(self._forget)

    def _hear(self, samples: Samples, windows: Sequence[Window] | None) -> None:
        """Adds audio to the turn, records a failure if old audio had to be discarded, and recognises if it is time."""
        if self._sender.is_closed:
            return
        n_given_up = self._turn.n_given_up
        for window in self._meter.feed(samples) if windows is None else windows:
            self._turn.hear(window.samples, self._gate.passes(window.probability))
        if self._turn.n_given_up > n_given_up:
            lost = f"{self._recogniser.name} is {MOST_UNHEARD_S:g} s behind; the oldest audio is lost"
            self._record_failure(lost, "it is too far behind")
        self._begin_piece()

    def _begin_piece(self) -> None:
        """Starts recognising the turn so far, if it has new speech, nothing is in work, and it is time.

        It is time when the interval has passed, or the last word is over.
        """
        if self._work is not None or self._ending is not None or self._sender.is_closed:
            return
        now_s = asyncio.get_running_loop().time()
        is_time = now_s >= self._next_s or (self._turn.is_quiet and self.failure is None)
        if is_time and self._turn.is_worth_hearing:
            self._work = asyncio.create_task(self._recognise_partial(self._turn))

    async def _recognise_partial(self, turn: TurnSound) -> None:
        """Recognises what is not closed of a turn, and sends the turn's text if it has changed and the turn goes on."""
        try:
            async with asyncio.timeout(self._recogniser.timing.piece_timeout_s):
                await self._recognise(turn, turn.get_piece(), is_urgent=False)
        except TimeoutError:
            limit_s = self._recogniser.timing.piece_timeout_s
            self._fail(f"{self._recogniser.name} took longer than {limit_s:g} s", "timeout")
        finally:
            self._work = None
        if turn is self._turn and self._ending is None:
            text = drop_guesses(turn.text)
            if text and text != self._sent_text:
                self._sent_text = text
                self._sender.send(Heard(text))
            self._begin_piece()

    async def _recognise(self, turn: TurnSound, piece: TurnPiece, is_urgent: bool) -> bool:
        """Recognises a piece and adds its text to the turn; returns whether that succeeded, and records a failure."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        try:
            text = await self._recogniser.recognise(piece.samples, is_urgent)
        except BackendError as error:
            self._fail(str(error), name_fault(error), error.remedy)
            return False
        except Exception as error:  # noqa: BLE001 a turn's end is sent whatever error an engine raises
            kind = type(error).__name__
            self._fail(f"{self._recogniser.name} failed: {kind}", kind)
            return False
        turn.add_text(piece, text.strip())
        took_s = loop.time() - started_s
        self._next_s = max(started_s + self._recogniser.timing.interval_s, loop.time() + _REST_SHARE * took_s)
        self.failure, self._retry_s = None, _FIRST_RETRY_S
        return True

    def _fail(self, reason: str, fault: str, remedy: str = "") -> None:
        """Records and logs a failure, and postpones the next attempt, twice as long each time."""
        self._record_failure(reason, fault, remedy)
        self._next_s = asyncio.get_running_loop().time() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)

    def _record_failure(self, reason: str, fault: str, remedy: str = "") -> None:
        """Records and logs a failure. `reason` may quote the server and is not logged."""
        recogniser = self._recogniser
        recogniser.faults.report(f"The recogniser {recogniser.name}", recogniser.place, fault, remedy)
        self.failure = reason

    def _end(self) -> None:
        """Begins a new turn, and starts to recognise the rest of the old one."""
        turn, self._turn = self._turn, TurnSound()
        self._sent_text = ""
        if not self._sender.is_closed:
            self._ending = asyncio.create_task(self._finish(turn, self._work, self._ending))

    async def _finish(
        self, turn: TurnSound, work: asyncio.Task[None] | None, before: asyncio.Task[None] | None
    ) -> None:
        """Recognises the rest of a turn and sends its final text; after a time limit, that of what was recognised.

        Args:
            work: recognition of the turn that is in progress, if any, which is awaited.
            before: the end of the turn before, which is awaited first, so that turns end in their order.
        """
        limit_s = self._recogniser.timing.final_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                if before is not None:
                    await asyncio.wait([before])
                if work is not None:
                    await asyncio.wait([work])
                while turn.has_unheard and await self._recognise(turn, turn.get_piece(), is_urgent=True):
                    pass
        except TimeoutError:
            if work is not None:
                work.cancel()
            self._fail(f"{self._recogniser.name} did not return a turn's last words within {limit_s:g} s", "timeout")
        self._sender.send(Heard(turn.text, is_final=True))
        if self._ending is asyncio.current_task():
            self._ending = None
            self._begin_piece()

    def _forget(self) -> None:
        """Cancels all work and drops the turn's audio."""
        for task in (self._work, self._ending):
            if task is not None:
                task.cancel()
        self._turn = TurnSound()
