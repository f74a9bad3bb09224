"""The words of OpenAI's realtime protocol: a client's message read; events, errors and items that the server says.

All as openai/types/realtime has them.
"""

import json
import secrets
from collections import OrderedDict
from typing import Any, Literal

from starlette.types import Message

Event = dict[str, Any]
"""A message of the protocol, to be sent as JSON."""
MAX_ITEMS = 512
"""Items that `conversation.item.retrieve` finds; older ones are forgotten."""
AUDIO_FORMAT = {"type": "audio/pcm", "rate": 24_000}
"""The only one: PCM16, little endian, mono."""
_TYPES = {
    **dict.fromkeys(("rate_limit_exceeded", "too_many_changes", "input_audio_buffer_full"), "rate_limit_error"),
    **dict.fromkeys(("busy", "input_audio_dropped", "session_ended"), "server_error"),
}
"""Types of errors by their codes, of those that are not the client's mistakes."""


class Fault(Exception):
    """What a client asked for is wrong or not to be had; it is told so, and the conversation goes on.

    Attributes:
        code: one word for programs.
        message: a sentence for people.
        param: which part of the client's message.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param

    def event(self, client_event_id: str | None = None) -> Event:
        """The protocol's error."""
        return event(
            "error",
            error={
                "type": _TYPES.get(self.code, "invalid_request_error"),
                "code": self.code,
                "message": self.message,
                "param": self.param,
                "event_id": client_event_id,
            },
        )


def event(kind: str, **fields: Any) -> Event:
    """A message of the server with an id of its own."""
    return {"type": kind, "event_id": new_id("event"), **fields}


def new_id(kind: Literal["event", "item", "resp", "conv"]) -> str:
    """An id of the protocol's form."""
    return f"{kind}_{secrets.token_hex(10)}"


class Items:
    """The conversation's items in order, without their sound."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, Event] = OrderedDict()
        self._last_id: str | None = None

    def add(self, item: Event) -> tuple[str | None, list[Event]]:
        """Puts an item at the end; the id of the one before it, and what is told of it."""
        previous_id, self._last_id = self._last_id, item["id"]
        self._items[item["id"]] = item
        while len(self._items) > MAX_ITEMS:
            self._items.popitem(last=False)
        return previous_id, [event("conversation.item.added", item=dict(item), previous_item_id=previous_id)]

    @property
    def last_id(self) -> str | None:
        """The id of the item at the end."""
        return self._last_id

    def find(self, item_id: object) -> Event:
        """An item by its id.

        Raises:
            Fault: there is none, or none any more.
        """
        item = self._items.get(item_id) if isinstance(item_id, str) else None
        if item is None:
            raise Fault("item_not_found", "There is no such item, or it is too old.", "item_id")
        return item


def user_item(item_id: str, transcript: str | None = None) -> Event:
    """A turn of the user's."""
    content = {"type": "input_audio", "transcript": transcript}
    return _item(item_id, "user", [content], "completed")


def assistant_item(item_id: str, transcript: str | None, status: str) -> Event:
    """Something the model says; without a transcript it has only begun."""
    content = [] if transcript is None else [{"type": "output_audio", "transcript": transcript}]
    return _item(item_id, "assistant", content, status)


def _item(item_id: str, role: str, content: list[Event], status: str) -> Event:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": role,
        "status": status,
        "content": content,
    }


def read_message(message: Message) -> Event:
    """A client's message.

    Raises:
        Fault: it is none of the protocol.
    """
    text = message.get("text")
    if not isinstance(text, str):
        raise Fault("invalid_json", "Messages are JSON in text frames.")
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Fault("invalid_json", "The message is no JSON.") from error
    if not isinstance(asked, dict) or not isinstance(asked.get("type"), str):
        raise Fault("missing_required_parameter", "A message is an object with a type.", "type")
    return asked


def id_of(asked: Event | None) -> str | None:
    """The client's own id of its message, to be told with an error."""
    own = None if asked is None else asked.get("event_id")
    return own[:512] if isinstance(own, str) else None
