"""The chat model of a session is changed in mid-conversation between two servers, and no frame is missing or late.

On a simulated clock: the caller's frames go by it whatever comes of them, and the servers take their time on it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import httpx2 as httpx  # what openai is made on
import openai
import pytest

from backends.chat.live import OpenAILiveChat
from backends.chat.protocol import Endpoint
from data_schemas.config import ChatConfig
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.server import KameServer
from kame_model.serve.session.session import Session
from tests.support.serving import Client, doubles, inline, saying, serve_config
from tests.support.streaming_chat import DONE, STOP, piece

pytestmark = [pytest.mark.looptime, pytest.mark.full]

N_FRAMES, TURN_N_FRAMES, SPOKEN_N_FRAMES = 100, 20, 14
SWAPS = {10: "there", 30: "here", 45: "there", 50: "here", 71: "there", 90: "here"}
"""By the frame of the caller's that each comes after: in mid-turn, in mid-answer, and soon after another."""
TAKEN_BACK = 45
"""This one is, before its chat model has written a word."""
MOST_LATE_S = FRAME_S
"""Frames that come one by one are answered by the next tick at the latest."""


class Answer(httpx.AsyncByteStream):
    """The events of an answer, each after its time on the loop's clock."""

    def __init__(self, events: Sequence[bytes], gap_s: float) -> None:
        self._events, self._gap_s = events, gap_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for each in self._events:
            await asyncio.sleep(self._gap_s)
            yield each


@dataclass
class ChatServer(httpx.AsyncBaseTransport):
    """A chat server by HTTP, without its network; `gap_s` before each piece of an answer."""

    pieces: Sequence[str]
    gap_s: float
    n_asked: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert json.loads(await request.aread())["stream"]
        self.n_asked += 1
        events = [*(piece(text) for text in self.pieces), STOP, DONE]
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Answer(events, self.gap_s))


class Timed(Client):
    """Keeps number and time of each frame, and when each event came."""

    def __init__(self, session: Session) -> None:
        self.came: list[tuple[int, float]] = []
        self.sent_s: list[float] = []
        super().__init__(session)

    async def _read_frames(self) -> None:
        async for frame in self.session.read_frames():
            self.came.append((frame.number, asyncio.get_running_loop().time()))


@dataclass
class Outcome:
    """What a caller was told, and what the two servers were asked."""

    client: Timed
    n_asked: list[int] = field(default_factory=list)

    def check(self) -> None:
        """No frame is missing or late, and each swap has its oracle."""
        client = self.client
        assert [number for number, _ in client.came] == list(range(N_FRAMES))
        late_s = [at_s - sent_s for (_, at_s), sent_s in zip(client.came, client.sent_s, strict=True)]
        assert max(late_s) <= MOST_LATE_S
        assert max(after - before for (_, before), (_, after) in pairwise(client.came)) <= 2 * FRAME_S
        assert not client.told("dropped")
        assert not client.told("oracle_failed")
        assert min(self.n_asked) > 0


async def talk(checkpoint: Checkpoint, mode: str, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A caller who says a word of each turn again and again, and swaps."""
    servers = {"here": ChatServer(["it is ", "sixty litres."], 0.02), "there": ChatServer(["she ", "earned it."], 0.3)}

    def open_async(url: str, *_: object) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(transport=servers[httpx.URL(url).host])
        client = openai.AsyncOpenAI(base_url=url, api_key="none", http_client=http, max_retries=0)
        client._platform = "Linux"  # else it asks for it in a thread, which the simulated clock does not wait for
        return client

    monkeypatch.setattr("backends.chat.live.open_async", open_async)
    back_ends = {}
    for name in servers:
        chat = OpenAILiveChat(Endpoint(name, f"http://{name}/v1", "double", ""), ChatConfig(engine="openai"))
        back_ends[name] = BackEnd(name, chat, load_prompt("tandem"))
    config = serve_config(mode=mode, cycle={"interval_s": 0.1, "min_words": 1, "first_token_timeout_s": 2})
    parts = replace(doubles(), back_ends=back_ends)
    async with KameServer(checkpoint, config, parts, run=inline) as server:
        client = Timed(await server.open_session("caller", back_end="here"))
        began_s = asyncio.get_running_loop().time()
        for number in range(N_FRAMES):
            client.sent_s.append(asyncio.get_running_loop().time())
            client.session.hear(saying("alpha" if number % TURN_N_FRAMES < SPOKEN_N_FRAMES else None))
            if number % 2:  # else before the frame is taken
                await asyncio.sleep(FRAME_S / 2)
            if number in SWAPS:
                client.session.change(back_end=SWAPS[number])
            await asyncio.sleep(began_s + (number + 1) * FRAME_S - asyncio.get_running_loop().time())
        await asyncio.sleep(FRAME_S)
        await client.session.close("bye")
        await client.over()
    return Outcome(client, [each.n_asked for each in servers.values()])


def oracles_after_swaps(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """For each swap the back-end whose words came first of those asked for after it."""
    told: list[str] = []
    asked: dict[int, str] = {}
    for kind, data in events:
        if kind == "changed":
            asked = {}
            told.append("")
        elif kind == "oracle_asked":
            asked[data["oracle"]] = data["back_end"]
        elif kind == "oracle" and told and not told[-1]:
            told[-1] = asked.get(data["oracle"], "")
    return told


@pytest.mark.parametrize("mode", ["tandem", "cascade"])
async def test_swapped_there_and_back_while_it_answers(
    checkpoint: Checkpoint, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = await talk(checkpoint, mode, monkeypatch)
    outcome.check()
    assert [each["back_end"] for each in outcome.client.told("changed")] == list(SWAPS.values())
    if mode == "tandem":
        answered = [back_end for after, back_end in SWAPS.items() if after != TAKEN_BACK]
        assert [back_end for back_end in oracles_after_swaps(outcome.client.events) if back_end] == answered


async def test_a_swap_that_waits_for_the_new_model_is_found(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that stands still from a swap to the first words of the new chat model."""
    change, emit, take = Session.change, Session._emit, Session.take
    standing: set[str] = set()

    def changing(session: Session, **changes: Any) -> None:
        change(session, **changes)
        standing.add(session.id)

    def emitting(session: Session, kind: Any, data: dict[str, Any]) -> None:
        standing.difference_update({session.id} if kind == "oracle" else ())
        emit(session, kind, data)

    monkeypatch.setattr(Session, "change", changing)
    monkeypatch.setattr(Session, "_emit", emitting)
    monkeypatch.setattr(Session, "take", lambda session: None if session.id in standing else take(session))
    outcome = await talk(checkpoint, "tandem", monkeypatch)
    with pytest.raises(AssertionError):
        outcome.check()


async def test_a_swap_that_loses_what_waits_is_found(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Session.change

    def changing(session: Session, **changes: Any) -> None:
        session._inbox.clear()
        change(session, **changes)

    monkeypatch.setattr(Session, "change", changing)
    outcome = await talk(checkpoint, "tandem", monkeypatch)
    with pytest.raises(AssertionError):
        outcome.check()
