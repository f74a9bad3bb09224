"""Both sockets under more than two thousand broken messages: no traceback, no hang, and others are served as before."""

import asyncio
import base64
import json
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest
import sphn

from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.web.realtime_events import encode_pcm16
from tests.support.moshi_protocol import MoshiClient
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import saying, until

pytestmark = [pytest.mark.looptime, pytest.mark.full]
N_MESSAGES = 1_200
"""Of each socket."""
LIMITS = {"max_sessions": 4, "max_starts_per_minute": 100_000, "max_messages_per_s": 100_000}
JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**400, 1e308, "", "x" * 5_000, "\u0000", "\ud800", "../../etc/passwd", [], {}, [[[]]]),
    *({"type": "realtime"}, {"events": True}, {"mode": "cascade"}, {"reset": True}, "AAAA", "====", "item_1"),
)
SOUND = base64.b64encode(encode_pcm16(saying("alpha"))).decode()
MESSAGES: tuple[dict[str, Any], ...] = (
    {"type": "session.update", "event_id": "e", "session": {"type": "realtime", "instructions": "Be brief, please."}},
    {"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "moonshine"}}}}},
    {"type": "session.update", "kame": {"events": True, "mode": "direct", "back_end": "default", "prompt": "tandem"}},
    {"type": "session.update", "kame": {"reset": True}},
    {"type": "input_audio_buffer.append", "audio": SOUND},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": []}},
    {"type": "conversation.item.retrieve", "item_id": "item_1"},
    {"type": "response.create", "response": {"metadata": {"a": "b"}, "output_modalities": ["audio"]}},
    {"type": "response.cancel", "response_id": "resp_1"},
)


def spoilt(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value with something in it lost, put in, or put in the place of another."""
    if not isinstance(value, dict) or not value or rng.random() < 0.15:
        return rng.choice(JUNK)
    copy = dict(value)
    name = rng.choice(list(copy))
    match rng.randrange(4):
        case 0:
            del copy[name]
        case 1:
            copy[rng.choice(["type", "session", "kame", "audio", "reset", "\ud800", ""])] = rng.choice(JUNK)
        case _:
            copy[name] = spoilt(copy[name], rng)
    return copy


def bent(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, lost or put in."""
    bent_data = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 30))):
        start = rng.randrange(len(bent_data) + 1)
        length = rng.randrange(1, 20)
        match rng.randrange(3):
            case 0:
                bent_data[start : start + 1] = rng.randbytes(1)
            case 1:
                del bent_data[start : start + length]
            case _:
                bent_data[start:start] = rng.randbytes(length)
    return bytes(bent_data)


def realtime_message(rng: random.Random) -> bytes | str:
    message = json.dumps(spoilt(rng.choice(MESSAGES), rng) if rng.random() < 0.7 else rng.choice(MESSAGES))
    if rng.random() < 0.3:
        message = bent(message.encode(), rng).decode(errors="replace")
    return message.encode() if rng.random() < 0.05 else message


def chat_messages() -> Callable[[random.Random], bytes | str]:
    opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    stream = [b"\x01" + bytes(opus.append_pcm(saying("bravo"))) for _ in range(4)]
    wishes = [b'\x04{"mode": "direct"}', b'\x04{"reset": true, "prompt": ""}']
    whole = [*stream, *wishes, b"\x03\x03", b"\x03\x00", b"\x02hi"]

    def message(rng: random.Random) -> bytes | str:
        match rng.randrange(5):
            case 0:
                return rng.randbytes(rng.randrange(200))
            case 1:
                return realtime_message(rng)
            case 2:
                return b"\x04" + json.dumps(spoilt({"mode": "direct", "prompt": "tandem", "reset": True}, rng)).encode()
            case _:
                return bent(rng.choice(whole), rng)

    return message


async def attack(app: Any, url: str, make: Callable[[random.Random], bytes | str], seed: int) -> list[AsgiSocket]:
    """Sends messages, connecting anew each time the server has had enough; the connections."""
    rng = random.Random(seed)
    sockets = [AsgiSocket(app, url)]
    for _ in range(N_MESSAGES):
        if sockets[-1].over.done():
            sockets.append(AsgiSocket(app, url))
        sockets[-1].send(make(rng))
        await asyncio.sleep(0.005)
    if not sockets[-1].over.done():
        await sockets[-1].leave()
    return sockets


async def well_behaved(app: Any) -> MoshiClient:
    client = MoshiClient(app)
    await client.say("golf", 70)
    await asyncio.sleep(1)  # the last is still to be answered
    await client.leave()
    return client


@pytest.mark.parametrize(("url", "seed"), [("/v1/realtime", 1), ("/api/chat?events=1", 2)])
async def test_broken_messages_harm_nobody(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture, url: str, seed: int
) -> None:
    caplog.set_level(logging.ERROR)
    make = realtime_message if "realtime" in url else chat_messages()
    async with app_of(checkpoint, limits=LIMITS) as (server, app), asyncio.timeout(600):
        good, attackers = await asyncio.gather(well_behaved(app), attack(app, url, make, seed))
        await until(lambda: not server.sessions)
    assert len(good.select_kind(1)) == 70  # a frame for each
    assert all(each.over.exception() is None for each in attackers)
    assert all(each.accepted is not None for each in attackers)
    assert {each.closed[0] for each in attackers if each.closed} <= {1001, 1008}
    assert [record.getMessage() for record in caplog.records] == []
