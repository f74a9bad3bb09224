"""The stepper: the clock that sends one frame of every session through the device together, every 80 ms."""

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
"""Waiting frames from which a session is stepped twice in one tick."""

_MOST_FAILED = 3
"""Consecutive steps that may fail, each of which ends its sessions; then the device counts as broken."""

Said = dict[int, FrameOut]


class SteppedSession(Protocol):
    """A session, as the stepper uses it."""

    @property
    def n_waiting(self) -> int:
        """Frames that have been received and not taken."""

    def take(self) -> FrameIn | None:
        """Takes its next frame; returns the device's input, or None if no frame waits or no device is needed."""

    def recognise_frame(self) -> None:
        """Passes the frame just taken to speech recognition; called while the device works."""

    def receive_output(self, said: FrameOut) -> None:
        """Receives the device's output for the frame just taken."""

    def fail(self, reason: str) -> None:
        """Ends the session because of an error."""


class Device(Protocol):
    """An engine, as the stepper uses it."""

    def step(self, inputs: Mapping[int, FrameIn]) -> Said:
        """Steps these slots by one frame."""

    def reset(self, slot: int) -> None:
        """Clears the state of a slot."""


class NoDevice:
    """Stands for the device of a server without a front-end."""

    def step(self, inputs: Mapping[int, FrameIn]) -> Said:
        """Returns no output."""
        return {}

    def reset(self, slot: int) -> None:
        """Ignores the slot, which has no state."""


class Stepper:
    """Steps all sessions together.

    A tick is due 80 ms after the previous one was due, however long that took; but it is never further behind than the
    audio that waits, because there is nothing else to catch up. When no session has a frame, the clock stops until the
    next frame arrives, so a single caller is answered as soon as it is heard.

    Args:
        device: used through `run` only.
        n_slots: the maximum number of sessions.
        run: starts a step in the device's thread.
        meter: receives the time of every step.
        budget_share: share of a frame's time within which a tick may step sessions that are behind twice.
    """

    def __init__(self, device: Device, n_slots: int, run: RunInThread, meter: FrameMeter, budget_share: float) -> None:
        self._woken = asyncio.Event()
        self._stale: set[int] = set()
        self._device = device
        self.n_slots = n_slots
        self._run = run
        self._meter = meter
        self._budget_s = budget_share * FRAME_S
        self._sessions: dict[int, SteppedSession] = {}
        self._n_failed = 0  # in a row

    @property
    def n_free(self) -> int:
        """The number of slots without a session."""
        return self.n_slots - len(self._sessions)

    def use(self, device: Device, n_slots: int) -> None:
        """Switches to another, unused device.

        Raises:
            RuntimeError: there are sessions on the current one.
        """
        if self._sessions:
            raise RuntimeError("sessions are on the device")
        self._device, self.n_slots = device, n_slots
        self._stale.clear()

    def join(self, session: SteppedSession) -> int:
        """Adds a session from the next tick on; returns its slot in the device's batch. One must be free."""
        slot = min(set(range(self.n_slots)) - set(self._sessions))
        self._sessions[slot] = session
        return slot

    def wake(self) -> None:
        """Signals that a frame waits in a session, which restarts a stopped clock."""
        self._woken.set()

    def reset(self, slot: int) -> None:
        """Clears the state of the slot before its next step."""
        self._stale.add(slot)

    def reset_all(self) -> None:
        """Clears the state of every slot before its next step."""
        self._stale.update(range(self.n_slots))

    def leave(self, slot: int) -> None:
        """Removes the session of this slot and frees the slot, which is cleared before its next step."""
        self._sessions.pop(slot, None)
        self._stale.add(slot)

    async def run(self) -> None:
        """Steps until it is cancelled.

        Raises:
            BackendError: several steps in a row failed: the device, or the model on it, is broken.
        """
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            self._meter.due_s = due_s
            await asyncio.sleep(max(0, due_s - loop.time()))
            self._woken.clear()
            if await self._tick(due_s):
                waiting_s = FRAME_S * max((each.n_waiting for each in self._sessions.values()), default=0)
                due_s = max(due_s + FRAME_S, loop.time() - waiting_s)
            else:
                self._meter.due_s = None
                await self._woken.wait()
                due_s = loop.time()

    async def _tick(self, due_s: float) -> bool:
        """Steps all sessions with a waiting frame by one frame and, if there is time, those far behind by another one.

        Args:
            due_s: when the step should have begun, by the loop's clock.

        Returns:
            Whether a frame was waiting.
        """
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

    async def _step(self, sessions: Mapping[int, SteppedSession]) -> int:
        """Takes frames, steps them and delivers the output; returns the number of sessions that the device stepped.

        An error in one session ends that session, an error of the step all sessions of the step.

        Raises:
            BackendError: too many steps in a row failed.
        """
        taken = {}
        for slot, session in sessions.items():
            with end_session_on_fault(session):
                frame = session.take()
                if frame is not None:
                    taken[slot] = frame
        stale, self._stale = self._stale, set()
        done = self._run(lambda: self._run_on_device(stale, taken)) if taken or stale else None
        for session in sessions.values():
            with end_session_on_fault(session):
                session.recognise_frame()
        try:
            said = {} if done is None else await done
        except Exception as error:  # noqa: BLE001  any error ends only the sessions of this step
            _LOG.exception("A step of %d sessions failed.", len(taken))
            self._stale |= stale
            for slot in taken:
                sessions[slot].fail("the model's step failed")
            self._count_failure(error)
            return len(taken)
        if done is not None:
            self._n_failed = 0
        for slot, frame_out in said.items():
            session = sessions[slot]
            if self._sessions.get(slot) is session:  # it has not left since
                with end_session_on_fault(session):
                    session.receive_output(frame_out)
        return len(taken)

    def _count_failure(self, error: Exception) -> None:
        """Counts a failed step.

        Raises:
            BackendError: it is one too many in a row.
        """
        self._meter.n_failed += 1
        self._n_failed += 1
        if self._n_failed >= _MOST_FAILED:
            raise BackendError(
                f"The model's step failed {self._n_failed} times in a row, the last time by {type(error).__name__}: "
                f"{error}.",
                "Check the device and its memory, and restart the server.",
            ) from error

    def _run_on_device(self, stale: set[int], taken: Mapping[int, FrameIn]) -> Said:
        """Clears stale slots, and steps those with a frame; runs in the device's thread."""
        for slot in stale:
            self._device.reset(slot)
        return self._device.step(taken) if taken else {}


@contextmanager
def end_session_on_fault(session: SteppedSession) -> Iterator[None]:
    """Context manager that logs any error in its block and ends the session, but does not raise the error."""
    try:
        yield
    except Exception:  # noqa: BLE001  an error in one session must not stop the others
        _LOG.exception("A session failed.")
        session.fail("an error inside the server")
