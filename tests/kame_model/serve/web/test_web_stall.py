"""A live client of the realtime protocol whose network stalls: what is late is dropped and told."""

import asyncio

import pytest

from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from tests.support.realtime_protocol import append, of_type, say
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import saying

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.mark.full
async def test_after_a_stall_the_caller_is_heard_without_delay_and_told_what_was_lost(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        socket = AsgiSocket(app, "/v1/realtime")
        socket.send({"type": "session.update", "kame": {"events": True}})
        await say(socket, "alpha", 25)
        await asyncio.sleep(6)
        for _ in range(75):
            socket.send(append(saying("bravo")))
        await say(socket, "charlie", 20)
        (session,) = server.sessions.values()
        stepped_s = session.time_s
        n_lost = server.n_dropped["heard"]
        await socket.leave()
    assert 6 - 0.8 - 0.3 <= n_lost * FRAME_S <= 6
    assert stepped_s == pytest.approx(asyncio.get_running_loop().time(), abs=1.0), "its clock has not stood still"
    dropped = [each["event"]["data"] for each in of_type(socket, "kame.event") if each["event"]["kind"] == "dropped"]
    assert sum(each["n_frames"] for each in dropped) == n_lost
    assert all(each == {"direction": "heard", "n_frames": each["n_frames"], "was_silence": True} for each in dropped)
    assert len(dropped) < 10, "lost sound is told by the frame's time, not by the packet"
    assert [each["error"]["code"] for each in of_type(socket, "error")] == ["input_audio_dropped"] * len(dropped)
    last = of_type(socket, "conversation.item.input_audio_transcription.delta")[-1]
    assert "charlie" in last["delta"], "what is said now is what is heard now"
