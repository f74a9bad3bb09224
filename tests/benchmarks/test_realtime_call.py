"""A caller of a benchmark says what went wrong in its call, whatever the server does."""

import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES
from tests.support.realtime_call import RealtimeCall

ANSWER = (
    {"type": "session.created"},
    {"type": "response.created"},
    {"type": "response.output_audio.delta", "kame_frame": 0},
)


def make_error(code: str) -> dict[str, Any]:
    return {"type": "error", "error": {"code": code, "message": "Why."}}


async def play_one_frame() -> AsyncIterator[Samples]:
    yield np.zeros(FRAME_N_SAMPLES, np.float32)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (ANSWER, ""),
        ((make_error("input_audio_dropped"), *ANSWER), ""),  # the event of this has the number of frames
        ((make_error("invalid_value"), make_error("session_ended"), *ANSWER), "error invalid_value: Why."),
        ((), "connection"),
        (("hello",), "not of the protocol"),
        (({"kind": "said"},), "not of the protocol"),
        ((["said"],), "not of the protocol"),
        (ANSWER[2:], "not of the protocol"),
    ],
)
async def test_a_failed_call_does_not_look_like_a_good_one(sent: tuple[Any, ...], told: str) -> None:
    async def answer(socket: ServerConnection) -> None:
        """Sends the messages, and listens until the caller leaves; without messages it closes the connection."""
        await socket.recv()
        for each in sent:
            await socket.send(each if isinstance(each, str) else json.dumps(each))
        if sent:
            await socket.wait_closed()

    async with serve(answer, "127.0.0.1", 0) as server:
        host, port = next(iter(server.sockets)).getsockname()
        async with RealtimeCall(f"http://{host}:{port}") as call:
            await call.say(play_one_frame())
            await call.wait_until_answered()
        assert call.ended == told or (told and told in call.ended)
