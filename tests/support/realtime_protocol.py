"""A realtime client's messages, and those of our server as the openai package reads them, strictly."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai.types.realtime import RealtimeErrorEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import TypeAdapter

from backends.engine import Samples
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.parts import ServerParts
from kame_model.serve.server import KameServer
from kame_model.serve.web.realtime_events import encode_pcm16
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import saying

_SERVER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def checked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the events as they are, after each has been read by the class of its type.

    Raises:
        pydantic.ValidationError: an event is none of the protocol.
    """
    for event in events:
        read = RealtimeErrorEvent.model_validate(event) if event["type"] == "error" else _SERVER.validate_python(event)
        assert read.type == event["type"]
    return events


def types(events: list[dict[str, Any]]) -> list[str]:
    """Returns the type of each event."""
    return [event["type"] for event in events]


def append(samples: Samples) -> dict[str, Any]:
    """Returns the message that sends sound."""
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(encode_pcm16(samples)).decode()}


async def say(socket: AsgiSocket, word: str | None, n_frames: int) -> None:
    """Says a word for so many frames, in real time; None: silence."""
    for _ in range(n_frames):
        socket.send(append(saying(word)))
        await asyncio.sleep(FRAME_S)


def of_type(socket: AsgiSocket, kind: str) -> list[dict[str, Any]]:
    """The events of one type."""
    return [event for event in socket.events if event["type"] == kind]


@asynccontextmanager
async def realtime(
    checkpoint: Checkpoint, parts: ServerParts | None = None, **changes: Any
) -> AsyncIterator[tuple[KameServer, AsgiSocket]]:
    """A server, without a network, and a client of its realtime socket who leaves in the end."""
    async with app_of(checkpoint, parts, **changes) as (server, app):
        socket = AsgiSocket(app, "/v1/realtime")
        yield server, socket
        await socket.leave()
