"""How fast a client may send: messages and bytes counted, and sound given on no faster than it is spoken."""

import asyncio
from collections import deque
from collections.abc import Callable

import numpy as np

from backends.protocols import Samples
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ

CATCH_UP = 1.1
"""Sound is given on at most this much faster than real time: a client whose network stalled catches up in the end."""
BURST_S = 0.16
"""Sound given on at once, seconds: packets of a live client come in clumps."""
GAP_S = 0.4
"""After so long without sound the client's silence is made for it, seconds; networks are late by less."""


class Allowance:
    """Something that may be used up at a rate, with a store of it (a token bucket on the event loop's clock).

    Args:
        per_s: how much there is more of each second.
        most: how much there is at most, and at first.
    """

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s = per_s
        self._most = most
        self._left = most
        self._at_s = asyncio.get_running_loop().time()

    @property
    def left(self) -> float:
        """How much there is now."""
        now_s = asyncio.get_running_loop().time()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._left

    def take(self, amount: float = 1.0) -> bool:
        """Uses some up, if there is so much."""
        if self.left < amount:
            return False
        self._left -= amount
        return True

    def overdraw(self, amount: float) -> None:
        """Uses so much up whether it is there or not: of what is known only when it has been done."""
        self._left = self.left - amount


class Pacer:
    """Gives sound on as a microphone would have: what comes faster waits, and what does not come is silence.

    A session moves only with what it hears, and OpenAI's clients may send a file at once, or nothing while they listen.
    A live client's sound passes through without waiting.

    Args:
        hear: takes the sound.
        max_waiting_s: sound that may wait.
    """

    def __init__(self, hear: Callable[[Samples], None], max_waiting_s: float) -> None:
        self._hear = hear
        self._max_waiting = round(max_waiting_s * SAMPLE_RATE_HZ)
        self._waiting: deque[Samples] = deque()
        self._n_waiting = 0
        self._allowance = Allowance(CATCH_UP * SAMPLE_RATE_HZ, BURST_S * SAMPLE_RATE_HZ)
        self._last_s = asyncio.get_running_loop().time()

    def put(self, samples: Samples) -> bool:
        """Adds sound; False where too much of it waits already, and it is not taken."""
        if self._n_waiting + len(samples) > self._max_waiting:
            return False
        if len(samples):
            self._last_s = asyncio.get_running_loop().time()
            self._waiting.append(samples)
            self._n_waiting += len(samples)
            self._give()
        return True

    def clear(self) -> None:
        """Forgets what waits."""
        self._waiting.clear()
        self._n_waiting = 0

    async def run(self, max_silence_s: float) -> None:
        """Gives on what waits, and silence where nothing comes; returns when nothing has come for so long."""
        clock = asyncio.get_running_loop()
        next_s = clock.time()
        while (silent_s := clock.time() - self._last_s) < max_silence_s:
            if not self._n_waiting and silent_s > GAP_S:
                self._hear(np.zeros(FRAME_N_SAMPLES, np.float32))
            next_s += FRAME_S
            await asyncio.sleep(next_s - clock.time())
            self._give()

    def _give(self) -> None:
        n_samples = min(self._n_waiting, int(self._allowance.left))
        self._allowance.take(n_samples)
        self._n_waiting -= n_samples
        while n_samples:
            piece = self._waiting.popleft()
            if len(piece) > n_samples:
                self._waiting.appendleft(piece[n_samples:])
            self._hear(piece[:n_samples])
            n_samples -= min(n_samples, len(piece))
