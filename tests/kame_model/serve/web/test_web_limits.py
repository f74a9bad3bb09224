"""How much a client may send, and what it costs the others: nothing."""

import asyncio
from collections.abc import Sequence

import httpx
import numpy as np
import pytest
import sphn

from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.server import KameServer
from kame_model.serve.web.client_socket import CHANGES_AT_ONCE
from kame_model.serve.web.moshi_socket import SOUND_AT_ONCE_S, SOUND_SPEED
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import saying, until

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime, pytest.mark.full]
LENGTH_S = 4.0


def opus(n_frames: int) -> list[bytes]:
    """Messages of Moshi's protocol, 80 ms each."""
    writer = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    return [b"\x01" + writer.append_pcm(saying("golf")) for _ in range(n_frames)]


def frames_of(socket: AsgiSocket) -> int:
    """Frames of sound that a client has been sent."""
    return sum(isinstance(each, bytes) and each[:1] == b"\x01" for each in socket.received)


def n_heard(server: KameServer, stepped: int) -> int:
    """Frames of a client that reached its session, stepped or dropped there."""
    return stepped + server.n_dropped["heard"]


async def talk(socket: AsgiSocket, messages: Sequence[bytes], wait_s: float) -> None:
    for message in messages:
        socket.send(message)
        await asyncio.sleep(wait_s)


async def test_who_sends_sound_ten_times_too_fast_loses_it_and_the_neighbour_hears_each_frame_in_time(
    checkpoint: Checkpoint,
) -> None:
    async with app_of(checkpoint) as (server, app):
        fast, neighbour = AsgiSocket(app, "/api/chat?events=1"), AsgiSocket(app, "/api/chat")
        n_frames = round(LENGTH_S / FRAME_S)
        flood = asyncio.create_task(talk(fast, opus(10 * n_frames), FRAME_S / 10))
        late = 0
        for number, message in enumerate(opus(n_frames)):
            neighbour.send(message)
            await asyncio.sleep(FRAME_S)
            late += frames_of(neighbour) < number
        await flood
        assert late == 0
        assert fast.closed is None
        most = (SOUND_AT_ONCE_S + SOUND_SPEED * LENGTH_S) / FRAME_S
        assert n_heard(server, frames_of(fast)) <= most + 2
        await fast.leave()
        await neighbour.leave()
        assert server.n_dropped["said"] == 0
    told = [each for each in fast.received if isinstance(each, bytes) and each[:1] == b"\x05"]
    assert b"faster than it is spoken" in told[0]
    assert len(told) <= LENGTH_S, "it is told once a second, not with each message"


async def test_who_was_too_fast_is_heard_again_once_it_is_not(checkpoint: Checkpoint) -> None:
    messages = opus(240)
    async with app_of(checkpoint) as (_, app):
        socket = AsgiSocket(app, "/api/chat")
        await talk(socket, messages[:200], 0.006)
        await asyncio.sleep(8)
        n_before = frames_of(socket)
        await talk(socket, messages[200:], FRAME_S)
        assert frames_of(socket) - n_before >= 39
        await socket.leave()


@pytest.mark.parametrize("path", ["/api/chat?events=1", "/v1/realtime"])
async def test_too_many_bytes_are_dropped_counted_and_told(checkpoint: Checkpoint, path: str) -> None:
    limits = {"max_sessions": 2, "max_bytes_per_s": 100_000, "max_burst_bytes": 300_000}
    async with app_of(checkpoint, limits=limits) as (_, app):
        socket = AsgiSocket(app, path)
        message = b"\x06" + bytes(50_000) if path.startswith("/api") else " " * 50_000
        for _ in range(20):
            socket.send(message)
            await asyncio.sleep(0)
        await until(lambda: len(socket.received) > 1)
        await asyncio.sleep(0.1)
        assert socket.closed is None
        await asyncio.sleep(5)
        socket.send(b"\x04[" if path.startswith("/api") else {"type": "input_audio_buffer.clear"})
        await asyncio.sleep(0.1)
        await socket.leave()
    text = b" ".join(each if isinstance(each, bytes) else each.encode() for each in socket.received)
    assert text.count(b"more than 100000 bytes in a second") == 1
    assert (b"a JSON object of" if path.startswith("/api") else b"input_audio_buffer.cleared") in text


async def test_what_was_dropped_is_counted_for_prometheus(checkpoint: Checkpoint) -> None:
    limits = {"max_sessions": 2, "max_bytes_per_s": 65_536, "max_burst_bytes": 65_536}
    async with app_of(checkpoint, limits=limits) as (_, app):
        socket = AsgiSocket(app, "/api/chat")
        for _ in range(4):
            socket.send(b"\x06" + bytes(40_000))
        await asyncio.sleep(0.1)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            figures = (await client.get("/metrics")).text
        await socket.leave()
    assert 'kame_denied_total{code="too_many_bytes"} 3.0' in figures


@pytest.mark.parametrize("restart", [b"\x03\x03", b'\x04{"reset": true}'])
async def test_who_begins_anew_again_and_again_does_not_wear_out_the_recogniser(
    checkpoint: Checkpoint, restart: bytes
) -> None:
    async with app_of(checkpoint) as (server, app):
        socket = AsgiSocket(app, "/api/chat?events=1")
        await until(lambda: bool(server.sessions))
        for _ in range(100):
            socket.send(restart)
        await asyncio.sleep(0.05)
        assert server.n_events["started"] - 1 == CHANGES_AT_ONCE
        await asyncio.sleep(3)
        socket.send(restart)
        await asyncio.sleep(0.05)
        assert server.n_events["started"] - 1 == CHANGES_AT_ONCE + 1
        await socket.leave()
    assert any(b"times a second" in each for each in socket.received if isinstance(each, bytes))


async def test_silence_is_no_burden(checkpoint: Checkpoint) -> None:
    """A live client is never limited, however long it talks."""
    async with app_of(checkpoint) as (server, app):
        socket = AsgiSocket(app, "/api/chat")
        writer = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
        silence = np.zeros(FRAME_N_SAMPLES, np.float32)
        await talk(socket, [b"\x01" + writer.append_pcm(silence) for _ in range(150)], FRAME_S)
        assert frames_of(socket) >= 149
        assert server.n_dropped["heard"] == 0
        await socket.leave()
