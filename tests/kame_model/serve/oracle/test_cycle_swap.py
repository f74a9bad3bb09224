"""The chat model is changed in mid-turn between real servers, and streams nobody wants are closed on the wire."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

import pytest

from backends.chat.live import OpenAILiveChat
from backends.chat.llamacpp import LlamaCppEngine
from backends.chat.protocol import Endpoint
from data_schemas.config import ChatConfig
from kame_model.serve.oracle.prompts import Prompt, load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.text.tokenizer import Tokenizer
from tests.support.serving import until
from tests.support.streaming_chat import StreamingChat, Write, piece, serving
from tests.support.timed_chat import CycleTalk

pytestmark = pytest.mark.full

SHORT = Prompt(
    version="short",
    instructions="You are friendly.",
    system="Answer in one short sentence.",
    unfinished="{history}{heard}",
    finished="{history}{heard}",
    stop=["\n"],
)
"""Little to read, for a machine with much else to do."""

REMOTE = ChatConfig(engine="openai", base_url="http://localhost/v1")


class Asking(CycleTalk):
    """A cycle over real endpoints, which runs during a `with` block."""

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.cycle.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])
        await self.cycle.aclose()

    @property
    def said(self) -> dict[int, list[str]]:
        """The words of the oracles by their number."""
        told = self.told("oracle")
        return {each["oracle"]: [one["text"] for one in told if one["oracle"] == each["oracle"]] for each in told}


async def back_end_at(stack: AsyncExitStack, name: str, endpoint: Endpoint, config: ChatConfig = REMOTE) -> BackEnd:
    chat = await stack.enter_async_context(OpenAILiveChat(endpoint, config))
    return BackEnd(name, chat, load_prompt("tandem"), max_tokens=24)


async def test_swapped_between_two_servers_in_mid_answer(tokenizer: Tokenizer) -> None:
    first, second = StreamingChat(), StreamingChat("it is ", "sixty litres.")

    async def never_ends(_: dict[str, Any], write: Write) -> None:
        await write(piece("she earned it all "))
        await asyncio.Event().wait()

    first.answer = never_ends
    async with AsyncExitStack() as stack:
        ends = [await stack.enter_async_context(serving(server)) for server in (first, second)]
        back_ends = {name: await back_end_at(stack, name, end) for name, end in zip("ab", ends, strict=True)}
        asking = await stack.enter_async_context(Asking(tokenizer, back_ends))
        asking.user("How many litres")
        await until(lambda: 1 in asking.said)
        asking.use("b")
        await until(lambda: len(asking.told("oracle_done")) == 1)
        await first.until(lambda: first.n_open == 0)
    assert asking.said[1] == ["she earned it"]
    assert " ".join(asking.said[2]) == "it is sixty litres."
    assert (first.n_hung_up, len(first.bodies), len(second.bodies)) == (1, 1, 1)
    assert asking.told("oracle_failed") == []


async def test_closing_a_session_closes_its_streams_on_the_wire(tokenizer: Tokenizer) -> None:
    server = StreamingChat()

    async def never_begins(_: dict[str, Any], write: Write) -> None:
        await asyncio.Event().wait()

    server.answer = never_begins
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(serving(server))
        back_ends = {"a": await back_end_at(stack, "a", endpoint)}
        async with Asking(tokenizer, back_ends, interval_s=0.1, guesses="feed") as asking:
            asking.user("How many")
            await server.until(lambda: server.n_open == 1)
            asking.user("How many litres are there", is_final=True)
            await server.until(lambda: server.n_open == 2)
        await server.until(lambda: server.n_open == 0)
    assert server.n_hung_up == 2
    assert asking.counts.n_given_up == 2


def test_swapped_between_two_prompts_of_the_embedded_model(tokenizer: Tokenizer) -> None:
    async def talk(endpoint: Endpoint) -> None:
        async with AsyncExitStack() as stack:
            config = ChatConfig()
            plain = replace(await back_end_at(stack, "plain", endpoint, config), prompt=SHORT, max_tokens=12)
            pirate = replace(plain, name="pirate", prompt=SHORT.with_instructions("You are a pirate."))
            back_ends = {"plain": plain, "pirate": pirate}
            asking = await stack.enter_async_context(Asking(tokenizer, back_ends, first_token_timeout_s=120))
            asking.user("Which planet in our solar system has")
            await until(lambda: 1 in asking.said, 300)
            asking.use("pirate")
            asking.user("Which planet in our solar system has rings?", is_final=True)
            await until(lambda: len(asking.told("oracle_done")) >= 1, 300)
        asked = [data["back_end"] for data in asking.told("oracle_asked")]
        assert (asked[0], asked[-1]) == ("plain", "pirate")
        assert len(asking.said[max(asking.said)]) > 0
        assert asking.told("oracle_failed") == []

    with LlamaCppEngine(ChatConfig()).serve() as endpoint:
        asyncio.run(talk(endpoint))
