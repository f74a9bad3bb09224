"""Asked to stop: the step at hand is finished, everything is saved, and then the run leaves as if interrupted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.is_made = False


@contextmanager
def listening(request: StopRequest) -> Iterator[None]:
    """A block in which SIGTERM and SIGINT make a request; a second one interrupts at once.

    Signals reach the main thread only; elsewhere (a worker of a scheduler) the block listens to none, and whoever runs
    it sets `is_made`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if request.is_made:
            raise KeyboardInterrupt
        request.is_made = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
