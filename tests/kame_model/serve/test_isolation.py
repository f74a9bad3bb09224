"""Nothing one session hears, asks, is told or says reaches another, whatever happens to either: every caller says words
of its own, and what hears and answers it makes everything of those words alone, so that each text and token is traced.
"""

import asyncio
import gc
import random
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from backends.engine import Samples
from data_schemas.config.serving import Mode
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn
from kame_model.serve.server import KameServer
from kame_model.serve.session.session import Session
from kame_model.text.tokenizer import Tokenizer
from tests.support.serving import (
    WORDS,
    Client,
    LoudnessRecogniser,
    RepeatingChat,
    doubles,
    inline,
    saying,
    serve_config,
    words_in,
)

pytestmark = [pytest.mark.looptime, pytest.mark.full]

N_SLOTS = 2


Told = tuple[list[Samples], list[tuple[str, dict[str, object]]]]
"""What a client got: frames and events."""


class Fed:
    """The oracle ids that each session's slot was fed, anew after each reset."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, int], list[int]] = {}
        self._n_resets: dict[str, int] = {}

    def words(self, tokenizer: Tokenizer) -> dict[tuple[str, int], set[str]]:
        """What they spell; a word that was cut off by a newer oracle counts as the one it begins."""
        found: dict[tuple[str, int], set[str]] = {}
        for key, ids in self.ids.items():
            text = " ".join(tokenizer.decode(part) for part in split_at(ids, tokenizer.text_card))
            found[key] = {word for said in text.split() for word in WORDS if word.startswith(said)}
        return found

    @contextmanager
    def watching(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        take, reset = Session.take, Session.reset

        def watched_take(session: Session) -> FrameIn | None:
            given = take(session)
            if given is not None and given.oracle != PADDING_ID:
                self.ids.setdefault((session.id, self._n_resets.get(session.id, 0)), []).append(given.oracle)
            return given

        def watched_reset(session: Session) -> None:
            reset(session)
            self._n_resets[session.id] = self._n_resets.get(session.id, 0) + 1

        with patch.context() as inner:
            inner.setattr(Session, "take", watched_take)
            inner.setattr(Session, "reset", watched_reset)
            yield


def split_at(ids: list[int], mark: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for each in ids:
        if each == mark:
            parts.append([])
        else:
            parts[-1].append(each)
    return parts


def words_told(client: Client) -> list[set[str]]:
    """The words in all that a client was told, a set for each time it began anew."""
    told: list[set[str]] = []
    for kind, data in client.events:
        if kind == "started":
            told.append(set())
        elif kind in ("heard", "oracle"):
            told[-1] |= set(words_in(data["text"]))
    return told


class Hustle:
    """Callers who come, talk, change their minds, begin anew, vanish and are followed within the same frame."""

    def __init__(self, server: KameServer, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.clients: list[tuple[str, str, Client]] = []

    async def run(self) -> None:
        pairs = [(WORDS[at], WORDS[at + 1]) for at in range(0, len(WORDS), 2)]
        callers = [pairs[at::N_SLOTS] for at in range(N_SLOTS)]
        await asyncio.gather(*(self._line(pairs) for pairs in callers))

    async def _line(self, pairs: list[tuple[str, str]]) -> None:
        """One after the other, each in the slot that has just become free."""
        for before, after in pairs:
            modes: list[Mode] = ["tandem", "tandem", "cascade"]
            mode = self.random.choice(modes)
            session = await self.server.open_session("here", mode=mode)
            client = Client(session)
            self.clients.append((before, after, client))
            await self._talk(session, before)
            session.reset()
            await self._talk(session, after)
            leaving = self.random.choice(["close", "fail", "wait"])
            if leaving == "close":
                await session.close("bye")
            elif leaving == "fail":
                session.fail("killed")
            else:
                await asyncio.sleep(self.server.config.limits.idle_s + 2)
            await client.over()

    async def _talk(self, session: Session, word: str) -> None:
        """Stops in the middle of anything: of a turn, of an answer, of a frame."""
        for _ in range(self.random.randint(15, 40)):
            is_said = self.random.random() < 0.8
            sound = saying(word if is_said else None)
            cut = self.random.randint(1, len(sound) - 1)
            session.hear(sound[:cut])
            await asyncio.sleep(FRAME_S * self.random.choice([0, 0, 0.5]))
            session.hear(sound[cut:])
            await asyncio.sleep(FRAME_S * self.random.choice([0.5, 1, 1]))
            if self.random.random() < 0.03:
                session.change(mode=self.random.choice(["tandem", "direct", "cascade"]))


@pytest.mark.parametrize("seed", range(2))
async def test_words_stay_with_their_caller(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chat, fed = RepeatingChat(gap_s=0.05), Fed()
    config = serve_config(
        limits={"max_sessions": N_SLOTS, "idle_s": 1, "max_starts_per_minute": 99}, cycle={"interval_s": 0.1}
    )
    with fed.watching(monkeypatch):
        async with KameServer(checkpoint, config, doubles(chat), run=inline) as server:
            hustle = Hustle(server, seed)
            await hustle.run()
            assert not server.sessions
    for before, after, client in hustle.clients:
        told_before, told_after = words_told(client)
        assert told_before <= {before}
        assert told_after <= {after}
        assert client.told("ended")
    owners = {client.session.id: (before, after) for before, after, client in hustle.clients}
    for (session_id, n_resets), words in fed.words(checkpoint.load_tokenizer()).items():
        assert words <= {owners[session_id][n_resets]}
    for payload in chat.asked:
        asked = {word for message in payload["messages"] for word in words_in(message["content"])}
        assert len(asked) <= 1
    assert chat.n_open == 0
    n_words = sum(bool(words) for _, _, client in hustle.clients for words in words_told(client))
    assert n_words > len(hustle.clients)  # there was something to tell
    assert sum(map(len, fed.ids.values())) > 30
    assert any(client.told("oracle") for _, _, client in hustle.clients)


async def in_company(checkpoint: Checkpoint, others: list[str]) -> Told:
    """What a caller in slot 1 gets while others come and go in the slots beside it."""
    config = serve_config(limits={"max_sessions": 3, "max_sessions_per_address": 9, "max_starts_per_minute": 99})
    async with KameServer(checkpoint, config, doubles(), run=inline) as server:
        first = await server.open_session("here")
        session = await server.open_session("here")
        await first.close("made room")
        client = Client(session)

        async def beside() -> None:
            for word in others:
                neighbour = await server.open_session("here")
                for _ in range(6):
                    neighbour.hear(saying(word))
                    await asyncio.sleep(FRAME_S)
                await neighbour.close("bye")

        await asyncio.gather(client.talk(["alpha"] * 12 + [None] * 30), beside())
        await session.close("bye")
        await client.over()
    return client.frames, [(kind, data) for kind, data in client.events if kind != "started"]


async def test_sound_and_events_are_to_the_bit_those_of_a_caller_alone(checkpoint: Checkpoint) -> None:
    alone = await in_company(checkpoint, [])
    beside = await in_company(checkpoint, ["bravo", "lima", "golf"])
    assert len(alone[0]) == 42
    assert np.array_equal(np.concatenate(alone[0]), np.concatenate(beside[0]))
    assert alone[1] == beside[1]
    assert any(kind == "oracle" for kind, _ in alone[1])


async def test_a_session_that_begins_anew_is_to_the_bit_a_new_one(checkpoint: Checkpoint) -> None:
    async def course(server: KameServer, words: list[str]) -> Told:
        session = await server.open_session("here")
        client = Client(session)
        for word in words:
            for _ in range(10):
                session.hear(saying(word))
                await asyncio.sleep(FRAME_S)
            session.hear(saying(word)[:777])
            session.reset()
            client.frames.clear()
            client.events.clear()
        await client.talk(["alpha"] * 8 + [None] * 12)
        await session.close("bye")
        await client.over()
        untold = {"session_id", "oracle"}  # oracles are counted on: their numbers tell new from old
        told = [
            (kind, {key: value for key, value in data.items() if key not in untold}) for kind, data in client.events
        ]
        return client.frames, told[1:] if told[0][0] == "started" else told

    async with KameServer(checkpoint, serve_config(), doubles(), run=inline) as server:
        new, anew = await course(server, []), await course(server, ["lima", "golf"])
        assert np.array_equal(np.concatenate(new[0]), np.concatenate(anew[0]))
        assert new[1] == anew[1]


async def test_memory_of_the_sessions_that_were_is_given_back(checkpoint: Checkpoint) -> None:
    parts = doubles()
    assert isinstance(parts.recogniser, LoudnessRecogniser)
    async with KameServer(checkpoint, serve_config(), parts, run=inline) as server:
        gone: list[weakref.ref[object]] = []
        for word in WORDS[:3]:
            session = await server.open_session("here")
            client = Client(session)
            await client.talk([word] * 10)
            await session.close("bye")
            await client.over()
            gone += [weakref.ref(session), weakref.ref(session._answering), weakref.ref(session._answering._queue)]
            del session, client
        parts.recogniser.listeners.clear()  # the double keeps them to be looked at
        await asyncio.sleep(1)
        gc.collect()
        assert [each() for each in gone] == [None] * len(gone)
        assert len(asyncio.all_tasks()) == 3  # the stepper, the watch, and this
