"""A session's work that is started repeatedly and cancelled when the user interrupts (barge-in)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class InterruptibleWork:
    """Does some work when `start` is called, while `run` is running. All methods are called on the event loop's thread.

    Args:
        work: one run of it, which is cancelled by `cancel`.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._is_due = asyncio.Event()
        self._doing: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it is started or running, and not cancelled."""
        doing = self._doing
        return self._is_due.is_set() or (doing is not None and not doing.done() and not doing.cancelling())

    def start(self) -> None:
        """Starts it, or, if it is running, queues one more run (at most one, however often this is called)."""
        self._is_due.set()

    def cancel(self) -> None:
        """Cancels the running work and the queued one."""
        self._is_due.clear()
        if self._doing is not None:
            self._doing.cancel()

    async def run(self) -> None:
        """Does the work whenever it is started, until this is cancelled; raises its errors."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            self._doing = asyncio.create_task(self._work())
            try:
                await asyncio.wait([self._doing])
                if not self._doing.cancelled():
                    self._doing.result()
            finally:
                self._doing.cancel()

    async def aclose(self) -> None:
        """Cancels the work, and waits until it has ended."""
        self.cancel()
        if self._doing is not None:
            await asyncio.gather(self._doing, return_exceptions=True)
