"""Who is let in, and what the meter has to do with it."""

import pytest

from data_schemas.config.serving import LimitsConfig
from kame_model.serve.admission import Admission, Refused
from kame_model.serve.meter import FrameMeter

LIMITS = LimitsConfig(max_sessions_per_address=2, max_starts_per_minute=3, budget_share=0.5)


def refused(admission: Admission, *args: object) -> str | None:
    try:
        admission.admit(*args)  # type: ignore[arg-type]
    except Refused as refusal:
        return refusal.reason
    return None


def test_every_reason_in_turn() -> None:
    meter = FrameMeter()
    admission = Admission(LIMITS, meter)
    assert refused(admission, "a", [], 4, 0.0) is None
    assert refused(admission, "a", ["a", "b", "a"], 4, 1.0) == "too_many_sessions"
    assert refused(admission, "b", ["a", "a"], 0, 1.0) == "full"
    for at in range(100):
        meter.add(1.0 + 0.08 * at, 0.041, 0.0)
    assert refused(admission, "b", ["a"], 1, 10.0) == "busy"
    assert refused(admission, "b", [], 4, 10.0) is None  # nobody is there whose time it could take
    assert refused(admission, "b", ["a"], 1, 60.0) is None  # what the meter saw is long ago
    admission.drain()
    assert refused(admission, "c", [], 4, 60.0) == "draining"
    assert dict(admission.n_refused) == {"too_many_sessions": 1, "full": 1, "busy": 1, "draining": 1}


def test_starts_are_counted_by_the_minute_and_by_address() -> None:
    admission = Admission(LIMITS, FrameMeter())
    told = [refused(admission, "a", [], 1, second) for second in (0.0, 1.0, 2.0, 3.0, 59.0, 60.0, 60.5, 61.0)]
    assert told == [None, None, None, "too_many_starts", "too_many_starts", None, "too_many_starts", None]
    assert refused(admission, "b", [], 1, 61.0) is None


@pytest.mark.parametrize(
    ("steps", "has_room"),
    [
        ([], True),
        ([(0.03, 0.0)] * 100, True),
        ([(0.03, 0.0)] * 300 + [(0.2, 0.0)] * 2, True),  # a hiccup
        ([(0.03, 0.0)] * 5 + [(0.2, 0.0)], True),  # one of few
        ([(0.03, 0.0)] * 5 + [(0.2, 0.0)] * 2, False),
        ([(0.03, 0.0)] * 100 + [(0.2, 0.0)] * 5, False),
        ([(0.03, 0.09)] * 100, False),  # short steps that begin late: something else takes the time
        ([(0.041, 0.0)] * 100, False),
    ],
)
def test_the_meter_looks_at_all_but_the_worst_steps(steps: list[tuple[float, float]], has_room: bool) -> None:
    meter = FrameMeter()
    for step_s, late_s in steps:
        meter.add(1.0, step_s, late_s)
    assert meter.has_room(0.5, now_s=1.0) is has_room
    assert meter.n_steps == len(steps)


def test_the_meter_tells_percentiles_of_half_a_minute() -> None:
    meter = FrameMeter()
    for at in range(101):
        meter.add(10.0, at / 1000, 0.1)
    assert meter.step_s(50) == pytest.approx(0.05)
    assert meter.step_s(99) == pytest.approx(0.099)
    assert meter.late_s(50) == pytest.approx(0.1)
    meter.add(41.0, 0.02, 0.0)
    assert meter.step_s(99) == pytest.approx(0.02)
    assert (meter.n_steps, meter.n_late) == (102, 101)
