"""What callers change of a running session, the same way by each socket and by HTTP."""

import asyncio
import json
from dataclasses import replace

import httpx
import pytest

from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import Parts
from tests.support.realtime_protocol import of_type
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import RepeatingChat, doubles, until

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime, pytest.mark.full]


def with_models() -> Parts:
    """One back-end with a second model."""
    only = BackEnd("default", RepeatingChat(), load_prompt("tandem"), models={"big": RepeatingChat()})
    return replace(doubles(), back_ends={"default": only})


class Callers:
    """A client of each socket, and of HTTP for the first one's session."""

    def __init__(self, app: object, mode: str) -> None:
        self.chat = AsgiSocket(app, f"/api/chat?events=1&mode={mode}")  # type: ignore[arg-type]
        self.realtime = AsgiSocket(app, f"/v1/realtime?mode={mode}")  # type: ignore[arg-type]
        transport = httpx.ASGITransport(app, client=("192.0.2.1", 4711))  # type: ignore[arg-type]
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def refused(self, session_id: str, change: dict[str, str]) -> list[str]:
        """What each is told, by the chat socket, the realtime socket and HTTP, of a change that cannot be."""
        answer = await self.http.patch(f"/v1/sessions/{session_id}", json=change)
        self.chat.send(b"\x04" + httpx.Request("POST", "http://x", json=change).content)
        self.realtime.send({"type": "session.update", "kame": change})
        await asyncio.sleep(1)
        told = [each[1:].decode() for each in self.chat.received if isinstance(each, bytes) and each[:1] == b"\x05"]
        error = of_type(self.realtime, "error")[-1]["error"]
        return [
            told[-1],
            f"{error['code']}: {error['message']}",
            f"{answer.status_code} {answer.json()['error']['code']}",
        ]


async def test_a_model_is_chosen_by_either_socket_and_by_http(checkpoint: Checkpoint) -> None:
    models = [{"name": "default", "chat": {"engine": "openai", "base_url": "http://x/v1"}, "models": ["big"]}]
    async with app_of(checkpoint, with_models(), back_ends=models) as (server, app):
        callers = Callers(app, "tandem")
        assert (await callers.http.get("/v1/about")).json()["models"] == {"default": ["big"]}
        await until(lambda: len(server.sessions) == 2)
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
        await callers.chat.leave()
        await callers.realtime.leave()


async def test_a_model_is_chosen_at_the_opening_and_told(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, with_models()) as (server, app):
        socket = AsgiSocket(app, "/api/chat?events=1&model=big&prompt=cascade")
        await until(lambda: len(socket.received) >= 2)
        (session,) = server.sessions.values()
        assert session.model == "big"
        assert isinstance(socket.received[1], bytes)
        assert json.loads(socket.received[1][1:])["data"]["model"] == "big"
        wrong = AsgiSocket(app, "/api/chat?model=gpt-9")
        await wrong.over
        assert (wrong.status, wrong.answer["error"]["code"]) == (400, "not_possible")
        assert "has no model 'gpt-9'" in wrong.answer["error"]["message"]
        assert len(server.sessions) == 1
        await socket.leave()


async def test_who_finds_no_room_on_the_device_is_told_and_stays_in_the_cascade(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        callers = Callers(app, "cascade")
        await until(lambda: len(server.sessions) == 2)
        for _ in range(50):
            server.meter.add(asyncio.get_running_loop().time(), 0.9 * FRAME_S, 0.0, 1)
        first, second = server.sessions.values()
        told = await callers.refused(first.id, {"mode": "tandem", "prompt": "You are brief."})
        assert told[2] == "503 busy"
        assert told[1].startswith("busy: ")
        assert all("just enough time" in each for each in told[:2])
        assert {first.mode, second.mode} == {"cascade"}
        await callers.chat.leave()
        await callers.realtime.leave()


async def test_half_a_character_is_refused_by_either_socket_and_by_http(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        callers = Callers(app, "direct")
        await until(lambda: len(server.sessions) == 2)
        half = b'{"prompt": "be \\ud83d kind"}'
        url, headers = f"/v1/sessions/{next(iter(server.sessions))}", {"Content-Type": "application/json"}
        answer = await callers.http.patch(url, content=half, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
        assert "half a character" in answer.json()["error"]["message"]
        callers.chat.send(b"\x04" + half)
        for wished in ({"kame": {"prompt": "be \ud83d kind"}}, {"session": {"instructions": "be \ud83d kind"}}):
            callers.realtime.send({"type": "session.update", **wished})
        await asyncio.sleep(1)
        told = [each for each in callers.chat.received if isinstance(each, bytes) and each[:1] == b"\x05"]
        assert len(told) == 1
        errors = [each["error"]["message"] for each in of_type(callers.realtime, "error")]
        assert len(errors) == 2
        assert all("half a character" in each for each in errors)
        assert len(server.sessions) == 2  # the conversations go on
        await callers.chat.leave()
        await callers.realtime.leave()
