"""What the test server of chat models has seen."""

import time
from collections import Counter
from typing import Any


class Counts:
    """What a server has seen; times are seconds of `time.monotonic`."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.n_answers: Counter[str] = Counter()
        self.n_tries: Counter[str] = Counter()
        self.n_faults: Counter[str] = Counter()
        self.n_keys: Counter[str] = Counter()
        self.n_busy = self.max_busy = 0
        self.busy_slot_s = 0.0
        self.first_s = self.last_s = self._since_s = 0.0

    def busy(self, change: int) -> None:
        """Records that `change` more slots are in use; a negative number for slots that are free again."""
        now_s = time.monotonic()
        self.first_s = self.first_s or now_s
        self.busy_slot_s += self.n_busy * (now_s - (self._since_s or now_s))
        self._since_s = self.last_s = now_s
        self.n_busy += change
        self.max_busy = max(self.max_busy, self.n_busy)

    def as_json(self) -> dict[str, Any]:
        """The counts as plain numbers."""
        return {
            "n_tries": self.n_tries.total(),
            "n_answered": self.n_answers.total(),
            "n_answered_twice": sum(n > 1 for n in self.n_answers.values()),
            "n_faults": dict(self.n_faults),
            "max_busy": self.max_busy,
            "busy_slot_s": self.busy_slot_s,
            "span_s": self.last_s - self.first_s,
        }
