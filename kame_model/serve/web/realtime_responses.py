"""The model's side of a realtime conversation: a response is its speech between two silences.

The front-end speaks when it will, and both may speak at once. So a response begins with the first frame that is heard
or has a word, holds every frame from there (pauses too), and is done when neither has come for a second. What a cascade
reads out has an end of its own: no pause of it ends a response. Frames outside of responses are silence and are not
sent. `response.create` opens one at once, which holds every frame since the sound sent before it has been heard, and
waits for the model to answer that; `response.cancel` keeps what is left of the model's speech from the client, who was
told that it will not come: the model has said it all the same, and knows it.
"""

import base64
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_S
from kame_model.serve.session.conversation import PAUSE_S
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.web.realtime_events import AUDIO_FORMAT, Event, Fault, Items, assistant_item, event, new_id

AUDIBLE_RMS = 10 ** (-45 / 20)
"""A frame louder than this is heard: 45 dB under full scale, 20 below quiet speech."""
SILENT_N_FRAMES = round(PAUSE_S / FRAME_S)
"""Silence that ends a response; turns of the data are parted by the same second."""
WAIT_N_FRAMES = round(5.0 / FRAME_S)
"""How long a response that the client asked for waits for the model to say something, once there is nothing else to
wait for."""


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


_QUIET = Course()


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
    id: str = field(default_factory=lambda: new_id("resp"))
    item_id: str = field(default_factory=lambda: new_id("item"))
    item: Event = field(default_factory=dict)
    text: str = ""
    previous_id: str | None = None
    has_begun: bool = False
    n_left: int = WAIT_N_FRAMES

    @property
    def place(self) -> dict[str, Any]:
        """Where its content is, in the protocol's events."""
        return {"response_id": self.id, "item_id": self.item_id, "output_index": 0, "content_index": 0}

    def count(self, is_heard: bool, course: Course) -> None:
        """Counts a frame."""
        self.has_begun = self.has_begun or is_heard
        waits = not self.has_begun and (course.is_spoken_to or course.is_asking)
        if self.is_wished and (course.is_behind or waits):
            self.n_left = WAIT_N_FRAMES
        elif is_heard:
            self.n_left = SILENT_N_FRAMES
        elif not course.goes_on:
            self.n_left -= 1


class Responses:
    """From a session's frames to the protocol's events.

    Args:
        items: the conversation.
        conversation_id: its id.
        voice: what the model's voice is called.
    """

    def __init__(self, items: Items, conversation_id: str, voice: str) -> None:
        self._items = items
        self._conversation_id = conversation_id
        self._voice = voice
        self._now: _Response | None = None
        self._n_muted = 0  # frames of silence that are still missing after a cancelled response

    def frame(self, frame: SaidFrame, course: Course = _QUIET) -> list[Event]:
        """The next 80 ms of the model."""
        is_heard = bool(frame.text.strip()) or _is_audible(frame.samples)
        told: list[Event] = []
        if self._now is None:
            if self._n_muted:
                self._n_muted = SILENT_N_FRAMES if is_heard or course.goes_on else self._n_muted - 1
                return []
            if not is_heard:
                return []
            told = self._begin(_Response())
        assert self._now is not None  # just begun
        self._now.count(is_heard, course)
        if self._now.has_begun or not course.is_behind:
            told += self._content(self._now, frame)
        return told if self._now.n_left else told + self.finish("completed")

    def create(self, metadata: Any = None) -> list[Event]:
        """The client asks for a response.

        Raises:
            Fault: one is under way.
        """
        if self._now is not None:
            raise Fault("conversation_already_has_active_response", f"{self._now.id} is under way.")
        self._n_muted = 0
        return self._begin(_Response(metadata, is_wished=True))

    def cancel(self, response_id: object = None) -> list[Event]:
        """The client wants no more of the response.

        Raises:
            Fault: there is none, or not this one.
        """
        if self._now is None or response_id not in (None, self._now.id):
            raise Fault("response_cancel_not_active", "There is no such response under way.", "response_id")
        self._n_muted = SILENT_N_FRAMES
        return self.finish("cancelled", "client_cancelled")

    def interrupted(self, is_wished: bool) -> list[Event]:
        """The user begins to speak: no more of the response is sent, as by `cancel`, where the client wishes so.

        One that waits for the model stays: it may be the user's sound that it was asked for.
        """
        if not is_wished or self._now is None or not self._now.has_begun:
            return []
        self._n_muted = SILENT_N_FRAMES
        return self.finish("cancelled", "turn_detected")

    def listened(self) -> None:
        """The user's turn has ended: what is said now may be the answer to it, and is sent."""
        self._n_muted = 0

    def finish(self, status: str, reason: str | None = None) -> list[Event]:
        """Ends the response under way, if there is one."""
        if self._now is None:
            return []
        now, self._now = self._now, None
        item = now.item
        item.update(assistant_item(now.item_id, now.text, "completed" if status == "completed" else "incomplete"))
        part = {"type": "audio", "transcript": now.text}
        return [
            event("response.output_audio.done", **now.place),
            event("response.output_audio_transcript.done", **now.place, transcript=now.text),
            event("response.content_part.done", **now.place, part=part),
            event("conversation.item.done", item=dict(item), previous_item_id=now.previous_id),
            event("response.output_item.done", response_id=now.id, output_index=0, item=dict(item)),
            event("response.done", response=self._resource(now, status, reason, [dict(item)])),
        ]

    def _begin(self, now: _Response) -> list[Event]:
        self._now = now
        item = now.item = assistant_item(now.item_id, None, "in_progress")
        now.previous_id, added = self._items.add(item)
        return [
            event("response.created", response=self._resource(now, "in_progress", None, [])),
            event("response.output_item.added", response_id=now.id, output_index=0, item=dict(item)),
            *added,
            event("response.content_part.added", **now.place, part={"type": "audio", "transcript": ""}),
        ]

    def _content(self, now: _Response, frame: SaidFrame) -> list[Event]:
        """`kame_frame` is the frame's number on the session's clock, beyond the protocol."""
        delta = base64.b64encode(to_pcm16(frame.samples)).decode()
        told = [event("response.output_audio.delta", **now.place, delta=delta, kame_frame=frame.number)]
        if frame.text:
            now.text += frame.text
            told.append(event("response.output_audio_transcript.delta", **now.place, delta=frame.text))
        return told

    def _resource(self, now: _Response, status: str, reason: str | None, output: list[Event]) -> Event:
        details = None if status == "in_progress" else {"type": status, "reason": reason}
        return {
            "id": now.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": output,
            "conversation_id": self._conversation_id,
            "output_modalities": ["audio"],
            "max_output_tokens": "inf",
            "audio": {"output": {"format": AUDIO_FORMAT, "voice": self._voice}},
            "metadata": now.metadata,
            "usage": None,
        }


def to_pcm16(samples: Samples) -> bytes:
    """Sound as the protocol has it: signed 16 bit, little endian."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def from_pcm16(data: bytes) -> Samples:
    """Sound from an even number of bytes of the protocol's."""
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


def _is_audible(samples: Samples) -> bool:
    return float(np.sqrt(np.mean(np.square(samples)))) > AUDIBLE_RMS
