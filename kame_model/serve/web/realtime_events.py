"""Messages of OpenAI's realtime protocol: parses a client's, and makes the server's events, errors and items.

All are as openai/types/realtime defines them. (Its classes are not used here: they take 2 s to import, and a dict with
the same fields is as long as a call of the class.) `UserTurns` and `Responses` make the events of either side.
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
"""Number of items that `conversation.item.retrieve` finds; older ones are dropped."""
AUDIO_FORMAT = {"type": "audio/pcm", "rate": 24_000}
"""The only audio format: PCM16, little endian, mono."""
VOICE = "kame"
"""The only voice: the one that the front-end was trained with."""
AUDIBLE_RMS = 10 ** (-45 / 20)
"""A frame louder than this is audible: 45 dB below full scale, 20 dB below quiet speech."""
SILENT_N_FRAMES = round(PAUSE_S / FRAME_S)
"""Frames of silence that end a response; the same second separates turns in the training data."""
WAIT_N_FRAMES = round(5.0 / FRAME_S)
"""Frames for which a requested response waits for the model to say something, once nothing else is pending."""
_MAX_OPEN_TURNS = 8
"""Maximum number of turns whose words are still to come; the recogniser has lost older ones."""
_ERROR_TYPES = {
    **dict.fromkeys(("rate_limit_exceeded", "too_many_changes", "input_audio_buffer_full"), "rate_limit_error"),
    **dict.fromkeys(("busy", "input_audio_dropped", "session_ended"), "server_error"),
}
"""Error types of those error codes that are not the client's mistakes."""


class RealtimeError(Exception):
    """A client's request is invalid or not supported; an `error` is sent, and the conversation continues.

    Attributes:
        code: one word for programs.
        message: a sentence for people.
        param: the part of the client's message.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param

    def to_event(self, asked: Event | None = None) -> Event:
        """Returns the protocol's error, with the client's own id of the message that it answers."""
        own_id = None if asked is None else asked.get("event_id")
        error = {
            "type": _ERROR_TYPES.get(self.code, "invalid_request_error"),
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": own_id[:512] if isinstance(own_id, str) else None,
        }
        return make_event("error", error=error)


def make_event(kind: str, **fields: Any) -> Event:
    """Returns a message of the server of this type (`kind`), with a new id."""
    return {"type": kind, "event_id": make_id("event"), **fields}


def make_id(kind: Literal["event", "item", "resp", "conv"]) -> str:
    """Returns a new id of the protocol's form."""
    return f"{kind}_{secrets.token_hex(10)}"


def read_message(message: Message) -> Event:
    """Parses a client's message: a JSON object with a `type`.

    Raises:
        RealtimeError: it is something else.
    """
    text = message.get("text")
    if not isinstance(text, str):
        raise RealtimeError("invalid_json", "Messages are JSON in text frames.")
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RealtimeError("invalid_json", "The message is not valid JSON.") from error
    if not isinstance(asked, dict) or not isinstance(asked.get("type"), str):
        raise RealtimeError("missing_required_parameter", "A message must be an object with a type.", "type")
    return asked


def encode_pcm16(samples: Samples) -> bytes:
    """Converts audio to the protocol's format: signed 16 bit, little endian."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def decode_pcm16(data: bytes) -> Samples:
    """Converts an even number of bytes in the protocol's format to audio, float32 from -1 to 1."""
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


class Items:
    """The conversation's items in order, without their audio."""

    def __init__(self) -> None:
        self.conversation_id = make_id("conv")
        self._items: OrderedDict[str, Event] = OrderedDict()
        self._last_id: str | None = None

    def add(self, item: Event) -> tuple[str | None, Event]:
        """Appends an item; returns the id of the previous one, None for the first, and the event to send."""
        previous_id, self._last_id = self._last_id, item["id"]
        self._items[item["id"]] = item
        if len(self._items) > MAX_ITEMS:
            self._items.popitem(last=False)
        return previous_id, make_event("conversation.item.added", item=dict(item), previous_item_id=previous_id)

    def find(self, item_id: object) -> Event:
        """Returns an item by its id.

        Raises:
            RealtimeError: there is none, or it is too old.
        """
        item = self._items.get(item_id) if isinstance(item_id, str) else None
        if item is None:
            raise RealtimeError("item_not_found", "There is no such item, or it is too old.", "item_id")
        return item


def make_item(role: Literal["user", "assistant"], status: str, content: list[Event]) -> Event:
    """Returns a new item of one side's speech, with a new id."""
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
    """One turn of the user: `sent` are the words sent so far, `before` those of the previous transcript."""

    item: Event
    start_s: float
    end_s: float | None = None
    sent: str = ""
    before: str = ""

    @property
    def item_id(self) -> str:
        return str(self.item["id"])


class UserTurns:
    """The user's side: turns as the server detects speech, and their transcripts.

    A recogniser revises the last words, but the protocol's deltas cannot be taken back: only words on which two
    successive transcripts agree are sent (local agreement), the rest with the final text.

    Attributes:
        wants_transcripts: whether transcripts are sent; set by the caller.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._open: deque[_Turn] = deque(maxlen=_MAX_OPEN_TURNS)  # oldest first; transcripts are of the first
        self.wants_transcripts = True

    @property
    def is_speaking(self) -> bool:
        """Whether a turn is in progress."""
        return bool(self._open) and self._open[-1].end_s is None

    def reset(self) -> None:
        """Discards the turns that have not ended or still await their final transcript."""
        self._open.clear()

    def start(self, time_s: float) -> list[Event]:
        """Starts a turn of the user, `time_s` after the session began, or takes the open one; returns its events."""
        turn = self._open[-1] if self.is_speaking else self._begin(time_s)  # its words may have come first
        start_ms = round(time_s * 1000)
        return [make_event("input_audio_buffer.speech_started", audio_start_ms=start_ms, item_id=turn.item_id)]

    def stop(self, time_s: float) -> list[Event]:
        """Ends the user's turn `time_s` after the session began; returns its events, none if no turn is open."""
        if not self.is_speaking:
            return []
        turn = self._open[-1]
        end_ms = round(time_s * 1000)
        stopped = make_event("input_audio_buffer.speech_stopped", audio_end_ms=end_ms, item_id=turn.item_id)
        return [stopped, *self._commit(turn, time_s)]

    def hear(self, text: str, is_final: bool, time_s: float) -> list[Event]:
        """Adds the transcript of the oldest turn whose transcript is not final, and returns the events for it.

        If there is no such turn, one begins, unless the text is empty.

        Args:
            text: the whole transcript of that turn so far.
            time_s: the end of the turn, if it is final and no end was detected.
        """
        if not self._open:
            if not text:
                return []
            self._begin(time_s)
        turn = self._open[0]
        events = self._make_word_events(turn, text, is_final)
        if is_final:
            if turn.end_s is None:
                events += self._commit(turn, time_s)
            events += self._make_final_events(turn, text)
            self._open.popleft()
        return events

    def _begin(self, time_s: float) -> _Turn:
        """Begins a turn of the user, and returns it."""
        turn = _Turn(make_item("user", "completed", [{"type": "input_audio", "transcript": None}]), time_s)
        self._open.append(turn)
        return turn

    def _commit(self, turn: _Turn, time_s: float) -> list[Event]:
        """Ends a turn and adds its item to the conversation; returns the events for both."""
        turn.end_s = time_s
        previous_id, added = self._items.add(turn.item)
        return [
            make_event("input_audio_buffer.committed", item_id=turn.item_id, previous_item_id=previous_id),
            added,
            make_event("conversation.item.done", item=dict(turn.item), previous_item_id=previous_id),
        ]

    def _make_word_events(self, turn: _Turn, text: str, is_final: bool) -> list[Event]:
        """Returns an event with the words that are certain and have not been sent; none if there are no new ones, they
        contradict those sent, or transcripts are unwanted.
        """
        sure = text if is_final else _find_agreed_words(turn.before, text)
        turn.before = text
        if len(sure) <= len(turn.sent) or not sure.startswith(turn.sent):
            return []
        delta, turn.sent = sure[len(turn.sent) :], sure
        kind = "conversation.item.input_audio_transcription.delta"
        return [make_event(kind, item_id=turn.item_id, content_index=0, delta=delta)] if self.wants_transcripts else []

    def _make_final_events(self, turn: _Turn, text: str) -> list[Event]:
        """Stores the final transcript in the turn's item; returns its event, none if transcripts are unwanted."""
        turn.item["content"][0]["transcript"] = text
        if not self.wants_transcripts:
            return []
        kind = "conversation.item.input_audio_transcription.completed"
        usage = {"type": "duration", "seconds": round(max(0.0, (turn.end_s or 0.0) - turn.start_s), 3)}
        return [make_event(kind, item_id=turn.item_id, content_index=0, transcript=text, usage=usage)]


def _find_agreed_words(before: str, now: str) -> str:
    """Returns the common leading words of two transcripts, without the last word, which may still grow."""
    words = now.split(" ")
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before.split(" "), words[:-1], strict=False))
    return " ".join(word for word, _ in alike)


class FrameState(NamedTuple):
    """The state of the session during a frame.

    Attributes:
        is_behind: whether audio sent before the response was requested has not been heard yet.
        is_spoken_to: whether the user speaks.
        is_asking: whether an answer is requested, arriving, or not synthesised yet.
        reads_out: whether the answer is read out, and nothing else is said (mode cascade).
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
    """The response in progress.

    Attributes:
        is_wished: whether the client requested it.
        has_begun: whether a part of it was audible.
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
        """The fields that locate its content, in the protocol's events."""
        return {"response_id": self.id, "item_id": self.item["id"], "output_index": 0, "content_index": 0}

    def count_frame(self, is_heard: bool, course: FrameState) -> None:
        """Counts down the frames after which the response ends; words or audible sound, and what it still waits for,
        start the count again.
        """
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

    The front-end speaks when it wants, and both sides may speak at once. A response therefore begins with the first
    frame that is audible or has a word, contains every frame from there (pauses, too), and is done after a second
    without either. A cascade's answer has an end of its own: no pause in it ends a response. Frames outside of
    responses are silence and are not sent. `response.create` opens one at once, which contains every frame since the
    audio sent before it was heard, and waits for the model's answer to that. `response.cancel` withholds the rest of
    the model's speech from the client: the model has said it all the same, and knows it.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._now: _Response | None = None
        self._n_muted = 0  # frames of silence that are still missing after a cancelled response

    def add_frame(self, frame: SaidFrame, course: FrameState) -> list[Event]:
        """Adds the model's next 80 ms, which may begin or end a response, and returns the events for it.

        There are none outside of responses, and while the rest of a cancelled one is withheld.
        """
        rms = float(np.sqrt(np.mean(np.square(frame.samples))))
        is_heard = bool(frame.text.strip()) or rms > AUDIBLE_RMS
        events: list[Event] = []
        if self._now is None:
            if self._n_muted:
                self._n_muted = SILENT_N_FRAMES if is_heard or course.goes_on else self._n_muted - 1
                return []
            if not is_heard:
                return []
            events = self._begin(_Response())
        assert self._now is not None  # just begun
        self._now.count_frame(is_heard, course)
        if self._now.has_begun or not course.is_behind:
            events += self._make_content_events(self._now, frame)
        return events if self._now.n_left else events + self.finish("completed")

    def create(self, metadata: Any = None) -> list[Event]:
        """Starts a response at the client's request; returns its first events.

        Raises:
            RealtimeError: one is in progress.
        """
        if self._now is not None:
            raise RealtimeError("conversation_already_has_active_response", f"{self._now.id} is in progress.")
        self._n_muted = 0
        return self._begin(_Response(metadata, is_wished=True))

    def cancel(self, response_id: object = None) -> list[Event]:
        """Cancels the response at the client's request; returns its last events.

        Args:
            response_id: None: the one in progress, whichever it is.

        Raises:
            RealtimeError: there is none, or not this one.
        """
        if self._now is None or response_id not in (None, self._now.id):
            raise RealtimeError("response_cancel_not_active", "There is no such response in progress.", "response_id")
        self._n_muted = SILENT_N_FRAMES
        return self.finish("cancelled", "client_cancelled")

    def interrupt(self) -> list[Event]:
        """Cancels the response, like `cancel`, because the user begins to speak; returns its last events.

        One that still waits for the model continues: the user's speech may be what it is to answer.
        """
        if self._now is None or not self._now.has_begun:
            return []
        self._n_muted = SILENT_N_FRAMES
        return self.finish("cancelled", "turn_detected")

    def unmute(self) -> None:
        """Ends the withholding of the model's speech after the user's turn, because it may be the answer to it."""
        self._n_muted = 0

    def finish(self, status: str, reason: str | None = None) -> list[Event]:
        """Ends the response in progress, if there is one, with the protocol's status; returns its last events."""
        if self._now is None:
            return []
        now, self._now = self._now, None
        now.item["status"] = "completed" if status == "completed" else "incomplete"
        now.item["content"] = [{"type": "output_audio", "transcript": now.text}]
        item, part = dict(now.item), {"type": "audio", "transcript": now.text}
        return [
            make_event("response.output_audio.done", **now.place),
            make_event("response.output_audio_transcript.done", **now.place, transcript=now.text),
            make_event("response.content_part.done", **now.place, part=part),
            make_event("conversation.item.done", item=item, previous_item_id=now.previous_id),
            make_event("response.output_item.done", response_id=now.id, output_index=0, item=item),
            make_event("response.done", response=self._describe(now, status, reason, [item])),
        ]

    def _begin(self, now: _Response) -> list[Event]:
        """Makes this the response in progress; returns its first events."""
        self._now = now
        now.previous_id, added = self._items.add(now.item)
        return [
            make_event("response.created", response=self._describe(now, "in_progress", None, [])),
            make_event("response.output_item.added", response_id=now.id, output_index=0, item=dict(now.item)),
            added,
            make_event("response.content_part.added", **now.place, part={"type": "audio", "transcript": ""}),
        ]

    def _make_content_events(self, now: _Response, frame: SaidFrame) -> list[Event]:
        """Returns the events with a frame's content; `kame_frame`, beyond the protocol, is its number."""
        delta = base64.b64encode(encode_pcm16(frame.samples)).decode()
        events = [make_event("response.output_audio.delta", **now.place, delta=delta, kame_frame=frame.number)]
        if frame.text:
            now.text += frame.text
            events.append(make_event("response.output_audio_transcript.delta", **now.place, delta=frame.text))
        return events

    def _describe(self, now: _Response, status: str, reason: str | None, output: list[Event]) -> Event:
        """Returns a response as the protocol's events contain it."""
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
