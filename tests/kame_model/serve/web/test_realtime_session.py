"""What clients of OpenAI's realtime protocol say of their sessions: whole, with much that this server has not."""

from typing import Any

import pytest

from kame_model.checkpoint.load import Checkpoint
from tests.support.realtime_protocol import checked, of_type, realtime, say
from tests.support.served import AsgiSocket
from tests.support.serving import RepeatingChat, doubles, until

pytestmark = [pytest.mark.looptime, pytest.mark.full]
INSTRUCTIONS = "You are a helpful assistant, and brief."
PCM = {"type": "audio/pcm", "rate": 24_000}

AGENTS: dict[str, Any] = {
    "type": "realtime",
    "instructions": INSTRUCTIONS,
    "model": "gpt-realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": PCM,
            "noise_reduction": None,
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
        },
        "output": {"format": PCM, "voice": "ash", "speed": 1},
    },
    "tools": [],
    "tool_choice": "auto",
}
"""What openai-agents-js (openaiRealtimeBase.ts) and openai-agents-python (openai_realtime.py) send between them."""

FORMER: dict[str, Any] = {
    "modalities": ["text", "audio"],
    "instructions": INSTRUCTIONS,
    "voice": "alloy",
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "whisper-1"},
    "turn_detection": {"type": "server_vad", "silence_duration_ms": 500},
    "tools": [],
    "tool_choice": "auto",
    "temperature": 0.8,
    "max_response_output_tokens": "inf",
}
"""A session of the protocol's first version."""


async def update(socket: AsgiSocket, session: dict[str, Any]) -> dict[str, Any]:
    """Sends a session; what is told of it then."""
    n_told = len(of_type(socket, "session.updated"))
    socket.send({"type": "session.update", "event_id": "mine", "session": session})
    await until(lambda: len(of_type(socket, "session.updated")) > n_told)
    return of_type(socket, "session.updated")[-1]


@pytest.mark.parametrize(
    ("session", "differs"),
    [
        (
            AGENTS,
            {"model", "audio.input.transcription.model", "audio.input.turn_detection.type", "audio.output.voice"},
        ),
        (FORMER, {"output_modalities", "audio.input.transcription.model", "audio.output.voice", "temperature"}),
    ],
    ids=["openai-agents", "first version"],
)
async def test_the_default_session_of_a_client_is_taken_and_what_holds_instead_is_told(
    checkpoint: Checkpoint, session: dict[str, Any], differs: set[str]
) -> None:
    async with realtime(checkpoint) as (server, socket):
        updated = await update(socket, session)
        again = await update(socket, updated["session"])
        (turns,) = [each.turn_taking for each in server.sessions.values()]
    checked(socket.events)
    assert of_type(socket, "error") == []
    assert updated["session"]["instructions"] == INSTRUCTIONS
    told = {each["param"].removeprefix("session."): each for each in updated["kame"]["differences"]}
    assert set(told) == differs
    assert all(each["reason"].endswith(".") for each in told.values())
    assert told["audio.output.voice"]["holds"] == updated["session"]["audio"]["output"]["voice"] == "kame"
    holds = updated["session"]["audio"]["input"]["turn_detection"]
    assert holds["interrupt_response"] is (session is AGENTS)
    assert session is AGENTS or turns.turn_end_silence_s == 0.5, "what may be had is done"
    assert again["kame"]["differences"] == [], "what holds can be said again"
    assert again["session"] == updated["session"]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"session": {"tools": [{"type": "function", "name": "f", "parameters": {}}]}}, "session.tools"),
        ({"kame": {"mode": "loud", "events": True}}, "kame.mode"),
        ({"kame": "events"}, "kame"),
    ],
)
async def test_what_cannot_be_had_is_an_error_that_costs_no_instructions(
    checkpoint: Checkpoint, wrong: dict[str, Any], param: str
) -> None:
    session = {"instructions": INSTRUCTIONS, "tracing": "auto", **wrong.get("session", {})}
    async with realtime(checkpoint) as (_, socket):
        socket.send({"type": "session.update", "event_id": "mine", **wrong, "session": session})
        await until(lambda: bool(of_type(socket, "error")))
    (error,) = [each["error"] for each in checked(of_type(socket, "error"))]
    assert (error["param"], error["event_id"]) == (param, "mine")
    (updated,) = of_type(socket, "session.updated")
    assert (updated["session"]["instructions"], updated["session"]["tracing"]) == (INSTRUCTIONS, "auto")
    assert updated["session"]["tools"] == []


async def test_the_words_of_the_user_are_told_again_once_a_transcriber_is_named(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        without = await update(socket, {"audio": {"input": {"transcription": None}}})
        assert without["session"]["audio"]["input"]["transcription"] is None
        again = await update(socket, AGENTS)
    holds = again["session"]["audio"]["input"]["transcription"]["model"]
    told = {each["param"]: each["holds"] for each in again["kame"]["differences"]}
    assert told["session.audio.input.transcription.model"] == holds


@pytest.mark.parametrize("text", ["Brief.", "cascade", "You are brief. " * 1_000])
async def test_instructions_are_a_text_of_one_word_or_of_thousands(checkpoint: Checkpoint, text: str) -> None:
    chat = RepeatingChat()
    async with realtime(checkpoint, doubles(chat)) as (_, socket):
        updated = await update(socket, {"instructions": text})
        await say(socket, "alpha", 10)
        await say(socket, None, 10)
    assert of_type(socket, "error") == []
    assert updated["session"]["instructions"] == text
    assert chat.asked
    assert all(payload["messages"][0]["content"].startswith(f"{text.strip()} ") for payload in chat.asked)


async def test_longer_instructions_than_the_host_allows_are_told_with_the_setting(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint, limits={"max_instruction_characters": 100, "max_sessions": 4}) as (_, socket):
        await update(socket, {"instructions": "x" * 100})
        updated = await update(socket, {"instructions": "x" * 101, "tracing": "auto"})
        await until(lambda: bool(of_type(socket, "error")))
    (error,) = [each["error"] for each in of_type(socket, "error")]
    assert error["param"] == "session.instructions"
    assert "limits.max_instruction_characters" in error["message"]
    assert updated["session"]["instructions"] == "x" * 100
    assert updated["session"]["tracing"] == "auto"


async def test_a_client_cannot_make_the_server_say_much_again_and_again(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        much = {f"field-{number}": number for number in range(5_000)}
        updated = await update(socket, {**much, "tracing": {"a": "x" * 100_000}, "include": ["x"] * 5_000})
        assert {"tracing", "include"} & set(updated["session"]) == set()
        assert len(updated["kame"]["differences"]) == 32
        await update(socket, {"instructions": INSTRUCTIONS, "tracing": {"group_id": "g", "metadata": {"a": "b"}}})
    last = of_type(socket, "session.updated")[-1]["session"]
    assert last["tracing"] == {"group_id": "g", "metadata": {"a": "b"}}


async def test_what_is_only_said_again_can_be_taken_back(checkpoint: Checkpoint) -> None:
    async with realtime(checkpoint) as (_, socket):
        wished = await update(socket, {"tracing": "auto", "tool_choice": "none"})
        taken_back = await update(socket, {"tracing": None, "tool_choice": None})
    checked(socket.events)
    assert (wished["session"]["tracing"], wished["session"]["tool_choice"]) == ("auto", "none")
    assert taken_back["session"] == socket.events[0]["session"]
