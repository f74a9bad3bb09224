"""The chat model is changed in mid-turn between real servers, and streams nobody wants are closed on the wire."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.chat.live import OpenAILiveChat
from backends.chat.llamacpp import LlamaCppEngine
from backends.chat.protocol import Endpoint
from data_schemas.config import ChatConfig
from data_schemas.config.serving import CycleConfig
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.serve.oracle.cycle import BackEndCycle
from kame_model.serve.oracle.prompts import Prompt, load_prompt
from kame_model.serve.oracle.requests import RequestCounts, Requests
from kame_model.serve.oracle.routing import BackEnd, Choice, Router
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.serve.session.conversation import Conversation
from kame_model.text.tokenizer import Tokenizer
from tests.support.streaming_chat import StreamingChat, Write, piece, serving
from tests.support.vocabularies import make_vocabulary

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


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("vocabulary")
    return make_vocabulary(folder)


class Asking:
    """A cycle over real endpoints; `said` has the words of the oracles by their number."""

    def __init__(self, back_ends: dict[str, BackEnd], tokenizer: Tokenizer, **config: Any) -> None:
        self.said: dict[int, list[str]] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.changed = asyncio.Event()
        self.conversation = Conversation(12, lambda: asyncio.get_running_loop().time())
        queue = OracleQueue(tokenizer.text_card)
        self.choice = Choice(back_ends, Router(list(back_ends)))
        self.counts = RequestCounts()
        settings = CycleConfig(**config)
        self.cycle = BackEndCycle(
            Requests(self.choice, self.conversation, self.emit, self.counts, settings.first_token_timeout_s),
            self.conversation,
            lambda is_held: OracleWriter(queue, tokenizer, 30, is_held=is_held),
            settings,
        )

    def use(self, back_end: str) -> None:
        if self.choice.use(back_end):
            self.cycle.restart_request()

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        self.events.append((kind, data))
        if kind == "oracle":
            self.said.setdefault(data["oracle"], []).append(data["text"])
        self.changed.set()

    def user(self, text: str, *, is_final: bool = False) -> None:
        self.conversation.add_user_text(text, is_final)
        self.cycle.on_heard(text, is_final)

    def n_told(self, kind: str) -> int:
        return sum(each == kind for each, _ in self.events)

    async def until(self, holds: Callable[[], bool], limit_s: float = 20) -> None:
        async with asyncio.timeout(limit_s):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


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
        asking = Asking(back_ends, tokenizer)
        running = asyncio.create_task(asking.cycle.run())
        asking.user("How many litres")
        await asking.until(lambda: 1 in asking.said)
        asking.use("b")
        await asking.until(lambda: asking.n_told("oracle_done") == 1)
        await first.until(lambda: first.n_open == 0)
        running.cancel()
        await asyncio.wait([running])
        await asking.cycle.aclose()
    assert asking.said[1] == ["she earned it"]
    assert " ".join(asking.said[2]) == "it is sixty litres."
    assert (first.n_hung_up, len(first.bodies), len(second.bodies)) == (1, 1, 1)
    assert asking.n_told("oracle_failed") == 0


async def test_a_server_that_comes_back_is_heard_again_without_anybody_s_help(tokenizer: Tokenizer) -> None:
    server = StreamingChat("it is ", "sixty litres.")
    server.status = 503
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(serving(server))
        asking = Asking({"a": await back_end_at(stack, "a", endpoint)}, tokenizer, interval_s=0.1)
        running = asyncio.create_task(asking.cycle.run())
        asking.user("How many litres", is_final=True)
        await asking.until(lambda: asking.n_told("oracle_failed") == 1)
        server.status = 200
        await asking.until(lambda: asking.n_told("oracle_done") == 1)
        running.cancel()
        await asyncio.wait([running])
        await asking.cycle.aclose()
    assert " ".join(asking.said[2]) == "it is sixty litres."


async def test_closing_a_session_closes_its_streams_on_the_wire(tokenizer: Tokenizer) -> None:
    server = StreamingChat()

    async def never_begins(_: dict[str, Any], write: Write) -> None:
        await asyncio.Event().wait()

    server.answer = never_begins
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(serving(server))
        asking = Asking({"a": await back_end_at(stack, "a", endpoint)}, tokenizer, interval_s=0.1, guesses="feed")
        running = asyncio.create_task(asking.cycle.run())
        asking.user("How many")
        await server.until(lambda: server.n_open == 1)
        asking.user("How many litres are there", is_final=True)
        await server.until(lambda: server.n_open == 2)
        running.cancel()
        await asyncio.wait([running])
        await asking.cycle.aclose()
        await server.until(lambda: server.n_open == 0)
    assert server.n_hung_up == 2
    assert asking.counts.n_given_up == 2


def test_swapped_between_two_prompts_of_the_embedded_model(tokenizer: Tokenizer) -> None:
    async def talk(endpoint: Endpoint) -> None:
        async with AsyncExitStack() as stack:
            config = ChatConfig()
            plain = replace(await back_end_at(stack, "plain", endpoint, config), prompt=SHORT, max_tokens=12)
            pirate = replace(plain, name="pirate", prompt=SHORT.with_instructions("You are a pirate."))
            asking = Asking({"plain": plain, "pirate": pirate}, tokenizer, first_token_timeout_s=120)
            running = asyncio.create_task(asking.cycle.run())
            asking.user("Which planet in our solar system has")
            await asking.until(lambda: 1 in asking.said, 300)
            asking.use("pirate")
            asking.user("Which planet in our solar system has rings?", is_final=True)
            await asking.until(lambda: asking.n_told("oracle_done") >= 1, 300)
            running.cancel()
            await asyncio.wait([running])
            await asking.cycle.aclose()
        asked = [data["back_end"] for kind, data in asking.events if kind == "oracle_asked"]
        assert (asked[0], asked[-1]) == ("plain", "pirate")
        assert len(asking.said[max(asking.said)]) > 0
        assert asking.n_told("oracle_failed") == 0

    with LlamaCppEngine(ChatConfig()).serve() as endpoint:
        asyncio.run(talk(endpoint))
