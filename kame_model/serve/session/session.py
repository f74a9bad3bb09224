"""The session: owns all state of one caller's conversation, so that its end or reset clears everything."""

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
from kame_model.serve.oracle.prompts import Instructions, get_prompt_text
from kame_model.serve.session.answering import Answering, SharedContext
from kame_model.serve.session.events import EventKind, SessionEvent
from kame_model.serve.session.hearing import TurnRecogniser, TurnTaking
from kame_model.serve.session.mailbox import EventFeeds, Inbox, Outbox, SaidFrame

_LOG = logging.getLogger(__name__)


class Session:
    """A conversation. All calls are made in the event loop's thread.

    Args:
        shared: of the server.
        stepper: steps the session, in a slot that must be free.
        observe: receives every event, for the server's own lists and counts.
        address: the caller's address.
        mode, back_end, model, prompt: initial values; see `change`.
        is_recorded: whether the caller has been informed and agrees to be recorded.

    Attributes:
        id: unguessable; identifies the session in lists, logs and recordings.
        address: as given.
        voice: how the caller hears the front-end.
        began_s, heard_s: times of its start and of the caller's last audio, by the event loop's clock.

    Raises:
        ConfigError: there is no such back-end, model, mode or prompt.
        BackendError: the recogniser does not work.
    """

    def __init__(
        self,
        shared: SharedContext,
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
        turns, parts = TurnTaking.from_config(shared.config.listener), shared.parts
        self._ears = TurnRecogniser(
            parts.recogniser, parts.detector(), turns, self._on_heard, self._on_turn, self._on_fault
        )
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
        """The current mode: tandem, direct or cascade."""
        return self._answering.mode

    @property
    def back_end(self) -> BackendName:
        """The name of the session's back-end; the classifier or a route may choose another for a request."""
        return self._answering.choice.own

    @property
    def model(self) -> str:
        """The chosen model of that back-end; empty: its default."""
        return self._answering.choice.model

    @property
    def turn_taking(self) -> TurnTaking:
        """The current parameters of turn detection."""
        return self._ears.turn_taking

    @property
    def is_recorded(self) -> bool:
        """Whether the session is being recorded."""
        return self._recording is not None and not self._recording.is_over

    @property
    def is_asking(self) -> bool:
        """Whether an answer is requested, is arriving from the chat model, or has not been synthesised yet."""
        return self._answering.is_asking

    @property
    def time_s(self) -> float:
        """The session's own clock: frames stepped since the start or the last reset, in seconds."""
        return round_s(self._n_frames * FRAME_S)

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""
        return self._end is not None

    @property
    def n_room(self) -> int:
        """The number of samples that `hear` takes now without dropping audio."""
        return self._inbox.n_room

    def hear(self, samples: Samples) -> None:
        """Adds the caller's next audio, 24 kHz, of any length; too much of it drops the oldest (event `dropped`).

        It is ignored after the end of the session.

        The model steps once per frame that it hears: a transport has to send silence for a client that sends nothing
        while it listens, and to delay audio that arrives faster than real time.
        """
        if self.has_ended:
            return
        self.heard_s = asyncio.get_running_loop().time()
        self._emit_dropped("heard", self._inbox.put(samples))
        if self._inbox.n_frames:
            self._stepper.wake()

    def report_missed_frames(self, n_frames: int) -> None:
        """Emits `dropped` for audio of the caller that came too late, after silence had taken its place."""
        self._emit("dropped", {"direction": "heard", "n_frames": n_frames, "was_silence": True})

    def set_turn_taking(self, turns: TurnTaking) -> None:
        """Changes the parameters of turn detection from the next frame on; a reset keeps them."""
        self._ears.set_turn_taking(turns)

    def end_turn(self, on_end: Callable[[bool], None]) -> None:
        """Ends the turn after the audio sent so far, at the caller's request: see `TurnRecogniser.end_turn`."""
        self._ears.end_turn(self._inbox.n_begun, on_end)

    def read_frames(self) -> AsyncIterator[SaidFrame]:
        """Yields what is said, one frame per frame heard, until the session ends. There is one reader."""
        return self._outbox.read_frames()

    def subscribe_to_events(self) -> AsyncIterator[SessionEvent]:
        """Yields events from now on, for any number of readers: `started` first (also after a reset), `ended` last.

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
        """Changes the given values, without a gap in the frames.

        Args:
            mode: from the next frame on; another mode cancels all answers.
            back_end: from the next request on, which is sent at once in place of requests for oracles in flight.
            prompt: one of our prompts by name, or instructions that replace the back-end's: see `choose_prompt`.
            model: a model of the back-end; empty: its default, which is also used with another back-end.

        Raises:
            ConfigError: there is no such back-end, mode, prompt or model here; nothing has changed.
            Refused: the device has no time for a session that leaves mode cascade; nothing has changed.
        """
        self._answering.change(mode, back_end, prompt, model)
        chosen_prompt = {} if prompt is None else {"prompt": get_prompt_text(prompt)}
        self._emit("changed", self._answering.get_choices() | chosen_prompt)

    def reset(self) -> None:
        """Restarts in the same slot, with the present mode, back-end, model and prompt; everything else is cleared.

        A recording ends here: whoever speaks from now on has not been asked. A session that has ended stays so. If the
        recogniser does not work, the session ends.
        """
        if self.has_ended:
            return
        self._clear()
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
        """Ends the session. The slot is free at once, connections are closed on return.

        If the session has already ended, only waits until its connections are closed; the first reason stays.
        """
        self.fail(reason)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def fail(self, reason: str) -> None:
        """Ends the session at once, with a reason; its connections are closed in the background."""
        if self.has_ended:
            return
        self._end = SessionEvent("ended", self.time_s, {"reason": reason})
        self._stepper.leave(self._slot)
        self._clear()
        self._ears.close()
        self._closing = asyncio.create_task(self._close(), name=f"closing {self.id}")
        self._deliver(self._end)
        self._outbox.close()

    @property
    def n_waiting(self) -> int:
        """Number of frames received and not taken. This and the following methods are for the stepper."""
        return self._inbox.n_frames

    def take(self) -> FrameIn | None:
        """Takes the next frame heard; returns None if none waits, or if mode cascade answers it here."""
        self._taken = self._unattended = self._inbox.take()
        if self._taken is None:
            return None
        spoken = self._answering.take_frame()
        if spoken is not None:
            self._answer_frame(*spoken)
            return None
        self._n_steps += 1  # position 0 is always idle, as in `make_oracle_stream`
        return FrameIn(self._taken, PADDING_ID if self._n_steps == 1 else self._answering.take_oracle())

    def recognise_frame(self) -> None:
        """Passes the taken frame to speech recognition."""
        frame, self._unattended = self._unattended, None
        if frame is not None:
            self._ears.recognise_frame(frame, self._inbox.n_past)

    def receive_output(self, said: FrameOut) -> None:
        """Receives the device's output for the taken frame; ignored after a reset or the end."""
        if self._taken is not None:
            self._answer_frame(*self._answering.speak(said.samples, said.text))

    def _answer_frame(self, samples: Samples, text: str) -> None:
        """Answers the taken frame: passes 80 ms and their text to client, history and recording; advances the clock."""
        heard, self._taken = self._taken, None
        if text:
            self._answering.on_said(text)
            self._emit("said", {"text": text})
        if self._recording is not None and heard is not None:
            self._recording.add_frame(heard, samples)
        self._emit_dropped("said", self._outbox.put(SaidFrame(self._n_frames, samples, text)))
        self._n_frames += 1

    def _on_heard(self, heard: Heard) -> None:
        """Emits a new transcript and passes it on to be answered; an error ends the session."""
        with end_session_on_fault(self):
            self._emit("heard", {"text": heard.text, "is_final": heard.is_final})
            self._answering.on_heard(heard)

    def _on_turn(self, turn: Literal["started", "stopped"]) -> None:
        """Emits the start or end of the user's turn, and passes it on to what answers it."""
        self._emit("speech_started" if turn == "started" else "speech_stopped", {})
        self._answering.on_turn(turn)

    def _on_fault(self, reason: str) -> None:
        """Emits why speech recognition is interrupted; empty: it works again."""
        self._emit("listening_failed", {"reason": reason})

    def _collect_facts(self) -> dict[str, Any]:
        """Returns the data of the event `started`."""
        facts = {"session_id": self.id, **self._answering.get_choices(), "voice": self.voice, "notice": self._notice}
        return facts | ({"record_notice": self._record_notice} if self.is_recorded else {})

    def _emit_dropped(self, direction: Literal["heard", "said"], n_frames: int) -> None:
        """Emits that frames were dropped, if any were."""
        if n_frames:
            self._emit("dropped", {"direction": direction, "n_frames": n_frames})

    def _emit(self, kind: EventKind, data: dict[str, Any]) -> None:
        """Delivers an event at the present time, unless the session has ended."""
        if not self.has_ended:
            self._deliver(SessionEvent(kind, self.time_s, data))

    def _deliver(self, event: SessionEvent) -> None:
        """Passes an event to subscribers, recording and server."""
        self._feeds.put(event)
        if self._recording is not None:
            self._recording.add_event(event)
        self._observe(self, event)

    def _clear(self) -> None:
        """Discards waiting audio, cancels answers, and clears the history."""
        self._taken = self._unattended = None
        self._inbox.clear()
        self._outbox.clear()
        self._answering.reset()

    def _end_recording(self) -> None:
        """Ends the recording, if there is one; it is written in the background."""
        if self._recording is not None:
            self._keeping.append(asyncio.create_task(self._recording.close()))
            self._recording = None

    async def _close(self) -> None:
        """Ends the tasks, and waits for connections and files; errors are logged and stop nothing else."""
        for task in self._tasks:
            task.cancel()
        self._end_recording()
        done = await asyncio.gather(self._answering.aclose(), *self._tasks, *self._keeping, return_exceptions=True)
        for result in done:
            if isinstance(result, Exception):
                _LOG.error("An error occurred while session %s was closed.", self.id, exc_info=result)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        """Ends the session, with a log entry, if one of its tasks has failed."""
        if not task.cancelled() and task.exception() is not None and not self.has_ended:
            _LOG.error("Session %s failed.", self.id, exc_info=task.exception())
            self.fail("an error inside the server")
