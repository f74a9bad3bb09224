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


def test_thoughts_are_told_as_empty_pieces() -> None:
    told, _ = asyncio.run(asked([ends(*ALOUD)]))
    assert told == [["", "", "Saturn", "."]]


@pytest.mark.parametrize(
    "thinks",
    [
        ends(*ALOUD),
        ends(*ALOUD[1:]),
        ends(piece("<think>")),
        ends(piece("I <think> so.")),
        ends(piece("Saturn. <think>"), piece("Or Jupiter?"), piece("</think> Saturn.")),
    ],
    ids=["before", "without a beginning", "cut by a stop", "a mark in the middle", "in the middle"],
)
def test_a_thought_in_one_answer_changes_nothing_for_the_next(thinks: bytes) -> None:
    """Any caller's prompt can have a model write marks of thought; the others' answers must come as before."""
    told, server = asyncio.run(asked([thinks, ends(piece("Saturn"), piece("."))]))
    assert told[1] == ["Saturn", "."]
    assert ["stop" in body for body in server.bodies] == [True, True]


def test_a_model_that_is_said_to_think_tells_no_thought_from_the_first_request_on() -> None:
    told, server = asyncio.run(asked([ends(*ALOUD[1:]), piece("Rings? It may") + CUT], THINKS))
    assert told == [["", "Saturn", "."], "AnswerCut: The answer was cut off at its token limit."]
    assert ["stop" in body for body in server.bodies] == [False, False]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (ends(*ALOUD[1:]), "The chat model writes its thoughts"),
        (ends(piece("<think>")), "The chat model wrote nothing but the beginning of a thought"),
    ],
    ids=["told as an answer", "cut by a stop"],
)
def test_a_thought_that_is_no_answer_is_a_fault_of_its_own_kind(answer: bytes, what: str) -> None:
    told, _ = asyncio.run(asked([answer]))
    assert isinstance(told[0], str)
    assert told[0].startswith(f"UnexpectedThought: {what}")
    assert "chat.thinks" in told[0]


def test_a_model_that_is_said_to_think_may_be_cut_in_its_thought() -> None:
    told, _ = asyncio.run(asked([ends(piece("<think>"))], THINKS))
    assert told == [[""]]


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
