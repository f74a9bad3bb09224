"""A chat model elsewhere of which nobody has said the name: its server is asked with the first request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backends.chat.remote import CHECK_LIMIT_S
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.parts import LazyChat
from tests.support.streaming_chat import DONE, STOP, piece

PAYLOAD: dict[str, Any] = {"messages": [{"role": "user", "content": "Which is nearest?"}], "max_tokens": 20}
LIMIT_S = 30.0
"""Less than the server asks to wait (Retry-After)."""


class Server:
    """Answers what is asked for by its path; `list_of_models` is written by the test.

    Attributes:
        n_lists: how often the list was asked for.
        hung_up: somebody who waited for it went away.
    """

    def __init__(self) -> None:
        self.n_lists = 0
        self.hung_up = asyncio.Event()
        self.status, self.models = "200 OK", b'{"data": [{"id": "only"}]}'
        self.hangs = False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"GET "):
            await self._write(writer, "200 OK", "text/event-stream", piece("Saturn.") + STOP + DONE)
            return
        self.n_lists += 1
        if self.hangs:
            await reader.read()
            self.hung_up.set()
        await self._write(writer, self.status, "application/json", self.models)

    async def _write(self, writer: asyncio.StreamWriter, status: str, kind: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nRetry-After: 60\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        writer.close()


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Server, LazyChat]]:
    server = Server()
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0) as tcp, asyncio.timeout(LIMIT_S):
        url = f"http://127.0.0.1:{tcp.sockets[0].getsockname()[1]}/v1"
        chat = LazyChat(ChatConfig(engine="openai", base_url=url))
        try:
            yield server, chat
        finally:
            await chat.aclose()


async def answer(chat: LazyChat) -> str:
    return "".join([each async for each in chat.stream(PAYLOAD)])


async def test_its_server_is_asked_once() -> None:
    async with asking() as (server, chat):
        assert [await answer(chat) for _ in range(2)] == ["Saturn."] * 2
        assert server.n_lists == 1


async def test_who_gives_up_hangs_up_and_the_next_one_finds_it_back() -> None:
    async with asking() as (server, chat):
        server.hangs = True
        first = asyncio.create_task(answer(chat))
        while not server.n_lists:
            await asyncio.sleep(0)
        server.hangs = False
        assert await answer(chat) == "Saturn."  # who hangs holds nobody up
        first.cancel()
        await asyncio.wait([first])
        await asyncio.wait_for(server.hung_up.wait(), CHECK_LIMIT_S / 2)  # it was given up, and did not run out


@pytest.mark.parametrize("status", ["503 Busy", "401 Go away"])
async def test_a_refusal_is_told_after_one_try_and_the_next_request_asks_anew(status: str) -> None:
    async with asking() as (server, chat):
        server.status = status
        with pytest.raises(BackendError, match=status[:3]) as raised:
            await answer(chat)
        assert server.n_lists == 1
        assert raised.value.status == status[:3]
        server.status = "200 OK"
        assert await answer(chat) == "Saturn."


@pytest.mark.parametrize(
    ("status", "models", "kind"),
    [
        ("200 OK", b'{"data": [{"id": "a"}, {"id": "b"}]}', ConfigError),
        ("404 None", b"{}", ConfigError),
        ("200 OK", b"[5]", BackendError),
    ],
)
async def test_a_server_that_does_not_tell_one_model_is_told(status: str, models: bytes, kind: type[Exception]) -> None:
    async with asking() as (server, chat):
        server.status, server.models = status, models
        with pytest.raises(kind):
            await answer(chat)
