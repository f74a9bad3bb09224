"""What hears one caller: who tells turns apart, and the recogniser, which is given the sound of turns alone."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from backends.engine import Samples
from backends.listener.protocol import Heard, ListenerStream, StreamingRecogniser, Window
from data_schemas.config.serving import ListenerConfig
from data_schemas.units import FRAME_S
from kame_model.serve.parts import Detector

BEFORE_S = 0.4
"""Sound before a turn that the recogniser is given too: a detector knows of speech after it has begun."""


_MOST_IN_TURN = round(120 / FRAME_S)
"""Frames of one turn, two minutes: the text of a noise without end would grow without end, and be told each time. Who
goes on speaking begins another turn, which the conversation takes for the same."""


class TurnTaking(NamedTuple):
    """How a caller's turns are told apart: see `TurnDetector`; `before_s` of sound before one belongs to it."""

    speech_probability: float
    turn_end_silence_s: float
    before_s: float = BEFORE_S

    @classmethod
    def of(cls, config: ListenerConfig) -> "TurnTaking":
        """As the server is configured."""
        return cls(config.speech_probability, config.turn_end_silence_s)


class Ears:
    """One session's hearing. All methods are called on the event loop's thread.

    Args:
        recogniser: shared by all sessions.
        detector: this session's own, which tells turns apart as `turns` says.
        turns: see `take_turns`.
        on_heard: told on the event loop's thread what the user's turn is so far; never of a turn before a reset.
        on_turn: told when a turn begins and ends.
        on_fault: told why the caller is not heard just now, and with an empty text that it is over.

    Attributes:
        turn_taking: how turns are told apart, now.

    Raises:
        BackendError: the recogniser does not work.
    """

    def __init__(
        self,
        recogniser: StreamingRecogniser,
        detector: Detector,
        turns: TurnTaking,
        on_heard: Callable[[Heard], None],
        on_turn: Callable[[Literal["started", "stopped"]], None],
        on_fault: Callable[[str], None],
    ) -> None:
        self._recogniser, self._detector = recogniser, detector
        self._on_heard, self._on_turn, self._on_fault = on_heard, on_turn, on_fault
        self._loop = asyncio.get_running_loop()
        self.turn_taking = turns
        self._before: deque[tuple[Samples, Sequence[Window] | None]] = deque(maxlen=_count_kept_frames(turns.before_s))
        self._is_in_turn, self._n_in_turn = False, 0
        self._has_ended = False  # a turn, since the caller last said that one had
        self._ends: deque[tuple[int, Callable[[bool], None]]] = deque()  # behind which frame
        self._n_past = 0
        self._fault = ""
        self._stream: ListenerStream | None = None
        self._n_listens = 0
        self._listen()

    def attend(self, frame: Samples, n_past: int) -> None:
        """The next 80 ms of the caller; `n_past`: its number, from 1 on; those of dropped frames are missing."""
        if self._stream is None:
            return
        self._end_as_said(n_past - 1)
        turns = self._detector.feed(frame)
        windows = self._detector.windows
        if self._is_in_turn:
            self._stream.feed(frame, windows)
            self._n_in_turn += 1
            if self._n_in_turn >= _MOST_IN_TURN:
                self._cut_turn()
        else:
            self._before.append((frame, windows))
        for turn in turns:
            if turn == "started":
                self._start()
            else:
                self._end_turn()
        self._tell_fault(self._stream.failure or "")
        self._end_as_said(n_past)

    def take_turns(self, turns: TurnTaking) -> None:
        """Tells turns apart so from the next frame on, after a reset too."""
        self.turn_taking = turns
        self._detector.adjust(turns.speech_probability, turns.turn_end_silence_s)
        self._before = deque(self._before, maxlen=_count_kept_frames(turns.before_s))

    def end_turn(self, behind: int, told: Callable[[bool], None]) -> None:
        """The caller says that the turn ends behind a frame; who goes on speaking begins another.

        Args:
            behind: the number of the frame, which may be past.
            told: called then, with whether a turn has ended since the last time: by this, or by itself before.
        """
        self._ends.append((behind, told))
        self._end_as_said(self._n_past)

    def _end_as_said(self, n_past: int) -> None:
        self._n_past = n_past
        while self._ends and self._ends[0][0] <= n_past:
            _, told = self._ends.popleft()
            self._cut_turn()
            has_ended, self._has_ended = self._has_ended, False
            told(has_ended)

    def _cut_turn(self) -> None:
        self._end_turn()
        self._detector.reset()

    def _end_turn(self) -> None:
        if self._is_in_turn and self._stream is not None:
            self._is_in_turn, self._has_ended = False, True
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
        self._ends.clear()
        self._is_in_turn = self._has_ended = False
        self._detector.reset()
        if stream is not None:
            stream.close()

    def _start(self) -> None:
        if self._is_in_turn or self._stream is None:
            return
        self._is_in_turn, self._n_in_turn = True, 0
        self._on_turn("started")
        for frame, windows in self._before:
            self._stream.feed(frame, windows)
        self._before.clear()

    def _tell_fault(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            self._on_fault(fault)

    def _listen(self) -> None:
        """A new stream, of which alone something is heard from now on: an old one's last words may still come."""
        self._n_listens += 1
        number = self._n_listens

        def on_loop(heard: Heard) -> None:
            if self._stream is not None and number == self._n_listens:
                self._on_heard(heard)

        def on_any_thread(heard: Heard) -> None:
            with suppress(RuntimeError):  # the loop has been closed, perhaps just now
                self._loop.call_soon_threadsafe(on_loop, heard)

        self._stream = self._recogniser.listen(on_any_thread)


def _count_kept_frames(before_s: float) -> int:
    """Frames to keep: those before the one in which somebody is found to speak, and that one."""
    return round(before_s / FRAME_S) + 1
