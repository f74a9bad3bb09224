"""OpenAI's realtime protocol over a whole session, on a simulated clock."""

import asyncio
import base64
from typing import Any

import numpy as np
import pytest

from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.web.realtime_events import decode_pcm16
from tests.support.realtime_protocol import append, checked, of_type, realtime, say, types
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import saying, until

pytestmark = [pytest.mark.looptime, pytest.mark.full]


async def test_a_conversation(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app):
        socket = AsgiSocket(app, "/v1/realtime?model=kame", {"sec-websocket-protocol": "realtime"})
        await say(socket, "alpha", 12)
        await say(socket, None, 12)
        await socket.leave()
        assert server.sessions == {}
        assert socket.accepted is not None
        assert socket.accepted["subprotocol"] == "realtime"
    told = checked(socket.events)
    assert types(told)[:2] == ["session.created", "conversation.created"]
    assert told[0]["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    (started,) = of_type(socket, "input_audio_buffer.speech_started")
    (stopped,) = of_type(socket, "input_audio_buffer.speech_stopped")
    (completed,) = of_type(socket, "conversation.item.input_audio_transcription.completed")
    assert completed["item_id"] == started["item_id"]
    assert completed["transcript"] == "alpha alpha alpha"
    assert stopped["audio_end_ms"] > started["audio_start_ms"]
    assert of_type(socket, "kame.event") == []
    sound = [decode_pcm16(base64.b64decode(each["delta"])) for each in of_type(socket, "response.output_audio.delta")]
    assert np.concatenate(sound).any()
    numbers = [each["kame_frame"] for each in of_type(socket, "response.output_audio.delta")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert len({event["event_id"] for event in told}) == len(told)


async def test_a_client_that_listens_only_is_answered_all_the_same_until_it_is_let_go(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, limits={"max_sessions": 4, "idle_s": 4.0}) as (_, app):
        socket = AsgiSocket(app, "/v1/realtime")
        await socket.over
    n_frames = len(of_type(socket, "response.output_audio.delta"))
    assert 35 <= n_frames <= 50
    assert socket.closed == (1008, "no audio arrived for 4 s")
    assert of_type(socket, "error")[-1]["error"]["code"] == "session_ended"
    assert of_type(socket, "response.done")


async def test_what_is_changed_is_changed_and_said_again(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (server, socket):
        await until(lambda: len(socket.received) >= 2)
        first = socket.events[0]["session"]
        socket.send({"type": "session.update", "session": first})  # as it is: nothing to refuse
        socket.send({"type": "session.update", "session": {"type": "realtime", "instructions": "Talk like a pirate."}})
        socket.send({"type": "session.update", "session": {"audio": {"input": {"transcription": None}}}})
        socket.send({"type": "session.update", "kame": {"events": True, "mode": "direct"}})
        await until(lambda: len(of_type(socket, "session.updated")) == 4)
        (session,) = server.sessions.values()
        assert session.mode == "direct"
        await say(socket, "alpha", 6)
    *_, last = checked(of_type(socket, "session.updated"))
    assert last["session"]["instructions"] == "Talk like a pirate."
    assert last["session"]["audio"]["input"]["transcription"] is None
    assert (last["kame"]["mode"], last["kame"]["voice"]) == ("direct", "decoded")
    assert {event["event"]["kind"] for event in of_type(socket, "kame.event")} >= {"heard", "said", "changed"}
    assert of_type(socket, "conversation.item.input_audio_transcription.delta") == []
    assert of_type(socket, "error") == []


SERVER_VAD: dict[str, Any] = {"type": "server_vad"}
TURNS, FORMAT = "session.audio.input.turn_detection", "session.audio.input.format"


def turn_detection(wanted: Any) -> dict[str, Any]:
    session = {"type": "realtime", "audio": {"input": {"turn_detection": wanted}}}
    return {"type": "session.update", "session": session}


async def test_turns_are_told_apart_as_the_client_says_after_a_reset_too(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        wanted = {"threshold": 0.8, "prefix_padding_ms": 300, "silence_duration_ms": 800}
        socket.send(turn_detection(SERVER_VAD | wanted))
        await until(lambda: bool(of_type(socket, "session.updated")))
        for _ in range(2):
            await say(socket, "alpha", 6)
            await say(socket, None, 8)  # the test's own detector ends a turn after 3, if nobody says otherwise
            assert of_type(socket, "input_audio_buffer.speech_stopped") == []
            socket.send({"type": "session.update", "kame": {"reset": True}})
        await say(socket, "alpha", 6)
        await say(socket, None, 12)
    (updated, *_) = checked(of_type(socket, "session.updated"))
    shown = updated["session"]["audio"]["input"]["turn_detection"]
    assert {name: shown[name] for name in wanted} == wanted | {"prefix_padding_ms": 320}
    assert len(of_type(socket, "input_audio_buffer.speech_stopped")) == 1


async def test_a_response_is_interrupted_by_the_user_where_the_client_wishes_so(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        socket.send(turn_detection({**SERVER_VAD, "interrupt_response": True}))
        await say(socket, None, 4)
        socket.send({"type": "response.create"})
        await say(socket, None, 4)
        await say(socket, "alpha", 6)
        n_frames = len(of_type(socket, "response.output_audio.delta"))
        await say(socket, "alpha", 6)
        assert len(of_type(socket, "response.output_audio.delta")) == n_frames
        await say(socket, None, 10)  # the turn has ended: what is said now may be the answer
        assert len(of_type(socket, "response.output_audio.delta")) > n_frames
    (interrupted, *_) = checked(of_type(socket, "response.done"))
    assert interrupted["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}


async def test_sound_that_is_sent_at_once_after_beginning_anew_is_heard_whole(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        await say(socket, None, 3)
        for _ in range(2):
            socket.send({"type": "session.update", "kame": {"reset": True}})
        socket.send(append(np.concatenate([saying("alpha", 25), saying(None, 8)])))
        await until(lambda: bool(of_type(socket, "input_audio_buffer.speech_stopped")))
    (started,) = of_type(socket, "input_audio_buffer.speech_started")
    (stopped,) = of_type(socket, "input_audio_buffer.speech_stopped")
    assert stopped["audio_end_ms"] - started["audio_start_ms"] >= 25 * 80
    assert of_type(socket, "error") == []


async def test_nothing_of_before_is_told_after_beginning_anew(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app):
        socket = AsgiSocket(app, "/v1/realtime")
        socket.send({"type": "session.update", "kame": {"events": True}})
        socket.send(append(saying("alpha", 30)))  # is given on as it is spoken
        await asyncio.sleep(5 * FRAME_S)
        socket.takes.clear()  # frames and events wait for their turn
        await asyncio.sleep(5 * FRAME_S)
        socket.send({"type": "session.update", "kame": {"reset": True}})
        await asyncio.sleep(0.01)
        socket.takes.set()
        await asyncio.sleep(0.1)
        await socket.leave()
    told = socket.events
    (at,) = [number for number, each in enumerate(told) if each["type"] == "session.updated"][1:]
    after = [each for each in told[at + 1 :] if each["type"] != "response.done"]
    assert [each for each in after if each["type"] == "response.output_audio.delta"] == []
    kinds = [each["event"]["kind"] for each in after if each["type"] == "kame.event"]
    assert kinds == ["started"]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"session": {"tools": [{"type": "function", "name": "f"}]}}, "not_supported", "session.tools"),
    ({"session": {"type": "transcription"}}, "not_supported", "session.type"),
    ({"session": {"output_modalities": ["text"]}}, "not_supported", "session.output_modalities"),
    (turn_detection(None), "not_supported", TURNS),
    (turn_detection({**SERVER_VAD, "create_response": False}), "not_supported", f"{TURNS}.create_response"),
    (turn_detection({**SERVER_VAD, "threshold": 1.5}), "invalid_value", f"{TURNS}.threshold"),
    ({"session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}}, "not_supported", f"{FORMAT}.type"),
    ({"session": {"input_audio_format": "g711_ulaw"}}, "not_supported", f"{FORMAT}.type"),
    ({"session": {"prompt": {"id": "pmpt_1"}}}, "not_supported", "session.prompt"),
    ({"session": {"audio": 7}}, "not_supported", "session.audio"),
    ({"session": {"instructions": 7}}, "invalid_value", "session.instructions"),
    ({"session": []}, "invalid_type", "session"),
    ({}, "missing_required_parameter", "session"),
    ({"kame": {"mode": "loud"}}, "invalid_value", "kame.mode"),
    ({"kame": {"events": 1}}, "invalid_type", "kame.events"),
]


async def test_what_cannot_be_had_is_refused_by_its_name_and_changes_nothing(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (server, socket):
        await until(lambda: bool(server.sessions))
        before = next(iter(server.sessions.values())).turn_taking
        for number, (wanted, _, _) in enumerate(REFUSED):
            socket.send({"type": "session.update", "event_id": f"mine-{number}", **wanted})
        await until(lambda: len(of_type(socket, "error")) == len(REFUSED))
        (session,) = server.sessions.values()
        assert session.mode == "tandem"
        assert session.turn_taking == before
    errors = [event["error"] for event in checked(of_type(socket, "error"))]
    assert [(error["code"], error["param"]) for error in errors] == [(code, param) for _, code, param in REFUSED]
    assert [error["event_id"] for error in errors] == [f"mine-{number}" for number in range(len(REFUSED))]
    shown = of_type(socket, "session.updated")
    assert all(each["session"] == socket.events[0]["session"] for each in shown), "what is told is what is so"
    assert all(each["kame"]["differences"] == [] for each in shown)


BAD: list[tuple[Any, str]] = [
    ("{", "invalid_json"),
    ("[" * 50_000, "invalid_json"),
    (b"{}", "invalid_json"),
    ("7", "missing_required_parameter"),
    ('{"type": 7}', "missing_required_parameter"),
    ({"type": "conversation.item.create", "item": {}}, "not_supported"),
    ({"type": "conversation.item.truncate", "item_id": "x"}, "not_supported"),
    ({"type": "output_audio_buffer.clear"}, "not_supported"),
    ({"type": "input_audio_buffer.append"}, "invalid_type"),
    ({"type": "input_audio_buffer.append", "audio": "%%%"}, "invalid_value"),
    ({"type": "input_audio_buffer.append", "audio": "é"}, "invalid_value"),
    ({"type": "input_audio_buffer.append", "audio": base64.b64encode(b"odd").decode()}, "invalid_value"),
    ({"type": "input_audio_buffer.append", "audio": "AAAA" * 500_000}, "input_audio_buffer_full"),
    ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
    ({"type": "conversation.item.retrieve", "item_id": "item_1"}, "item_not_found"),
    ({"type": "conversation.item.retrieve", "item_id": []}, "item_not_found"),
    ({"type": "response.create", "response": {"instructions": "Sing."}}, "not_supported"),
    ({"type": "response.create", "response": 7}, "invalid_type"),
    ({"type": "response.create", "response": {"metadata": {"a": {"b": {}}}}}, "invalid_value"),
    ({"type": "response.cancel", "response_id": "resp_1"}, "response_cancel_not_active"),
]


async def test_errors_are_told_and_the_conversation_goes_on(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app):
        socket = AsgiSocket(app, "/v1/realtime?model=gpt-realtime")
        for message, _ in BAD:
            socket.send(message)
        socket.send({"type": "input_audio_buffer.clear"})
        await until(lambda: bool(of_type(socket, "input_audio_buffer.cleared")))
        assert socket.closed is None
        await socket.leave()
    codes = [event["error"]["code"] for event in checked(of_type(socket, "error"))]
    assert codes == ["model_not_found", *(code for _, code in BAD)]


async def test_a_turn_can_be_ended_by_the_client(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        await say(socket, "alpha", 6)
        socket.send({"type": "input_audio_buffer.commit"})
        await say(socket, "alpha", 1)
        (committed,) = of_type(socket, "input_audio_buffer.committed")
        socket.send({"type": "conversation.item.retrieve", "item_id": committed["item_id"]})
        await until(lambda: bool(of_type(socket, "conversation.item.retrieved")))
    (retrieved,) = checked(of_type(socket, "conversation.item.retrieved"))
    assert retrieved["item"]["content"][0]["transcript"] == "alpha alpha"


async def test_a_response_is_cut_short_by_the_client_and_by_beginning_anew(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        socket.send({"type": "response.create", "response": {"metadata": {"a": "b"}}})
        await say(socket, "alpha", 6)
        socket.send({"type": "response.cancel"})
        await until(lambda: bool(of_type(socket, "response.done")))
        n_frames = len(of_type(socket, "response.output_audio.delta"))
        await say(socket, "alpha", 6)
        assert len(of_type(socket, "response.output_audio.delta")) == n_frames
        socket.send({"type": "response.create"})
        await say(socket, "alpha", 3)
        socket.send({"type": "session.update", "kame": {"reset": True}})
        await until(lambda: len(of_type(socket, "response.done")) == 2)
    first, second = checked(of_type(socket, "response.done"))
    assert first["response"]["status_details"]["reason"] == "client_cancelled"
    assert first["response"]["metadata"] == {"a": "b"}
    assert second["response"]["status"] == "cancelled"
