"""The chat model of a session is changed in mid-conversation between two of them, and no frame is missing or late."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.server import KameServer
from kame_model.serve.session.session import Session
from tests.support.serving import Client, doubles, inline, saying, serve_config
from tests.support.timed_chat import TimedChat

pytestmark = [pytest.mark.looptime, pytest.mark.full]

N_FRAMES, TURN_N_FRAMES, SPOKEN_N_FRAMES = 100, 20, 14
SWAPS = {10: "there", 30: "here", 45: "there", 50: "here", 71: "there", 90: "here"}
"""By the frame of the caller's that each comes after: in mid-turn, in mid-answer, and soon after another."""
TAKEN_BACK = 45
"""This one is, before its chat model has written a word."""
MOST_LATE_S = FRAME_S
"""Frames that come one by one are answered by the next tick at the latest."""


class Timed(Client):
    """Keeps number and time of each frame, and when each event came."""

    def __init__(self, session: Session) -> None:
        self.came: list[tuple[int, float]] = []
        self.sent_s: list[float] = []
        super().__init__(session)

    async def _read_frames(self) -> None:
        async for frame in self.session.read_frames():
            self.came.append((frame.number, asyncio.get_running_loop().time()))


async def talk(checkpoint: Checkpoint, mode: str) -> Timed:
    """A caller who says a word of each turn again and again, and swaps; each chat model is asked."""
    here = TimedChat([(0.02, "it is "), (0.02, "sixty litres.")])
    there = TimedChat([(0.3, "she "), (0.3, "earned it.")])
    back_ends = {n: BackEnd(n, chat, load_prompt("tandem")) for n, chat in (("here", here), ("there", there))}
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
    assert here.asked_s
    assert there.asked_s
    return client


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
async def test_swapped_there_and_back_while_it_answers(checkpoint: Checkpoint, mode: str) -> None:
    client = await talk(checkpoint, mode)
    assert [number for number, _ in client.came] == list(range(N_FRAMES))
    late_s = [at_s - sent_s for (_, at_s), sent_s in zip(client.came, client.sent_s, strict=True)]
    assert max(late_s) <= MOST_LATE_S
    assert max(after - before for (_, before), (_, after) in pairwise(client.came)) <= 2 * FRAME_S
    assert not client.told("dropped")
    assert not client.told("oracle_failed")
    assert [each["back_end"] for each in client.told("changed")] == list(SWAPS.values())
    if mode == "tandem":
        answered = [back_end for after, back_end in SWAPS.items() if after != TAKEN_BACK]
        assert [back_end for back_end in oracles_after_swaps(client.events) if back_end] == answered
