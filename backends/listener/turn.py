"""The sound of one turn for a recogniser that hears whole recordings: what it should hear next, and what it has heard.

A turn is heard again and again while it grows. So that this does not cost more with each second, what lies before a
pause is closed once it has been heard: it keeps its text, and only what follows the pause is heard again. No clocks and
no threads here: `rehearing.py` has them.
"""

from typing import NamedTuple

import numpy as np

from backends.engine import Samples
from backends.listener.vad import WINDOW_S


def _count_windows(time_s: float) -> int:
    return round(time_s / WINDOW_S)


_N_LEAD = _count_windows(0.3)
"""Windows kept before the first of speech: words begin softly."""
_N_HANG = _count_windows(0.16)
"""Windows that still belong to a word after the last one of speech."""
_N_PAUSE = _count_windows(0.35)
"""Silence that separates sentences: Kokoro's are about 0.4 s."""
_N_SILENCE = _count_windows(1.0)
"""Silence kept after speech; what is longer is left out."""
_N_CLOSE = _count_windows(3.0)
"""Less sound than this is not closed: the recogniser hears short pieces badly."""
_N_LONGEST = _count_windows(12.0)
"""More sound than this is cut even where there is no pause."""
MOST_UNHEARD_S = 30.0
"""Sound kept for a recogniser that is down or too slow; of more the oldest part is given up."""
_N_MOST = _count_windows(MOST_UNHEARD_S)
_N_FIRST = _count_windows(0.5)
"""Speech before a turn is first heard: of less, Moonshine makes words that nobody said."""


class Piece(NamedTuple):
    """What to hear next: samples at 16 kHz, and what they are of their turn."""

    samples: Samples
    n_windows: int
    n_closed: int
    is_closing: bool


class TurnSound:
    """One turn. `hear` takes its sound, `get_piece` returns what to recognise, `add_text` takes the text of that.

    Attributes:
        n_given_up: how often its oldest sound was given up, because nobody recognised it.
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
        """Whether the last word is over, so that what would be heard now is perhaps all of the turn."""
        return len(self._windows) >= self._n_to_speech_end + _N_HANG

    def hear(self, window: Samples, is_speech: bool) -> None:
        """The next 512 samples at 16 kHz."""
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
        """Whether speech has come, with the end of its last word, that no recognised piece holds."""
        wanted = min(self._n_to_speech_end + _N_HANG, len(self._windows))
        return self._n_to_speech_end > 0 and self._n_heard < wanted

    @property
    def is_worth_hearing(self) -> bool:
        """Whether a piece would say something new and does not end within a word's last sound."""
        is_between = 0 < len(self._windows) - self._n_to_speech_end < _N_HANG
        is_long_enough = bool(self._closed) or self._n_to_speech_end >= _N_LEAD + _N_FIRST
        return self.has_unheard and is_long_enough and not is_between

    def get_piece(self) -> Piece:
        """All that is not closed, or the first part of it where that is too long."""
        n_windows = len(self._windows)
        is_closing = self._n_to_speech_end > _N_LONGEST
        if is_closing:
            n_windows = self._find_quietest(_N_LONGEST // 2, _N_LONGEST)
        return Piece(np.concatenate(self._windows[:n_windows]), n_windows, len(self._closed), is_closing)

    def add_text(self, piece: Piece, text: str) -> None:
        """The text of a piece; that of one whose sound has been closed since is not needed any more."""
        if piece.n_closed != len(self._closed):
            return
        if piece.is_closing:
            self._close(piece.n_windows, text)
        else:
            self._open_text, self._n_heard = text, piece.n_windows

    def _close(self, n_windows: int, text: str) -> None:
        self._closed.append(text)
        self._open_text = ""
        self._windows = self._windows[n_windows:]
        self._n_to_speech_end = max(0, self._n_to_speech_end - n_windows)
        self._n_heard = 0

    def _find_quietest(self, start: int, end: int) -> int:
        """The end of the quietest window from `start` to `end`, two of its neighbours counted."""
        power = np.array([float(np.square(window).mean()) for window in self._windows[start:end]])
        smooth = np.convolve(power, np.ones(3), mode="valid")
        return start + int(smooth.argmin()) + 2
