"""Calls of somebody else's function, which may hang: it should hold up nobody else, nor the end of the program."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

from data_schemas.errors import BackendError

P = ParamSpec("P")
Result = TypeVar("Result")


class DaemonCalls:
    """Calls functions, each in a thread of its own that the program does not wait for when it ends.

    Args:
        name: what is called, for messages and threads.
        most: calls under way at once, those included that nobody waits for any more.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._places = threading.BoundedSemaphore(most)

    def begin(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> "Future[Result]":
        """Calls a function; its result is there some time later, or what it raised.

        Raises:
            BackendError: too many calls have not ended.
        """
        if not self._places.acquire(blocking=False):
            raise BackendError(f"{self._most} calls of the {self._name} have not ended.", "See why.", "hangs")
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()  # from here on it cannot be cancelled, only left alone

        def call() -> None:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is the waiting caller's
                self._places.release()
                future.set_exception(error)
            else:
                self._places.release()
                future.set_result(result)

        threading.Thread(target=call, name=self._name, daemon=True).start()
        return future
