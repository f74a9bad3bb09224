"""A thread pool without threads: what is submitted is done at once, so that a simulated clock waits for nobody."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class InlineThreads(Executor):
    """An executor that runs each call in the caller's thread when it is submitted; `on_call` is called before each."""

    def __init__(self, on_call: Callable[[], None] = lambda: None) -> None:
        self._on_call = on_call

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._on_call()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as executors do
            future.set_exception(error)
        return future
