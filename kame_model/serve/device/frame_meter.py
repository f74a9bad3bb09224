"""How much of a frame's 80 ms the server needs now, and would need with one caller more."""

from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

import numpy as np

from data_schemas.units import FRAME_S

_WINDOW_S = 30.0
"""Long enough for a 99th percentile of four steps, short enough to follow the load."""


_N_JUDGED = 100
"""Steps of which one may be slow."""

_N_KNOWN = 25
"""Steps with so many callers, 2 s, by which the time of a step with so many is known; the last 100 are kept."""

_REMEMBERED_S = 120.0
"""Then it is forgotten: what made them slow, such as a neighbour on the machine, may be over."""

_TYPICAL = 95
"""Percentile of the steps with so many callers that stands for them."""


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
        self._by_callers: dict[int, deque[_Step]] = {}
        self._probed_s: dict[int, float] = {}

    def learn(self, probed_s: Mapping[int, float]) -> None:
        """What a step of the device takes, seconds, by the number of callers in it; measured while nobody is there.

        Where one caller is served in real time by that, what was slow with one caller before is over, and forgotten.
        """
        self._probed_s = dict(sorted(probed_s.items()))
        if self._estimate_device_s(1) <= FRAME_S:
            self._by_callers.pop(1, None)

    def forget_steps(self) -> None:
        """What steps took so far tells nothing of those to come: the device has been made anew."""
        self._window.clear()
        self._by_callers.clear()

    def add(self, at_s: float, step_s: float, late_s: float, n_callers: int) -> None:
        """A step with so many callers that began at a time, so late, and took so long until frames were handed out.

        Callers are those on the device. A step without any tells whether steps begin in time, not what callers cost.
        """
        self.n_steps += 1
        self.n_late += late_s >= FRAME_S
        step = _Step(at_s, step_s, late_s)
        self._window.append(step)
        if n_callers:
            self._by_callers.setdefault(n_callers, deque(maxlen=_N_JUDGED)).append(step)
        self._forget(at_s)

    def step_s(self, percentile: float) -> float:
        """A percentile of the steps' times, seconds; 0 where there was none."""
        return _compute_percentile([each.step_s for each in self._window], percentile)

    def compute_late_s(self, percentile: float) -> float:
        """A percentile of how late steps began, seconds; 0 where there was none."""
        return _compute_percentile([each.late_s for each in self._window], percentile)

    def has_room(self, budget_share: float, now_s: float) -> bool:
        """Whether one more caller may come: 99 of 100 steps stay within this share of a frame, and begin in time.

        Of fewer than 100 one may fail, or the first hiccup of a server would turn callers away for half a minute.
        """
        self._forget(now_s)
        longest_s = budget_share * FRAME_S
        n_slow = sum(each.step_s > longest_s or each.late_s >= FRAME_S for each in self._window)
        return n_slow <= max(len(self._window), _N_JUDGED) / _N_JUDGED

    def can_serve(self, n_callers: int, budget_share: float, now_s: float) -> bool:
        """Whether steps keep their time now, and are going to with so many callers on the device.

        Args:
            budget_share: of a frame's time, within which steps are to stay.
        """
        return self.has_room(budget_share, now_s) and self.predict_step_s(n_callers, now_s) <= budget_share * FRAME_S

    def can_serve_alone(self, now_s: float) -> bool:
        """Whether somebody who is alone on the device is served in real time: with gaps is not.

        Of the steps that one caller had of late half were over within a frame, and half began in time: a disturbance
        that passes is none of the machine. Where there were too few, the device's own time decides. What was slow
        because of others who have left since counts for nothing.
        """
        self._forget(now_s)
        alone = self._by_callers.get(1, ())
        if len(alone) < _N_KNOWN:
            return self._estimate_device_s(1) <= FRAME_S
        return median(each.step_s for each in alone) <= FRAME_S and median(each.late_s for each in alone) < FRAME_S

    def predict_step_s(self, n_callers: int, now_s: float) -> float:
        """The time that a step with so many callers is going to take, seconds; 0 without any, or if nothing is known.

        As such steps took of late. Where there were none: as those of fewer callers, and for each further caller what
        the last one of these added, or what one adds to the device's own time, whichever is more.
        """
        self._forget(now_s)
        if not n_callers:
            return 0.0
        known = {n: time_s for n in sorted(self._by_callers) if (time_s := self._compute_typical_s(n)) is not None}
        if n_callers in known:
            return known[n_callers]
        fewer = [n for n in known if n < n_callers]
        if not fewer:
            return self._estimate_device_s(n_callers)
        most = fewer[-1]
        growth_s = max(0.0, (self._estimate_device_s(n_callers) - self._estimate_device_s(most)) / (n_callers - most))
        if len(fewer) > 1:
            growth_s = max(growth_s, (known[most] - known[fewer[-2]]) / (most - fewer[-2]))
        return known[most] + growth_s * (n_callers - most)

    def _compute_typical_s(self, n_callers: int) -> float | None:
        steps = [each.step_s for each in self._by_callers[n_callers]]
        return _compute_percentile(steps, _TYPICAL) if len(steps) >= _N_KNOWN else None

    def _estimate_device_s(self, n_callers: int) -> float:
        """Between the numbers that were measured, in proportion."""
        return float(np.interp(n_callers, [*self._probed_s], [*self._probed_s.values()])) if self._probed_s else 0.0

    def _forget(self, now_s: float) -> None:
        for steps, kept_s in (
            (self._window, _WINDOW_S),
            *((each, _REMEMBERED_S) for each in self._by_callers.values()),
        ):
            while steps and steps[0].at_s < now_s - kept_s:
                steps.popleft()


def _compute_percentile(values: list[float], percentile: float) -> float:
    return float(np.percentile(values, percentile)) if values else 0.0
