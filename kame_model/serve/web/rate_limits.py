"""Rate limits (throttling) for requests, messages and bytes, and a pacer that passes audio on in real time."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ

MAX_KEYS = 4096
"""Keys that a `RateLimiter` remembers; the least recently used one is dropped first."""
MESSAGES_AT_ONCE_S = 2.0
"""Burst of messages, as seconds of the rate: a network that stalled delivers them all together."""
CATCH_UP = 1.1
"""Audio is passed on at most this much faster than real time, so that a stalled client catches up in the end."""
BURST_S = 0.16
"""Burst of audio passed on at once, seconds: packets of a live client come in clumps."""
GAP_S = 0.4
"""Seconds without audio after which silence replaces it; networks are late by less."""
LIVE_S = 1.0
"""A client is live when its audio has come for this many seconds without longer pauses and without waiting."""

_Waiting = Samples | Callable[[], None]
"""Audio, or a call to make when all audio before it has been passed on."""


def _read_loop_time_s() -> float:
    return asyncio.get_running_loop().time()


class Allowance:
    """A token bucket for a rate limit: an amount that refills at a rate.

    Args:
        per_s: how much is added per second.
        most: the maximum, and the initial amount.
        clock_s: a monotonic clock, seconds.
    """

    def __init__(self, per_s: float, most: float, clock_s: Callable[[], float] = _read_loop_time_s) -> None:
        self._per_s, self._most, self._clock_s = per_s, most, clock_s
        self._left, self._at_s = most, clock_s()

    @property
    def amount_left(self) -> float:
        """The current amount; negative after `overdraw` of more than there was."""
        now_s = self._clock_s()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._left

    def take(self, amount: float = 1.0) -> bool:
        """Uses up an amount; returns False, and uses nothing, if there is less."""
        if self.amount_left < amount:
            return False
        self._left -= amount
        return True

    def overdraw(self, amount: float) -> None:
        """Uses up an amount even if there is less, for costs that are known only afterwards."""
        self._left = self.amount_left - amount


class RateLimiter:
    """Rate limit for each key (an address, a session), by a token bucket.

    The least recently used of more than `MAX_KEYS` keys is forgotten: it has the whole amount again.

    Args:
        per_s, most, clock_s: of each `Allowance`.
    """

    def __init__(self, per_s: float, most: float, clock_s: Callable[[], float] = _read_loop_time_s) -> None:
        self._per_s, self._most, self._clock_s = per_s, most, clock_s
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()

    def get_amount_left(self, key: str) -> float:
        """Returns how much a key may use now, without using it up."""
        allowance = self._allowances.get(key)
        return self._most if allowance is None else allowance.amount_left

    def take(self, key: str, amount: float = 1.0) -> bool:
        """Uses up an amount; returns False, and uses nothing, if the key has less."""
        allowance = self._allowances.pop(key, None) or Allowance(self._per_s, self._most, self._clock_s)
        self._allowances[key] = allowance
        if len(self._allowances) > MAX_KEYS:
            self._allowances.popitem(last=False)
        return allowance.take(amount)


class Pacer:
    """Passes audio on at the pace of a microphone: faster audio waits, and missing audio becomes silence.

    A session steps only with what it hears, while OpenAI's clients may send a file at once, or nothing while they
    listen. A live client's audio passes without waiting. If its network stalls, silence takes the place of its audio;
    when that arrives, what waits beyond `max_backlog_s` is dropped, the oldest first. A client that has never been live
    sends files, which are never late, and wait until the session has room for them.

    Args:
        hear: receives the audio.
        count_room: returns how many samples `hear` takes now without dropping any.
        lose: called with the number of dropped frames, at most once per frame time.
        max_waiting_s: the longest audio that may wait.
        max_backlog_s: the longest late audio of a live client that may wait.

    Attributes:
        n_put: samples accepted from the client so far.
    """

    def __init__(
        self,
        hear: Callable[[Samples], None],
        count_room: Callable[[], int],
        lose: Callable[[int], None],
        max_waiting_s: float,
        max_backlog_s: float,
    ) -> None:
        self._hear, self._count_room, self._lose = hear, count_room, lose
        self._max_waiting = round(max_waiting_s * SAMPLE_RATE_HZ)
        self._max_backlog = round(max_backlog_s * SAMPLE_RATE_HZ)
        self._waiting: deque[_Waiting] = deque()
        self.n_put = self._n_waiting = 0
        self._allowance = Allowance(CATCH_UP * SAMPLE_RATE_HZ, BURST_S * SAMPLE_RATE_HZ)
        self._last_s = self._since_s = _read_loop_time_s()
        self._is_live = False
        self._n_made = 0  # samples of silence that late audio may still replace
        self._n_lost = 0  # frames, not reported yet

    @property
    def n_over(self) -> int:
        """The number of leading samples that no longer wait, because they were passed on or dropped."""
        return self.n_put - self._n_waiting

    def put(self, samples: Samples) -> bool:
        """Adds audio of any length, drops late audio, the oldest first, and passes on what the rate allows.

        Returns False, and changes nothing, if too much audio waits already.
        """
        n_late = self._count_late(len(samples))
        if self._n_waiting + len(samples) - n_late > self._max_waiting:
            return False
        if len(samples):
            self._note_arrival(_read_loop_time_s())
            self._waiting.append(samples)
            self.n_put += len(samples)
            self._n_waiting += len(samples)
            self._carry_out(each for each in self._take(n_late) if not isinstance(each, np.ndarray))
            self._n_made -= n_late
            self._n_lost += n_late // FRAME_N_SAMPLES
            self._pass_on()
        return True

    def call_when_sent(self, do: Callable[[], None]) -> None:
        """Calls a function as soon as the audio that waits now has been passed on or dropped, at once if none waits."""
        self._waiting.append(do)
        self._carry_out(self._take(0))

    def clear(self) -> None:
        """Drops the waiting audio and the waiting calls, which are then never made."""
        self._waiting.clear()
        self._n_waiting = self._n_lost = 0

    def clear_last(self) -> None:
        """Drops the audio that still waits and was put after the last `call_when_sent`."""
        while self._waiting and isinstance(last := self._waiting[-1], np.ndarray):
            self._waiting.pop()
            self._n_waiting -= len(last)

    async def run(self, max_silence_s: float) -> None:
        """Passes on what waits, and silence if nothing arrives; returns when no audio has arrived for `max_silence_s`.

        Every frame time it passes on what the rate allows, and reports dropped frames. Silence begins after `GAP_S`
        without audio, and never displaces audio in the session. Waiting audio does not delay the return. Only
        cancellation or an error ends it earlier.
        """
        clock = asyncio.get_running_loop()
        next_s = clock.time()
        while (silent_s := clock.time() - self._last_s) < max_silence_s:
            if not self._n_waiting and silent_s > GAP_S and self._count_room() >= FRAME_N_SAMPLES:
                self._hear(np.zeros(FRAME_N_SAMPLES, np.float32))
                self._n_made += FRAME_N_SAMPLES
            self._report_lost()
            next_s += FRAME_S
            await asyncio.sleep(next_s - clock.time())
            self._pass_on()

    def _note_arrival(self, now_s: float) -> None:
        """Records that audio has arrived: it may show that the client is live, and that its audio is no longer late."""
        if now_s - self._last_s > LIVE_S:
            self._since_s = now_s
        self._last_s = now_s
        if now_s - self._since_s >= LIVE_S and self._n_waiting <= BURST_S * SAMPLE_RATE_HZ:
            self._is_live = True
            self._n_made = 0

    def _count_late(self, n_samples: int) -> int:
        """Returns the number of samples to drop if so many more arrive: whole frames that silence has replaced."""
        if not self._is_live:
            return 0
        n_late = min(self._n_made, max(0, self._n_waiting + n_samples - self._max_backlog))
        return n_late - n_late % FRAME_N_SAMPLES

    def _report_lost(self) -> None:
        """Reports the frames that were dropped since the last report, if any."""
        n_lost, self._n_lost = self._n_lost, 0
        if n_lost:
            self._lose(n_lost)

    def _pass_on(self) -> None:
        """Passes on as much of the waiting audio as the rate allows now, and of a file as the session has room for."""
        n_samples = min(self._n_waiting, int(self._allowance.amount_left))
        if not self._is_live:
            n_samples = min(n_samples, self._count_room())
        self._allowance.take(n_samples)
        self._carry_out(self._take(n_samples))

    def _carry_out(self, what: Iterable[_Waiting]) -> None:
        """Passes audio on and makes calls, in the given order."""
        for each in what:
            if isinstance(each, np.ndarray):
                self._hear(each)
            else:
                each()

    def _take(self, n_samples: int) -> list[_Waiting]:
        """Removes the oldest samples from what waits, and returns them with the calls that follow them, in order."""
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
