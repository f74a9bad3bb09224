"""Who is let in, and what the meter has to do with it."""

import pytest

from data_schemas.config.serving import LimitsConfig
from kame_model.serve.device.admission import Admission, Refused
from kame_model.serve.device.frame_meter import FrameMeter

LIMITS = LimitsConfig(max_sessions_per_address=2, max_starts_per_minute=3, budget_share=0.5)


def refused(
    admission: Admission, address: str, present: list[str], n_free: int, now_s: float, n_on_device: int | None = None
) -> str | None:
    """Why a caller is not let in; unless said otherwise all are on the device, the new one too."""
    try:
        admission.admit(address, present, n_free, len(present) + 1 if n_on_device is None else n_on_device, now_s)
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
        meter.add(1.0 + 0.08 * at, 0.041, 0.0, 1)
    assert refused(admission, "b", ["a"], 1, 10.0) == "busy"
    assert refused(admission, "b", [], 4, 10.0) is None  # nobody is there whose time it could take
    assert refused(admission, "b", ["a"], 1, 700.0) is None  # what the meter saw is long ago
    admission.drain()
    assert refused(admission, "c", [], 4, 700.0) == "draining"
    assert dict(admission.n_refused) == {"too_many_sessions": 1, "full": 1, "busy": 1, "draining": 1}


def test_starts_are_counted_by_the_minute_and_by_address() -> None:
    admission = Admission(LIMITS, FrameMeter())
    told = [refused(admission, "a", [], 1, second) for second in (0.0, 1.0, 2.0, 3.0, 59.0, 60.0, 60.5, 61.0)]
    assert told == [None, None, None, "too_many_starts", "too_many_starts", None, "too_many_starts", None]
    assert refused(admission, "b", [], 1, 61.0) is None


def test_asking_is_not_coming() -> None:
    admission = Admission(LIMITS, FrameMeter())
    for _ in range(9):
        assert admission.find_refusal("a", [], 4, 1, 0.0) is None
    for present, address, reason in ((["a", "a"], "a", "too_many_sessions"), (["a", "a"], None, "full")):
        refusal = admission.find_refusal(address, present, 0, 3, 0.0)
        assert refusal is not None
        assert refusal.reason == reason
    assert admission.n_refused == {}
    assert [refused(admission, "a", [], 4, 0.0) for _ in range(4)] == [None, None, None, "too_many_starts"]


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
        meter.add(1.0, step_s, late_s, 1)
    assert meter.has_room(0.5, now_s=1.0) is has_room
    assert meter.n_steps == len(steps)


def test_the_meter_tells_percentiles_of_half_a_minute() -> None:
    meter = FrameMeter()
    for at in range(101):
        meter.add(10.0, at / 1000, 0.1, 1)
    assert meter.compute_step_s(50, 11.0) == pytest.approx(0.05)
    assert meter.compute_step_s(99, 11.0) == pytest.approx(0.099)
    assert meter.compute_late_s(50, 11.0) == pytest.approx(0.1)
    meter.add(41.0, 0.02, 0.0, 1)
    assert meter.compute_step_s(99, 41.0) == pytest.approx(0.02)
    assert (meter.compute_step_s(99, 72.0), meter.compute_late_s(99, 72.0)) == (0.0, 0.0)  # of an idle server
    assert (meter.n_steps, meter.n_late) == (102, 101)


def stepped(meter: FrameMeter, n_callers: int, step_s: float, at_s: float = 1.0, n_steps: int = 50) -> None:
    for _ in range(n_steps):
        meter.add(at_s, step_s, 0.0, n_callers)


def test_who_would_cost_the_others_their_real_time_is_refused_before_it_is_so() -> None:
    meter = FrameMeter()
    admission = Admission(LimitsConfig(budget_share=0.8), meter)  # 64 ms
    meter.set_idle_times({1: 0.020, 4: 0.080})  # a device on which each caller costs 20 ms
    assert refused(admission, "b", ["a"], 3, 1.0) is None
    assert refused(admission, "c", ["a", "b"], 2, 1.0) is None
    assert refused(admission, "d", ["a", "b", "c"], 1, 1.0) == "busy"
    stepped(meter, 1, 0.030)  # the server's own work is more than the device's
    assert refused(admission, "b", ["a"], 3, 1.0) is None
    assert refused(admission, "c", ["a", "b"], 2, 1.0) == "busy"


def test_what_callers_cost_is_learned_as_they_come() -> None:
    meter = FrameMeter()
    assert meter.predict_step_s(4, 1.0) == 0.0  # nothing is known
    stepped(meter, 1, 0.020)
    assert meter.predict_step_s(3, 1.0) == pytest.approx(0.020)  # one caller tells nothing of the next
    stepped(meter, 2, 0.050)
    assert meter.predict_step_s(3, 1.0) == pytest.approx(0.080)
    stepped(meter, 3, 0.030, n_steps=10)  # too few to know
    assert meter.predict_step_s(3, 1.0) == pytest.approx(0.080)
    stepped(meter, 3, 0.060)
    assert meter.predict_step_s(3, 1.0) == pytest.approx(0.060)
    assert meter.predict_step_s(4, 1.0) == pytest.approx(0.070)
    stepped(meter, 1, 0.025, at_s=1000.0)
    assert meter.predict_step_s(3, 1000.0) == pytest.approx(0.025)  # what was slow then may be over


def test_a_device_whose_step_costs_the_same_for_all_is_filled() -> None:
    meter = FrameMeter()
    meter.set_idle_times({1: 0.050, 8: 0.051})
    stepped(meter, 1, 0.053)
    assert meter.predict_step_s(8, 1.0) == pytest.approx(0.054, abs=1e-4)


def test_who_has_no_business_with_the_device_takes_none_of_its_time() -> None:
    meter = FrameMeter()
    admission = Admission(LimitsConfig(budget_share=0.8), meter)  # 64 ms
    meter.set_idle_times({1: 0.020, 4: 0.080})
    cascades = ["a", "b", "c"]
    assert refused(admission, "d", cascades, 1, 1.0, n_on_device=1) is None
    assert refused(admission, "d", cascades, 1, 1.0, n_on_device=4) == "busy"
    admission.admit_to_device(n_others=3, n_on_device=3, now_s=1.0)
    with pytest.raises(Refused, match="no time for another caller"):
        admission.admit_to_device(n_others=3, n_on_device=4, now_s=1.0)
    admission.admit_to_device(n_others=0, n_on_device=4, now_s=1.0)  # alone, it takes nobody's
    assert admission.n_refused == {"busy": 2}


@pytest.mark.parametrize(
    ("device_s", "step_s", "n_steps", "is_slow"),
    [
        (0.020, 0.020, 0, False),
        (0.090, 0.020, 0, True),
        (0.020, 0.090, 10, False),  # too few to know
        (0.020, 0.090, 50, True),  # the server's own work is more than the device's
    ],
)
def test_who_would_be_alone_on_a_slow_machine_is_let_in_though_it_is_not_ready(
    device_s: float, step_s: float, n_steps: int, is_slow: bool
) -> None:
    meter = FrameMeter()
    admission = Admission(LimitsConfig(), meter)
    meter.set_idle_times({1: device_s})
    stepped(meter, 1, step_s, n_steps=n_steps)
    unreadiness = admission.find_unreadiness([], 4, 1, 1.0)
    assert (None if unreadiness is None else unreadiness.reason) == ("too_slow" if is_slow else None)
    assert admission.find_unreadiness([], 4, 0, 1.0) is None  # in mode cascade it takes no time of the device
    assert refused(admission, "a", [], 4, 1.0) is None
    admission.admit_to_device(n_others=0, n_on_device=1, now_s=1.0)
    assert admission.n_refused == {}


def test_what_keeps_callers_out_makes_a_server_not_ready_too() -> None:
    admission = Admission(LIMITS, FrameMeter())
    full = admission.find_unreadiness(["a"], 0, 2, 1.0)
    assert full is not None
    assert full.reason == "full"


def test_steps_without_anybody_on_the_device_tell_nothing_of_what_callers_cost() -> None:
    meter = FrameMeter()
    meter.set_idle_times({1: 0.020, 4: 0.080})
    stepped(meter, 0, 0.001)
    assert meter.predict_step_s(1, 1.0) == pytest.approx(0.020)
    assert meter.predict_step_s(0, 1.0) == 0.0
    for _ in range(10):
        meter.add(1.0, 0.001, 0.09, 0)
    assert not meter.has_room(0.8, 1.0)  # but that they begin late is a fact
