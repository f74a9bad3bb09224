"""The audio of one turn for a recogniser of whole recordings: what to recognise next, and the text so far.

A turn is recognised again and again while it grows. To keep the cost constant, the part before a pause is closed once
it has been recognised: its text is kept, and only what follows the pause is recognised again. This file has no clocks
and no threads: those are in `rehearing.py`.
"""

from typing import NamedTuple

import numpy as np

from backends.engine import Samples
from backends.listener.vad import WINDOW_S


def _count_windows(time_s: float) -> int:
    """Returns the number of windows in a time, rounded to the nearest one."""
    return round(time_s / WINDOW_S)


_N_LEAD = _count_windows(0.3)
"""Windows kept before the first one of speech, as words begin softly."""
_N_HANG = _count_windows(0.16)
"""Windows after the last one of speech that still belong to the word."""
_N_PAUSE = _count_windows(0.35)
"""Silence that separates sentences; Kokoro's pauses are about 0.4 s."""
_N_SILENCE = _count_windows(1.0)
"""Silence kept after speech; the rest is dropped."""
_N_CLOSE = _count_windows(3.0)
"""A shorter part is not closed, as recognisers are bad at short pieces."""
_N_LONGEST = _count_windows(12.0)
"""A longer part is split even without a pause."""
MOST_UNHEARD_S = 30.0
"""Audio kept for a recogniser that is down or too slow; beyond this the oldest part is dropped."""
_N_MOST = _count_windows(MOST_UNHEARD_S)
_N_FIRST = _count_windows(0.5)
"""Speech before a turn is first recognised; of less, Moonshine makes words that nobody said."""


class TurnPiece(NamedTuple):
    """The next audio to recognise, at 16 kHz, which begins after the closed parts of the turn.

    `n_windows` is its length in windows, `n_closed` the number of closed parts before it. `is_closing`: it is closed
    itself as soon as its text is added.
    """

    samples: Samples
    n_windows: int
    n_closed: int
    is_closing: bool


class TurnSound:
    """One turn. `hear` adds audio, `get_piece` returns what to recognise, and `add_text` adds the transcript of that.

    Attributes:
        n_given_up: how often its oldest audio was dropped because it was not recognised in time.
    """

    def __init__(self) -> None:
        self.n_given_up = 0
        self._closed: list[str] = []
        self._open_text = ""
        self._windows: list[Samples] = []
        self._n_to_speech_end = 0
        self._n_heard = 0

    @property
    def text(self) -> str:
        """All that has been recognised of the turn."""
        return " ".join(text for text in (*self._closed, self._open_text) if text)

    @property
    def is_quiet(self) -> bool:
        """Whether the last word is over, so that recognition now may give the whole turn."""
        return len(self._windows) >= self._n_to_speech_end + _N_HANG

    def hear(self, window: Samples, is_speech: bool) -> None:
        """Adds the next window of 512 samples at 16 kHz, but no silence over 0.3 s before or 1 s after speech.

        If speech follows a pause, the part before it, if it is long and has been recognised, is closed. Of a turn that
        gets too long, the first part is closed even if not all of it has been recognised.
        """
        n_quiet = len(self._windows) - self._n_to_speech_end
        if is_speech:
            if n_quiet >= _N_PAUSE and self._n_to_speech_end >= _N_CLOSE and not self.has_unheard:
                self._close(len(self._windows) - _N_LEAD, self._open_text)
            self._windows.append(window)
            self._n_to_speech_end = len(self._windows)
        elif self._n_to_speech_end == 0:
            self._windows = [*self._windows[-_N_LEAD + 1 :], window]
        elif n_quiet < _N_SILENCE:
            self._windows.append(window)
        if len(self._windows) > _N_MOST:
            self.n_given_up += 1
            self._close(_N_LONGEST, self._open_text)

    @property
    def has_unheard(self) -> bool:
        """Whether there is speech, including the end of its last word, that no recognised piece contains."""
        wanted = min(self._n_to_speech_end + _N_HANG, len(self._windows))
        return self._n_to_speech_end > 0 and self._n_heard < wanted

    @property
    def is_worth_hearing(self) -> bool:
        """Whether a piece would contain new speech and not end within a word's last sound, and is not too short.

        It is too short if it is the first of the turn and has less than about 0.5 s of speech.
        """
        is_between = 0 < len(self._windows) - self._n_to_speech_end < _N_HANG
        is_long_enough = bool(self._closed) or self._n_to_speech_end >= _N_LEAD + _N_FIRST
        return self.has_unheard and is_long_enough and not is_between

    def get_piece(self) -> TurnPiece:
        """Returns all audio that is not closed; of more than 12 s only the part up to a quiet place, to be closed."""
        n_windows = len(self._windows)
        is_closing = self._n_to_speech_end > _N_LONGEST
        if is_closing:
            n_windows = self._find_quietest(_N_LONGEST // 2, _N_LONGEST)
        return TurnPiece(np.concatenate(self._windows[:n_windows]), n_windows, len(self._closed), is_closing)

    def add_text(self, piece: TurnPiece, text: str) -> None:
        """Adds the text of a piece; ignored if the audio of the piece has been closed since."""
        if piece.n_closed != len(self._closed):
            return
        if piece.is_closing:
            self._close(piece.n_windows, text)
        else:
            self._open_text, self._n_heard = text, piece.n_windows

    def _close(self, n_windows: int, text: str) -> None:
        """Drops the first `n_windows` windows and keeps `text` as what was said in them."""
        self._closed.append(text)
        self._open_text = ""
        self._windows = self._windows[n_windows:]
        self._n_to_speech_end = max(0, self._n_to_speech_end - n_windows)
        self._n_heard = 0

    def _find_quietest(self, start: int, end: int) -> int:
        """Returns the end of the quietest window from `start` to `end`, averaged with its two neighbours."""
        power = np.array([float(np.square(window).mean()) for window in self._windows[start:end]])
        smooth = np.convolve(power, np.ones(3), mode="valid")
        return start + int(smooth.argmin()) + 2
