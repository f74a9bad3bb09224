"""What an ear tells, from whatever thread, to be waited for in tests."""

import threading
from collections.abc import Callable

from backends.listener.protocol import Heard

LIMIT_S = 60.0


class Told:
    """Called by an ear; keeps what it is told."""

    def __init__(self) -> None:
        self.all: list[Heard] = []
        self._changed = threading.Condition()

    def __call__(self, heard: Heard) -> None:
        with self._changed:
            self.all.append(heard)
            self._changed.notify_all()

    def until(self, is_enough: Callable[[list[Heard]], object]) -> list[Heard]:
        """All that has been told, as soon as it is enough."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_enough(self.all), LIMIT_S), self.all
            return list(self.all)

    def finals(self, n_turns: int) -> list[str]:
        """The texts of so many turns."""
        return [
            heard.text
            for heard in self.until(lambda all_: sum(each.is_final for each in all_) >= n_turns)
            if heard.is_final
        ]
