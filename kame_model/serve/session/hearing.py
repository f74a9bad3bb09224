"""Speech recognition of one caller: a turn detector, and the recogniser, which gets only the audio of turns."""

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
"""Audio before a turn that the recogniser also gets, seconds: a detector reports speech after it has begun."""


_MOST_IN_TURN = round(120 / FRAME_S)
"""Limit of one turn, two minutes in frames: the text of an endless noise would grow without limit and be resent each
time. If the caller still speaks, another turn begins, and is appended to this one.
"""


class TurnTaking(NamedTuple):
    """The parameters of turn detection: see `TurnDetector`; `before_s` of audio before a turn belong to it."""

    speech_probability: float
    turn_end_silence_s: float
    before_s: float = BEFORE_S

    @classmethod
    def from_config(cls, config: ListenerConfig) -> "TurnTaking":
        """Returns the server's configured values."""
        return cls(config.speech_probability, config.turn_end_silence_s)


class TurnRecogniser:
    """The speech recognition of one session. All methods are called on the event loop's thread.

    Args:
        recogniser: shared by all sessions.
        detector: the session's turn detector, set up as `turns` says.
        turns: see `set_turn_taking`.
        on_heard: called on the event loop's thread with the user's turn so far; never with a turn before a reset.
        on_turn: called when a turn begins and ends.
        on_fault: called with the reason if recognition is interrupted, and with an empty text when it works again.

    Attributes:
        turn_taking: the current parameters of turn detection.

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
        self._has_ended = False  # a turn, since the caller last ended one
        self._ends: deque[tuple[int, Callable[[bool], None]]] = deque()  # by the frame after which the turn ends
        self._n_past = 0
        self._fault = ""
        self._stream: ListenerStream | None = None
        self._n_listens = 0
        self._open_stream()

    def recognise_frame(self, frame: Samples, n_past: int) -> None:
        """Processes the caller's next 80 ms: detects turns, and passes audio of turns to the recogniser.

        Args:
            frame: float32[1920].
            n_past: the frame's number, from 1 on; dropped frames are counted too.
        """
        if self._stream is None:
            return
        self._end_requested_turns(n_past - 1)
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
                self._start_turn()
            else:
                self._end_turn()
        self._report_fault(self._stream.failure or "")
        self._end_requested_turns(n_past)

    def set_turn_taking(self, turns: TurnTaking) -> None:
        """Changes the parameters of turn detection from the next frame on; a reset keeps them."""
        self.turn_taking = turns
        self._detector.adjust(turns.speech_probability, turns.turn_end_silence_s)
        self._before = deque(self._before, maxlen=_count_kept_frames(turns.before_s))

    def end_turn(self, last_frame: int, on_end: Callable[[bool], None]) -> None:
        """Ends the turn after a frame at the caller's request; if the caller still speaks, another turn begins.

        Args:
            last_frame: the number of the frame, which may be past.
            on_end: called then with whether a turn has ended since the last request: by this one, or before by itself.
        """
        self._ends.append((last_frame, on_end))
        self._end_requested_turns(self._n_past)

    def _end_requested_turns(self, n_past: int) -> None:
        """Ends the turns that the caller asked to end after this frame or an earlier one."""
        self._n_past = n_past
        while self._ends and self._ends[0][0] <= n_past:
            _, on_end = self._ends.popleft()
            self._cut_turn()
            has_ended, self._has_ended = self._has_ended, False
            on_end(has_ended)

    def _cut_turn(self) -> None:
        """Ends the turn, if any, although the caller may still speak; further speech begins another one."""
        self._end_turn()
        self._detector.reset()

    def _end_turn(self) -> None:
        """Ends the turn in progress, if any."""
        if self._is_in_turn and self._stream is not None:
            self._is_in_turn, self._has_ended = False, True
            self._on_turn("stopped")
            self._stream.end_turn()

    def reset(self) -> None:
        """Clears the state; pending results of the recogniser, and pending requests to end a turn, are discarded.

        Raises:
            BackendError: the recogniser does not work.
        """
        self.close()
        self._open_stream()

    def close(self) -> None:
        """Clears the state and stops recognition: further frames are ignored until `reset`.

        Pending requests to end a turn are dropped, and their `on_end` is never called.
        """
        stream, self._stream = self._stream, None
        self._before.clear()
        self._ends.clear()
        self._is_in_turn = self._has_ended = False
        self._detector.reset()
        if stream is not None:
            stream.close()

    def _start_turn(self) -> None:
        """Starts a turn unless one is in progress, and feeds the recogniser the audio kept from before it."""
        if self._is_in_turn or self._stream is None:
            return
        self._is_in_turn, self._n_in_turn = True, 0
        self._on_turn("started")
        for frame, windows in self._before:
            self._stream.feed(frame, windows)
        self._before.clear()

    def _report_fault(self, fault: str) -> None:
        """Reports why recognition is interrupted, or an empty text when it works again, unless nothing has changed."""
        if fault != self._fault:
            self._fault = fault
            self._on_fault(fault)

    def _open_stream(self) -> None:
        """Opens a new stream; from now on the late results of an older one are ignored."""
        self._n_listens += 1
        number = self._n_listens

        def on_loop(heard: Heard) -> None:
            """Passes a transcript on, unless its stream has been closed or replaced."""
            if self._stream is not None and number == self._n_listens:
                self._on_heard(heard)

        def on_any_thread(heard: Heard) -> None:
            """Passes a transcript from the recogniser's thread to the event loop's."""
            with suppress(RuntimeError):  # the loop may just have been closed
                self._loop.call_soon_threadsafe(on_loop, heard)

        self._stream = self._recogniser.listen(on_any_thread)


def _count_kept_frames(before_s: float) -> int:
    """Returns the number of frames to keep: those before the frame in which speech is detected, and that frame."""
    return round(before_s / FRAME_S) + 1
