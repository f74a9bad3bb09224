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


async def fault_of(server: StreamingChat) -> KameError:
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        with pytest.raises(KameError) as raised:
            await answer_of(chat)
        assert chat.usage.n_failed == 1
        assert raised.value.__suppress_context__ or raised.value.__cause__ is not None
        return raised.value


async def test_pieces_come_as_they_are_written_and_what_they_took_is_counted() -> None:
    server = StreamingChat("I ", "think so.")
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        assert await answer_of(chat) == ["I ", "think so."]
        usage = chat.usage
        assert (usage.n_tokens_in, usage.n_tokens_cached, usage.n_tokens_out, usage.n_estimated) == (11, 5, 3, 0)
    assert server.bodies[0] | PAYLOAD == server.bodies[0]
    assert server.bodies[0]["stream"] is True
    assert server.bodies[0]["model"] == endpoint.model


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
    server = StreamingChat()

    async def broken(_: dict[str, Any], write: Write) -> None:
        for each in events:
            await write(each)

    server.answer = broken
    assert isinstance(await fault_of(server), RequestError | BackendError)


@pytest.mark.parametrize(
    "usage",
    [[1], {"prompt_tokens": "many"}, {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": [5]}],
)
async def test_nonsense_about_tokens_is_counted_by_its_estimate_and_breaks_nothing(usage: Any) -> None:
    server = StreamingChat()

    async def answer(_: dict[str, Any], write: Write) -> None:
        await write(piece("Yes.") + STOP + event({"choices": [], "usage": usage}) + DONE)

    server.answer = answer
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


def test_a_connection_that_the_server_closed_meanwhile_is_opened_anew() -> None:
    async def talk() -> None:
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

    asyncio.run(talk())


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


def test_a_provider_s_habits_hold_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")

    async def talk() -> None:
        server = StreamingChat()
        config = ChatConfig(engine="openai", provider="openai")
        async with serving(server) as endpoint, OpenAILiveChat(endpoint, config) as chat:
            await answer_of(chat)
        assert server.bodies[0]["max_completion_tokens"] == 20
        assert "max_tokens" not in server.bodies[0]

    asyncio.run(talk())
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="needs a key"):
        OpenAILiveChat(endpoint=None, config=ChatConfig(engine="openai", provider="openai"))  # type: ignore[arg-type]


async def test_an_answer_cut_at_its_tokens_says_so_at_its_end_and_is_no_failure() -> None:
    server = StreamingChat()

    async def cut(_: dict[str, Any], write: Write) -> None:
        await write(piece("It is the") + event({"choices": [{"delta": {}, "finish_reason": "length"}]}) + DONE)

    server.answer = cut
    pieces = []
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, REMOTE) as chat:
        stream = chat.stream(PAYLOAD)
        pieces.append(await anext(stream))
        with pytest.raises(AnswerCut):
            await anext(stream)
        assert (pieces, chat.usage.n_failed) == (["It is the"], 0)
