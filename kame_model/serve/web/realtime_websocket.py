"""OpenAI's realtime protocol, `/v1/realtime`, for a front-end that hears and speaks at once.

The protocol is made for models that take turns. Here it means: appended audio goes to the model as it arrives, so only
audio faster than real time is buffered; the user's turns come from the server's speech detection, and a commit ends one
after the audio sent before it; a response is what the model says between two silences (`Responses`). Unsupported
requests (tools, other formats, items written into the conversation) get the protocol's `error`, and the conversation
continues; harmless settings that cannot be changed (a voice, a transcriber) are listed in `session.updated`, in
`kame.differences`.

Beyond the protocol: `{"type": "session.update", "kame": {"events": true}}` requests every event of the session as
`{"type": "kame.event", "event": {...}}`; `kame` may also contain mode, back_end, model, prompt and reset (`Changes`).
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.types import Message
from starlette.websockets import WebSocket

from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_S
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import Denied
from kame_model.serve.web.client_websocket import POLICY, ClientSocket, ConnectionManager
from kame_model.serve.web.rate_limits import Pacer
from kame_model.serve.web.realtime_events import (
    Event,
    FrameState,
    Items,
    RealtimeError,
    Responses,
    UserTurns,
    decode_pcm16,
    make_event,
    read_message,
)
from kame_model.serve.web.realtime_session import INSTRUCTIONS, SessionSettings, read_changes
from kame_model.serve.web.session_changes import Changes

MAX_WAITING_S = 30.0
"""Audio of one client that may wait for its time; more is rejected."""
ANY_MODEL = "kame"
"""A model name for clients that must give one: the server's default back-end."""


async def serve_realtime(manager: ConnectionManager, socket: WebSocket) -> None:
    """Serves one client of the realtime protocol from its connection to its end."""
    model = socket.query_params.get("model") or ANY_MODEL
    names = [each.name for each in manager.server.config.back_ends]
    session = await manager.enter(socket, model if model in names else None)
    if session is not None:
        await RealtimeSocket(manager, socket, session).run(None if model in (*names, ANY_MODEL) else model)


class RealtimeSocket(ClientSocket):
    """The realtime protocol for one client; arguments as for `ClientSocket`."""

    def __init__(self, manager: ConnectionManager, socket: WebSocket, session: Session) -> None:
        super().__init__(manager, socket, session)
        self._settings = SessionSettings(session, self._config, socket.query_params.get("prompt", ""))
        self._items = Items()
        self._turns = UserTurns(self._items)
        self._responses = Responses(self._items)
        self._pacer = Pacer(
            session.hear,
            lambda: session.n_room,
            session.report_missed_frames,
            MAX_WAITING_S,
            self._config.limits.max_backlog_s,
        )
        self._wants_events = self._has_begun = False
        self._n_resets = 0
        self._is_cleared = False  # by a reset of this client, whose `started` has not come yet
        self._n_before = 0  # samples that arrived before the requested response
        self._late: list[Event] = []  # answers that had to wait until audio was heard
        self._order = asyncio.Lock()  # frames, events and answers come from three tasks
        self._does: dict[str, Callable[[Event], list[Event]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.retrieve": self._retrieve,
            "response.create": self._create,
            "response.cancel": self._cancel,
        }

    async def run(self, unknown_model: str | None) -> None:
        """Runs the conversation until it ends.

        Args:
            unknown_model: the requested model, if no back-end has that name.
        """
        conversation = {"id": self._items.conversation_id, "object": "realtime.conversation"}
        first = [self._describe("session.created"), make_event("conversation.created", conversation=conversation)]
        if unknown_model is not None:
            message = f"There is no model {unknown_model[:80]!r} here; {self._session.back_end!r} answers."
            first.append(RealtimeError("model_not_found", message, "model").to_event())
        await self._send(lambda: first)
        await self.converse()

    async def _run_extra_work(self) -> None:
        """Passes the client's audio on in real time, and ends the session if none arrives for too long."""
        idle_s = self._config.limits.idle_s
        await self._pacer.run(idle_s)
        await self.end(POLICY, f"no audio arrived for {idle_s:g} s")

    async def _on_message(self, message: Message) -> None:
        """Handles a client's message and sends the answer: events, or an `error` if it is invalid or not supported."""
        asked = None
        try:
            asked = read_message(message)
            do = self._does.get(asked["type"])
            if do is None:
                raise RealtimeError("not_supported", f"This server does not do {asked['type'][:80]!r}.", "type")
            await self._send(partial(do, asked))
        except RealtimeError as error:
            event = error.to_event(asked)
            await self._send(lambda: [event])

    async def _on_drop(self, reason: str) -> None:
        """Sends why messages are dropped, as the protocol's error `rate_limit_exceeded`."""
        event = RealtimeError("rate_limit_exceeded", reason).to_event()
        await self._send(lambda: [event])

    async def _on_frame(self, frame: SaidFrame) -> None:
        """Sends the events for a frame (see `Responses`), unless the client has reset the session since."""
        before = self._n_resets
        await self._send(lambda: self._make_frame_events(frame) if self._n_resets == before else [])

    async def _on_event(self, event: SessionEvent) -> None:
        """Sends the protocol's events for an event, unless the client has reset the session since."""
        before = self._n_resets
        await self._send(lambda: self._convert_event(event) if self._n_resets == before else [])

    async def _send(self, make: Callable[[], list[Event]]) -> None:
        """Calls `make` and sends its messages, in the order in which all tasks of the client make them.

        While one waits for its turn a client may reset its session; events of before are then discarded.
        """
        async with self._order:
            for message in make():
                await self.send(json.dumps(message))

    def _make_frame_events(self, frame: SaidFrame) -> list[Event]:
        """Returns the answers that were waiting, and the events for a frame."""
        course = FrameState(
            is_behind=self._pacer.n_over < self._n_before,
            is_spoken_to=self._turns.is_speaking,
            is_asking=self._session.is_asking,
            reads_out=self._session.mode == "cascade",
        )
        return [*self._take_late(), *self._responses.add_frame(frame, course)]

    def _take_late(self) -> list[Event]:
        """Removes and returns the answers that had to wait until audio was heard."""
        late, self._late = self._late, []
        return late

    def _convert_event(self, event: SessionEvent) -> list[Event]:
        """Updates turns and responses by an event of the session, and returns the protocol's events for it.

        The event itself (`kame.event`) is the last one if the client wants it.
        """
        data, time_s = event.data, event.time_s
        events: list[Event] = []
        match event.kind:
            case "started":
                events = self._begin()
            case "speech_started":
                events = self._turns.start(time_s)
                if self._settings.interrupts or self._session.mode == "cascade":
                    events += self._responses.interrupt()
            case "speech_stopped":
                self._responses.unmute()
                events = self._turns.stop(time_s)
            case "heard":
                events = self._turns.hear(data["text"], data["is_final"], time_s)
            case "changed" if "prompt" in data:
                self._settings.instructions = data["prompt"]
            case "dropped" if data["direction"] == "heard":
                lost_s = data["n_frames"] * FRAME_S
                reason = "too late" if data.get("was_silence") else "dropped, because the server is overloaded"
                message = f"{lost_s:.2f} s of your audio were {reason}."
                events = [RealtimeError("input_audio_dropped", message).to_event()]
            case "ended":
                message = f"The session has ended: {data['reason']}."
                events = [*self._responses.finish("cancelled"), RealtimeError("session_ended", message).to_event()]
            case _:
                pass
        if self._wants_events:
            events.append(make_event("kame.event", event=asdict(event)))
        return events

    def _begin(self) -> list[Event]:
        """Handles `started`. After a reset it drops unfinished turns and audio of before, ends the response in
        progress, and returns the events for that; none at the start of the session.
        """
        is_first, self._has_begun = not self._has_begun, True
        if is_first:
            return []
        if not self._is_cleared:  # else what waits was sent after the reset
            self._pacer.clear()
        self._is_cleared = False
        self._turns.reset()
        return self._responses.finish("cancelled")

    def _update(self, asked: Event) -> list[Event]:
        """Handles `session.update`: applies what is possible, and returns `session.updated` and an error for each of
        the rest.

        Raises:
            RealtimeError: it has neither `session` nor `kame`, or `session` is no object; nothing has changed.
        """
        if "session" not in asked and "kame" not in asked:
            raise RealtimeError("missing_required_parameter", "session is missing.", "session")
        update = self._settings.update(asked.get("session", {}))
        errors, own_part = update.errors, asked.get("kame", {})
        if not isinstance(own_part, dict):
            errors.append(RealtimeError("invalid_type", "kame must be an object.", "kame"))
            own_part = {}
        wants_events = own_part.pop("events", self._wants_events)
        if not isinstance(wants_events, bool):
            errors.append(RealtimeError("invalid_type", "events must be true or false.", "kame.events"))
            wants_events = self._wants_events
        for wanted, part, blamed in ((update.changes, "session", INSTRUCTIONS), (own_part, "kame", "kame")):
            try:
                self._change(read_changes(wanted, part), blamed)
            except RealtimeError as error:
                errors.append(error)
        self._turns.wants_transcripts = self._settings.wants_transcripts
        self._wants_events = wants_events
        updated = self._describe("session.updated", differences=update.differences)
        return [updated, *(error.to_event(asked) for error in errors)]

    def _change(self, changes: Changes, param: str) -> None:
        """Changes the session by a part of a client's message.

        Raises:
            RealtimeError: it is not possible, or not now; nothing has changed.
        """
        try:
            self.change(changes)
        except (ConfigError, Denied) as error:
            code = error.code if isinstance(error, Denied) else "invalid_value"
            raise RealtimeError(code, str(error), param) from error
        if changes.reset:
            self._n_resets += 1
            self._late.clear()
            self._pacer.clear()
            self._is_cleared = True
        if changes.prompt_text is not None:
            self._settings.instructions = changes.prompt_text

    def _append(self, asked: Event) -> list[Event]:
        """Handles `input_audio_buffer.append`, which has no answer: passes its audio to the pacer.

        Raises:
            RealtimeError: it is no audio of the protocol, or too much already waits; nothing was added.
        """
        sound = asked.get("audio")
        if not isinstance(sound, str):
            raise RealtimeError("invalid_type", "audio must be base64 of PCM16, 24 kHz, mono.", "audio")
        try:
            data = base64.b64decode(sound, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RealtimeError("invalid_value", "audio is not valid base64.", "audio") from error
        if len(data) % 2:
            raise RealtimeError("invalid_value", "audio has half a sample: PCM16 has two bytes each.", "audio")
        if not self._pacer.put(decode_pcm16(data)):
            self.count_drop("too_much_sound")
            message = f"{MAX_WAITING_S:g} s of your audio are already waiting; send it in real time."
            raise RealtimeError("input_audio_buffer_full", message, "audio")
        return []

    def _commit(self, asked: Event) -> list[Event]:
        """Handles `input_audio_buffer.commit`: ends the turn after all audio sent so far. When that has been heard, the
        protocol's events of a turn follow, or an error if there was no speech.
        """

        def on_end(has_ended: bool) -> None:
            """Keeps an error for the client if no turn has ended."""
            if not has_ended:
                message = "The audio since the last turn contains no speech."
                self._late.append(RealtimeError("input_audio_buffer_commit_empty", message).to_event(asked))

        self._pacer.call_when_sent(lambda: self._session.end_turn(on_end))
        return self._take_late()

    def _clear(self, asked: Event) -> list[Event]:
        """Handles `input_audio_buffer.clear`: drops the audio that waits since the last commit."""
        self._pacer.clear_last()
        return [make_event("input_audio_buffer.cleared")]

    def _retrieve(self, asked: Event) -> list[Event]:
        """Handles `conversation.item.retrieve`; raises a RealtimeError if there is no such item."""
        return [make_event("conversation.item.retrieved", item=dict(self._items.find(asked.get("item_id"))))]

    def _create(self, asked: Event) -> list[Event]:
        """Handles `response.create`; raises a RealtimeError if one is in progress or a parameter is not supported."""
        events = self._responses.create(self._settings.check_response(asked.get("response")))
        self._n_before = self._pacer.n_put
        return events

    def _cancel(self, asked: Event) -> list[Event]:
        """Handles `response.cancel`; raises a RealtimeError if there is no such response in progress."""
        return self._responses.cancel(asked.get("response_id"))

    def _describe(self, kind: str, **more: Any) -> Event:
        """Returns an event that describes the session; what the protocol has no field for is in `kame`, with `more`."""
        session = self._session
        own_fields: dict[str, Any] = {
            "mode": session.mode,
            "back_end": session.back_end,
            "model": session.model,
            "voice": session.voice,
            "events": self._wants_events,
            "is_recorded": session.is_recorded,
            "notice": self._config.care.notice,
            "record_notice": self._config.record.notice if session.is_recorded else "",
            **more,
        }
        return make_event(kind, session=self._settings.describe(), kame=own_fields)
