"""Moshi's web socket: what goes over it, and how it ends."""

import asyncio
import json
import struct
from typing import Any

import numpy as np
import pytest
import sphn

from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.web import client_websocket
from tests.support.moshi_protocol import MoshiClient
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import RepeatingChat, doubles, saying, until

pytestmark = [pytest.mark.looptime, pytest.mark.full]


async def test_a_frame_is_said_for_each_one_heard_and_nothing_else_is_sent(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        talker = MoshiClient(app)
        await talker.say("alpha", 30)
        await asyncio.sleep(0.5)
        (session,) = server.sessions.values()
        await talker.leave()
        assert session.has_ended
        assert server.sessions == {}
    assert talker.received[0] == b"\x00"
    assert {each[0] for each in talker.received[1:]} == {1, 2}
    reader = sphn.OpusStreamReader(SAMPLE_RATE_HZ)
    n_samples = sum(len(reader.append_bytes(each)) for each in talker.select_kind(1))
    assert n_samples == 30 * FRAME_N_SAMPLES
    assert b"".join(talker.select_kind(2)).decode().strip()
    assert talker.accepted is not None
    assert "machine" in talker.accepted["kame-notice"]


NOTICE = "You are talking to a machine; its voice is synthetic."


@pytest.mark.parametrize(
    ("query", "care", "texts"),
    [
        ("", {}, [NOTICE.encode()]),
        ("", {"notice": "  "}, []),
        ("", {"notice_as_text": False}, []),
        ("?events=1", {}, []),  # is told by the event `started`
    ],
)
async def test_a_client_that_knows_no_events_reads_the_notice_before_anything_is_said(
    checkpoint: Checkpoint, query: str, care: dict[str, Any], texts: list[bytes]
) -> None:
    async with app_of(checkpoint, care=care) as (_, app):
        talker = MoshiClient(app, f"{query}")
        await asyncio.sleep(0.5)
        await talker.leave()
    assert talker.select_kind(2) == texts


async def test_events_are_told_and_wishes_are_done_where_they_were_asked_for(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app):
        talker = MoshiClient(app, "?events=1&mode=tandem")
        await talker.say("alpha", 6)
        talker.send(b'\x04{"mode": "direct"}')
        await talker.say("alpha", 6)
        talker.send(b'\x04{"mode": "loud"}')
        talker.send(b'\x04{"back_end": "nobody"}')
        talker.send(b"\x04[")
        talker.send(b"\x03\x03")
        await talker.say(None, 6)
        await talker.leave()
    assert [event["mode"] for event in talker.told("started")] == ["tandem", "direct"]
    assert talker.told("changed") == [{"mode": "direct", "back_end": "default", "model": ""}]
    assert talker.told("heard")[0]["text"] == "alpha"
    errors = [each.decode() for each in talker.select_kind(5)]
    assert len(errors) == 3
    assert "mode, back_end, model, prompt, reset" in errors[0]
    assert "nobody" in errors[1]


async def test_messages_of_other_kinds_are_passed_over(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app):
        talker = MoshiClient(app)
        strange = (b"", b"\x00", b"\x02hello", b"\x03", b"\x03\x01", b"\x06", b"\xff\xff", "text", b'\x04{"mode":"x"}')
        for each in strange:
            talker.send(each)
        await talker.say("bravo", 5)
        assert talker.closed is None
        await talker.leave()
    assert len(talker.select_kind(1)) > 0
    assert talker.select_kind(5) == []


LONG = "You answer as a pirate would. " * 530
"""15,900 characters, as long as instructions may be."""


@pytest.mark.parametrize("query", ["", "?events=1"])
async def test_a_long_prompt_comes_in_the_first_message(checkpoint: Checkpoint, query: str) -> None:
    chat = RepeatingChat()
    async with app_of(checkpoint, doubles(chat)) as (_, app):
        talker = MoshiClient(app, f"{query}")
        talker.send(b"\x04" + json.dumps({"prompt": LONG}).encode())
        await talker.say("alpha", 12)
        await talker.say(None, 12)
        await talker.leave()
    assert chat.asked
    assert all(payload["messages"][0]["content"].startswith(LONG.strip()) for payload in chat.asked)
    assert len(talker.select_kind(1)) == 24
    assert talker.select_kind(5) == []


async def test_a_first_message_that_cannot_be_done_is_told_and_later_ones_are_not(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        talker = MoshiClient(app)
        talker.send(b"\x04" + json.dumps({"prompt": 2 * LONG}).encode())
        await talker.say(None, 3)
        talker.send(b'\x04{"mode": "direct"}')
        await talker.say(None, 3)
        assert [session.mode for session in server.sessions.values()] == ["tandem"]
        await talker.leave()
    (told,) = talker.select_kind(5)
    assert b"At most 16000 are allowed" in told


def opus_bomb() -> bytes:
    """Ogg pages that hold 26 s of Opus in 11 kB: each packet is one byte for 5 ms."""
    opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    stream = bytes(opus.append_pcm(np.zeros(FRAME_N_SAMPLES, np.float32)))
    serial = stream[14:18]
    pages = [stream]
    for number in range(20):
        header = b"OggS\0\0" + struct.pack("<q", 0) + serial + struct.pack("<I", 10 + number) + b"\0\0\0\0"
        page = bytearray(header + bytes([255]) + bytes([1]) * 255 + b"\x88" * 255)
        page[22:26] = struct.pack("<I", ogg_checksum(page))
        pages.append(bytes(page))
    return b"".join(pages)


def ogg_checksum(page: bytearray) -> int:
    """CRC-32 of a page as Ogg has it (RFC 3533): polynomial 0x04c11db7, not reflected, from 0."""
    crc = 0
    for byte in page:
        crc ^= byte << 24
        for _ in range(8):
            crc = ((crc << 1) ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
    return crc


@pytest.mark.parametrize(
    ("message", "reason"),
    [(b"\x01garbage" * 50, "not Opus"), (b"\x01" + opus_bomb(), "audio in one message")],
    ids=["garbage", "bomb"],
)
async def test_what_is_no_microphone_ends_its_own_session(checkpoint: Checkpoint, message: bytes, reason: str) -> None:
    async with app_of(checkpoint) as (server, app):
        other = MoshiClient(app)
        bad = AsgiSocket(app, "/api/chat?events=1")
        await other.say("golf", 3)
        bad.send(message)
        await other.say("golf", 20)
        await bad.over
        assert len(server.sessions) == 1
        await other.leave()
    assert bad.closed is not None
    assert bad.closed[0] == 1008
    assert reason in bad.closed[1]
    assert len(other.select_kind(1)) == 23


async def test_too_many_messages_end_the_session(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, limits={"max_sessions": 4, "max_messages_per_s": 50}) as (_, app):
        socket = AsgiSocket(app, "/api/chat")
        for _ in range(100):
            socket.send(b"\x06")
        await asyncio.sleep(1)
        assert socket.closed is None  # two seconds' worth may come at once
        for _ in range(60):
            socket.send(b"\x06")
        await socket.over
    assert socket.closed == (1008, "more than 50 messages in a second")


async def test_who_takes_nothing_goes_and_slows_nobody(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_websocket, "SEND_TIMEOUT_S", 2.0)
    async with app_of(checkpoint, limits={"max_sessions": 2, "max_unsent_s": 0.4}) as (server, app):
        stuck, other = MoshiClient(app), MoshiClient(app)
        await asyncio.gather(stuck.say("alpha", 3), other.say("golf", 3))
        stuck.takes.clear()
        n_frames = round(2.0 / FRAME_S) + 10
        await asyncio.gather(stuck.say("alpha", n_frames), other.say("golf", n_frames))
        assert len(other.select_kind(1)) == 3 + n_frames
        assert len(server.sessions) == 1
        assert server.n_dropped["said"] > 0
        stuck.takes.set()
        await stuck.over
        await other.leave()
    assert stuck.closed == (1008, "the client does not read its messages")


async def test_pages_without_sound_keep_nobodys_place(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, limits={"max_sessions": 4, "idle_s": 5.0}) as (_, app):
        socket = AsgiSocket(app, "/api/chat?events=1")
        opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
        header = bytes(opus.append_pcm(saying(None)))[:47]  # the page OpusHead: 28 bytes and 19 of it
        for _ in range(20):
            socket.send(b"\x01" + header)
            await asyncio.sleep(1)
            if socket.over.done():
                break
        await socket.over
    assert socket.closed is not None
    assert "no audio arrived for 5 s" in socket.closed[1]
    assert b'"ended"' in socket.received[-1]


@pytest.mark.parametrize(
    ("url", "headers", "status", "code"),
    [
        ("/api/chat", {"origin": "https://evil.example", "host": "localhost"}, 403, "origin"),
        ("/api/chat", {"origin": "http://evil.example", "host": "evil.example"}, 421, "host"),
        ("/api/chat?mode=loud", {}, 400, "not_possible"),
        ("/api/chat?back_end=nobody", {}, 400, "not_possible"),
        ("/api/chat?model=gpt-9", {}, 400, "not_possible"),
        ("/api/chat?prompt=../../etc/passwd", {}, 400, "not_possible"),
        ("/api/chat?record=yes", {}, 400, "not_possible"),
        ("/v1/realtime?record=yes", {}, 400, "not_possible"),
    ],
)
async def test_who_is_not_let_in_is_told_why(
    checkpoint: Checkpoint, url: str, headers: dict[str, str], status: int, code: str
) -> None:
    async with app_of(checkpoint) as (server, app):
        socket = AsgiSocket(app, url, headers)
        await socket.over
        assert server.sessions == {}
    assert (socket.status, socket.answer["error"]["code"]) == (status, code)
    assert socket.accepted is None


async def test_a_full_server_says_so_and_one_address_cannot_fill_it(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, limits={"max_sessions": 3, "max_sessions_per_address": 2}) as (server, app):
        first = [AsgiSocket(app, "/api/chat", address="192.0.2.1") for _ in range(3)]
        await until(lambda: first[2].status == 429)
        assert first[2].answer["error"]["code"] == "too_many_sessions"
        second = [AsgiSocket(app, "/api/chat", address="192.0.2.2") for _ in range(2)]
        await until(lambda: second[1].status == 503)
        assert second[1].answer["error"]["code"] == "full"
        await server.drain()
        late = AsgiSocket(app, "/api/chat", address="192.0.2.3")
        await late.over
        assert (late.status, late.answer["error"]["code"]) == (503, "draining")
        await asyncio.gather(*(each.over for each in (*first[:2], second[0])))
