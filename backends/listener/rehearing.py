"""Streaming by hearing the turn so far again and again: how recognisers of whole recordings listen live.

A caller's sound goes through silero-vad: silence is never recognised, and a turn of which all speech has been heard is
final at once. While somebody speaks, the sound since the last closed pause (`turn.py`) is heard every `interval_s`,
more rarely where hearing it takes longer than that; each caller has one piece in work at a time.
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
from backends.listener.background import BackgroundLoop, Teller
from backends.listener.protocol import Heard, Window
from backends.listener.turn import MOST_UNHEARD_S, Piece, TurnSound
from backends.listener.vad import SpeechGate, SpeechMeter
from backends.options import Options
from data_schemas.errors import BackendError

_log = logging.getLogger(__name__)

_SPEECH_PROBABILITY = 0.35
"""Lower than a turn detector's: what is heard in vain costs less than a word that is missed."""
_REST_SHARE = 1.0
"""Time without work after each piece, as a share of what the piece took."""
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 15.0
"""After a failure nothing is tried for so long; the time doubles with each further one."""


_LOOP = re.compile(r"\b(\w+(?:\W+\w+){0,3}?)(?:\W+\1\b)+\W*$", re.IGNORECASE)
"""One to four words, said again and again at the end: what recognisers make of half a word."""


def drop_guesses(text: str) -> str:
    """What has been recognised of a turn that goes on, less the guesses at its end: marks, and words in a loop."""
    return _LOOP.sub(r"\1", text).rstrip(" .,?!…")


class RehearingOptions(Options):
    """How often, and for how long at most."""

    interval_s: float = Field(default=0.4, ge=0.1, le=10, description="Shortest time between two partial results.")
    final_timeout_s: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="After the turn's end, longest wait for its last words; then what was heard before is final.",
    )
    piece_timeout_s: float = Field(default=15.0, gt=0, le=600, description="Longest wait for one partial result.")


class PieceRecogniser(Protocol):
    """What an ear wants of a recogniser; see `Rehearing`."""

    name: str
    timing: RehearingOptions
    place: str
    faults: FaultLog

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """What is said in samples at 16 kHz; urgent when a turn's end waits for it."""


class Rehearing(ABC):
    """Base of the recognisers that hear whole recordings.

    Args:
        place: where its server is, for the log; empty: it has none.
    """

    name: str

    def __init__(self, options: RehearingOptions, place: str = "") -> None:
        self.timing = options
        self.place, self.faults = place, FaultLog(_log)
        self._background = BackgroundLoop(f"listener-{self.name}")

    @abstractmethod
    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """What is said in samples at 16 kHz; urgent when a turn's end waits for it. Runs in the listeners' loop.

        Raises:
            BackendError: it could not be recognised.
        """

    @abstractmethod
    async def shutdown(self) -> None:
        """Gives back connections and threads; runs in the listeners' loop."""

    def recognise_now(self, samples: Samples) -> str:
        """What is said in samples at 16 kHz, for who has a thread that may wait.

        Raises:
            BackendError: it could not be recognised.
        """
        return self._background.run(self.recognise(samples, is_urgent=True))

    def listen(self, on_heard: Callable[[Heard], None]) -> "Ear":
        """A new caller's ear.

        Raises:
            BackendError: the model of silero-vad is missing.
        """
        return Ear(self, on_heard, self._background.call)

    def close(self) -> None:
        """Ends the listeners' loop; ears that are still open hear nothing any more."""
        self._background.close(self.shutdown)


class Ear:
    """One caller's ear.

    Args:
        recogniser: recognises pieces.
        on_heard: see `StreamingRecogniser.listen`.
        call: runs a function in the event loop that everything here happens in, soon and in order.
    """

    def __init__(
        self, recogniser: PieceRecogniser, on_heard: Callable[[Heard], None], call: Callable[..., object]
    ) -> None:
        self.failure: str | None = None
        self._recogniser = recogniser
        self._teller = Teller(on_heard)
        self._call = call
        # From here on: the loop's alone.
        self._meter = SpeechMeter()  # for sound in which nobody has looked for speech
        self._gate = SpeechGate(_SPEECH_PROBABILITY)
        self._turn = TurnSound()
        self._told = ""
        self._work: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._next_s = 0.0
        self._retry_s = _FIRST_RETRY_S

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """The next sound."""
        self._call(self._hear, np.array(samples, dtype=np.float32), windows)  # a copy: it is heard later

    def end_turn(self) -> None:
        """The turn's last words come as a final `Heard`, `final_timeout_s` later at most."""
        self._call(self._end)

    def close(self) -> None:
        """Nothing is told once this has returned."""
        self._teller.close()
        self._call(self._forget)

    def _hear(self, samples: Samples, windows: Sequence[Window] | None) -> None:
        if self._teller.is_closed:
            return
        n_given_up = self._turn.n_given_up
        for window in self._meter.feed(samples) if windows is None else windows:
            self._turn.hear(window.samples, self._gate.passes(window.probability))
        if self._turn.n_given_up > n_given_up:
            lost = f"{self._recogniser.name} is {MOST_UNHEARD_S:g} s behind; the oldest sound is lost"
            self._tell_failure(lost, "it is too far behind")
        self._begin_piece()

    def _begin_piece(self) -> None:
        """Has the turn so far recognised, if it says something new, nothing is in work, and it is time."""
        if self._work is not None or self._ending is not None or self._teller.is_closed:
            return
        now_s = asyncio.get_running_loop().time()
        is_time = now_s >= self._next_s or (self._turn.is_quiet and self.failure is None)
        if is_time and self._turn.is_worth_hearing:
            self._work = asyncio.create_task(self._tell_partial(self._turn))

    async def _tell_partial(self, turn: TurnSound) -> None:
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
            if text and text != self._told:
                self._told = text
                self._teller.tell(Heard(text))
            self._begin_piece()

    async def _recognise(self, turn: TurnSound, piece: Piece, is_urgent: bool) -> bool:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        try:
            text = await self._recogniser.recognise(piece.samples, is_urgent)
        except BackendError as error:
            self._fail(str(error), name_fault(error), error.remedy)
            return False
        except Exception as error:  # noqa: BLE001 a turn's end is told whatever befalls an engine
            kind = type(error).__name__
            self._fail(f"{self._recogniser.name} failed: {kind}", kind)
            return False
        turn.add_text(piece, text.strip())
        took_s = loop.time() - started_s
        self._next_s = max(started_s + self._recogniser.timing.interval_s, loop.time() + _REST_SHARE * took_s)
        self.failure, self._retry_s = None, _FIRST_RETRY_S
        return True

    def _fail(self, reason: str, fault: str, remedy: str = "") -> None:
        self._tell_failure(reason, fault, remedy)
        self._next_s = asyncio.get_running_loop().time() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)

    def _tell_failure(self, reason: str, fault: str, remedy: str = "") -> None:
        """The reason may quote the server, and is not for the log."""
        recogniser = self._recogniser
        recogniser.faults.tell(f"The recogniser {recogniser.name}", recogniser.place, fault, remedy)
        self.failure = reason

    def _end(self) -> None:
        turn, self._turn = self._turn, TurnSound()
        self._told = ""
        if not self._teller.is_closed:
            self._ending = asyncio.create_task(self._finish(turn, self._work, self._ending))

    async def _finish(
        self, turn: TurnSound, work: asyncio.Task[None] | None, before: asyncio.Task[None] | None
    ) -> None:
        """Hears the rest of a turn and tells its text; turns end in their order."""
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
            self._fail(f"{self._recogniser.name} did not tell a turn's last words within {limit_s:g} s", "timeout")
        self._teller.tell(Heard(turn.text, is_final=True))
        if self._ending is asyncio.current_task():
            self._ending = None
            self._begin_piece()

    def _forget(self) -> None:
        for task in (self._work, self._ending):
            if task is not None:
                task.cancel()
        self._turn = TurnSound()
