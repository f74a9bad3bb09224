"""What tests of the chat client share: payloads, and a client for the time of a coroutine."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient
from backends.chat.limits import Delays
from backends.protocols import Endpoint
from benchmarks.chat_server import MODEL
from data_schemas.config import BudgetConfig, ChatConfig

QUICK = Delays(first_backoff_s=0.001, gather_s=0.01, first_look_s=0.001, longest_look_s=0.01)
Use = Callable[[OpenAIChatClient], Awaitable[Any]]


def numbered(n: int, first: int = 0) -> list[dict[str, Any]]:
    """Payloads that differ in their last message."""
    return [{"messages": [{"role": "user", "content": f"question {first + number}"}]} for number in range(n)]


def endpoint_at(root: str, prefix: str = "/v1", model: str = MODEL) -> Endpoint:
    """The test server's endpoint."""
    return Endpoint("test", root + prefix, model, "")


def use(endpoint: Endpoint, folder: Path, work: Use, config: ChatConfig, budget: BudgetConfig | None = None) -> Any:
    """What a coroutine gives that is handed a client, whose answers are kept in the folder."""

    async def session() -> Any:
        with ReplyCache(folder / "replies.sqlite") as cache:
            async with OpenAIChatClient(endpoint, config, cache, budget=budget, delays=QUICK) as client:
                return await work(client)

    return asyncio.run(session())
