"""What callers are told of faults: that there are some, and nothing of the host's network."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from data_schemas.errors import BackendError
from kame_model.checkpoint.load import Checkpoint
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import LoudnessRecogniser, RepeatingChat, doubles, saying, until

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime, pytest.mark.full]
INSIDE = "http://10.1.2.3:8000/v1"


class DownChat(RepeatingChat):
    """A chat model behind an address that is nobody's business."""

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        raise BackendError(f"No server answers at {INSIDE}: key sk-123 refused.")
        yield ""


def words_of(socket: AsgiSocket) -> str:
    return " ".join(each if isinstance(each, str) else each.decode(errors="replace") for each in socket.received)


def events_of(socket: AsgiSocket, kind: str) -> list[dict[str, Any]]:
    told = (each["event"] for each in socket.events if each["type"] == "kame.event")
    moshi = (json.loads(each[1:]) for each in socket.received if isinstance(each, bytes) and each[:1] == b"\x04")
    return [each["data"] for each in (*told, *moshi) if each["kind"] == kind]


async def with_events(socket: AsgiSocket, path: str) -> None:
    if path.startswith("/v1"):
        socket.send({"type": "session.update", "kame": {"events": True}})
    await until(lambda: len(socket.received) >= 2)


@pytest.mark.parametrize("path", ["/api/chat?events=1", "/v1/realtime"])
async def test_where_the_back_ends_are_is_not_told(checkpoint: Checkpoint, path: str) -> None:
    parts = doubles(DownChat())
    async with app_of(checkpoint, parts) as (server, app):
        socket = AsgiSocket(app, path)
        await with_events(socket, path)
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
    assert (failed["back_end"], failed["reason"]) == ("default", "The chat model did not answer as it should.")
    unheard, heard_again = events_of(socket, "listening_failed")[:2]
    assert unheard == {"reason": "The recogniser does not work just now."}
    assert heard_again == {"reason": ""}


async def test_a_recogniser_that_cannot_begin_anew_ends_the_session_without_its_address(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = doubles()

    def down(on_heard: object) -> None:
        raise BackendError(f"No server answers at {INSIDE}.")

    async with app_of(checkpoint, parts) as (server, app):
        socket = AsgiSocket(app, "/api/chat?events=1")
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
