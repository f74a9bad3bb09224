"""Processes several dialogues at once while engines answer over a network; all other work is serialised."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from backends.asr.protocol import Recogniser
from backends.tts.protocol import TextToSpeech

Engine = TextToSpeech | Recogniser
Given = TypeVar("Given")
Made = TypeVar("Made")


class EngineThreads:
    """Threads of which only those run in parallel that wait for an engine that accepts concurrent calls.

    All other code therefore need not be thread-safe, and no second core is used. If no engine accepts concurrent calls,
    there are no threads.

    Args:
        engines: the engines that are called; the smallest limit of those that accept concurrent calls applies.
    """

    def __init__(self, *engines: Engine) -> None:
        limits = [engine.max_calls_in_flight for engine in engines if engine.max_calls_in_flight > 1]
        self.n_threads = min(limits, default=1)
        self._here = threading.Lock()  # held by all threads except those that wait
        self._has_ended = threading.Event()

    def map(self, work: Callable[[Given], Made], batch: Sequence[Given]) -> list[Made]:
        """Applies `work` to each element of the batch and returns the results in order.

        Raises:
            Exception: an error of `work`; after the first one no new call is started, and running ones are awaited.
        """
        if self.n_threads == 1:
            return [work(each) for each in batch]
        self._has_ended.clear()
        with ThreadPoolExecutor(self.n_threads) as pool:
            futures = [pool.submit(self._run_one, work, each) for each in batch]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                self._has_ended.set()
                for future in futures:
                    future.cancel()
        errors = [error for future in futures if not future.cancelled() and (error := future.exception())]
        for error in errors:
            if not isinstance(error, CancelledError):
                raise error
        return [future.result() for future in futures]

    @contextmanager
    def call(self, engine: Engine) -> Iterator[None]:
        """Lets other threads run during a `with` block in which an engine is called, if it accepts concurrent calls.

        Raises:
            CancelledError: the batch of `map` has ended, because another element failed.
        """
        if self.n_threads == 1 or engine.max_calls_in_flight == 1:
            yield
            return
        if self._has_ended.is_set():
            raise CancelledError
        self._here.release()
        try:
            yield
        finally:
            self._here.acquire()

    def _run_one(self, work: Callable[[Given], Made], each: Given) -> Made:
        """Applies `work` to an element while no other thread runs; an error also ends the work of other threads."""
        with self._here:
            try:
                return work(each)
            except BaseException:
                self._has_ended.set()  # before this thread takes the next element of the batch
                raise
