"""Processor time and memory of this process and its descendants, including engines and chat servers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, Self

import psutil  # type: ignore[import-untyped]

LOOK_EVERY_S: Final = 1.0


class Usage(NamedTuple):
    """Processor time so far in seconds, and resident memory of this process and of its descendants in bytes."""

    processor_s: float
    own_bytes: int
    others_bytes: int


def read_usage() -> Usage:
    """Reads the current usage; the processor time of a process that has ended is counted with its parent's.

    Memory shared by processes is counted in each of them.
    """
    own = psutil.Process()
    processor_s, memory = 0.0, [0, 0]
    for each in [own, *own.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied), each.oneshot():
            times = each.cpu_times()
            ended_s = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
            processor_s += times.user + times.system + ended_s
            memory[each.pid != own.pid] += each.memory_info().rss
    return Usage(processor_s, *memory)


class UsageMeter:
    """Samples the memory usage once a second during a `with` block.

    Attributes:
        peak_bytes: peak of this process and its descendants together.
        peak_own_bytes: peak of this process alone.
    """

    def __init__(self) -> None:
        self.peak_bytes = self.peak_own_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def measure(self) -> Usage:
        """Reads the current usage, and updates the peaks."""
        usage = read_usage()
        self.peak_bytes = max(self.peak_bytes, usage.own_bytes + usage.others_bytes)
        self.peak_own_bytes = max(self.peak_own_bytes, usage.own_bytes)
        return usage

    def _watch(self) -> None:
        """Reads the usage once a second until the block ends."""
        while True:
            self.measure()
            if self._ended.wait(LOOK_EVERY_S):
                return


@contextmanager
def add_processor_s(to: dict[str, float], step: str) -> Iterator[None]:
    """Adds the processor time of a `with` block, in seconds, to the entry of a step."""
    before_s = read_usage().processor_s
    try:
        yield
    finally:
        to[step] = round(to.get(step, 0.0) + read_usage().processor_s - before_s, 3)
