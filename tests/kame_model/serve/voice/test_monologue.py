"""What a caller hears of a front-end that text-to-speech reads out: when, what not, and what is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech, SpeechRefused
from data_schemas.config.serving import CascadeConfig, RecordConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.records.recording import FRONT_END
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device import slots
from kame_model.serve.parts import ServerParts, build_parts
from kame_model.serve.server import KameServer
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.voice.clauses import PAUSE_N_FRAMES
from kame_model.serve.voice.monologue import MOST_BEHIND_S
from kame_model.serve.voice.speaker import SentenceAudio, Speaker
from tests.support.inline_threads import InlineThreads
from tests.support.serving import Client, doubles, inline, serve_config
from tests.support.writing_front_end import OWN_LOUDNESS, Script, WritingEngine, words_from

pytestmark = [pytest.mark.looptime, pytest.mark.full]

LATER = 1
"""Frames from the one on which a clause is whole to the one in which it is heard, where synthesis takes no time."""

Writes = Callable[..., None]


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    """Has the front-end write these, a script a slot."""

    def write(*scripts: Script) -> None:
        four = [*scripts, *[{}] * (4 - len(scripts))]
        monkeypatch.setattr(slots, "FrontEndEngine", partial(WritingEngine, four))

    return write


class SlowSpeaker:
    """Takes so many seconds for each sentence, and may be told to fail."""

    voice_name = "slow"

    def __init__(self, took_s: float = 0.0, tts: DoubleTts | None = None) -> None:
        self.took_s = took_s
        self._speaker = Speaker(tts or DoubleTts(), CascadeConfig(), InlineThreads())

    async def say(self, written: str) -> SentenceAudio:
        await asyncio.sleep(self.took_s)
        return self._speaker.say_now(written)


class FailingTts(DoubleTts):
    """Cannot say "bravo", and is gone where it is to say "kilo"."""

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        if "bravo" in text:
            raise SpeechRefused("nobody says that")
        if "kilo" in text:
            raise BackendError("The engine is gone.", "Start it.")
        return super().synthesise(text, voice, speed, take)


@asynccontextmanager
async def talking(checkpoint: Checkpoint, parts: ServerParts | None = None) -> AsyncIterator[Client]:
    async with server_of(checkpoint, parts) as server:
        yield Client(await server.open_session("here", mode="direct"))


def server_of(checkpoint: Checkpoint, parts: ServerParts | None = None) -> KameServer:
    return KameServer(checkpoint, serve_config(voice="synthesised"), parts or doubles(), run=inline)


def loud(client: Client) -> list[int]:
    """Frames in which something is heard."""
    return [at for at, frame in enumerate(client.frames) if float(np.abs(frame).max()) > 1e-3]


def said(client: Client) -> dict[int, str]:
    """Words by the frame in which they begin to be heard."""
    return {at: text for at, text in enumerate(client.texts) if text}


async def test_each_clause_is_heard_once_it_is_written_beside_silence(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(5, "okay") | words_from(12, "the answer is nine eggs") | words_from(60, "yes"))
    async with talking(checkpoint) as client:
        await client.talk([None] * 90)
    okay = 5 + PAUSE_N_FRAMES + LATER
    the = 21 + LATER  # "nine" begins, three words are there, and nothing is left to be said
    yes = 60 + PAUSE_N_FRAMES + LATER
    starts = said(client)
    assert "".join(starts.values()) == " okay the answer is nine eggs yes"
    assert [at for at, text in starts.items() if text in (" okay", " the", " yes")] == [okay, the, yes]
    heard = loud(client)
    assert heard[0] == okay
    assert [at for at in heard if okay + 4 <= at < the] == []  # the word lasts a quarter of a second
    assert the in heard
    assert not {*range(the + 22, yes)} & {*heard}  # five words last 1.5 s
    assert np.abs(np.concatenate(client.frames)).max() < OWN_LOUDNESS / 2  # its own sound is not mixed in
    assert "".join(each["text"] for each in client.told("said")) == "".join(starts.values())
    assert client.told("started")[0]["voice"] == "synthesised"


async def test_what_the_user_interrupts_stops_and_its_rest_is_not_said(checkpoint: Checkpoint, writes: Writes) -> None:
    answer = words_from(0, "alpha bravo charlie delta foxtrot golf hotel india kilo lima")  # until frame 27
    writes(answer | words_from(40, "pardon me"))
    async with talking(checkpoint) as client:
        await client.talk([None] * 15)
        assert loud(client)[-1] == 14
        await client.talk(["alpha"] * 50)
    assert loud(client)[0] < 15
    assert 15 in loud(client)  # fades
    assert abs(float(client.frames[15][-1])) < 1e-3
    assert not {*range(16, 43 + PAUSE_N_FRAMES + LATER)} & {*loud(client)}
    assert said(client)[43 + PAUSE_N_FRAMES + LATER] == " pardon"
    assert not {"golf", "hotel", "india"} & {*"".join(client.texts).split()}


async def test_what_is_written_after_the_users_turn_needs_no_pause(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, " ".join(["babble"] * 40)))
    async with talking(checkpoint) as client:
        await client.talk([None] * 12 + ["alpha"] * 10 + [None] * 40)
    heard = loud(client)
    assert not {*range(13, 24)} & {*heard}  # the turn ends with its third silent frame, 24
    assert min(at for at in heard if at > 12) <= 24 + 4 * 3 + LATER


async def test_a_slow_voice_is_late_and_holds_up_nobody(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, "okay"), words_from(0, "right"))
    parts = replace(doubles(), speaker=SlowSpeaker(1.0))
    async with server_of(checkpoint, parts) as server:
        clients = [Client(await server.open_session(name, mode="direct")) for name in ("one", "other")]
        await asyncio.gather(*(client.talk([None] * 40) for client in clients))
    whole = PAUSE_N_FRAMES + LATER
    for client, word in zip(clients, (" okay", " right"), strict=True):
        assert len(client.frames) == 40
        ((at, text),) = said(client).items()
        assert text == word
        assert whole + 1.0 / FRAME_S - 1 <= at <= whole + 1.0 / FRAME_S + 1


async def test_a_voice_that_hangs_is_told_and_what_comes_later_is_said(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, "okay") | words_from(60, "still there") | words_from(160, "at last"))
    speaker = SlowSpeaker(1e6)
    async with talking(checkpoint, replace(doubles(), speaker=speaker)) as client:
        await client.talk([None] * 150)
        speaker.took_s = 0.0
        await client.talk([None] * 120)
    assert [each["text"] for each in client.told("voice_failed")] == ["okay", "still there"]
    assert f"not said within {MOST_BEHIND_S:g} s" in client.told("voice_failed")[0]["reason"]
    assert "".join(client.texts) == " at last"


async def test_what_cannot_be_said_is_told_and_the_rest_is_said(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, "alpha") | words_from(20, "bravo") | words_from(40, "kilo") | words_from(60, "lima"))
    parts = replace(doubles(), speaker=SlowSpeaker(tts=FailingTts()))
    async with talking(checkpoint, parts) as client:
        await client.talk([None] * 90)
    assert client.told("voice_failed") == [
        {"text": "bravo", "reason": "nobody says that"},
        {"text": "kilo", "reason": "The engine is gone. Start it."},
    ]
    assert "".join(client.texts) == " alpha lima"
    assert [each["text"] for each in client.told("voice_asked")] == ["alpha", "bravo", "kilo", "lima"]
    assert [each["text"] for each in client.told("voice_done")] == ["alpha", "lima"]


async def test_another_mode_of_the_front_end_leaves_no_gap(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, "alpha bravo charlie delta foxtrot golf hotel india"))
    async with talking(checkpoint) as client:
        await client.talk([None] * 14)
        client.session.change(mode="tandem")
        await client.talk([None] * 40)
    heard = loud(client)
    assert heard == [*range(heard[0], heard[-1] + 1)]
    assert "".join(client.texts) == " alpha bravo charlie delta foxtrot golf hotel india"


async def test_a_reset_leaves_nothing_to_say(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, "alpha bravo charlie delta foxtrot golf hotel india"))
    async with talking(checkpoint) as client:
        await client.talk([None] * 14)
        assert loud(client)[-1] == 13
        client.session.reset()
        await client.talk([None] * 9)  # as many as the first clause takes to be whole
    assert loud(client)[-1] == 13


async def test_who_comes_back_from_mode_cascade_does_not_hear_the_rest(checkpoint: Checkpoint, writes: Writes) -> None:
    writes(words_from(0, "alpha bravo charlie delta foxtrot") | words_from(30, "all right"))
    async with talking(checkpoint) as client:
        await client.talk([None] * 14)
        client.session.change(mode="cascade")
        await client.talk([None] * 10)
        assert loud(client)[-1] == 13
        client.session.change(mode="direct")
        await client.talk([None] * 50)
    assert "".join(client.texts) == " alpha bravo all right"


async def test_the_recording_is_of_what_was_heard(checkpoint: Checkpoint, writes: Writes, tmp_path: Path) -> None:
    writes(words_from(0, "alpha bravo"))
    about = RecordingFacts(checkpoint="tiny", recogniser="loudness", notice="n", front_end_voice="double/double_a")
    recordings = Recordings(RecordConfig(folder=str(tmp_path)), about, InlineThreads())
    config = serve_config(voice="synthesised", record=RecordConfig(folder=str(tmp_path)))
    async with KameServer(checkpoint, config, doubles(recordings=recordings), run=inline) as server:
        session = await server.open_session("here", mode="direct", record=True)
        client = Client(session)
        await client.talk([None] * 30)
        await session.close("bye")
    (row,) = recordings.store.read_table(f"{session.id}.parquet").to_pylist()
    assert [each["voice"] for each in row["voices"]] == ["double/double_a"]
    starts = [(" alpha", 3 + PAUSE_N_FRAMES + LATER), (" bravo", 3 + PAUSE_N_FRAMES + LATER + 3)]
    told = [(each["text"], round(each["time_s"] / FRAME_S)) for each in row["said"]]
    assert told == starts
    await recordings.aclose()


async def test_the_checkpoint_says_how_it_is_to_be_heard_unless_somebody_else_does(checkpoint: Checkpoint) -> None:
    assert checkpoint.facts is not None
    quiet = checkpoint._replace(facts=checkpoint.facts.model_copy(update={"voice": "synthesised"}))
    assert KameServer(checkpoint, serve_config(), doubles()).voice == "decoded"
    assert KameServer(quiet, serve_config(), doubles()).voice == "synthesised"
    assert KameServer(quiet, serve_config(voice="decoded"), doubles()).voice == "decoded"
    with pytest.raises(ConfigError, match="text-to-speech is not available"):
        async with KameServer(quiet, serve_config(), replace(doubles(), speaker=None)):
            pass


async def test_parts_are_built_for_it(tmp_path: Path) -> None:
    remote = [{"chat": {"engine": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}}]
    settings = {"listener": {"engine": "double"}, "back_ends": remote, "cascade": {"tts": "double"}}
    for voice, speaks in (("synthesised", "double/double_a"), ("decoded", FRONT_END)):
        record = {"folder": str(tmp_path / voice)}
        async with build_parts(serve_config(**settings, record=record, voice=voice)) as parts:
            assert parts.recordings is not None
            assert parts.recordings.about.front_end_voice == speaks
