"""The clock of the sessions, on a simulated one: nobody is late because of another, and no fault spreads."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import pytest

from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.serve.device.engine import FrameIn, FrameOut
from kame_model.serve.device.frame_meter import FrameMeter
from kame_model.serve.device.stepper import Said, Stepper

_T = TypeVar("_T")
pytestmark = [pytest.mark.looptime]


class Box:
    """A device that gives back what it is given; `step_s` is what a step takes."""

    def __init__(self, step_s: float = 0.01) -> None:
        self.step_s = step_s
        self.done: list[object] = []
        self.fails_at: set[int] = set()

    def step(self, inputs: Mapping[int, FrameIn]) -> Said:
        self.done.append(sorted(inputs))
        if len(self.done) in self.fails_at:
            raise RuntimeError("no more memory")
        return {slot: FrameOut(given.samples, given.oracle, "") for slot, given in inputs.items()}

    def reset(self, slot: int) -> None:
        self.done.append(f"reset {slot}")

    @property
    def steps(self) -> list[object]:
        return [each for each in self.done if not isinstance(each, str)]

    async def run(self, work: Callable[[], _T]) -> _T:
        await asyncio.sleep(self.step_s)
        return work()


class Frames:
    """A session that counts frames, of which `most` may wait, and notes when each is taken and given."""

    def __init__(self, stepper: Stepper, most: int = 1000) -> None:
        self._stepper, self._slot, self._most = stepper, stepper.join(self), most
        self.n_waiting = 0
        self.taken_s: list[float] = []
        self.given_s: list[float] = []
        self.n_attended = 0
        self.failed: list[str] = []
        self.breaks_in = ""

    def hear(self, n_frames: int = 1) -> None:
        self.n_waiting = min(self.n_waiting + n_frames, self._most)
        self._stepper.wake()

    def take(self) -> FrameIn | None:
        self._break("take")
        self.n_waiting -= 1
        self.taken_s.append(_now_s())
        return FrameIn(np.zeros(FRAME_N_SAMPLES, np.float32), len(self.taken_s))

    def recognise_frame(self) -> None:
        self._break("recognise_frame")
        self.n_attended += 1

    def receive_output(self, said: FrameOut) -> None:
        self._break("receive_output")
        self.given_s.append(_now_s())

    def fail(self, reason: str) -> None:
        self.failed.append(reason)
        self.leave()

    def leave(self) -> None:
        self._stepper.leave(self._slot)

    def _break(self, where: str) -> None:
        if self.breaks_in == where:
            raise ValueError(where)


class Clock:
    """A stepper that runs, with its box."""

    def __init__(self, step_s: float = 0.01, n_slots: int = 3) -> None:
        self.box, self.meter = Box(step_s), FrameMeter()
        self.stepper = Stepper(self.box, n_slots, self.box.run, self.meter, budget_share=0.8)

    async def __aenter__(self) -> "Clock":
        self.task = asyncio.create_task(self.stepper.run())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert not self.task.done()
        self.task.cancel()


def _now_s() -> float:
    return round(asyncio.get_running_loop().time(), 6)


async def talk(session: Frames, n_frames: int, first_s: float = 0.0) -> None:
    """A frame every 80 ms."""
    if first_s:
        await asyncio.sleep(first_s)
    for _ in range(n_frames):
        session.hear()
        await asyncio.sleep(FRAME_S)


async def test_one_caller_is_answered_as_soon_as_a_frame_is_heard() -> None:
    async with Clock() as clock:
        await asyncio.sleep(1.234)
        began_s = _now_s()
        session = Frames(clock.stepper)
        await talk(session, 5)
        assert session.taken_s == [pytest.approx(began_s + FRAME_S * at) for at in range(5)]
        assert session.given_s == [pytest.approx(began_s + FRAME_S * at + 0.01) for at in range(5)]
        await asyncio.sleep(60)
        assert len(clock.box.steps) == 5  # without a frame nothing is done


async def test_sessions_share_a_step_and_join_at_any_frame() -> None:
    async with Clock() as clock:
        one, two = Frames(clock.stepper), Frames(clock.stepper)
        await asyncio.gather(talk(one, 10), talk(two, 4, first_s=0.25))
        assert clock.box.steps == [*[[0]] * 4, *[[0, 1]] * 4, *[[0]] * 2]
        assert one.taken_s == [pytest.approx(FRAME_S * at) for at in range(10)]
        assert (one.n_attended, two.n_attended) == (10, 4)


async def test_ticks_that_took_too_long_do_not_move_those_after() -> None:
    async with Clock() as clock:
        session = Frames(clock.stepper)
        talking = asyncio.create_task(talk(session, 10))
        await asyncio.sleep(0.1)
        clock.box.step_s = 0.2
        await asyncio.sleep(0.15)
        clock.box.step_s = 0.01
        await talking
        await asyncio.sleep(0.1)
        assert [round(each, 3) for each in session.taken_s[-3:]] == [0.56, 0.64, 0.72]
        assert len(session.given_s) == 10
        assert clock.meter.n_late == 1


async def test_what_a_slow_device_missed_is_over_once_nothing_waits() -> None:
    async with Clock(step_s=0.045) as clock:
        one, two = Frames(clock.stepper, most=10), Frames(clock.stepper, most=10)
        talking = [asyncio.create_task(talk(each, 1250, first_s)) for each, first_s in ((one, 0.0), (two, FRAME_S / 2))]
        clock.box.step_s = 0.2
        await asyncio.sleep(60)
        assert clock.meter.n_late > 290
        clock.box.step_s = 0.045
        await asyncio.sleep(5)
        n_late = clock.meter.n_late
        await asyncio.sleep(30)
        assert clock.meter.n_late == n_late
        assert clock.meter.has_room(0.8, _now_s())
        assert clock.box.steps[-10:] == [[0, 1]] * 10  # together again, not each as soon as it is heard
        await asyncio.gather(*talking)


async def test_a_device_that_hangs_has_no_room_though_its_step_never_ends() -> None:
    async with Clock() as clock:
        session = Frames(clock.stepper)
        await talk(session, 50)
        await asyncio.sleep(5)
        assert clock.meter.has_room(0.8, _now_s())
        clock.box.step_s = 1e6
        session.hear()
        await asyncio.sleep(1)
        assert clock.meter.has_room(0.8, _now_s())  # so far it may be a hiccup
        await asyncio.sleep(2)
        assert not clock.meter.has_room(0.8, _now_s())
        await asyncio.sleep(60)
        assert not clock.meter.has_room(0.8, _now_s())
        assert not clock.meter.can_serve_alone(_now_s())


async def test_all_that_is_kept_is_caught_up_as_fast_as_possible() -> None:
    async with Clock(step_s=0.05) as clock:
        session = Frames(clock.stepper)
        talking = asyncio.create_task(talk(session, 300))
        clock.box.step_s = 0.2
        await asyncio.sleep(10)
        clock.box.step_s = 0.05
        assert session.n_waiting == pytest.approx(75, abs=1)
        await asyncio.sleep(11)
        assert session.n_waiting <= 1
        await talking


async def test_who_is_behind_catches_up_where_there_is_time_for_it() -> None:
    async with Clock() as clock:
        steady, behind = Frames(clock.stepper), Frames(clock.stepper)
        behind.hear(8)
        await talk(steady, 8)
        assert clock.box.steps[:4] == [[0, 1], [1], [0, 1], [1]]
        assert behind.n_waiting == 0
        assert steady.taken_s == [pytest.approx(FRAME_S * at) for at in range(8)]


async def test_nobody_catches_up_at_the_others_cost() -> None:
    async with Clock(step_s=0.05) as clock:
        steady, behind = Frames(clock.stepper), Frames(clock.stepper)
        behind.hear(8)
        await talk(steady, 8)
        assert clock.box.steps == [[0, 1]] * 8
        assert clock.meter.n_late == 0


async def test_who_is_answered_without_the_device_is_not_counted_as_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Clock() as clock:
        counted: list[int] = []
        monkeypatch.setattr(clock.meter, "add", lambda *told: counted.append(told[-1]))
        spoken, other = Frames(clock.stepper), Frames(clock.stepper)
        monkeypatch.setattr(other, "take", lambda: setattr(other, "n_waiting", other.n_waiting - 1))
        await asyncio.gather(talk(spoken, 2), talk(other, 4))
        assert counted == [1, 1, 0, 0]
        assert clock.box.steps == [[0], [0]]


async def test_a_step_that_fails_ends_its_sessions_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with Clock() as clock:
        present, absent = Frames(clock.stepper), Frames(clock.stepper)
        clock.box.fails_at = {2}
        await talk(present, 2)
        assert (len(present.failed), absent.failed, clock.meter.n_failed) == (1, [], 1)
        await talk(absent, 3)
        assert len(absent.given_s) == 3
        assert clock.box.done[2:4] == ["reset 0", [1]]  # before anything else is done with the slot
    assert "no more memory" in caplog.text


async def test_a_device_that_fails_again_and_again_stops_the_clock(caplog: pytest.LogCaptureFixture) -> None:
    box, meter = Box(), FrameMeter()
    stepper = Stepper(box, 1, box.run, meter, budget_share=0.8)
    task = asyncio.create_task(stepper.run())
    callers = []
    for fails in (True, True, False, True, True, True):  # one is answered: what failed before counts no more
        assert not task.done()
        box.fails_at = {len(box.done) + each for each in (1, 2)} if fails else set()  # it is reset before its step
        callers.append(Frames(stepper))
        await talk(callers[-1], 1)
        callers[-1].leave()
    with pytest.raises(BackendError, match="3 times in a row, the last time by RuntimeError: no more memory"):
        await asyncio.wait_for(task, 1)
    assert [len(each.failed) for each in callers] == [1, 1, 0, 1, 1, 1]
    assert meter.n_failed == 5
    assert "A step of 1 sessions failed" in caplog.text


@pytest.mark.parametrize("where", ["take", "recognise_frame", "receive_output"])
async def test_a_fault_of_one_session_ends_that_one(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Clock() as clock:
        good, bad = Frames(clock.stepper), Frames(clock.stepper)
        bad.breaks_in = where
        await asyncio.gather(talk(good, 4), talk(bad, 1))
        assert len(good.given_s) == 4
        assert (len(bad.failed), bad.given_s, good.failed) == (1, [], [])
    assert "A session failed" in caplog.text


async def test_a_slot_forgets_before_it_is_used_again_even_when_that_failed_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Clock(n_slots=1) as clock:
        first = Frames(clock.stepper)
        await talk(first, 1)
        first.leave()
        assert clock.stepper.n_free == 1
        forget, clock.box.reset = clock.box.reset, _break  # type: ignore[method-assign]
        second = Frames(clock.stepper)
        await talk(second, 1)
        assert second.failed
        clock.box.reset = forget  # type: ignore[method-assign]
        third = Frames(clock.stepper)
        await talk(third, 1)
        assert clock.box.done == [[0], "reset 0", [0]]
        assert len(third.given_s) == 1
    assert "A step of 1 sessions failed" in caplog.text


def _break(slot: int) -> None:
    raise RuntimeError("the device is gone")
