"""What tests of the chat client share: payloads, and a client for the time of a coroutine."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.double import DoubleEngine, Fault
from backends.chat.limits import Delays
from backends.chat.protocol import Endpoint
from data_schemas.config import BudgetConfig, ChatConfig
from tests.support.chat_server import MODEL, ChatServer

PROVIDER = "base_url: http://unused\nneeds_key: false\nbatch_price_share: 0.5\ndrops: [seed]\n"
QUICK = Delays(first_backoff_s=0.001, gather_s=0.01, first_look_s=0.001, longest_look_s=0.01)
CONFIG = ChatConfig(engine="double", max_attempts=3, max_in_flight=4)
"""Of tests that use the double."""
Use = Callable[[OpenAIChatClient], Awaitable[Any]]


def numbered(n: int, first: int = 0) -> list[dict[str, Any]]:
    """Payloads that differ in their last message."""
    return [{"messages": [{"role": "user", "content": f"question {first + number}"}]} for number in range(n)]


def endpoint_at(root: str, prefix: str = "/v1", model: str = MODEL) -> Endpoint:
    """The test server's endpoint."""
    return Endpoint("test", root + prefix, model, "")


def use(
    endpoint: Endpoint, folder: Path, work: Use, config: ChatConfig = CONFIG, budget: BudgetConfig | None = None
) -> Any:
    """What a coroutine gives that is handed a client, whose answers are kept in the folder."""

    async def session() -> Any:
        with ReplyCache(folder / "replies.sqlite") as cache:
            async with OpenAIChatClient(endpoint, config, cache, budget=budget, delays=QUICK) as client:
                return await work(client)

    return asyncio.run(session())


def use_with(faults: list[Fault | None], folder: Path, work: Use, config: ChatConfig = CONFIG) -> Any:
    """The same with the double, whose first tries fail so."""
    with DoubleEngine(config, faults).serve() as endpoint:
        return use(endpoint, folder, work, config)


def batch_config(folder: Path, provider: str = "", **more: Any) -> ChatConfig:
    """Asks by batches, of a provider whose file lies in the folder; `provider` are more lines of it."""
    (folder / "provider.yaml").write_text(PROVIDER + provider, encoding="utf-8")
    return ChatConfig(engine="openai", provider=str(folder / "provider.yaml"), transport="batch", **more)


def asking(payloads: list[dict[str, Any]]) -> Use:
    """Asks all of them."""
    return lambda client: ask_all(client, payloads)


def n_lines(server: ChatServer) -> int:
    """Requests that batches have brought."""
    return len(server.counts.bodies)
