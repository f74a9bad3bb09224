"""Sound that does not come in real time: files that are appended at once and committed, and stalled networks."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pytest

from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn, FrameOut, FrontEndEngine, RunInThread
from kame_model.serve.web.realtime_events import WAIT_N_FRAMES
from tests.support.realtime_protocol import append, checked, of_type, realtime, say
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import RepeatingChat, doubles, said_in, saying

pytestmark = [pytest.mark.looptime, pytest.mark.full]
COMMIT, CLEAR, CREATE = (
    {"type": kind} for kind in ("input_audio_buffer.commit", "input_audio_buffer.clear", "response.create")
)
TRANSCRIPT = "conversation.item.input_audio_transcription.completed"
COMMITTED = "input_audio_buffer.committed"
AUDIO = "response.output_audio.delta"
_T = TypeVar("_T")
CYCLE = {"min_words": 20}  # only a turn that has ended is asked for


class Thinker(RepeatingChat):
    """Thinks nearly as long as it may before its answer, and for `gap_s` between its sentences."""

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        self.asked.append(payload)
        await asyncio.sleep(4.5)
        for sentence in ("Bravo. ", "Charlie. ", "Delta."):
            yield sentence
            await asyncio.sleep(self.gap_s)


class PoliteFrontEnd:
    """An engine's step that says a frame for each token of an oracle, and waits until nobody else speaks."""

    def __init__(self) -> None:
        self.n_to_say = 0

    def step(self, inputs: Mapping[int, FrameIn]) -> dict[int, FrameOut]:
        said = {}
        for slot, given in inputs.items():
            self.n_to_say += given.oracle != PADDING_ID
            speaks = self.n_to_say > 0 and said_in(given.samples) is None
            self.n_to_say -= speaks
            said[slot] = FrameOut(saying("golf" if speaks else None), 0, " so" if speaks else "")
        return said


def steps_that_take(step_s: float) -> RunInThread:
    """Returns what runs the engine's work as a device does whose steps take so long."""

    async def run(work: Callable[[], _T]) -> _T:
        await asyncio.sleep(step_s)
        return work()

    return run


@pytest.fixture
def polite(monkeypatch: pytest.MonkeyPatch) -> None:
    front_end = PoliteFrontEnd()
    monkeypatch.setattr(FrontEndEngine, "step", lambda self, inputs: front_end.step(inputs))


async def told_of(
    checkpoint: Checkpoint, *messages: dict[str, Any], mode: str = "cascade", for_s: float = 60.0
) -> AsgiSocket:
    """What a client is told that sends these messages at once and then listens."""
    thinker = Thinker(gap_s=3.0 if mode == "cascade" else 0.1)
    async with realtime(checkpoint, parts=doubles(thinker), mode=mode, cycle=CYCLE) as (_, socket):
        for message in messages:
            socket.send(message)
        await asyncio.sleep(for_s)
    checked(socket.events)
    return socket


def codes(socket: AsgiSocket) -> list[str]:
    return [event["error"]["code"] for event in of_type(socket, "error")]


def transcripts(socket: AsgiSocket) -> list[str]:
    return [event["transcript"] for event in of_type(socket, TRANSCRIPT)]


@pytest.mark.usefixtures("polite")
@pytest.mark.parametrize("mode", ["cascade", "tandem"])
@pytest.mark.parametrize("n_silent", [0, 20])  # with a silence at its end the turn has ended before it is committed
async def test_a_file_is_heard_to_its_end_and_answered_in_the_response_that_was_asked_for(
    checkpoint: Checkpoint, mode: str, n_silent: int
) -> None:
    file = np.concatenate([saying("alpha", 76), saying(None, n_silent)])
    socket = await told_of(checkpoint, append(file), COMMIT, CREATE, mode=mode)
    assert codes(socket) == []
    assert transcripts(socket) == [" ".join(["alpha"] * 19)]
    assert len(of_type(socket, COMMITTED)) == 1
    (created,) = of_type(socket, "response.created")
    (done,) = of_type(socket, "response.done")
    assert done["response"]["id"] == created["response"]["id"]
    assert done["response"]["status"] == "completed"
    (said,) = (each["transcript"] for each in done["response"]["output"][0]["content"])
    assert said.split() == ["Bravo.", "Charlie.", "Delta."] if mode == "cascade" else said
    assert of_type(socket, AUDIO)[0]["kame_frame"] >= 76 - 3  # nothing of the silence in which the file was heard


async def test_files_that_are_committed_one_after_the_other_are_turns_of_their_own(checkpoint: Checkpoint) -> None:
    first, second = append(saying("alpha", 37)), append(saying("bravo", 41)[:-700])
    socket = await told_of(checkpoint, first, COMMIT, second, COMMIT)
    assert codes(socket) == []
    assert transcripts(socket) == [" ".join(["alpha"] * 10), " ".join(["bravo"] * 11)]
    assert len(of_type(socket, COMMITTED)) == 2


async def test_a_file_in_which_nobody_speaks_is_an_empty_one_when_it_has_been_heard(checkpoint: Checkpoint) -> None:
    socket = await told_of(checkpoint, append(saying(None, 50)), {**COMMIT, "event_id": "mine"}, CREATE, for_s=14)
    (error,) = of_type(socket, "error")
    assert (error["error"]["code"], error["error"]["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
    (done,) = of_type(socket, "response.done")
    assert done["response"]["status"] == "completed"
    assert len(of_type(socket, AUDIO)) <= WAIT_N_FRAMES + 2
    kinds = [event["type"] for event in socket.events]
    assert kinds.index("error") < kinds.index("response.done")


async def test_what_is_cleared_is_what_has_not_been_committed(checkpoint: Checkpoint) -> None:
    socket = await told_of(checkpoint, append(saying("alpha", 40)), COMMIT, append(saying("bravo", 40)), CLEAR)
    assert transcripts(socket) == [" ".join(["alpha"] * 10)]
    assert codes(socket) == []


async def test_a_response_of_the_cascade_that_is_cancelled_does_not_come_back(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint, parts=doubles(Thinker(gap_s=3.0)), mode="cascade", cycle=CYCLE) as (_, socket):
        await say(socket, "alpha", 8)
        await say(socket, None, round(6.0 / FRAME_S))
        assert of_type(socket, AUDIO)
        socket.send({"type": "response.cancel"})
        await say(socket, None, round(15.0 / FRAME_S))
    (done,) = of_type(socket, "response.done")
    assert done["response"]["status"] == "cancelled"


async def test_who_speaks_in_ends_the_response_of_a_cascade(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint, parts=doubles(Thinker(gap_s=3.0)), mode="cascade", cycle=CYCLE) as (_, socket):
        await say(socket, "alpha", 8)
        await say(socket, None, round(5.5 / FRAME_S))
        await say(socket, "bravo", 8)
        await say(socket, None, round(15.0 / FRAME_S))
    first, second = checked(of_type(socket, "response.done"))
    assert first["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert second["response"]["status"] == "completed"


async def test_a_file_sent_at_once_is_heard_whole_on_a_slow_device(checkpoint: Checkpoint) -> None:
    for step_s in (0.04, 0.1):  # too slow to step a session twice in a frame; too slow for real time
        async with app_of(checkpoint, run=steps_that_take(step_s)) as (server, app):
            socket = AsgiSocket(app, "/v1/realtime")
            socket.send(append(saying("alpha", 200)))
            socket.send(COMMIT)
            await asyncio.sleep(200 * max(step_s, FRAME_S) + 2)
            await socket.leave()
        assert server.n_dropped == {}
        (transcript,) = of_type(socket, TRANSCRIPT)
        assert len(transcript["transcript"].split()) == 50


async def test_a_live_caller_of_a_device_that_is_too_slow_is_told_of_each_stretch_once(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, run=steps_that_take(0.12)) as (server, app):
        socket = AsgiSocket(app, "/v1/realtime")
        await say(socket, "alpha", 100)
        n_lost = server.n_dropped["heard"]
        await socket.leave()
    assert n_lost == pytest.approx(100 / 3 - 8, abs=5)
    errors = [each["error"] for each in of_type(socket, "error")]
    assert [each["code"] for each in errors] == ["input_audio_dropped"] * (n_lost // 6)
    assert errors[0]["message"] == "0.48 s of your audio were dropped, because the server is overloaded."


async def test_after_a_stall_the_caller_is_heard_without_delay_and_told_what_was_lost(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        socket = AsgiSocket(app, "/v1/realtime")
        socket.send({"type": "session.update", "kame": {"events": True}})
        await say(socket, "alpha", 25)
        await asyncio.sleep(6)
        for _ in range(75):
            socket.send(append(saying("bravo")))
        await say(socket, "charlie", 20)
        (session,) = server.sessions.values()
        stepped_s = session.time_s
        n_lost = server.n_dropped["heard"]
        await socket.leave()
    assert 6 - 0.8 - 0.3 <= n_lost * FRAME_S <= 6
    assert stepped_s == pytest.approx(asyncio.get_running_loop().time(), abs=1.0), "its clock has not stood still"
    dropped = [each["event"]["data"] for each in of_type(socket, "kame.event") if each["event"]["kind"] == "dropped"]
    assert sum(each["n_frames"] for each in dropped) == n_lost
    assert all(each == {"direction": "heard", "n_frames": each["n_frames"], "was_silence": True} for each in dropped)
    assert len(dropped) < 10, "lost sound is told by the frame's time, not by the packet"
    assert [each["error"]["code"] for each in of_type(socket, "error")] == ["input_audio_dropped"] * len(dropped)
    last = of_type(socket, "conversation.item.input_audio_transcription.delta")[-1]
    assert "charlie" in last["delta"], "what is said now is what is heard now"
