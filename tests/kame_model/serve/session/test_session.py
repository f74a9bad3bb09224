"""One session through its public functions, on a real engine and a simulated clock."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.listener.protocol import Heard
from data_schemas.config.serving import RecordConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.server import KameServer
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.session.session import Session
from tests.support.inline_threads import InlineThreads
from tests.support.serving import (
    Client,
    LoudnessListener,
    LoudnessRecogniser,
    RepeatingChat,
    doubles,
    inline,
    saying,
    serve_config,
)

pytestmark = [pytest.mark.looptime, pytest.mark.full]


def one_slot(checkpoint: Checkpoint, chat: RepeatingChat | None = None, **changes: object) -> KameServer:
    config = serve_config(**{"limits": {"max_sessions": 1, "max_starts_per_minute": 99}} | changes)
    return KameServer(checkpoint, config, doubles(chat), run=inline)


async def test_a_turn_from_sound_to_oracle(checkpoint: Checkpoint) -> None:
    async with one_slot(checkpoint) as server:
        session = await server.open_session("here")
        client = Client(session)
        await client.talk(["alpha"] * 9 + [None] * 12)
        assert session.time_s == pytest.approx(21 * FRAME_S)
        await session.close("bye")
        await client.over()
    kinds = [kind for kind, _ in client.events if kind != "said"]
    assert kinds[:4] == ["started", "speech_started", "heard", "heard"]
    assert kinds[-1] == "ended"
    assert kinds.index("oracle_asked") < kinds.index("oracle") < kinds.index("oracle_done")
    assert client.told("heard")[-1] == {"text": "alpha alpha alpha", "is_final": True}
    assert client.told("started") == [
        {
            "session_id": session.id,
            "mode": "tandem",
            "back_end": "default",
            "model": "",
            "voice": "decoded",
            "notice": server.config.care.notice,
        }
    ]
    assert client.told("ended") == [{"reason": "bye"}]
    assert len(client.frames) == 21


async def test_the_oracle_is_fed_in_tandem_alone_and_never_at_the_first_position(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []
    take = Session.take

    def watched(session: Session) -> FrameIn | None:
        given = take(session)
        fed.extend([] if given is None else [given.oracle])
        return given

    monkeypatch.setattr(Session, "take", watched)
    async with one_slot(checkpoint, RepeatingChat(gap_s=0.0)) as server:
        session = await server.open_session("here")
        session._answering._queue.push([7, 8, 9])
        session.hear(saying(None, 3))
        await asyncio.sleep(3 * FRAME_S)
        assert fed == [PADDING_ID, checkpoint.front_end.text_card, 7]
        session.change(mode="direct")
        session.hear(saying("alpha", 4))
        await asyncio.sleep(6 * FRAME_S)
        assert fed[3:] == [PADDING_ID] * 4
        session.change(mode="tandem")
        await Client(session).talk(["alpha"] * 4 + [None] * 6)
        assert checkpoint.front_end.text_card in fed[7:]


async def test_modes_and_back_ends_change_without_a_gap(checkpoint: Checkpoint) -> None:
    first, other = RepeatingChat(), RepeatingChat()
    parts = doubles(first)
    back_ends = {**parts.back_ends, "other": BackEnd("other", other, load_prompt("tandem"))}
    server = KameServer(checkpoint, serve_config(), replace(parts, back_ends=back_ends), run=inline)
    async with server:
        session = await server.open_session("here")
        client = Client(session)
        for change in ({"mode": "direct"}, {"mode": "cascade", "back_end": "other"}, {"mode": "tandem"}):
            await client.talk(["alpha"] * 10)
            session.change(**change)  # type: ignore[arg-type]
        await client.talk(["alpha"] * 10)
        assert (session.mode, session.back_end) == ("tandem", "other")
        await session.close("bye")
        await client.over()
    assert len(client.frames) == 40
    assert first.asked
    assert other.asked
    assert client.told("changed")[1] == {"mode": "cascade", "back_end": "other", "model": ""}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"back_end": "nobody"}, "nobody"),
        ({"mode": "duet"}, "duet"),
        ({"mode": "direct", "prompt": "/etc/passwd"}, "passwd"),
        ({"mode": "direct", "back_end": "nobody"}, "nobody"),
    ],
)
async def test_what_there_is_not_changes_nothing(checkpoint: Checkpoint, change: dict[str, str], said: str) -> None:
    async with KameServer(checkpoint, serve_config(), doubles(), run=inline) as server:
        session = await server.open_session("here")
        with pytest.raises(ConfigError, match=said):
            session.change(**change)  # type: ignore[arg-type]
        assert (session.mode, session.back_end) == ("tandem", "default")
        with pytest.raises(ConfigError, match=said):
            await server.open_session("there", **change)  # type: ignore[arg-type]


async def test_a_server_without_a_voice_has_no_cascade(checkpoint: Checkpoint) -> None:
    parts = replace(doubles(), speaker=None)
    async with KameServer(checkpoint, serve_config(), parts, run=inline) as server:
        session = await server.open_session("here")
        with pytest.raises(ConfigError, match="no text-to-speech"):
            session.change(mode="cascade")


async def test_the_cascade_answers_and_stops_when_it_is_interrupted(checkpoint: Checkpoint) -> None:
    async with one_slot(checkpoint, RepeatingChat(gap_s=0.01)) as server:
        session = await server.open_session("here", mode="cascade")
        client = Client(session)
        await client.talk(["golf"] * 60 + [None] * 20)
        assert np.abs(client.frames[-1]).max() > 0.01
        await client.talk(["golf"] * 3)
        assert not np.abs(client.frames[-1]).max()
        await session.close("bye")
        await client.over()
    assert set("".join(data["text"] for data in client.told("said")).split()) == {"golf"}


async def test_sound_that_is_too_much_is_dropped_and_told(checkpoint: Checkpoint) -> None:
    async with one_slot(checkpoint) as server:
        session = await server.open_session("here")
        client = Client(session)
        session.hear(saying(None, 25))
        await asyncio.sleep(2)
        await session.close("bye")
        await client.over()
        assert client.told("dropped") == [{"direction": "heard", "n_frames": 20}]
        assert len(client.frames) == 5
        assert server.n_dropped == {"heard": 20}


async def test_a_client_that_does_not_read_loses_sound_and_holds_nobody_up(checkpoint: Checkpoint) -> None:
    async with KameServer(checkpoint, serve_config(), doubles(), run=inline) as server:
        deaf, session = await server.open_session("here"), await server.open_session("here")
        client = Client(session)
        await asyncio.gather(client.talk([None] * 40), talk_unread(deaf, 40))
        assert len(client.frames) == 40
        assert server.n_dropped == {"said": 40 - 25}


async def talk_unread(session: Session, n_frames: int) -> None:
    for _ in range(n_frames):
        session.hear(saying(None))
        await asyncio.sleep(FRAME_S)


async def test_a_turn_can_be_ended_by_the_caller(checkpoint: Checkpoint) -> None:
    async with one_slot(checkpoint) as server:
        session = await server.open_session("here")
        client = Client(session)
        ended: list[bool] = []
        session.end_turn(ended.append)  # there is none
        await client.talk(["alpha"] * 5)
        session.end_turn(ended.append)
        await asyncio.sleep(FRAME_S)
        assert client.told("heard")[-1] == {"text": "alpha alpha", "is_final": True}
        assert len(client.told("speech_stopped")) == 1
        await client.talk(["bravo"] * 5)  # without a pause: another turn
        session.end_turn(ended.append)
        session.end_turn(ended.append)
        await asyncio.sleep(FRAME_S)
        assert client.told("heard")[-1] == {"text": "bravo bravo", "is_final": True}
        assert len(client.told("speech_stopped")) == 2
        assert ended == [False, True, True, False]


async def test_after_its_end_nothing_is_heard_said_or_changed(checkpoint: Checkpoint) -> None:
    async with one_slot(checkpoint) as server:
        session = await server.open_session("here")
        client = Client(session)
        await client.talk(["alpha"] * 5)
        await asyncio.gather(session.close("first"), session.close("second"))
        n_events, n_frames = len(client.events), len(client.frames)
        await client.talk(["alpha"] * 5)
        session.reset()
        session.end_turn(lambda _: None)
        await asyncio.sleep(1)
        assert (len(client.events), len(client.frames)) == (n_events, n_frames)
        assert [event.kind async for event in session.subscribe_to_events()] == ["started", "ended"]
        assert [frame async for frame in session.read_frames()] == []
        assert client.told("ended") == [{"reason": "first"}]


class FaultyRecogniser(LoudnessRecogniser):
    """One that dies: for a time, or at a reset."""

    is_gone = False

    def listen(self, on_heard: object) -> LoudnessListener:
        if self.is_gone:
            raise BackendError("nobody is there")
        return super().listen(on_heard)  # type: ignore[arg-type]


async def test_a_recogniser_that_fails_is_told_and_the_model_talks_on(checkpoint: Checkpoint) -> None:
    parts = replace(doubles(), recogniser=FaultyRecogniser())
    assert isinstance(parts.recogniser, FaultyRecogniser)
    async with KameServer(checkpoint, serve_config(), parts, run=inline) as server:
        session = await server.open_session("here")
        client = Client(session)
        for failure in (None, "the server is gone", None):
            parts.recogniser.listeners[0].failure = failure
            await client.talk([None] * 5)
        assert client.told("listening_failed") == [{"reason": "the server is gone"}, {"reason": ""}]
        assert len(client.frames) == 15
        parts.recogniser.is_gone = True
        session.reset()
        await client.over()
        assert client.told("ended") == [{"reason": "the recogniser does not work"}]
        with pytest.raises(BackendError):
            await server.open_session("here")
        assert not server.sessions


async def test_an_error_of_ours_ends_one_session(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(heard: Heard) -> None:
        raise ValueError("a fault of ours")

    async with KameServer(checkpoint, serve_config(), doubles(), run=inline) as server:
        clients = [Client(await server.open_session("here")) for _ in range(2)]
        monkeypatch.setattr(clients[1].session._answering, "on_heard", raising)
        await asyncio.gather(*(client.talk(["alpha"] * 6) for client in clients))
        assert len(clients[0].frames) == 6
        assert clients[0].told("heard")
        assert clients[1].told("ended") == [{"reason": "an error inside the server"}]
        assert list(server.sessions.values()) == [clients[0].session]
    assert "a fault of ours" in caplog.text


async def test_who_agreed_is_recorded_until_the_session_begins_anew(checkpoint: Checkpoint, tmp_path: Path) -> None:
    about = RecordingFacts(checkpoint="tiny", recogniser="loudness", notice="a machine")
    recordings = Recordings(RecordConfig(folder=str(tmp_path)), about, InlineThreads())
    parts = replace(doubles(), recordings=recordings)
    async with KameServer(checkpoint, serve_config(), parts, run=inline) as server:
        agreed, not_asked = await server.open_session("a", record=True), await server.open_session("b")
        assert (agreed.is_recorded, not_asked.is_recorded) == (True, False)
        clients = [Client(session) for session in (agreed, not_asked)]
        await asyncio.gather(*(client.talk(["alpha"] * 10) for client in clients))
        agreed.reset()
        assert not agreed.is_recorded
        await clients[0].talk(["alpha"] * 10)
        await agreed.close("bye")
        await not_asked.close("bye")
        assert [file.stem for file in tmp_path.rglob("*.parquet")] == [agreed.id]
        assert await recordings.delete(agreed.id)


async def test_nobody_is_recorded_where_there_is_no_folder(checkpoint: Checkpoint) -> None:
    async with one_slot(checkpoint) as server:
        with pytest.raises(ConfigError, match="makes no recordings"):
            await server.open_session("here", record=True)
