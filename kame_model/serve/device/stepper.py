"""The clock of the sessions: every 80 ms one frame of each goes through the device together."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from data_schemas.errors import BackendError
from data_schemas.units import FRAME_S
from kame_model.serve.device.engine import FrameIn, FrameOut, RunInThread
from kame_model.serve.device.frame_meter import FrameMeter

_LOG = logging.getLogger(__name__)

_BEHIND_N_FRAMES = 3
"""Frames that wait in a session before it is stepped twice in one tick."""

_MOST_FAILED = 3
"""Steps in a row that may fail, each at the cost of its sessions; after that it is the device that is broken."""

Said = dict[int, FrameOut]


class Stepped(Protocol):
    """What the stepper wants of a session."""

    @property
    def n_waiting(self) -> int:
        """Frames it has heard and not taken."""

    def take(self) -> FrameIn | None:
        """Takes its next frame: for the device, or None where there is none or none of the device's business."""

    def attend(self) -> None:
        """Listens to the frame just taken, while the device is at work."""

    def give(self, said: FrameOut) -> None:
        """What the device says to the frame just taken."""

    def fail(self, reason: str) -> None:
        """The session cannot go on."""


class Device(Protocol):
    """What the stepper wants of the engine."""

    def step(self, inputs: Mapping[int, FrameIn]) -> Said:
        """One frame of these slots."""

    def reset(self, slot: int) -> None:
        """The slot forgets everything."""


class NoDevice:
    """The device of a server without a front-end, whose sessions are answered elsewhere."""

    def step(self, inputs: Mapping[int, FrameIn]) -> Said:
        """Nobody says anything."""
        return {}

    def reset(self, slot: int) -> None:
        """There is nothing to forget."""


class Stepper:
    """Steps all sessions together.

    A tick is due 80 ms after the one before was due, however long that took; when no session has a frame the clock
    stands still, and its next tick is when a frame comes: one caller alone is answered as soon as it is heard.

    Args:
        device: used through `run` only.
        n_slots: sessions there can be.
        run: starts a step in the device's thread.
        meter: told of every step.
        budget_share: share of a frame's time within which a tick may step twice for those who are behind.
    """

    def __init__(self, device: Device, n_slots: int, run: RunInThread, meter: FrameMeter, budget_share: float) -> None:
        self._woken = asyncio.Event()
        self._stale: set[int] = set()
        self._device = device
        self.n_slots = n_slots
        self._run = run
        self._meter = meter
        self._budget_s = budget_share * FRAME_S
        self._sessions: dict[int, Stepped] = {}
        self._n_failed = 0  # in a row

    @property
    def n_free(self) -> int:
        """Slots without a session."""
        return self.n_slots - len(self._sessions)

    def use(self, device: Device, n_slots: int) -> None:
        """Goes on with another device, on which nobody has been. Nobody must be on the one before."""
        if self._sessions:
            raise RuntimeError("sessions are on the device")
        self._device, self.n_slots = device, n_slots
        self._stale.clear()

    def join(self, session: Stepped) -> int:
        """Steps a session from the next tick on; its slot, a place in the device's batch. One must be free."""
        slot = min(set(range(self.n_slots)) - set(self._sessions))
        self._sessions[slot] = session
        return slot

    def wake(self) -> None:
        """A frame waits in a session: if none did in any, the clock begins anew with it."""
        self._woken.set()

    def reset(self, slot: int) -> None:
        """Before its next step the slot forgets everything."""
        self._stale.add(slot)

    def reset_all(self) -> None:
        """Before its next step every slot forgets everything."""
        self._stale.update(range(self.n_slots))

    def leave(self, slot: int) -> None:
        """The session in this slot is over; the slot is free, and forgets everything before its next step."""
        self._sessions.pop(slot, None)
        self._stale.add(slot)

    async def run(self) -> None:
        """Steps until it is cancelled.

        Raises:
            BackendError: step after step failed: the device, or the model on it, is broken.
        """
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            self._woken.clear()
            if await self._tick(due_s):
                due_s += FRAME_S
                await asyncio.sleep(max(0, due_s - loop.time()))
            else:
                await self._woken.wait()
                due_s = loop.time()

    async def _tick(self, due_s: float) -> bool:
        """One frame of everybody, and a second one of those who are behind; whether anybody had one."""
        waiting = {slot: session for slot, session in self._sessions.items() if session.n_waiting}
        if not waiting:
            return False
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        n_on_device = await self._step(waiting)
        step_s = loop.time() - began_s
        self._meter.add(began_s, step_s, began_s - due_s, n_on_device)
        behind = {slot: session for slot, session in self._sessions.items() if session.n_waiting >= _BEHIND_N_FRAMES}
        if behind and 2 * step_s <= self._budget_s:
            await self._step(behind)
        return True

    async def _step(self, sessions: Mapping[int, Stepped]) -> int:
        """Takes, steps, hands out; how many the device stepped, for others had no business with it.

        What goes wrong in one session ends that one, in the step those of the step.
        """
        taken = {}
        for slot, session in sessions.items():
            with end_session_on_fault(session):
                frame = session.take()
                if frame is not None:
                    taken[slot] = frame
        stale, self._stale = self._stale, set()
        done = self._run(lambda: self._on_device(stale, taken)) if taken or stale else None
        for session in sessions.values():
            with end_session_on_fault(session):
                session.attend()
        try:
            said = {} if done is None else await done
        except Exception as error:  # noqa: BLE001  whatever it is, only those of the step end
            _LOG.exception("A step of %d sessions failed.", len(taken))
            self._stale |= stale
            for slot in taken:
                sessions[slot].fail("the model's step failed")
            self._end_after_failure(error)
            return len(taken)
        if done is not None:
            self._n_failed = 0
        for slot, frame_out in said.items():
            session = sessions[slot]
            if self._sessions.get(slot) is session:  # it has not left meanwhile
                with end_session_on_fault(session):
                    session.give(frame_out)
        return len(taken)

    def _end_after_failure(self, error: Exception) -> None:
        self._meter.n_failed += 1
        self._n_failed += 1
        if self._n_failed >= _MOST_FAILED:
            raise BackendError(
                f"The model's step failed {self._n_failed} times in a row, the last time by {type(error).__name__}: "
                f"{error}.",
                "Look at the device and its memory, and start the server anew.",
            ) from error

    def _on_device(self, stale: set[int], taken: Mapping[int, FrameIn]) -> Said:
        for slot in stale:
            self._device.reset(slot)
        return self._device.step(taken) if taken else {}


@contextmanager
def end_session_on_fault(session: Stepped) -> Iterator[None]:
    """A block in which an error ends one session, and is logged."""
    try:
        yield
    except Exception:  # noqa: BLE001  a fault of one session must not stop the others
        _LOG.exception("A session failed.")
        session.fail("an error inside the server")
