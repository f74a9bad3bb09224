"""How much of a frame's 80 ms the server needs, over the last half minute."""

from collections import deque
from typing import NamedTuple

import numpy as np

from data_schemas.units import FRAME_S

_WINDOW_S = 30.0
"""Long enough for a 99th percentile of four steps, short enough to follow the load."""


_N_JUDGED = 100
"""Steps of which one may be slow."""


class _Step(NamedTuple):
    at_s: float
    step_s: float
    late_s: float


class FrameMeter:
    """Times of steps and how late they began; asked before a caller is let in, and by the metrics.

    Attributes:
        n_steps: since the start; a second one in a tick, for those who are behind, is not counted.
        n_late: steps that began a frame or more after their time: everybody on the device heard a gap, or soon would.
        n_failed: steps that raised.
    """

    def __init__(self) -> None:
        self.n_steps = 0
        self.n_late = 0
        self.n_failed = 0
        self._window: deque[_Step] = deque()

    def add(self, at_s: float, step_s: float, late_s: float) -> None:
        """A step that began at a time, so late, and took so long until its frames were handed out."""
        self.n_steps += 1
        self.n_late += late_s >= FRAME_S
        self._window.append(_Step(at_s, step_s, late_s))
        self._forget(at_s)

    def step_s(self, percentile: float) -> float:
        """A percentile of the steps' times, seconds; 0 where there was none."""
        return _percentile([each.step_s for each in self._window], percentile)

    def late_s(self, percentile: float) -> float:
        """A percentile of how late steps began, seconds; 0 where there was none."""
        return _percentile([each.late_s for each in self._window], percentile)

    def has_room(self, budget_share: float, now_s: float) -> bool:
        """Whether one more caller may come: 99 of 100 steps stay within this share of a frame, and begin in time.

        Of fewer than 100 one may fail, or the first hiccup of a server would turn callers away for half a minute.
        """
        self._forget(now_s)
        longest_s = budget_share * FRAME_S
        n_slow = sum(each.step_s > longest_s or each.late_s >= FRAME_S for each in self._window)
        return n_slow <= max(len(self._window), _N_JUDGED) / _N_JUDGED

    def _forget(self, now_s: float) -> None:
        while self._window and self._window[0].at_s < now_s - _WINDOW_S:
            self._window.popleft()


def _percentile(values: list[float], percentile: float) -> float:
    return float(np.percentile(values, percentile)) if values else 0.0
