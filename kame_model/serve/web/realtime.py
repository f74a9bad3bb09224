"""OpenAI's realtime protocol, `/v1/realtime`, over a front-end that hears and speaks at once.

The protocol is made for models that take turns; what it means here: sound appended goes to the model as it comes, so
there is no buffer but of what came faster than real time; turns of the user are the server's detection of speech, and a
commit ends one behind the sound that was sent before it; a response is what the model says between two silences
(`realtime_responses`). What cannot be had (tools, other formats, items written into the conversation) is answered with
the protocol's `error`, and the conversation goes on; what is as it is and harms nobody (a voice, a transcriber) is told
in `session.updated`, in `kame.differences`.

Beyond the protocol: `{"type": "session.update", "kame": {"events": true}}` asks for every event of the session as
`{"type": "kame.event", "event": {...}}`; `kame` may also hold mode, back_end, model, prompt and reset (`Changes`).
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from starlette.types import Message
from starlette.websockets import WebSocket

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_S
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.web.access import Denied
from kame_model.serve.web.caller import POLICY, Caller, Hall
from kame_model.serve.web.rate_limits import Pacer
from kame_model.serve.web.realtime_config import INSTRUCTIONS, VOICE, RealtimeConfig, changes_of
from kame_model.serve.web.realtime_events import Event, Fault, Items, event, id_of, new_id, read_message
from kame_model.serve.web.realtime_responses import Course, Responses, from_pcm16
from kame_model.serve.web.realtime_turns import UserTurns
from kame_model.serve.web.session_changes import Changes

MAX_WAITING_S = 30.0
"""Sound of one client that waits for its time; more is refused."""
ANY_MODEL = "kame"
"""A model's name for clients that must give one: the server's default back-end."""


async def realtime(hall: Hall, socket: WebSocket) -> None:
    """One client of the realtime protocol, from its coming to its end."""
    config = hall.server.config
    model = socket.query_params.get("model") or ANY_MODEL
    names = [each.name for each in config.back_ends]
    caller = await hall.enter(socket, model if model in names else None)
    if caller is not None:
        wished = socket.query_params.get("prompt", "")
        await RealtimeSocket(caller, config, wished).run(None if model in (*names, ANY_MODEL) else model)


class RealtimeSocket:
    """What a client's messages mean, and what it is sent.

    Args:
        caller: the client.
        config: the server's.
        instructions: that the client asked for as it came.
    """

    def __init__(self, caller: Caller, config: ServeConfig, instructions: str) -> None:
        self._caller = caller
        self._session = caller.session
        self._care, self._record_notice = config.care, config.record.notice
        self._idle_s = config.limits.idle_s
        self._config = RealtimeConfig(self._session, config, instructions)
        self._conversation_id = new_id("conv")
        self._items = Items()
        self._turns = UserTurns(self._items)
        self._responses = Responses(self._items, self._conversation_id, VOICE)
        backlog_s = config.limits.max_backlog_s
        self._pacer = Pacer(self._session.hear, self._session.miss, MAX_WAITING_S, backlog_s)
        self._wants_events = self._has_begun = False
        self._n_resets = 0
        self._n_before = 0  # samples that came before the response that is waited for
        self._late: list[Event] = []  # answers that had to wait for sound to be heard
        self._order = asyncio.Lock()  # frames, events and answers come from three tasks
        self._does: dict[str, Callable[[Event], Awaitable[list[Event]]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.retrieve": self._retrieve,
            "response.create": self._create,
            "response.cancel": self._cancel,
        }

    async def run(self, unknown_model: str | None) -> None:
        """The conversation, until it ends.

        Args:
            unknown_model: what the client asked for and nobody here is called.
        """
        conversation = {"id": self._conversation_id, "object": "realtime.conversation"}
        first = [self._described("session.created"), event("conversation.created", conversation=conversation)]
        if unknown_model is not None:
            message = f"There is no model {unknown_model[:80]!r} here; {self._session.back_end!r} answers."
            first.append(Fault("model_not_found", message, "model").event())
        await self._send(lambda: first)
        await self._caller.run(self._on_message, self._on_drop, self._on_frame, self._on_event, self._pace)

    async def _pace(self) -> None:
        await self._pacer.run(self._idle_s)
        await self._caller.end(POLICY, f"no sound came for {self._idle_s:g} s")

    async def _on_message(self, message: Message) -> None:
        asked = None
        try:
            asked = read_message(message)
            does = self._does.get(asked["type"])
            if does is None:
                raise Fault("not_supported", f"This server does not do {asked['type'][:80]!r}.", "type")
            async with self._order:
                await self._say(await does(asked))
        except Fault as fault:
            error = fault.event(id_of(asked))
            await self._send(lambda: [error])

    async def _on_drop(self, reason: str) -> None:
        error = Fault("rate_limit_exceeded", reason).event()
        await self._send(lambda: [error])

    async def _on_frame(self, frame: SaidFrame) -> None:
        before = self._n_resets
        await self._send(lambda: self._said(frame) if self._n_resets == before else [])

    async def _on_event(self, happened: SessionEvent) -> None:
        before = self._n_resets
        await self._send(lambda: self._told(happened) if self._n_resets == before else [])

    async def _send(self, make: Callable[[], list[Event]]) -> None:
        """Makes messages and sends them, so that they are sent in the order they were made in.

        While one waits for its place a client may begin anew: what it said of before is then of nobody's any more.
        """
        async with self._order:
            await self._say(make())

    async def _say(self, messages: list[Event]) -> None:
        for message in messages:
            await self._caller.send(json.dumps(message))

    def _said(self, frame: SaidFrame) -> list[Event]:
        course = Course(
            is_behind=self._pacer.n_over < self._n_before,
            is_spoken_to=self._turns.is_speaking,
            is_asking=self._session.is_asking,
            reads_out=self._session.mode == "cascade",
        )
        return [*self._answers(), *self._responses.frame(frame, course)]

    def _answers(self) -> list[Event]:
        late, self._late = self._late, []
        return late

    def _told(self, happened: SessionEvent) -> list[Event]:
        """The protocol's events for one of ours."""
        data, time_s = happened.data, happened.time_s
        told: list[Event] = []
        match happened.kind:
            case "started":
                told = self._began()
            case "speech_started":
                falls_silent = self._config.interrupts or self._session.mode == "cascade"
                told = self._turns.started(time_s) + self._responses.interrupted(falls_silent)
            case "speech_stopped":
                self._responses.listened()
                told = self._turns.stopped(time_s)
            case "heard":
                told = self._turns.heard(data["text"], data["is_final"], time_s)
            case "changed" if "prompt" in data:
                self._config.instructions = data["prompt"]
            case "dropped" if data["direction"] == "heard":
                lost_s = data["n_frames"] * FRAME_S
                told = [Fault("input_audio_dropped", f"{lost_s:.2f} s of your sound were too late.").event()]
            case "ended":
                told = self._responses.finish("cancelled")
                told.append(Fault("session_ended", f"The session has ended: {data['reason']}.").event())
            case _:
                pass
        if self._wants_events:
            told.append(event("kame.event", event=asdict(happened)))
        return told

    async def _update(self, asked: Event) -> list[Event]:
        if "session" not in asked and "kame" not in asked:
            raise Fault("missing_required_parameter", "session is missing.", "session")
        wishes = self._config.wishes(asked.get("session", {}))
        faults = list(wishes.faults)
        ours = asked.get("kame", {})
        if not isinstance(ours, dict):
            faults.append(Fault("invalid_type", "kame is an object.", "kame"))
            ours = {}
        wants_events = ours.get("events", self._wants_events)
        if not isinstance(wants_events, bool):
            faults.append(Fault("invalid_type", "events is true or false.", "kame.events"))
            wants_events = self._wants_events
        ours = {name: value for name, value in ours.items() if name != "events"}
        for wanted, param in ((wishes.changes, "session"), (ours, "kame")):
            try:
                self._change(changes_of(wanted, param), INSTRUCTIONS if param == "session" else param)
            except Fault as fault:
                faults.append(fault)
        self._config.take(wishes)
        self._turns.wants_transcripts = wishes.wants_transcripts
        self._wants_events = wants_events
        updated = self._described("session.updated", differences=wishes.differences)
        return [updated, *(fault.event(id_of(asked)) for fault in faults)]

    def _change(self, changes: Changes, param: str) -> None:
        """Changes the session as a part of a client's message wishes.

        Raises:
            Fault: it cannot be had, or not now; nothing has changed.
        """
        try:
            self._caller.change(changes)
        except (ConfigError, Denied) as error:
            code = error.code if isinstance(error, Denied) else "invalid_value"
            raise Fault(code, str(error), param) from error
        if changes.reset:
            self._n_resets += 1
            self._late.clear()
            self._pacer.clear()
        if changes.prompt_text is not None:
            self._config.instructions = changes.prompt_text

    def _began(self) -> list[Event]:
        """The session has begun; where it is not the first time, what was under way is over."""
        is_first, self._has_begun = not self._has_begun, True
        if is_first:
            return []
        self._pacer.clear()
        self._turns.reset()
        return self._responses.finish("cancelled")

    async def _append(self, asked: Event) -> list[Event]:
        sound = asked.get("audio")
        if not isinstance(sound, str):
            raise Fault("invalid_type", "audio is base64 of PCM16, 24 kHz, mono.", "audio")
        try:
            data = base64.b64decode(sound, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Fault("invalid_value", "audio is no base64.", "audio") from error
        if len(data) % 2:
            raise Fault("invalid_value", "audio has half a sample: PCM16 has two bytes each.", "audio")
        if not self._pacer.put(from_pcm16(data)):
            self._caller.drop("too_much_sound")
            message = f"{MAX_WAITING_S:g} s of your sound wait already; send it as fast as it is spoken."
            raise Fault("input_audio_buffer_full", message, "audio")
        return []

    async def _commit(self, asked: Event) -> list[Event]:
        """Ends the turn behind all that was sent so far; what the protocol says of a turn follows when it has ended."""

        def told(has_ended: bool) -> None:
            if not has_ended:
                fault = Fault("input_audio_buffer_commit_empty", "Nobody speaks in what came since the last turn.")
                self._late.append(fault.event(id_of(asked)))

        self._pacer.then(lambda: self._session.end_turn(told))
        return self._answers()

    async def _clear(self, asked: Event) -> list[Event]:
        self._pacer.clear_last()
        return [event("input_audio_buffer.cleared")]

    async def _retrieve(self, asked: Event) -> list[Event]:
        return [event("conversation.item.retrieved", item=dict(self._items.find(asked.get("item_id"))))]

    async def _create(self, asked: Event) -> list[Event]:
        told = self._responses.create(self._config.check_response(asked.get("response")))
        self._n_before = self._pacer.n_put
        return told

    async def _cancel(self, asked: Event) -> list[Event]:
        return self._responses.cancel(asked.get("response_id"))

    def _described(self, kind: str, **more: Any) -> Event:
        """The session as it is; what the protocol has no word for is in `kame`, with `more`."""
        ours: dict[str, Any] = {
            "mode": self._session.mode,
            "back_end": self._session.back_end,
            "model": self._session.model,
            "events": self._wants_events,
            "is_recorded": self._session.is_recorded,
            "notice": self._care.notice,
            "record_notice": self._record_notice if self._session.is_recorded else "",
            **more,
        }
        return event(kind, session=self._config.shown(), kame=ours)
