"""The cascade in a whole session, with a recogniser that is late: who speaks again is heard out, and then answered."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.server import KameServer
from kame_model.serve.session import hearing
from tests.support.serving import (
    Client,
    LoudnessListener,
    LoudnessRecogniser,
    RepeatingChat,
    doubles,
    inline,
    said_in,
    serve_config,
)

pytestmark = [pytest.mark.looptime, pytest.mark.full]
LATE_S = 1.0
COUGH = "lima"


class LateListener(LoudnessListener):
    """Tells the whole text of a turn a second after its end, and hears no words in coughs."""

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        if said_in(samples) != COUGH:
            super().feed(samples, windows)

    def end_turn(self) -> None:
        words, self._words, self._n_loud = self._words, [], 0
        final = Heard(" ".join(words), is_final=True)
        asyncio.get_running_loop().call_later(LATE_S, self._on_heard, final)


class LateRecogniser(LoudnessRecogniser):
    """Makes such listeners."""

    def listen(self, on_heard: Callable[[Heard], None]) -> LoudnessListener:
        return LateListener(on_heard)


@asynccontextmanager
async def talking(
    checkpoint: Checkpoint, chat: RepeatingChat | None = None, mode: str = "cascade"
) -> AsyncIterator[Client]:
    parts = replace(doubles(chat), recogniser=LateRecogniser())
    async with KameServer(checkpoint, serve_config(mode=mode), parts, run=inline) as server:
        yield Client(await server.open_session("here"))


def is_said(frames: Sequence[Samples]) -> bool:
    return any(float(np.abs(frame).max()) > 0.01 for frame in frames)


def words_of(client: Client) -> list[str]:
    return "".join(data["text"] for data in client.told("said")).split()


async def test_nobody_is_talked_over_who_goes_on_after_a_short_pause(checkpoint: Checkpoint) -> None:
    chat = RepeatingChat()
    async with talking(checkpoint, chat) as client:
        await client.talk(["alpha"] * 10 + [None] * 8 + ["bravo"] * 30 + [None] * 3)
        assert not is_said(client.frames)
        await client.talk([None] * 80)
    assert words_of(client) == ["alpha"] * 3 + ["bravo"] * 8
    assert len(chat.asked) == 1


async def test_who_ends_a_turn_in_the_middle_of_speech_is_not_talked_over(checkpoint: Checkpoint) -> None:
    async with talking(checkpoint) as client:
        await client.talk(["alpha"] * 10)
        client.session.end_turn(lambda _: None)
        await client.talk(["bravo"] * 30 + [None] * 3)
        assert not is_said(client.frames)
        await client.talk([None] * 80)
    assert words_of(client) == ["alpha"] * 3 + ["bravo"] * 8


async def test_a_turn_cut_for_its_length_is_answered(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "_MOST_IN_TURN", 25)
    async with talking(checkpoint) as client:
        await client.talk(["alpha"] * 60 + [None] * 2)
        assert not is_said(client.frames)
        await client.talk([None] * 60)
    assert set(words_of(client)) == {"alpha"}


@pytest.mark.parametrize("pause_n_frames", [8, 17])  # before and after the words of the question have come
async def test_a_cough_costs_nobody_the_answer(checkpoint: Checkpoint, pause_n_frames: int) -> None:
    async with talking(checkpoint, RepeatingChat(gap_s=1.0)) as client:
        await client.talk(["alpha"] * 5 + [None] * pause_n_frames + [COUGH] * 3)
        assert not is_said(client.frames)
        await client.talk([None] * 60)
    assert words_of(client) == ["alpha"] * 2


async def test_one_who_speaks_while_the_mode_changes_is_not_talked_over(checkpoint: Checkpoint) -> None:
    chat = RepeatingChat()
    async with talking(checkpoint, chat, mode="direct") as client:
        await client.talk(["alpha"] * 10 + [None] * 5 + ["bravo"] * 5)
        client.session.change(mode="cascade")
        n_before = len(client.frames)
        await client.talk(["bravo"] * 20 + [None] * 3)
        assert not is_said(client.frames[n_before:])
        await client.talk([None] * 80)
    assert len(chat.asked) == 1


async def test_who_was_speaking_when_all_began_anew_is_answered(checkpoint: Checkpoint) -> None:
    async with talking(checkpoint) as client:
        await client.talk(["alpha"] * 10)
        client.session.reset()
        await client.talk([None] * 5 + ["bravo"] * 5 + [None] * 80)
    assert words_of(client) == ["bravo"] * 2
