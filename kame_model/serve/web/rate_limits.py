"""How fast a client may send: messages and bytes counted, and sound given on no faster than it is spoken."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ

MAX_KEYS = 4096
"""Keys of a `RateLimiter` that are remembered; the one that took its last the longest ago is forgotten first."""
MESSAGES_AT_ONCE_S = 2.0
"""Messages that may come at once, as seconds of the rate: a network that stalled gives them all back together."""
CATCH_UP = 1.1
"""Sound is given on at most this much faster than real time: a client whose network stalled catches up in the end."""
BURST_S = 0.16
"""Sound given on at once, seconds: packets of a live client come in clumps."""
GAP_S = 0.4
"""After so long without sound the client's silence is made for it, seconds; networks are late by less."""
LIVE_S = 1.0
"""A client whose sound has come for so long, with no longer a pause, and passes without waiting, is live, seconds."""

_Waiting = Samples | Callable[[], None]
"""Sound, or what is to be done when all sound before it has been given on."""


def _read_loop_time_s() -> float:
    return asyncio.get_running_loop().time()


class Allowance:
    """Something that may be used up at a rate, with a store of it (a token bucket).

    Args:
        per_s: how much there is more of each second.
        most: how much there is at most, and at first.
        clock_s: seconds, never going back.
    """

    def __init__(self, per_s: float, most: float, clock_s: Callable[[], float] = _read_loop_time_s) -> None:
        self._per_s, self._most, self._clock_s = per_s, most, clock_s
        self._left, self._at_s = most, clock_s()

    @property
    def get_amount_left(self) -> float:
        """How much there is now."""
        now_s = self._clock_s()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._left

    def take(self, amount: float = 1.0) -> bool:
        """Uses some up, if there is so much."""
        if self.get_amount_left < amount:
            return False
        self._left -= amount
        return True

    def overdraw(self, amount: float) -> None:
        """Uses so much up whether it is there or not: of what is known only when it has been done."""
        self._left = self.get_amount_left - amount


class RateLimiter:
    """An allowance for each key (an address, a session), in constant memory.

    Args:
        per_s, most, clock_s: of each `Allowance`.
    """

    def __init__(self, per_s: float, most: float, clock_s: Callable[[], float] = _read_loop_time_s) -> None:
        self._per_s, self._most, self._clock_s = per_s, most, clock_s
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()

    def get_amount_left(self, key: str) -> float:
        """How much a key may use now."""
        allowance = self._allowances.get(key)
        return self._most if allowance is None else allowance.get_amount_left

    def take(self, key: str, amount: float = 1.0) -> bool:
        """Uses some up, if the key has so much."""
        allowance = self._allowances.pop(key, None) or Allowance(self._per_s, self._most, self._clock_s)
        self._allowances[key] = allowance
        if len(self._allowances) > MAX_KEYS:
            self._allowances.popitem(last=False)
        return allowance.take(amount)


class Pacer:
    """Gives sound on as a microphone would have: what comes faster waits, and what does not come is silence.

    A session moves only with what it hears, and OpenAI's clients may send a file at once, or nothing while they listen.
    A live client's sound passes through without waiting. Where its network stalled, silence has been made already when
    its sound comes: of that, what waits beyond `max_backlog_s` is dropped, the oldest first. A client that has never
    been live sends files, of which nothing is late.

    Args:
        hear: takes the sound.
        lose: told how many frames were dropped, at most once a frame's time.
        max_waiting_s: sound that may wait.
        max_backlog_s: late sound of a live client that may wait.

    Attributes:
        n_put: samples taken from the client so far.
    """

    def __init__(
        self, hear: Callable[[Samples], None], lose: Callable[[int], None], max_waiting_s: float, max_backlog_s: float
    ) -> None:
        self._hear, self._lose = hear, lose
        self._max_waiting = round(max_waiting_s * SAMPLE_RATE_HZ)
        self._max_backlog = round(max_backlog_s * SAMPLE_RATE_HZ)
        self._waiting: deque[_Waiting] = deque()
        self.n_put = self._n_waiting = 0
        self._allowance = Allowance(CATCH_UP * SAMPLE_RATE_HZ, BURST_S * SAMPLE_RATE_HZ)
        self._last_s = self._since_s = _read_loop_time_s()
        self._is_live = False
        self._n_made = 0  # samples of silence in whose place sound may still come
        self._n_lost = 0  # frames, not told yet

    @property
    def n_over(self) -> int:
        """The first so many samples of them wait no more: they have been given on, or are forgotten."""
        return self.n_put - self._n_waiting

    def put(self, samples: Samples) -> bool:
        """Adds sound; False where too much of it waits already, and it is not taken."""
        n_late = self._count_late(len(samples))
        if self._n_waiting + len(samples) - n_late > self._max_waiting:
            return False
        if len(samples):
            self._note_arrival(_read_loop_time_s())
            self._waiting.append(samples)
            self.n_put += len(samples)
            self._n_waiting += len(samples)
            self._do(each for each in self._take(n_late) if not isinstance(each, np.ndarray))
            self._n_made -= n_late
            self._n_lost += n_late // FRAME_N_SAMPLES
            self._give()
        return True

    def call_when_sent(self, do: Callable[[], None]) -> None:
        """Does something as soon as what waits now has been given on; at once where nothing waits."""
        self._waiting.append(do)
        self._do(self._take(0))

    def clear(self) -> None:
        """Forgets the sound that waits, and what was to be done then."""
        self._waiting.clear()
        self._n_waiting = self._n_lost = 0

    def clear_last(self) -> None:
        """Forgets the sound that has come since `call_when_sent` was called last."""
        while self._waiting and isinstance(last := self._waiting[-1], np.ndarray):
            self._waiting.pop()
            self._n_waiting -= len(last)

    async def run(self, max_silence_s: float) -> None:
        """Gives on what waits, and silence where nothing comes; returns when nothing has come for so long."""
        clock = asyncio.get_running_loop()
        next_s = clock.time()
        while (silent_s := clock.time() - self._last_s) < max_silence_s:
            if not self._n_waiting and silent_s > GAP_S:
                self._hear(np.zeros(FRAME_N_SAMPLES, np.float32))
                self._n_made += FRAME_N_SAMPLES
            self._tell_lost()
            next_s += FRAME_S
            await asyncio.sleep(next_s - clock.time())
            self._give()

    def _note_arrival(self, now_s: float) -> None:
        """Sound comes: whether the client is live, and what comes now is no longer late."""
        if now_s - self._last_s > LIVE_S:
            self._since_s = now_s
        self._last_s = now_s
        if now_s - self._since_s >= LIVE_S and self._n_waiting <= BURST_S * SAMPLE_RATE_HZ:
            self._is_live = True
            self._n_made = 0

    def _count_late(self, n_samples: int) -> int:
        """Samples to drop where so many more come: whole frames, in whose place there was silence."""
        if not self._is_live:
            return 0
        n_late = min(self._n_made, max(0, self._n_waiting + n_samples - self._max_backlog))
        return n_late - n_late % FRAME_N_SAMPLES

    def _tell_lost(self) -> None:
        n_lost, self._n_lost = self._n_lost, 0
        if n_lost:
            self._lose(n_lost)

    def _give(self) -> None:
        n_samples = min(self._n_waiting, int(self._allowance.get_amount_left))
        self._allowance.take(n_samples)
        self._do(self._take(n_samples))

    def _do(self, what: Iterable[_Waiting]) -> None:
        for each in what:
            if isinstance(each, np.ndarray):
                self._hear(each)
            else:
                each()

    def _take(self, n_samples: int) -> list[_Waiting]:
        """Takes the oldest of what waits, and what was to be done behind it."""
        self._n_waiting -= n_samples
        taken: list[_Waiting] = []
        while self._waiting and (n_samples or callable(self._waiting[0])):
            each = self._waiting.popleft()
            if isinstance(each, np.ndarray):
                if len(each) > n_samples:
                    self._waiting.appendleft(each[n_samples:])
                    each = each[:n_samples]
                n_samples -= len(each)
            taken.append(each)
        return taken
