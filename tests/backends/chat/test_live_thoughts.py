"""Chat models that think aloud, and characters cut over two pieces, while an answer is written: over real HTTP."""

import asyncio
from typing import Any

import pytest

from backends.chat.live import OpenAILiveChat
from data_schemas.config import ChatConfig
from data_schemas.errors import KameError
from tests.support.streaming_chat import DONE, STOP, StreamingChat, Write, event, piece, serving

PAYLOAD: dict[str, Any] = {"messages": [{"role": "user", "content": "Which is nearest?"}], "max_tokens": 20}
REMOTE = ChatConfig(engine="openai", base_url="http://localhost/v1")


def delta(**fields: str) -> bytes:
    """An event with these fields in its delta."""
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def ends(*events: bytes) -> bytes:
    return b"".join([*events, STOP, DONE])


CUT = event({"choices": [{"delta": {}, "finish_reason": "length"}]}) + DONE


async def asked(answers: list[bytes], config: ChatConfig = REMOTE) -> tuple[list[list[str] | str], StreamingChat]:
    """What a client is told of each answer, pieces or a fault, and what the server was asked."""
    server = StreamingChat()
    left = iter(answers)

    async def next_one(_: dict[str, Any], write: Write) -> None:
        await write(next(left))

    server.answer = next_one
    told: list[list[str] | str] = []
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, config) as chat:
        for _ in answers:
            try:
                told.append([each async for each in chat.stream({**PAYLOAD, "stop": ["\n"]})])
            except KameError as error:
                told.append(f"{type(error).__name__}: {error}")
    return told, server


THINKS = REMOTE.model_copy(update={"thinks": True})
ALOUD = [piece("<think>"), piece("\nRings?"), piece("</think>\n"), piece("\nSaturn"), piece(".")]


def test_thoughts_are_told_as_empty_pieces_and_the_model_is_known_from_then_on() -> None:
    told, server = asyncio.run(asked([ends(*ALOUD), ends(*ALOUD[1:]), ends(piece("Saturn"), piece("."))]))
    assert told == [["", "", "Saturn", "."], ["", "Saturn", "."], ["", "", "Saturn."]]
    assert ["stop" in body for body in server.bodies] == [True, False, False]  # a line's end would end the thought


def test_a_model_that_is_said_to_think_tells_no_thought_from_the_first_request_on() -> None:
    told, server = asyncio.run(asked([ends(*ALOUD[1:]), piece("Rings? It may") + CUT], THINKS))
    assert told == [["", "Saturn", "."], "AnswerCut: The answer was cut at as many tokens as were asked for."]
    assert ["stop" in body for body in server.bodies] == [False, False]


def test_thought_that_was_taken_for_an_answer_is_a_fault_and_not_twice() -> None:
    told, _ = asyncio.run(asked([ends(*ALOUD[1:]), ends(*ALOUD[1:])]))
    assert isinstance(told[0], str)
    assert told[0].startswith("RequestError: The chat model thinks aloud")
    assert "chat.thinks" in told[0]
    assert told[1] == ["", "Saturn", "."]


def test_a_thought_that_a_stop_ended_is_asked_for_again_without_it() -> None:
    told, server = asyncio.run(asked([ends(piece("<think>")), ends(*ALOUD), ends(piece("<think>"))]))
    assert isinstance(told[0], str)
    assert told[0].startswith("RequestError: The chat model wrote nothing but the beginning of a thought")
    assert told[1:] == [["", "", "Saturn", "."], [""]]
    assert ["stop" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_beside_the_answer_are_signs_that_it_lives(field: str) -> None:
    aside = [delta(**{field: "Rings?"}), delta(**{field: " Well."})]
    told, server = asyncio.run(asked([ends(*aside, piece("Saturn.")), ends(piece("Saturn."))]))
    assert told == [["", "", "Saturn."], ["Saturn."]]
    assert all(body["stop"] == ["\n"] for body in server.bodies)


def test_characters_cut_over_two_pieces_are_whole() -> None:
    halves = [piece("Yes \ud83d"), piece("\ude0a, \ud83d"), piece(" so.\ude0a"), piece("\ud83d")]
    told, _ = asyncio.run(asked([ends(*halves)]))
    assert told == [["Yes ", "\U0001f60a, ", " so."]]
