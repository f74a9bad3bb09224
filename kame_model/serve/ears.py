"""What hears one caller: who tells turns apart, and the recogniser, which is given the sound of turns alone."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal

from backends.protocols import Heard, ListenerStream, Samples, StreamingRecogniser
from kame_model.serve.parts import Detector

_BEFORE_N_FRAMES = 6
"""Frames before a turn that the recogniser is given too: a detector knows of speech after it has begun."""


class Ears:
    """One session's hearing. All methods are called on the event loop's thread.

    Args:
        recogniser: shared by all sessions.
        detector: this session's own.
        on_heard: told on the event loop's thread what the user's turn is so far; never of a turn before a reset.
        on_turn: told when a turn begins and ends.
        on_fault: told why the caller is not heard just now, and with an empty text that it is over.

    Raises:
        BackendError: the recogniser does not work.
    """

    def __init__(
        self,
        recogniser: StreamingRecogniser,
        detector: Detector,
        on_heard: Callable[[Heard], None],
        on_turn: Callable[[Literal["started", "stopped"]], None],
        on_fault: Callable[[str], None],
    ) -> None:
        self._recogniser, self._detector = recogniser, detector
        self._on_heard, self._on_turn, self._on_fault = on_heard, on_turn, on_fault
        self._loop = asyncio.get_running_loop()
        self._before: deque[Samples] = deque(maxlen=_BEFORE_N_FRAMES)
        self._is_in_turn = False
        self._fault = ""
        self._stream: ListenerStream | None = None
        self._listen()

    def attend(self, frame: Samples) -> None:
        """The next 80 ms of the caller."""
        if self._stream is None:
            return
        turns = self._detector.feed(frame)
        if self._is_in_turn:
            self._stream.feed(frame)
        else:
            self._before.append(frame)
        for turn in turns:
            if turn == "started":
                self._start()
            else:
                self._end_turn()
        self._tell_fault(self._stream.failure or "")

    def end_turn(self) -> None:
        """The caller says that the turn has ended; who goes on speaking begins another."""
        self._end_turn()
        self._detector.reset()

    def _end_turn(self) -> None:
        if self._is_in_turn and self._stream is not None:
            self._is_in_turn = False
            self._on_turn("stopped")
            self._stream.end_turn()

    def reset(self) -> None:
        """Forgets everything; what is still being recognised is told to nobody."""
        self.close()
        self._listen()

    def close(self) -> None:
        """Forgets everything and hears nothing more."""
        stream, self._stream = self._stream, None
        self._before.clear()
        self._is_in_turn = False
        self._detector.reset()
        if stream is not None:
            stream.close()

    def _start(self) -> None:
        if self._is_in_turn or self._stream is None:
            return
        self._is_in_turn = True
        self._on_turn("started")
        for frame in self._before:
            self._stream.feed(frame)
        self._before.clear()

    def _tell_fault(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            self._on_fault(fault)

    def _listen(self) -> None:
        """A new stream, of which alone something is heard from now on: an old one's last words may still come."""
        mine: list[ListenerStream] = []

        def on_loop(heard: Heard) -> None:
            if mine and self._stream is mine[0]:
                self._on_heard(heard)

        self._stream = self._recogniser.listen(lambda heard: self._tell(on_loop, heard))
        mine.append(self._stream)

    def _tell(self, on_loop: Callable[[Heard], None], heard: Heard) -> None:
        """From any thread, the loop's own and after the loop's end included."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(on_loop, heard)
