"""Several dialogues under way at once where engines answer over a network; all else still happens one at a time."""

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


class InFlight:
    """Threads of which only those run side by side that wait for an engine that takes several calls at once.

    So nothing else needs to be safe in threads, and none of them wants a second core. Where no engine takes several,
    there are no threads.

    Args:
        engines: those that are called; of the limits of those that take several calls at once, the least holds.
    """

    def __init__(self, *engines: Engine) -> None:
        limits = [engine.max_calls_in_flight for engine in engines if engine.max_calls_in_flight > 1]
        self.n_threads = min(limits, default=1)
        self._here = threading.Lock()  # held by all but those that wait
        self._has_ended = threading.Event()

    def map(self, work: Callable[[Given], Made], batch: Sequence[Given]) -> list[Made]:
        """What `work` makes of each of the batch, in its order.

        Raises:
            Exception: an error of `work`; after the first one no call is begun, and those under way are waited for.
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
        """Around a call of an engine: the other threads go on meanwhile, where it takes several calls at once."""
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
        with self._here:
            try:
                return work(each)
            except BaseException:
                self._has_ended.set()  # before this thread takes what is next in the batch
                raise
