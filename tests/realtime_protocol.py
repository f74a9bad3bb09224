"""Messages of our server as the openai package reads them, strictly."""

from typing import Any

from openai.types.realtime import RealtimeErrorEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import TypeAdapter

_SERVER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def checked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events as they are, after each has been read by the class of its type; ValidationError where it is none."""
    for event in events:
        read = RealtimeErrorEvent.model_validate(event) if event["type"] == "error" else _SERVER.validate_python(event)
        assert read.type == event["type"]
    return events


def types(events: list[dict[str, Any]]) -> list[str]:
    """What each event is."""
    return [event["type"] for event in events]
