"""Answers that are used while they are written: over real HTTP, with servers as they fail in practice."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from backends.chat.live import OpenAILiveChat
from backends.chat.protocol import Endpoint
from data_schemas.config import ChatConfig
from data_schemas.errors import AnswerCut, BackendError, ConfigError, KameError, RequestError
from tests.support.streaming_chat import DONE, STOP, StreamingChat, Write, event, piece, serving

PAYLOAD: dict[str, Any] = {"messages": [{"role": "user", "content": "Which is nearest?"}], "max_tokens": 20}
REMOTE = ChatConfig(engine="openai", base_url="http://localhost/v1")


async def answer_of(chat: OpenAILiveChat) -> list[str]:
    async with aclosing(chat.stream(PAYLOAD)) as pieces:
        return [each async for each in pieces]


def endpoint_of(tcp: asyncio.Server) -> Endpoint:
    return Endpoint("raw", f"http://127.0.0.1:{tcp.sockets[0].getsockname()[1]}/v1", "any", "")


def saying(*events: bytes) -> StreamingChat:
    """A server that writes these events, and nothing after them."""
    server = StreamingChat()

    async def answer(_: dict[str, Any], write: Write) -> None:
        for each in events:
            await write(each)

    server.answer = answer
    return server


async def fault_of(server: StreamingChat) -> KameError:
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        with pytest.raises(KameError) as raised:
            await answer_of(chat)
        assert chat.usage.n_failed == 1
        assert raised.value.__suppress_context__ or raised.value.__cause__ is not None
        return raised.value


async def test_giving_up_closes_the_connection_so_that_the_server_stops() -> None:
    server = StreamingChat()

    async def never_ends(_: dict[str, Any], write: Write) -> None:
        await write(piece("Well, "))
        await asyncio.Event().wait()

    server.answer = never_ends
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        asking = asyncio.create_task(answer_of(chat))
        await server.until(lambda: server.n_open == 1)
        asking.cancel()
        await asyncio.wait([asking])
        await server.until(lambda: server.n_open == 0)
        async with aclosing(chat.stream(PAYLOAD)) as pieces:
            assert await anext(pieces) == "Well, "
        await server.until(lambda: server.n_open == 0)
        assert server.n_hung_up == 2
        assert (chat.usage.n_given_up, chat.usage.n_failed) == (2, 0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, BackendError), (404, BackendError), (429, BackendError), (503, BackendError), (400, RequestError)],
)
async def test_a_refusal_is_one_of_our_errors_and_holds_no_key(
    status: int, kind: type[KameError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", "sk-very-secret")
    server = StreamingChat()
    server.status = status
    fault = await fault_of(server)
    assert type(fault) is kind
    assert "sk-very-secret" not in str(fault)
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "events",
    [
        [piece("Well, ")],  # no end
        [b"data: {not json\n\n"],
        [event([1, 2])],
        [event({"choices": [{"delta": {"content": 5}}]})],
        [event({"choices": 5})],
        [piece("Well, "), event({"error": {"message": "out of memory"}})],
        [DONE],
    ],
)
async def test_an_answer_that_is_none_is_an_error(events: list[bytes]) -> None:
    assert isinstance(await fault_of(saying(*events)), RequestError | BackendError)


@pytest.mark.parametrize(
    "usage",
    [[1], {"prompt_tokens": "many"}, {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": [5]}],
)
async def test_nonsense_about_tokens_is_counted_by_its_estimate_and_breaks_nothing(usage: Any) -> None:
    server = saying(piece("Yes.") + STOP + event({"choices": [], "usage": usage}) + DONE)
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        assert await answer_of(chat) == ["Yes."]
        assert chat.usage.n_tokens_in > 0
        assert (chat.usage.n_tokens_out, chat.usage.n_tokens_cached) == (1, 0)
        assert chat.usage.n_estimated == ("completion_tokens" not in usage)


async def test_a_server_killed_in_mid_answer_is_gone() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        text = piece("Well, ")
        writer.write(head + f"{len(text):x}\r\n".encode() + text + b"\r\n")
        await writer.drain()
        writer.close()

    tcp = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with tcp, OpenAILiveChat(endpoint_of(tcp), REMOTE) as chat:
        with pytest.raises(BackendError, match="cut off"):
            await answer_of(chat)


async def test_a_connection_that_the_server_closed_meanwhile_is_opened_anew() -> None:
    n_connections = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_connections
        n_connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if n_connections > 1:
            text = piece("Yes.") + STOP + DONE
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(text)}\r\n\r\n"
            writer.write(head.encode() + text)
            await writer.drain()
        writer.close()

    tcp = await asyncio.start_server(once, "127.0.0.1", 0)
    async with tcp, OpenAILiveChat(endpoint_of(tcp), REMOTE) as chat:
        assert await answer_of(chat) == ["Yes."]
        assert (n_connections, chat.usage.n_requests, chat.usage.n_failed) == (2, 1, 0)


async def test_nobody_there_and_an_endless_silence_are_told_apart_from_a_refusal() -> None:
    server = StreamingChat()
    async with serving(server) as endpoint:
        pass
    async with OpenAILiveChat(endpoint, REMOTE) as chat:
        with pytest.raises(BackendError, match="no connection"):
            await answer_of(chat)

    async def silence(_: dict[str, Any], write: Write) -> None:
        await asyncio.Event().wait()

    server.answer = silence
    hasty = REMOTE.model_copy(update={"timeout_s": 0.05})
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, hasty) as chat:
        with pytest.raises(BackendError, match="in time"):
            await answer_of(chat)


async def test_a_provider_s_habits_hold_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    server, config = StreamingChat(), ChatConfig(engine="openai", provider="openai")
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, config) as chat:
        await answer_of(chat)
    assert server.bodies[0]["messages"] == PAYLOAD["messages"]
    assert server.bodies[0]["max_completion_tokens"] == 20
    assert "max_tokens" not in server.bodies[0]
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="needs a key"):
        OpenAILiveChat(endpoint, config)


async def test_an_answer_cut_at_its_tokens_says_so_at_its_end_and_is_no_failure() -> None:
    server = saying(piece("It is the") + event({"choices": [{"delta": {}, "finish_reason": "length"}]}) + DONE)
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        stream = chat.stream(PAYLOAD)
        assert await anext(stream) == "It is the"
        with pytest.raises(AnswerCut):
            await anext(stream)
        assert chat.usage.n_failed == 0


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
    answers = [ends(*ALOUD[1:]), piece("Rings? It may") + CUT, ends(piece("<think>"))]
    told, server = asyncio.run(asked(answers, THINKS))
    assert told == [["", "Saturn", "."], "AnswerCut: The answer was cut off at its token limit.", [""]]
    assert ["stop" in body for body in server.bodies] == [False] * 3


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


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_before_and_beside_the_answer_are_empty_pieces_as_signs_that_it_lives(field: str) -> None:
    aside = [delta(**{field: "Rings?"}), delta(**{field: " Well."})]
    told, server = asyncio.run(asked([ends(*ALOUD), ends(*aside, piece("Saturn."))]))
    assert told == [["", "", "Saturn", "."], ["", "", "Saturn."]]
    assert all(body["stop"] == ["\n"] for body in server.bodies)


def test_characters_cut_over_two_pieces_are_whole() -> None:
    halves = [piece("Yes \ud83d"), piece("\ude0a, \ud83d"), piece(" so.\ude0a"), piece("\ud83d")]
    told, _ = asyncio.run(asked([ends(*halves)]))
    assert told == [["Yes ", "\U0001f60a, ", " so."]]
