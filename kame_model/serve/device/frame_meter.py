"""Frame meter: measures the time of steps, and predicts it for one more caller, against a frame's 80 ms."""

from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

import numpy as np

from data_schemas.units import FRAME_S

_WINDOW_S = 30.0
"""Long enough for a 99th percentile of four steps, short enough to follow the load."""


_N_JUDGED = 100
"""Number of steps of which one may be slow."""

_N_KNOWN = 25
"""Number of steps with n callers, 2 s, after which the time of such a step is known; the last 100 are kept."""

_REMEMBERED_S = 120.0
"""Seconds until steps are forgotten: what made them slow, such as a neighbour on the machine, may be over."""

_HANGING_S = 2.0
"""Seconds after which a step that was due and has not ended is no temporary disturbance."""

_TYPICAL = 95
"""Percentile that represents the steps with n callers."""


class _Step(NamedTuple):
    """A step: when it began, how long it took, and how late it began, in seconds."""

    at_s: float
    step_s: float
    late_s: float


class FrameMeter:
    """Records step times and delays, for admission and for the metrics.

    Attributes:
        n_steps: steps since the start, without second steps in a tick for sessions that are behind.
        n_late: steps that began a frame or more late: everybody on the device heard a gap, or soon would.
        n_failed: steps that raised.
        due_s: when the step that is running, or comes next, was or is due; None while no frame waits.
    """

    def __init__(self) -> None:
        self.n_steps = 0
        self.n_late = 0
        self.n_failed = 0
        self.due_s: float | None = None
        self._window: deque[_Step] = deque()
        self._by_callers: dict[int, deque[_Step]] = {}
        self._probed_s: dict[int, float] = {}

    def set_idle_times(self, probed_s: Mapping[int, float]) -> None:
        """Sets the measured step times of the idle device, seconds, by the number of callers.

        If these show that one caller is served in real time, all recorded steps with one caller are forgotten.
        """
        self._probed_s = dict(sorted(probed_s.items()))
        if self._estimate_device_s(1) <= FRAME_S:
            self._by_callers.pop(1, None)

    def forget_steps(self) -> None:
        """Forgets the times of all steps, because the device has been recreated; counts and idle times stay."""
        self._window.clear()
        self._by_callers.clear()

    def add(self, at_s: float, step_s: float, late_s: float, n_callers: int) -> None:
        """Adds a step that began at `at_s`, `late_s` late, and took `step_s` until its frames were delivered.

        Callers are those on the device. A step without callers counts for the last 30 s, but not for predictions.
        """
        self.n_steps += 1
        self.n_late += late_s >= FRAME_S
        step = _Step(at_s, step_s, late_s)
        self._window.append(step)
        if n_callers:
            self._by_callers.setdefault(n_callers, deque(maxlen=_N_JUDGED)).append(step)
        self._drop_old_steps(at_s)

    def compute_step_s(self, percentile: float, now_s: float) -> float:
        """Returns a percentile of the steps' times in the last 30 s, seconds; 0 if there are none."""
        self._drop_old_steps(now_s)
        return _compute_percentile([each.step_s for each in self._window], percentile)

    def compute_late_s(self, percentile: float, now_s: float) -> float:
        """Returns a percentile of how late steps began in the last 30 s, seconds; 0 if there are none."""
        self._drop_old_steps(now_s)
        return _compute_percentile([each.late_s for each in self._window], percentile)

    def has_room(self, budget_share: float, now_s: float) -> bool:
        """Returns whether 99 of 100 steps stay within this share of a frame and begin in time.

        Of fewer than 100 steps one may fail, or the first hiccup of a server would refuse callers for half a minute.
        There is no room on a device that hangs.
        """
        if self._is_hanging(now_s):
            return False
        self._drop_old_steps(now_s)
        longest_s = budget_share * FRAME_S
        n_slow = sum(each.step_s > longest_s or each.late_s >= FRAME_S for each in self._window)
        return n_slow <= max(len(self._window), _N_JUDGED) / _N_JUDGED

    def can_serve(self, n_callers: int, budget_share: float, now_s: float) -> bool:
        """Returns whether steps are in time now, and are expected to be with so many callers on the device.

        Args:
            budget_share: the share of a frame's time within which steps must stay.
        """
        return self.has_room(budget_share, now_s) and self.predict_step_s(n_callers, now_s) <= budget_share * FRAME_S

    def can_serve_alone(self, now_s: float) -> bool:
        """Returns whether a single caller on the device is served in real time, without gaps.

        That is so if half of the recent steps with one caller were over within a frame, and half began in time: a
        temporary disturbance does not count. With too few such steps the measured time of the idle device decides. Slow
        steps caused by other callers who have left do not count. A device that hangs serves nobody.
        """
        if self._is_hanging(now_s):
            return False
        self._drop_old_steps(now_s)
        alone = self._by_callers.get(1, ())
        if len(alone) < _N_KNOWN:
            return self._estimate_device_s(1) <= FRAME_S
        return median(each.step_s for each in alone) <= FRAME_S and median(each.late_s for each in alone) < FRAME_S

    def predict_step_s(self, n_callers: int, now_s: float) -> float:
        """Returns the expected time of a step with so many callers, seconds; 0 without callers, or if nothing is known.

        It is that of such recent steps. Without those it extrapolates from fewer callers: each further caller adds what
        the last one of these added, or what one adds to the idle device's time, whichever is more. Without steps of
        fewer callers it is the idle device's time.
        """
        self._drop_old_steps(now_s)
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

    def _is_hanging(self, now_s: float) -> bool:
        """Returns whether a step that was due more than `_HANGING_S` ago has not ended."""
        return self.due_s is not None and now_s - self.due_s > _HANGING_S

    def _compute_typical_s(self, n_callers: int) -> float | None:
        """Returns the typical (`_TYPICAL`) time of recent steps with so many callers; None if there are too few."""
        steps = [each.step_s for each in self._by_callers[n_callers]]
        return _compute_percentile(steps, _TYPICAL) if len(steps) >= _N_KNOWN else None

    def _estimate_device_s(self, n_callers: int) -> float:
        """Returns the time of a step of the idle device, seconds; 0 without measurements.

        It is interpolated between the measured numbers of callers; outside of them it is that of the nearest one.
        """
        return float(np.interp(n_callers, [*self._probed_s], [*self._probed_s.values()])) if self._probed_s else 0.0

    def _drop_old_steps(self, now_s: float) -> None:
        """Removes the steps that began before the window, or too long ago to count for their number of callers."""
        for steps, kept_s in (
            (self._window, _WINDOW_S),
            *((each, _REMEMBERED_S) for each in self._by_callers.values()),
        ):
            while steps and steps[0].at_s < now_s - kept_s:
                steps.popleft()


def _compute_percentile(values: list[float], percentile: float) -> float:
    """Returns a percentile (0 to 100) of values; 0 without values."""
    return float(np.percentile(values, percentile)) if values else 0.0
