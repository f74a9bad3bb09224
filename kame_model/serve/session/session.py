"""One caller's conversation: the one owner of everything that is known of it, so that its end or reset clears all."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

from backends.engine import Samples
from backends.listener.protocol import Heard
from data_schemas.config.serving import BackendName, Mode
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_S, round_s
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn, FrameOut
from kame_model.serve.device.stepper import Stepper, end_session_on_fault
from kame_model.serve.oracle.prompts import Instructions, text_of
from kame_model.serve.session.answering import Answering, Shared
from kame_model.serve.session.events import EventKind, SessionEvent
from kame_model.serve.session.hearing import Ears, TurnTaking
from kame_model.serve.session.mailbox import EventFeeds, Inbox, Outbox, SaidFrame

_LOG = logging.getLogger(__name__)


class Session:
    """A conversation. All calls are made in the event loop's thread.

    Args:
        shared: of the server.
        stepper: steps it, in a slot that must be free.
        observe: told of every event, for the server's own lists and figures.
        address: where the caller is.
        mode, back_end, model, prompt: with what it begins: see `change`.
        is_recorded: the caller has been told, and agrees.

    Attributes:
        id: unguessable; stands for the session in lists, logs and recordings.
        address: as given.
        voice: how the caller hears the front-end.
        began_s, heard_s: when it began, and when something last came from the caller, by the event loop's clock.

    Raises:
        ConfigError: there is no such back-end, model, mode or prompt.
        BackendError: the recogniser does not work.
    """

    def __init__(
        self,
        shared: Shared,
        stepper: Stepper,
        observe: Callable[["Session", SessionEvent], None],
        address: str,
        *,
        mode: Mode,
        back_end: BackendName | None,
        model: str | None,
        prompt: str | None,
        is_recorded: bool,
    ) -> None:
        self.id, self.address = secrets.token_urlsafe(16), address
        self.began_s = self.heard_s = asyncio.get_running_loop().time()
        self.voice = shared.voice
        self._notice, self._record_notice = shared.config.care.notice, shared.config.record.notice
        self._stepper, self._observe = stepper, observe
        limits = shared.config.limits
        self._inbox, self._outbox = Inbox(limits.max_backlog_s), Outbox(limits.max_unsent_s)
        self._feeds = EventFeeds()
        self._n_frames = self._n_steps = 0
        self._taken: Samples | None = None  # the frame that is being answered
        self._unattended: Samples | None = None
        self._end: SessionEvent | None = None
        self._closing: asyncio.Task[None] | None = None
        self._answering = Answering(shared, lambda: self.time_s, self._emit)
        self._answering.change(mode, back_end, prompt, model)
        turns, parts = TurnTaking.of(shared.config.listener), shared.parts
        self._ears = Ears(parts.recogniser, parts.detector(), turns, self._on_heard, self._on_turn, self._on_fault)
        recordings = shared.parts.recordings if is_recorded else None
        self._recording = None if recordings is None else recordings.begin(self.id)
        self._keeping: list[asyncio.Task[None]] = []
        self._tasks = [asyncio.create_task(run) for run in self._answering.list_tasks()]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)
        self._slot = stepper.join(self)
        self._emit("started", self._collect_facts())

    @property
    def mode(self) -> Mode:
        """tandem, direct or cascade, now."""
        return self._answering.mode

    @property
    def back_end(self) -> BackendName:
        """Name of the chat model behind it, now."""
        return self._answering.choice.own

    @property
    def model(self) -> str:
        """The one chosen among that back-end's models, now; empty: the back-end's own."""
        return self._answering.choice.model

    @property
    def turn_taking(self) -> TurnTaking:
        """How the caller's turns are told apart, now."""
        return self._ears.turn_taking

    @property
    def is_recorded(self) -> bool:
        """Whether what is said now is kept."""
        return self._recording is not None and not self._recording.is_over

    @property
    def is_asking(self) -> bool:
        """Whether the chat model is being asked, or its answer is not all in the session's hands yet."""
        return self._answering.is_asking

    @property
    def time_s(self) -> float:
        """The session's own clock: frames stepped, in seconds."""
        return round_s(self._n_frames * FRAME_S)

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self._end is not None

    def hear(self, samples: Samples) -> None:
        """The next sound of the caller, 24 kHz, of any length; what is too much drops the oldest (event `dropped`).

        The model moves only with what it hears, a frame for a frame: a transport has to send silence for a client that
        sends nothing while it listens, and to hold sound back that comes faster than real time.
        """
        if self.has_ended:
            return
        self.heard_s = asyncio.get_running_loop().time()
        self._tell_dropped("heard", self._inbox.put(samples))
        if self._inbox.n_frames:
            self._stepper.wake()

    def report_missed_frames(self, n_frames: int) -> None:
        """Tells that so much of the caller's sound came too late and was dropped, after silence heard in its place."""
        self._emit("dropped", {"direction": "heard", "n_frames": n_frames, "was_silence": True})

    def take_turns(self, turns: TurnTaking) -> None:
        """Tells the caller's turns apart so from the next frame on; a reset leaves it so."""
        self._ears.take_turns(turns)

    def end_turn(self, told: Callable[[bool], None]) -> None:
        """The caller says that the turn ends with what was sent so far: see `Ears.end_turn`."""
        self._ears.end_turn(self._inbox.n_begun, told)

    def frames(self) -> AsyncIterator[SaidFrame]:
        """What is said, one frame for each one heard; ends when the session does. One reader."""
        return self._outbox.read_frames()

    def subscribe_to_events(self) -> AsyncIterator[SessionEvent]:
        """What happens from now on, for any number of readers: `started` first (again after a reset), `ended` last.

        A reader who falls behind by a thousand events loses the oldest.
        """
        return self._feeds.subscribe(SessionEvent("started", 0.0, self._collect_facts()), self._end)

    def change(
        self,
        *,
        mode: Mode | None = None,
        back_end: BackendName | None = None,
        prompt: str | Instructions | None = None,
        model: str | None = None,
    ) -> None:
        """Changes what is given, without a gap in the frames.

        Args:
            mode: from the next frame on.
            back_end: for the next request on.
            prompt: one of ours by its name, or instructions in the place of the back-end's own: see `prompt_for`.
            model: one of those of the back-end; empty: its own, which it is too with another back-end.

        Raises:
            ConfigError: there is no such back-end, mode, prompt or model here; nothing has changed.
            Refused: from mode cascade, which needs no device, to another one, and it has no time; nothing has changed.
        """
        self._answering.change(mode, back_end, prompt, model)
        self._emit("changed", self._answering.get_choices() | ({} if prompt is None else {"prompt": text_of(prompt)}))

    def reset(self) -> None:
        """Begins anew in the same slot, with the present mode, back-end, model and prompt; nothing of before is left.

        A recording ends here: who speaks from now on has not been asked. A session that has ended stays so.
        """
        if self.has_ended:
            return
        self._forget()
        self._feeds.clear()
        self._stepper.reset(self._slot)
        self._n_frames = self._n_steps = 0
        self._end_recording()
        try:
            self._ears.reset()
        except BackendError as error:
            _LOG.error("Session %s ends: %s", self.id, error)
            self.fail("the recogniser does not work")
        self._emit("started", self._collect_facts())

    async def close(self, reason: str) -> None:
        """Ends the session; a second time changes nothing. The slot is free at once, connections are on return."""
        self.fail(reason)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def fail(self, reason: str) -> None:
        """Ends the session without waiting for its connections; for the stepper."""
        if self.has_ended:
            return
        self._end = SessionEvent("ended", self.time_s, {"reason": reason})
        self._stepper.leave(self._slot)
        self._forget()
        self._ears.close()
        self._closing = asyncio.create_task(self._close(), name=f"closing {self.id}")
        self._tell(self._end)
        self._outbox.close()

    @property
    def n_waiting(self) -> int:
        """Frames heard and not taken; for the stepper, as what follows."""
        return self._inbox.n_frames

    def take(self) -> FrameIn | None:
        """Takes the next frame heard; in mode cascade it is answered here, and the device has nothing to do."""
        self._taken = self._unattended = self._inbox.take()
        if self._taken is None:
            return None
        spoken = self._answering.take_frame()
        if spoken is not None:
            self._say(*spoken)
            return None
        self._n_steps += 1  # position 0 is always idle, as `lay_oracle` has it
        return FrameIn(self._taken, PADDING_ID if self._n_steps == 1 else self._answering.take_oracle())

    def attend(self) -> None:
        """Listens to the frame taken."""
        frame, self._unattended = self._unattended, None
        if frame is not None:
            self._ears.attend(frame, self._inbox.n_past)

    def give(self, said: FrameOut) -> None:
        """What the device says to the frame taken; nothing, if a reset or the end has come in between."""
        if self._taken is not None:
            self._say(*self._answering.speak(said.samples, said.text))

    def _say(self, samples: Samples, text: str) -> None:
        heard, self._taken = self._taken, None
        if text:
            self._answering.on_said(text)
            self._emit("said", {"text": text})
        if self._recording is not None and heard is not None:
            self._recording.add_frame(heard, samples)
        self._tell_dropped("said", self._outbox.put(SaidFrame(self._n_frames, samples, text)))
        self._n_frames += 1

    def _on_heard(self, heard: Heard) -> None:
        with end_session_on_fault(self):
            self._emit("heard", {"text": heard.text, "is_final": heard.is_final})
            self._answering.on_heard(heard)

    def _on_turn(self, turn: Literal["started", "stopped"]) -> None:
        self._emit("speech_started" if turn == "started" else "speech_stopped", {})
        self._answering.on_turn(turn)

    def _on_fault(self, reason: str) -> None:
        self._emit("listening_failed", {"reason": reason})

    def _collect_facts(self) -> dict[str, Any]:
        facts = {"session_id": self.id, **self._answering.get_choices(), "voice": self.voice, "notice": self._notice}
        return facts | ({"record_notice": self._record_notice} if self.is_recorded else {})

    def _tell_dropped(self, direction: Literal["heard", "said"], n_frames: int) -> None:
        if n_frames:
            self._emit("dropped", {"direction": direction, "n_frames": n_frames})

    def _emit(self, kind: EventKind, data: dict[str, Any]) -> None:
        if not self.has_ended:
            self._tell(SessionEvent(kind, self.time_s, data))

    def _tell(self, event: SessionEvent) -> None:
        self._feeds.put(event)
        if self._recording is not None:
            self._recording.add_event(event)
        self._observe(self, event)

    def _forget(self) -> None:
        """All that is known of what was said and heard."""
        self._taken = self._unattended = None
        self._inbox.clear()
        self._outbox.clear()
        self._answering.reset()

    def _end_recording(self) -> None:
        if self._recording is not None:
            self._keeping.append(asyncio.create_task(self._recording.close()))
            self._recording = None

    async def _close(self) -> None:
        """Ends what runs, and waits for connections and files; what fails in it is logged, and stops nothing else."""
        for task in self._tasks:
            task.cancel()
        self._end_recording()
        done = await asyncio.gather(self._answering.aclose(), *self._tasks, *self._keeping, return_exceptions=True)
        for result in done:
            if isinstance(result, Exception):
                _LOG.error("Closing session %s.", self.id, exc_info=result)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None and not self.has_ended:
            _LOG.error("Session %s failed.", self.id, exc_info=task.exception())
            self.fail("an error inside the server")
