"""What both sockets have in common: how much a client may send, what it may change, what it is told of faults."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from data_schemas.errors import BackendError
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import ServerParts
from kame_model.serve.server import KameServer
from kame_model.serve.web.client_websocket import CHANGES_AT_ONCE
from kame_model.serve.web.moshi_websocket import SOUND_AT_ONCE_S, SOUND_SPEED
from tests.support.moshi_protocol import MoshiClient
from tests.support.realtime_protocol import of_type
from tests.support.served import AsgiSocket, app_of, http_client
from tests.support.serving import LoudnessRecogniser, RepeatingChat, doubles, saying, until

pytestmark = [pytest.mark.looptime, pytest.mark.full]
LENGTH_S = 4.0


async def test_who_sends_sound_too_fast_loses_it_and_the_neighbour_hears_all_in_time(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        fast, neighbour = MoshiClient(app, "?events=1"), MoshiClient(app)
        n_frames, late = round(LENGTH_S / FRAME_S), 0
        flood = asyncio.create_task(fast.say("golf", 10 * n_frames, FRAME_S / 10))
        for number in range(n_frames):
            await neighbour.say("golf", 1)
            late += len(neighbour.select_kind(1)) < number
        await flood
        assert late == 0
        assert fast.closed is None
        most = (SOUND_AT_ONCE_S + SOUND_SPEED * LENGTH_S) / FRAME_S
        assert len(fast.select_kind(1)) + server.n_dropped["heard"] <= most + 2
        await fast.leave()
        await neighbour.leave()
        assert server.n_dropped["said"] == 0
    told = fast.select_kind(5)
    assert b"faster than real time" in told[0]
    assert len(told) <= LENGTH_S, "it is told once a second, not with each message"


async def test_who_was_too_fast_is_heard_again_once_it_is_not(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app):
        client = MoshiClient(app)
        await client.say("golf", 200, 0.006)
        await asyncio.sleep(8)
        n_before = len(client.select_kind(1))
        await client.say("golf", 40)
        assert len(client.select_kind(1)) - n_before >= 39
        await client.leave()


@pytest.mark.parametrize(("path", "n_dropped"), [("/api/chat?events=1", 15), ("/v1/realtime", 14)])
async def test_too_many_bytes_are_dropped_counted_and_told(checkpoint: Checkpoint, path: str, n_dropped: int) -> None:
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
        async with http_client(app) as client:
            figures = (await client.get("/metrics")).text
            assert f'kame_denied_total{{code="too_many_bytes"}} {n_dropped}.0' in figures
        await asyncio.sleep(5)
        socket.send(b"\x04[" if path.startswith("/api") else {"type": "input_audio_buffer.clear"})
        await asyncio.sleep(0.1)
        await socket.leave()
    text = b" ".join(each if isinstance(each, bytes) else each.encode() for each in socket.received)
    assert text.count(b"more than 100000 bytes in a second") == 1
    assert (b"a JSON object of" if path.startswith("/api") else b"input_audio_buffer.cleared") in text


@pytest.mark.parametrize("restart", [b"\x03\x03", b'\x04{"reset": true}'])
async def test_who_begins_anew_again_and_again_is_held_back(checkpoint: Checkpoint, restart: bytes) -> None:
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


def with_models() -> ServerParts:
    """One back-end with a second model."""
    only = BackEnd("default", RepeatingChat(), load_prompt("tandem"), models={"big": RepeatingChat()})
    return replace(doubles(), back_ends={"default": only})


class Callers:
    """A client of each socket, and of HTTP for the first one's session, from the same address."""

    def __init__(self, app: ASGIApp, mode: str) -> None:
        self.chat = MoshiClient(app, f"?events=1&mode={mode}")
        self.realtime = AsgiSocket(app, f"/v1/realtime?mode={mode}")
        self.http = http_client(app)

    @classmethod
    @asynccontextmanager
    async def calling(
        cls, checkpoint: Checkpoint, mode: str, parts: ServerParts | None = None, **changes: Any
    ) -> AsyncIterator[tuple[KameServer, "Callers"]]:
        """A server whom they call and in the end leave."""
        async with app_of(checkpoint, parts, **changes) as (server, app):
            callers = cls(app, mode)
            await until(lambda: len(server.sessions) == 2)
            yield server, callers
            await callers.chat.leave()
            await callers.realtime.leave()

    async def refused(self, session_id: str, change: dict[str, str]) -> list[str]:
        """What each is told, by the chat socket, the realtime socket and HTTP, of a change that cannot be."""
        answer = await self.http.patch(f"/v1/sessions/{session_id}", json=change)
        self.chat.send(b"\x04" + httpx.Request("POST", "http://x", json=change).content)
        self.realtime.send({"type": "session.update", "kame": change})
        await asyncio.sleep(1)
        error = of_type(self.realtime, "error")[-1]["error"]
        return [
            self.chat.select_kind(5)[-1].decode(),
            f"{error['code']}: {error['message']}",
            f"{answer.status_code} {answer.json()['error']['code']}",
        ]


async def test_a_model_is_chosen_by_either_socket_and_by_http(checkpoint: Checkpoint) -> None:
    models = [{"name": "default", "chat": {"engine": "openai", "base_url": "http://x/v1"}, "models": ["big"]}]
    async with Callers.calling(checkpoint, "tandem", with_models(), back_ends=models) as (server, callers):
        assert (await callers.http.get("/v1/about")).json()["models"] == {"default": ["big"]}
        first, second = server.sessions.values()
        callers.chat.send(b'\x04{"model": "big"}')
        callers.realtime.send({"type": "session.update", "kame": {"model": "big"}})
        await until(lambda: first.model == second.model == "big")
        answer = await callers.http.patch(f"/v1/sessions/{first.id}", json={"model": ""})
        assert (answer.status_code, answer.json()["model"], first.model) == (200, "", "")
        told = await callers.refused(first.id, {"model": "gpt-9"})
        assert told[2] == "400 not_possible"
        assert all("has no model 'gpt-9'" in each for each in told[:2])
        assert (first.model, second.model) == ("", "big")


async def test_a_model_is_chosen_at_the_opening_and_told(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, with_models()) as (server, app):
        client = MoshiClient(app, "?events=1&model=big&prompt=cascade")
        await until(lambda: bool(client.told("started")))
        (session,) = server.sessions.values()
        assert session.model == "big"
        assert client.told("started")[0]["model"] == "big"
        await client.leave()


async def test_who_finds_no_room_on_the_device_is_told_and_stays_in_the_cascade(checkpoint: Checkpoint) -> None:
    async with Callers.calling(checkpoint, "cascade") as (server, callers):
        for _ in range(50):
            server.meter.add(asyncio.get_running_loop().time(), 0.9 * FRAME_S, 0.0, 1)
        first, second = server.sessions.values()
        told = await callers.refused(first.id, {"mode": "tandem", "prompt": "You are brief."})
        assert told[2] == "503 busy"
        assert told[1].startswith("busy: ")
        assert all("no time for another caller" in each for each in told[:2])
        assert {first.mode, second.mode} == {"cascade"}


async def test_half_a_character_is_refused_by_either_socket_and_by_http(checkpoint: Checkpoint) -> None:
    async with Callers.calling(checkpoint, "direct") as (server, callers):
        half = b'{"prompt": "be \\ud83d kind"}'
        url, headers = f"/v1/sessions/{next(iter(server.sessions))}", {"Content-Type": "application/json"}
        answer = await callers.http.patch(url, content=half, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
        assert "half a character" in answer.json()["error"]["message"]
        callers.chat.send(b"\x04" + half)
        for wished in ({"kame": {"prompt": "be \ud83d kind"}}, {"session": {"instructions": "be \ud83d kind"}}):
            callers.realtime.send({"type": "session.update", **wished})
        await asyncio.sleep(1)
        assert len(callers.chat.select_kind(5)) == 1
        errors = [each["error"]["message"] for each in of_type(callers.realtime, "error")]
        assert len(errors) == 2
        assert all("half a character" in each for each in errors)
        assert len(server.sessions) == 2  # the conversations go on


INSIDE = "http://10.1.2.3:8000/v1"


class DownChat(RepeatingChat):
    """A chat model behind an address that is nobody's business."""

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        raise BackendError(f"No server answers at {INSIDE}: key sk-123 refused.")
        yield ""


def words_of(socket: AsgiSocket) -> str:
    return " ".join(each if isinstance(each, str) else each.decode(errors="replace") for each in socket.received)


def events_of(socket: AsgiSocket, kind: str) -> list[dict[str, Any]]:
    if isinstance(socket, MoshiClient):
        return socket.told(kind)
    return [each["event"]["data"] for each in of_type(socket, "kame.event") if each["event"]["kind"] == kind]


@pytest.mark.parametrize("path", ["/api/chat", "/v1/realtime"])
async def test_where_the_back_ends_are_is_not_told(checkpoint: Checkpoint, path: str) -> None:
    parts = doubles(DownChat())
    async with app_of(checkpoint, parts) as (server, app):
        socket = MoshiClient(app, "?events=1") if path == "/api/chat" else AsgiSocket(app, path)
        if path == "/v1/realtime":
            socket.send({"type": "session.update", "kame": {"events": True}})
        await until(lambda: len(socket.received) >= 2)
        (session,) = server.sessions.values()
        assert isinstance(parts.recogniser, LoudnessRecogniser)
        for failure in (f"The recogniser at {INSIDE}: it is down.", None):
            parts.recogniser.listeners[0].failure = failure
            session.hear(saying("alpha", 6))
            session.hear(saying("bravo", 3))
            await asyncio.sleep(1)
        await until(lambda: bool(events_of(socket, "oracle_failed")))
        await socket.leave()
    assert INSIDE not in words_of(socket)
    assert "sk-123" not in words_of(socket)
    failed = events_of(socket, "oracle_failed")[0]
    assert (failed["back_end"], failed["reason"]) == ("default", "The chat model gave no usable answer.")
    unheard, heard_again = events_of(socket, "listening_failed")[:2]
    assert unheard == {"reason": "Speech recognition does not work at the moment."}
    assert heard_again == {"reason": ""}


async def test_a_recogniser_that_cannot_begin_anew_ends_the_session_without_its_address(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = doubles()

    def down(on_heard: object) -> None:
        raise BackendError(f"No server answers at {INSIDE}.")

    async with app_of(checkpoint, parts) as (server, app):
        socket = MoshiClient(app, "?events=1")
        await until(lambda: bool(server.sessions))
        monkeypatch.setattr(parts.recogniser, "listen", down)
        socket.send(b"\x03\x03")
        await socket.over
        refused = AsgiSocket(app, "/api/chat")
        await refused.over
    assert events_of(socket, "ended") == [{"reason": "the recogniser does not work"}]
    assert INSIDE not in f"{words_of(socket)} {socket.closed} {refused.answer}"
    assert refused.status == 503
    assert INSIDE in caplog.text, "the host can read it"
