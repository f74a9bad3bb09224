"""Concurrency helpers of streaming recognisers: event loop in a thread, compute threads, sending of transcripts."""

import asyncio
import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from backends.characters import join_surrogates
from backends.listener.protocol import Heard

_T = TypeVar("_T")

_NICENESS = 5
"""Compute threads have lower priority than the thread that steps the model, which has 80 ms for each frame."""


class HeardSender:
    """Sends transcripts to a caller's session, from any thread, until `close`: nothing is sent after that has returned.

    Args:
        on_heard: see `StreamingRecogniser.listen`; it may call `close`.
    """

    def __init__(self, on_heard: Callable[[Heard], None]) -> None:
        self.is_closed = False
        self._on_heard = on_heard
        self._lock = threading.RLock()

    def send(self, heard: Heard) -> None:
        """Calls `on_heard` in this thread with a transcript, without half characters; does nothing after `close`."""
        with self._lock:
            if not self.is_closed:
                self._on_heard(replace(heard, text=join_surrogates(heard.text)))

    def close(self) -> None:
        """Stops sending, after waiting for a call of `on_heard` that is in progress in another thread."""
        with self._lock:
            self.is_closed = True


class BackgroundLoop:
    """An event loop in a thread, running until `close`."""

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Schedules a function in the loop, after those scheduled before it; does nothing once the loop is closed."""
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(function, *arguments)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine in the loop and returns its result, or raises its error.

        Must not be called in the loop's own thread, nor after `close`.
        """
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self, shutdown: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancels all tasks in the loop, awaits `shutdown` there, and ends the thread; does nothing if called again."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(_cancel_all(shutdown), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        """Runs the loop until it is stopped, and closes it."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _cancel_all(shutdown: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Cancels all other tasks of the running loop, waits until they have ended, and then awaits `shutdown`."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await shutdown()


class ComputingThreads:
    """Threads that compute for all callers: urgent work first, the rest in order.

    A caller with at most one piece of work here at a time delays the others by no more than that.
    """

    def __init__(self, name: str, n_threads: int) -> None:
        self._work: queue.PriorityQueue[tuple[int, int, Callable[[], Any] | None, Future[Any]]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{index}", daemon=True) for index in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], *arguments: Any, is_urgent: bool = False) -> Future[Any]:
        """Schedules a function and returns the future of its result; it can be cancelled until it has begun."""
        future: Future[Any] = Future()
        self._work.put((0 if is_urgent else 1, next(self._numbers), lambda: function(*arguments), future))
        return future

    def close(self) -> None:
        """Ends the threads, each after its current work, without waiting for them.

        Waiting work is never begun, and its futures never end.
        """
        for _ in self._threads:
            self._work.put((-1, next(self._numbers), None, Future()))

    def _run(self) -> None:
        """Does the work that is submitted until `close`, in a thread of lower priority (on Linux)."""
        if sys.platform == "linux":  # elsewhere niceness applies to the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _get_niceness())
        while True:
            _, _, work, future = self._work.get()
            if work is None:
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 -- raised in the waiting caller
                future.set_exception(error)


def _get_niceness() -> int:
    """Returns the niceness of compute threads: that of this process plus `_NICENESS`, at most 19."""
    return min(19, os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
