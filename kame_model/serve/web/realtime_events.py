"""The words of OpenAI's realtime protocol: a client's message read; events, errors and items that the server says.

All as openai/types/realtime has them. (Its classes are not used here: they take 2 s to import, and a dict with the
same fields is as long as a call of the class.) `UserTurns` and `Responses` make the events of either side.
"""

import base64
import json
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import numpy as np
from starlette.types import Message

from backends.engine import Samples
from data_schemas.units import FRAME_S
from kame_model.serve.session.conversation import PAUSE_S
from kame_model.serve.session.mailbox import SaidFrame

Event = dict[str, Any]
"""A message of the protocol, to be sent as JSON."""
MAX_ITEMS = 512
"""Items that `conversation.item.retrieve` finds; older ones are forgotten."""
AUDIO_FORMAT = {"type": "audio/pcm", "rate": 24_000}
"""The only one: PCM16, little endian, mono."""
VOICE = "kame"
"""The front-end has the one voice it was trained with."""
AUDIBLE_RMS = 10 ** (-45 / 20)
"""A frame louder than this is heard: 45 dB under full scale, 20 below quiet speech."""
SILENT_N_FRAMES = round(PAUSE_S / FRAME_S)
"""Silence that ends a response; turns of the data are parted by the same second."""
WAIT_N_FRAMES = round(5.0 / FRAME_S)
"""How long a response that the client asked for waits for the model to say something, once there is nothing else to
wait for."""
_MAX_OPEN_TURNS = 8
"""Turns whose words are still to come; the recogniser has lost older ones."""
_ERROR_TYPES = {
    **dict.fromkeys(("rate_limit_exceeded", "too_many_changes", "input_audio_buffer_full"), "rate_limit_error"),
    **dict.fromkeys(("busy", "input_audio_dropped", "session_ended"), "server_error"),
}
"""Types of errors by their codes, of those that are not the client's mistakes."""


class RealtimeError(Exception):
    """What a client asked for is wrong or not to be had; it is told so, and the conversation goes on.

    Attributes:
        code: one word for programs.
        message: a sentence for people.
        param: which part of the client's message.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param

    def to_event(self, asked: Event | None = None) -> Event:
        """The protocol's error, with the client's own id of the message that it answers."""
        own_id = None if asked is None else asked.get("event_id")
        error = {
            "type": _ERROR_TYPES.get(self.code, "invalid_request_error"),
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": own_id[:512] if isinstance(own_id, str) else None,
        }
        return to_event("error", error=error)


def to_event(kind: str, **fields: Any) -> Event:
    """A message of the server with an id of its own."""
    return {"type": kind, "event_id": make_id("event"), **fields}


def make_id(kind: Literal["event", "item", "resp", "conv"]) -> str:
    """An id of the protocol's form."""
    return f"{kind}_{secrets.token_hex(10)}"


def read_message(message: Message) -> Event:
    """A client's message.

    Raises:
        RealtimeError: it is none of the protocol.
    """
    text = message.get("text")
    if not isinstance(text, str):
        raise RealtimeError("invalid_json", "Messages are JSON in text frames.")
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RealtimeError("invalid_json", "The message is no JSON.") from error
    if not isinstance(asked, dict) or not isinstance(asked.get("type"), str):
        raise RealtimeError("missing_required_parameter", "A message is an object with a type.", "type")
    return asked


def to_pcm16(samples: Samples) -> bytes:
    """Sound as the protocol has it: signed 16 bit, little endian."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def from_pcm16(data: bytes) -> Samples:
    """Sound from an even number of bytes of the protocol's."""
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


class Items:
    """The conversation's items in order, without their sound."""

    def __init__(self) -> None:
        self.conversation_id = make_id("conv")
        self._items: OrderedDict[str, Event] = OrderedDict()
        self._last_id: str | None = None

    def add(self, item: Event) -> tuple[str | None, Event]:
        """Puts an item at the end; the id of the one before it, and what is told of it."""
        previous_id, self._last_id = self._last_id, item["id"]
        self._items[item["id"]] = item
        if len(self._items) > MAX_ITEMS:
            self._items.popitem(last=False)
        return previous_id, to_event("conversation.item.added", item=dict(item), previous_item_id=previous_id)

    def find(self, item_id: object) -> Event:
        """An item by its id.

        Raises:
            RealtimeError: there is none, or none any more.
        """
        item = self._items.get(item_id) if isinstance(item_id, str) else None
        if item is None:
            raise RealtimeError("item_not_found", "There is no such item, or it is too old.", "item_id")
        return item


def make_item(role: Literal["user", "assistant"], status: str, content: list[Event]) -> Event:
    """Something that one side says."""
    return {
        "id": make_id("item"),
        "object": "realtime.item",
        "type": "message",
        "role": role,
        "status": status,
        "content": content,
    }


@dataclass(slots=True)
class _Turn:
    """One turn of the user's: `told` is what has been told of its words, `before` the words as last heard."""

    item: Event
    start_s: float
    end_s: float | None = None
    told: str = ""
    before: str = ""

    @property
    def item_id(self) -> str:
        return str(self.item["id"])


class UserTurns:
    """The user's side: turns as the server detects speech, and what is heard in them.

    A recogniser changes its mind about the last words, and the protocol's deltas cannot be taken back: only words that
    two successive hearings agree on are told (local agreement), the rest with the final text.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._open: deque[_Turn] = deque(maxlen=_MAX_OPEN_TURNS)  # oldest first: what is heard is of it until final
        self.wants_transcripts = True

    @property
    def is_speaking(self) -> bool:
        """Whether a turn goes on."""
        return bool(self._open) and self._open[-1].end_s is None

    def reset(self) -> None:
        """Forgets turns under way."""
        self._open.clear()

    def start(self, time_s: float) -> list[Event]:
        """The user begins to speak."""
        turn = self._open[-1] if self.is_speaking else self._begin(time_s)  # its words may have come first
        start_ms = round(time_s * 1000)
        return [to_event("input_audio_buffer.speech_started", audio_start_ms=start_ms, item_id=turn.item_id)]

    def stop(self, time_s: float) -> list[Event]:
        """The user's turn has ended."""
        if not self.is_speaking:
            return []
        turn = self._open[-1]
        end_ms = round(time_s * 1000)
        told = to_event("input_audio_buffer.speech_stopped", audio_end_ms=end_ms, item_id=turn.item_id)
        return [told, *self._commit(turn, time_s)]

    def hear(self, text: str, is_final: bool, time_s: float) -> list[Event]:
        """The words of the oldest turn whose words are not final."""
        if not self._open:
            if not text:
                return []
            self._begin(time_s)
        turn = self._open[0]
        told = self._tell_words(turn, text, is_final)
        if is_final:
            if turn.end_s is None:
                told += self._commit(turn, time_s)
            told += self._tell_final(turn, text)
            self._open.popleft()
        return told

    def _begin(self, time_s: float) -> _Turn:
        turn = _Turn(make_item("user", "completed", [{"type": "input_audio", "transcript": None}]), time_s)
        self._open.append(turn)
        return turn

    def _commit(self, turn: _Turn, time_s: float) -> list[Event]:
        turn.end_s = time_s
        previous_id, added = self._items.add(turn.item)
        return [
            to_event("input_audio_buffer.committed", item_id=turn.item_id, previous_item_id=previous_id),
            added,
            to_event("conversation.item.done", item=dict(turn.item), previous_item_id=previous_id),
        ]

    def _tell_words(self, turn: _Turn, text: str, is_final: bool) -> list[Event]:
        sure = text if is_final else _find_agreed_words(turn.before, text)
        turn.before = text
        if len(sure) <= len(turn.told) or not sure.startswith(turn.told):
            return []
        delta, turn.told = sure[len(turn.told) :], sure
        kind = "conversation.item.input_audio_transcription.delta"
        return [to_event(kind, item_id=turn.item_id, content_index=0, delta=delta)] if self.wants_transcripts else []

    def _tell_final(self, turn: _Turn, text: str) -> list[Event]:
        turn.item["content"][0]["transcript"] = text
        if not self.wants_transcripts:
            return []
        kind = "conversation.item.input_audio_transcription.completed"
        usage = {"type": "duration", "seconds": round(max(0.0, (turn.end_s or 0.0) - turn.start_s), 3)}
        return [to_event(kind, item_id=turn.item_id, content_index=0, transcript=text, usage=usage)]


def _find_agreed_words(before: str, now: str) -> str:
    """The words that two hearings begin with alike; the last one heard may still grow, and is not among them."""
    words = now.split(" ")
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before.split(" "), words[:-1], strict=False))
    return " ".join(word for word, _ in alike)


class Course(NamedTuple):
    """What goes on beside a frame.

    Attributes:
        is_behind: sound that was sent before the response was asked for has not been heard yet.
        is_spoken_to: the user speaks.
        is_asking: the chat model is being asked.
        reads_out: what that writes is read out, and nothing else is said (mode cascade).
    """

    is_behind: bool = False
    is_spoken_to: bool = False
    is_asking: bool = False
    reads_out: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether more will be said after a silence."""
        return self.is_asking and self.reads_out


@dataclass(slots=True)
class _Response:
    """What is being said.

    Attributes:
        is_wished: the client asked for it.
        has_begun: something of it has been heard.
        n_left: frames of silence that end it.
    """

    metadata: Any = None
    is_wished: bool = False
    id: str = field(default_factory=lambda: make_id("resp"))
    item: Event = field(default_factory=lambda: make_item("assistant", "in_progress", []))
    text: str = ""
    previous_id: str | None = None
    has_begun: bool = False
    n_left: int = WAIT_N_FRAMES

    @property
    def place(self) -> dict[str, Any]:
        """Where its content is, in the protocol's events."""
        return {"response_id": self.id, "item_id": self.item["id"], "output_index": 0, "content_index": 0}

    def count_frame(self, is_heard: bool, course: Course) -> None:
        self.has_begun = self.has_begun or is_heard
        waits = not self.has_begun and (course.is_spoken_to or course.is_asking)
        if self.is_wished and (course.is_behind or waits):
            self.n_left = WAIT_N_FRAMES
        elif is_heard:
            self.n_left = SILENT_N_FRAMES
        elif not course.goes_on:
            self.n_left -= 1


class Responses:
    """The model's side: a response is its speech between two silences.

    The front-end speaks when it will, and both may speak at once. So a response begins with the first frame that is
    heard or has a word, holds every frame from there (pauses too), and is done when neither has come for a second. What
    a cascade reads out has an end of its own: no pause of it ends a response. Frames outside of responses are silence
    and are not sent. `response.create` opens one at once, which holds every frame since the sound sent before it has
    been heard, and waits for the model to answer that; `response.cancel` keeps what is left of the model's speech from
    the client, who was told that it will not come: the model has said it all the same, and knows it.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._now: _Response | None = None
        self._n_muted = 0  # frames of silence that are still missing after a cancelled response

    def add_frame(self, frame: SaidFrame, course: Course) -> list[Event]:
        """The next 80 ms of the model."""
        rms = float(np.sqrt(np.mean(np.square(frame.samples))))
        is_heard = bool(frame.text.strip()) or rms > AUDIBLE_RMS
        told: list[Event] = []
        if self._now is None:
            if self._n_muted:
                self._n_muted = SILENT_N_FRAMES if is_heard or course.goes_on else self._n_muted - 1
                return []
            if not is_heard:
                return []
            told = self._begin(_Response())
        assert self._now is not None  # just begun
        self._now.count_frame(is_heard, course)
        if self._now.has_begun or not course.is_behind:
            told += self._tell_content(self._now, frame)
        return told if self._now.n_left else told + self.finish("completed")

    def create(self, metadata: Any = None) -> list[Event]:
        """The client asks for a response.

        Raises:
            RealtimeError: one is under way.
        """
        if self._now is not None:
            raise RealtimeError("conversation_already_has_active_response", f"{self._now.id} is under way.")
        self._n_muted = 0
        return self._begin(_Response(metadata, is_wished=True))

    def cancel(self, response_id: object = None) -> list[Event]:
        """The client wants no more of the response.

        Raises:
            RealtimeError: there is none, or not this one.
        """
        if self._now is None or response_id not in (None, self._now.id):
            raise RealtimeError("response_cancel_not_active", "There is no such response under way.", "response_id")
        self._n_muted = SILENT_N_FRAMES
        return self.finish("cancelled", "client_cancelled")

    def interrupt(self) -> list[Event]:
        """The user begins to speak: no more of the response is sent, as by `cancel`.

        One that waits for the model stays: it may be the user's sound that it was asked for.
        """
        if self._now is None or not self._now.has_begun:
            return []
        self._n_muted = SILENT_N_FRAMES
        return self.finish("cancelled", "turn_detected")

    def unmute(self) -> None:
        """The user's turn has ended: what is said now may be the answer to it, and is sent."""
        self._n_muted = 0

    def finish(self, status: str, reason: str | None = None) -> list[Event]:
        """Ends the response under way, if there is one."""
        if self._now is None:
            return []
        now, self._now = self._now, None
        now.item["status"] = "completed" if status == "completed" else "incomplete"
        now.item["content"] = [{"type": "output_audio", "transcript": now.text}]
        item, part = dict(now.item), {"type": "audio", "transcript": now.text}
        return [
            to_event("response.output_audio.done", **now.place),
            to_event("response.output_audio_transcript.done", **now.place, transcript=now.text),
            to_event("response.content_part.done", **now.place, part=part),
            to_event("conversation.item.done", item=item, previous_item_id=now.previous_id),
            to_event("response.output_item.done", response_id=now.id, output_index=0, item=item),
            to_event("response.done", response=self._describe(now, status, reason, [item])),
        ]

    def _begin(self, now: _Response) -> list[Event]:
        self._now = now
        now.previous_id, added = self._items.add(now.item)
        return [
            to_event("response.created", response=self._describe(now, "in_progress", None, [])),
            to_event("response.output_item.added", response_id=now.id, output_index=0, item=dict(now.item)),
            added,
            to_event("response.content_part.added", **now.place, part={"type": "audio", "transcript": ""}),
        ]

    def _tell_content(self, now: _Response, frame: SaidFrame) -> list[Event]:
        """`kame_frame` is the frame's number on the session's clock, beyond the protocol."""
        delta = base64.b64encode(to_pcm16(frame.samples)).decode()
        told = [to_event("response.output_audio.delta", **now.place, delta=delta, kame_frame=frame.number)]
        if frame.text:
            now.text += frame.text
            told.append(to_event("response.output_audio_transcript.delta", **now.place, delta=frame.text))
        return told

    def _describe(self, now: _Response, status: str, reason: str | None, output: list[Event]) -> Event:
        details = None if status == "in_progress" else {"type": status, "reason": reason}
        return {
            "id": now.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": output,
            "conversation_id": self._items.conversation_id,
            "output_modalities": ["audio"],
            "max_output_tokens": "inf",
            "audio": {"output": {"format": AUDIO_FORMAT, "voice": VOICE}},
            "metadata": now.metadata,
            "usage": None,
        }
