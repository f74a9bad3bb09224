"""A course of events on a clock that jumps to whatever comes next: nothing is waited for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import looptime


def beside(
    work: Coroutine[Any, Any, None], course: Callable[[], Awaitable[None]], aclose: Callable[[], Awaitable[None]]
) -> None:
    """Runs a course from time 0 on, while some work runs that is then cancelled and closed; no task may be left."""

    async def whole() -> None:
        running = asyncio.create_task(work)
        try:
            await course()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await aclose()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()
