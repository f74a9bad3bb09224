"""The server: all sessions of one device, their admission, their ends, and the step that they share."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Self, get_args

from backends.chat.live import LiveUsage
from data_schemas.config.serving import BackendName, Mode, ServeConfig, Voice
from data_schemas.errors import ConfigError
from kame_model.checkpoint.kame_json import TrainedDelays, choose_guesses, choose_voice
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device.admission import Admission, OtherCallers, RefusalReason, Refused
from kame_model.serve.device.engine import RunInThread
from kame_model.serve.device.frame_meter import FrameMeter
from kame_model.serve.device.slots import MOST_SLOTS, Slots
from kame_model.serve.device.stepper import NoDevice, Stepper
from kame_model.serve.oracle.ages import OracleAges
from kame_model.serve.oracle.requests import RequestCounts
from kame_model.serve.oracle.routing import Router, load_classifier
from kame_model.serve.parts import ServerParts
from kame_model.serve.session.answering import SharedContext
from kame_model.serve.session.events import EventKind, SessionEvent
from kame_model.serve.session.recordings import Recordings
from kame_model.serve.session.session import Session

__all__ = ["KameServer", "RefusalReason", "Refused"]

_LOG = logging.getLogger(__name__)

_WATCH_S = 1.0
"""Seconds between checks for sessions that have lasted too long."""
_LOG_EVERY_S = 60.0
"""Seconds between messages that the device is behind."""


class KameServer:
    """The sessions of one checkpoint. `async with` starts and stops the server.

    Args:
        checkpoint: the front-end, its codec and its tokenizer, or None if the only mode is cascade.
        config: the server's configuration.
        parts: recogniser, chat models, voice.
        run: runs the engine's work; None: in a thread of its own. A simulated clock needs another place.
        others: the callers of the server's other processes, or None if there are none.

    Attributes:
        config: the configuration, with the guesses that the checkpoint was trained for.
        voice: how users hear the front-end.
        sessions: the open sessions by id.
        meter: times of steps.
        admission: decides who is admitted, and counts refusals.
        n_events: events of all sessions since the start, by kind.
        n_dropped: frames dropped in all sessions since the start, by direction (heard, said).
        requests: counts of the outcomes of all requests to chat models.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        config: ServeConfig,
        parts: ServerParts,
        run: RunInThread | None = None,
        others: OtherCallers | None = None,
    ) -> None:
        guesses = choose_guesses(None if checkpoint is None else checkpoint.facts, config.cycle.guesses)
        self.config = config.model_copy(update={"cycle": config.cycle.model_copy(update={"guesses": guesses})})
        self.voice: Voice = choose_voice(None if checkpoint is None else checkpoint.facts, config.voice)
        self.meter = FrameMeter()
        self.admission = Admission(config.limits, self.meter, others)
        self.n_events: Counter[EventKind] = Counter()
        self.n_dropped: Counter[str] = Counter()
        self.requests = RequestCounts()
        self._ages = OracleAges(_get_trained_delays(checkpoint))
        self._checkpoint, self._parts, self._run = checkpoint, parts, run
        self._sessions: dict[str, Session] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._stepper: Stepper | None = None
        self._shared: SharedContext | None = None
        self._is_empty = asyncio.Event()
        self._logged = (float("-inf"), 0, 0)  # when it was last checked for the log: time, dropped frames, late steps

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The open sessions by id."""
        return MappingProxyType(self._sessions)

    @property
    def n_slots(self) -> int:
        """The number of sessions that there can be at once; 0 before the start."""
        return 0 if self._stepper is None else self._stepper.n_slots

    @property
    def n_free(self) -> int:
        """The number of slots without a session, even if nobody is admitted now; 0 before the start."""
        return 0 if self._stepper is None else self._stepper.n_free

    @property
    def modes(self) -> list[Mode]:
        """The available modes: only cascade without a front-end, and all but cascade without text-to-speech."""
        has = {"cascade": self._parts.speaker is not None}
        return [mode for mode in get_args(Mode) if has.get(mode, self._checkpoint is not None)]

    @property
    def recordings(self) -> Recordings | None:
        """The recordings of callers who agreed, now or before, or None if this server has none."""
        return self._parts.recordings

    @property
    def takes_recordings(self) -> bool:
        """Whether callers who agree are recorded."""
        return self._parts.recordings is not None and self.config.record.enabled

    def get_usage(self) -> dict[BackendName, LiveUsage]:
        """Returns the usage of each chat model since the start, by the first of its names (see `ServerParts.usage`)."""
        return self._parts.usage()

    @property
    def is_ready(self) -> bool:
        """Whether one more caller, in the configured mode, would be admitted and served in real time."""
        return self.find_unreadiness() is None

    async def __aenter__(self) -> Self:
        """Opens and measures the device's slots, and starts to step them. Callers can connect when this returns.

        Raises:
            ConfigError, BackendError, StoreError: the checkpoint is incomplete, or a configured component is missing.
            torch.OutOfMemoryError: not even one slot fits on the device.
        """
        async with AsyncExitStack() as stack:
            run = self._run or _start_thread(stack)
            slots = self._make_slots(run)
            if slots is None:
                limits = self.config.limits
                n_slots = limits.max_sessions or MOST_SLOTS
                stepper = Stepper(NoDevice(), n_slots, run, self.meter, limits.budget_share)
            else:
                stack.push_async_callback(run, slots.close)
                stepper = await slots.start()
            self._stepper, self._shared = stepper, self._make_shared()
            self._tasks = [asyncio.create_task(stepper.run()), asyncio.create_task(self._watch(slots, stepper))]
            for task in self._tasks:
                task.add_done_callback(self._on_task_done)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Admits nobody more, ends every session and releases the device."""
        self.admission.drain()
        self._end_all("the server is shutting down")
        await self._wait_until_all_gone()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def find_refusal(self, address: str | None = None, mode: Mode | None = None) -> Refused | None:
        """Returns why one more caller would be refused now, or None if it would be admitted. Nothing is counted.

        Args:
            address: the caller's address, for the limits per address; None: that of a new caller.
            mode: the mode in which the session would begin; None: the configured one.
        """
        return self.admission.find_refusal(address, *self._describe_load(mode or self.config.mode))

    def find_unreadiness(self) -> Refused | None:
        """Returns why callers should use another server now; None: one more, in the configured mode, has real time."""
        return self.admission.find_unreadiness(*self._describe_load(self.config.mode))

    async def open_session(
        self,
        address: str,
        *,
        mode: Mode | None = None,
        back_end: BackendName | None = None,
        model: str | None = None,
        prompt: str | None = None,
        record: bool = False,
    ) -> Session:
        """Opens a session for a new caller.

        An admitted caller's start counts for the limits of the address, even if the session cannot be opened then.

        Args:
            address: the caller's address, for the limits per address.
            mode, back_end, model, prompt: in place of the configured ones; see `Session.change`.
            record: the caller has been informed and agrees to be recorded.

        Raises:
            Refused: the caller cannot be admitted now; the refusal is counted.
            ConfigError: no such mode, back-end, model or prompt; or this server makes no recordings.
            BackendError: the recogniser does not work.
            RuntimeError: the server has not been started.
        """
        if self._stepper is None or self._shared is None:
            raise RuntimeError("the server has not been started")
        if record and not self.takes_recordings:
            raise ConfigError("This server makes no recordings.", "Call without consent to recording.")
        mode = mode or self.config.mode
        self.admission.admit(address, *self._describe_load(mode))
        try:
            session = Session(
                self._shared,
                self._stepper,
                self._on_event,
                address,
                mode=mode,
                back_end=back_end or None,
                model=model,
                prompt=prompt,
                is_recorded=record,
            )
        except BaseException:
            self.admission.leave(address)
            raise
        self._sessions[session.id] = session
        self._is_empty.clear()
        return session

    async def drain(self, within_s: float | None = None) -> None:
        """Admits no more callers, ends the sessions that remain after a time, and returns when all have ended.

        Args:
            within_s: how long sessions may continue, seconds; None: `limits.drain_s`.
        """
        self.admission.drain()
        if self._sessions:
            try:
                await asyncio.wait_for(
                    self._is_empty.wait(), self.config.limits.drain_s if within_s is None else within_s
                )
            except TimeoutError:
                self._end_all("the server is shutting down")
        await self._wait_until_all_gone()

    async def wait_until_broken(self) -> None:
        """Waits until the server cannot continue, for as long as that takes; the server must have been started.

        Raises:
            BackendError: the device is broken; every session has been ended, and no more callers are admitted.
            asyncio.CancelledError: the server was stopped during the wait.
        """
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _make_slots(self, run: RunInThread) -> Slots | None:
        """Creates the slots of the front-end, which are not opened yet; returns None without a checkpoint."""
        if self._checkpoint is None:
            return None
        return Slots(self._checkpoint, self.config, run, self.meter, self.admission, is_idle=lambda: not self._sessions)

    def _make_shared(self) -> SharedContext:
        """Creates what all sessions share.

        Raises:
            ConfigError: there is no such classifier, or the voice is synthesised without text-to-speech.
        """
        config, parts = self.config, self._parts
        classifier = None if config.classifier is None else load_classifier(config.classifier)
        router = Router(parts.back_ends, config.routes, classifier)
        tokenizer = None if self._checkpoint is None else self._checkpoint.load_tokenizer()
        if self.voice == "synthesised" and parts.speaker is None:
            raise ConfigError(
                "The configured voice is synthesised, but text-to-speech is not available.", "Choose --voice decoded."
            )
        return SharedContext(config, parts, tokenizer, router, self.requests, self._admit_to_device, self.voice)

    def _describe_load(self, mode: Mode) -> tuple[list[str], int, int, float]:
        """Returns the load with one more session in this mode, as arguments for `Admission.find_refusal`.

        They are the addresses of the open sessions, the number of free slots, the number of sessions on the device
        (with the new one unless its mode is cascade), and the time.
        """
        present = [session.address for session in self._sessions.values()]
        n_on_device = self._count_on_device() + (mode != "cascade")
        return present, self.n_free, n_on_device, asyncio.get_running_loop().time()

    def _count_on_device(self) -> int:
        """Returns the number of open sessions that the device steps: all but those of mode cascade."""
        return sum(session.mode != "cascade" for session in self._sessions.values())

    def _admit_to_device(self) -> None:
        """Checks that the device has time for a session that leaves mode cascade; else raises Refused, counted."""
        now_s = asyncio.get_running_loop().time()
        self.admission.admit_to_device(len(self._sessions) - 1, self._count_on_device() + 1, now_s)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        """Ends all sessions and admits nobody if a background task has failed."""
        if not task.cancelled() and task.exception() is not None:
            _LOG.critical("A background task of the server has failed.", exc_info=task.exception())
            self.admission.drain()
            self._end_all("an error inside the server")

    def _on_event(self, session: Session, event: SessionEvent) -> None:
        """Counts an event of a session, its dropped frames, and the age of its oracle.

        After `ended` the session is removed, and closed in the background.
        """
        self.n_events[event.kind] += 1
        if session.mode == "tandem" or event.kind == "ended":
            self._ages.observe(session.id, event)
        if event.kind == "dropped":
            self.n_dropped[event.data["direction"]] += event.data["n_frames"]
        if event.kind == "ended":
            if self._sessions.pop(session.id, None) is not None:
                self.admission.leave(session.address)
            leaving = asyncio.create_task(session.close(""))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            if not self._sessions:
                self._is_empty.set()

    def _end_all(self, reason: str) -> None:
        """Ends every session at once; their connections are closed in the background."""
        for session in list(self._sessions.values()):
            session.fail(reason)

    async def _wait_until_all_gone(self) -> None:
        """Waits until the sessions that have ended are closed."""
        while self._leaving:
            await asyncio.wait(self._leaving)

    async def _watch(self, slots: Slots | None, stepper: Stepper) -> None:
        """Every second, ends overdue sessions, logs an overload and lets the slots measure again, until cancelled."""
        # No variable may keep a session alive during the sleep.
        while True:
            await asyncio.sleep(_WATCH_S)
            self._end_overdue()
            self._log_overload()
            if slots is not None:
                await slots.remeasure_if_idle(stepper)

    def _log_overload(self) -> None:
        """Once a minute, logs a warning if in that time both callers' audio was dropped and steps were late."""
        now_s, n_dropped, n_late = asyncio.get_running_loop().time(), self.n_dropped["heard"], self.meter.n_late
        then_s, n_dropped_then, n_late_then = self._logged
        if now_s - then_s < _LOG_EVERY_S:
            return
        self._logged = (now_s, n_dropped, n_late)
        if n_dropped > n_dropped_then and n_late > n_late_then:
            _LOG.warning(
                "In the last minute, %d frames of callers' audio were dropped and %d steps were late: the device is "
                "too slow, or too busy, for its callers (now %d). No more are admitted until it keeps up. Lower "
                "limits.max_sessions, or find out what else uses this machine.",
                n_dropped - n_dropped_then,
                n_late - n_late_then,
                len(self._sessions),
            )

    def _end_overdue(self) -> None:
        """Ends the sessions whose callers send nothing and those that exceed the maximum duration."""
        limits = self.config.limits
        now_s = asyncio.get_running_loop().time()
        for session in list(self._sessions.values()):
            if now_s - session.heard_s > limits.idle_s:
                session.fail(f"no audio arrived for {limits.idle_s:g} s")
            elif now_s - session.began_s > limits.max_session_s:
                session.fail(f"the session reached the limit of {limits.max_session_s:g} s")


def _get_trained_delays(checkpoint: Checkpoint | None) -> TrainedDelays | None:
    """Returns the delays of the back-end in training; None without a checkpoint, or if its facts lack them."""
    facts = None if checkpoint is None else checkpoint.facts
    return None if facts is None else facts.trained_delays


def _start_thread(stack: AsyncExitStack) -> RunInThread:
    """Starts a thread for the engine, which `stack` ends, and returns a function that runs work in it."""
    thread = ThreadPoolExecutor(1, "engine")
    stack.callback(thread.shutdown)
    return partial(asyncio.get_running_loop().run_in_executor, thread)
