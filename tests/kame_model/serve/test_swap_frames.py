"""The chat model of a session is changed in mid-conversation between two real servers, and no frame goes missing."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.chat.live import OpenAILiveChat
from data_schemas.config import ChatConfig
from kame_model.serve.prompts import load_prompt
from kame_model.serve.routing import BackEnd
from kame_model.serve.server import KameServer
from tests.serving import Client, doubles, inline, saying, serve_config, tiny_checkpoint, until
from tests.streaming_chat import StreamingChat, Write, piece, serving

REMOTE = ChatConfig(engine="openai", base_url="http://localhost/v1")
N_FRAMES = 48


class Counting(Client):
    """Keeps the numbers of the frames too."""

    def __init__(self, session: Any) -> None:
        self.numbers: list[int] = []
        super().__init__(session)

    async def _read_frames(self) -> None:
        async for frame in self.session.frames():
            self.numbers.append(frame.number)


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["tandem", "cascade"])
async def test_swapped_there_and_back_while_it_answers(tmp_path: Path, mode: str) -> None:
    here, there = StreamingChat("it is ", "sixty litres."), StreamingChat()

    async def never_ends(_: dict[str, Any], write: Write) -> None:
        await write(piece("she earned it all. And then"))
        await asyncio.Event().wait()

    there.answer = never_ends
    async with AsyncExitStack() as stack:
        back_ends = {}
        for name, chat in (("here", here), ("there", there)):
            live = await stack.enter_async_context(
                OpenAILiveChat(await stack.enter_async_context(serving(chat)), REMOTE)
            )
            back_ends[name] = BackEnd(name, live, load_prompt("tandem"))
        parts = replace(doubles(), back_ends=back_ends)
        config = serve_config(mode=mode, cycle={"interval_s": 0.1, "min_words": 1})
        server = await stack.enter_async_context(KameServer(tiny_checkpoint(tmp_path), config, parts, str, run=inline))
        client = Counting(await server.open_session("caller", back_end="here"))
        for number in range(N_FRAMES):
            client.session.hear(saying("alpha" if number % 12 < 8 else None))
            if number % 12 == 11:  # after each turn, while its answer is being written
                await until(lambda n=1 + number // 12: len(client.told("oracle_asked")) >= n)  # type: ignore[misc]
                client.session.change(back_end=("there", "here")[number // 12 % 2])
            await until(lambda n=number: len(client.numbers) > n)  # type: ignore[misc]
        asked = {each["back_end"] for each in client.told("oracle_asked")}
        await client.session.close("bye")
        await client.over()
    assert client.numbers == list(range(N_FRAMES))
    assert asked == {"here", "there"}
    assert here.bodies
    assert there.bodies
    assert not client.told("dropped")
    assert not client.told("oracle_failed")
    assert there.n_open == 0
