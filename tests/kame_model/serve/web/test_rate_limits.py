"""Sound is given on as fast as it is spoken, whatever a client sends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.engine import Samples
from kame_model.serve.web.rate_limits import BURST_S, CATCH_UP, GAP_S, MAX_KEYS, Allowance, Pacer, RateLimiter

pytestmark = [pytest.mark.looptime, pytest.mark.full]
RATE_HZ = 24_000
PACKET = 480  # samples: 20 ms, as browsers have it
BACKLOG_S = 0.8


class Ear:
    """Keeps what it hears, and when, and how many frames it is told are lost; has room for any audio."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, Samples]] = []
        self.n_lost = 0

    def hear(self, samples: Samples) -> None:
        self.heard.append((asyncio.get_running_loop().time(), samples))

    def count_room(self) -> int:
        return 10**9

    def lose(self, n_frames: int) -> None:
        self.n_lost += n_frames

    @property
    def sound(self) -> Samples:
        return np.concatenate([samples for _, samples in self.heard] or [np.zeros(0, np.float32)])


@asynccontextmanager
async def pacing(ear: Ear, max_silence_s: float = 1e9) -> AsyncIterator[Pacer]:
    pacer = Pacer(ear.hear, ear.count_room, ear.lose, max_waiting_s=30, max_backlog_s=BACKLOG_S)
    running = asyncio.create_task(pacer.run(max_silence_s))
    yield pacer
    running.cancel()


def counting(n_samples: int) -> Samples:
    return np.arange(1, n_samples + 1, dtype=np.float32)


async def test_an_allowance_is_used_up_and_comes_back() -> None:
    allowance = Allowance(per_s=10, most=5)
    assert [allowance.take() for _ in range(6)] == [True] * 5 + [False]
    await asyncio.sleep(0.25)
    assert [allowance.take() for _ in range(3)] == [True, True, False]
    await asyncio.sleep(100)
    assert allowance.amount_left == 5


async def test_allowances_of_any_number_of_keys_are_kept_in_constant_memory() -> None:
    limiter = RateLimiter(per_s=0.1, most=10)
    for key in ("first", *map(str, range(MAX_KEYS - 1))):
        assert limiter.take(key, 10)
    assert limiter.get_amount_left("first") == 0
    assert not limiter.take("0", 10)
    assert limiter.take("one more")
    assert (limiter.get_amount_left("first"), limiter.get_amount_left("0")) == (10, 0), (
        "it took its last the longest ago"
    )


async def test_a_live_client_does_not_wait() -> None:
    ear = Ear()
    async with pacing(ear) as pacer:
        for number in range(100):
            pacer.put(np.full(PACKET, number + 1, np.float32))
            assert ear.heard[-1][0] == asyncio.get_running_loop().time()
            await asyncio.sleep(0.02)
    assert len(ear.sound) == 100 * 480
    assert (ear.sound > 0).all()  # no silence put between


async def test_a_file_sent_at_once_is_heard_whole_and_in_its_own_time() -> None:
    ear, sound = Ear(), counting(5 * RATE_HZ)
    async with pacing(ear) as pacer:
        pacer.put(sound)
        await asyncio.sleep(6)
    heard = ear.sound
    np.testing.assert_array_equal(heard[: len(sound)], sound)
    for at_s, given_on in ((at_s, samples) for at_s, samples in ear.heard if samples.any()):
        assert given_on[-1] <= (BURST_S + at_s * CATCH_UP) * RATE_HZ + 1


async def test_too_much_that_waits_is_not_taken_and_what_is_forgotten_whole_is_followed_by_nothing() -> None:
    done: list[int] = []
    async with pacing(Ear()) as pacer:
        assert pacer.put(counting(29 * RATE_HZ))
        assert not pacer.put(counting(2 * RATE_HZ))
        pacer.call_when_sent(lambda: done.append(1))
        pacer.clear()
        assert pacer.put(counting(2 * RATE_HZ))
        await asyncio.sleep(3)
    assert done == []


async def test_what_is_to_be_done_behind_sound_is_done_behind_exactly_that() -> None:
    ear, done = Ear(), list[tuple[str, int]]()
    async with pacing(ear) as pacer:
        pacer.call_when_sent(lambda: done.append(("nothing waits", len(ear.sound))))
        assert done == [("nothing waits", 0)]
        for n_samples in (10_000, 1, 30_000):
            pacer.put(counting(n_samples))
            pacer.call_when_sent(lambda n=n_samples: done.append((str(n), len(ear.sound))))  # type: ignore[misc]
        assert (pacer.n_put, pacer.n_over) == (40_001, int(BURST_S * RATE_HZ))
        await asyncio.sleep(1)
        assert len(done) == 3
        pacer.put(counting(100))
        pacer.clear_last()
        await asyncio.sleep(1)
    assert done[1:] == [("10000", 10_000), ("1", 10_001), ("30000", 40_001)]
    assert pacer.n_over == pacer.n_put == 40_101
    assert ear.sound[40_001:].max() == 0


async def test_a_client_that_says_nothing_is_silent_in_real_time() -> None:
    ear = Ear()
    async with pacing(ear) as pacer:
        pacer.put(counting(480))
        await asyncio.sleep(10)
    silence_s = (len(ear.sound) - 480) / RATE_HZ
    assert 10 - GAP_S - 0.16 <= silence_s <= 10 - GAP_S


async def test_it_returns_when_nothing_has_come_for_long_enough() -> None:
    ear = Ear()
    pacer = Pacer(ear.hear, ear.count_room, ear.lose, max_waiting_s=30, max_backlog_s=BACKLOG_S)
    running = asyncio.create_task(pacer.run(max_silence_s=60))
    await asyncio.sleep(50)
    pacer.put(counting(480))
    await asyncio.sleep(59)
    assert not running.done()
    pacer.put(counting(0))  # is nothing
    await asyncio.sleep(2)
    assert running.done()


@settings(max_examples=20)
@given(pieces=st.lists(st.tuples(st.integers(0, 9_000), st.floats(0, 0.3)), max_size=30))
async def test_nothing_is_lost_doubled_or_turned_round(pieces: list[tuple[int, float]]) -> None:
    ear, n_sent = Ear(), 0
    async with pacing(ear) as pacer:
        for n_samples, wait_s in pieces:
            pacer.put(counting(n_sent + n_samples)[n_sent:])
            n_sent += n_samples
            await asyncio.sleep(wait_s)
        await asyncio.sleep(15)
    np.testing.assert_array_equal(ear.sound[ear.sound > 0], counting(n_sent))


async def live(pacer: Pacer, sound: Samples, start: int, for_s: float) -> int:
    """Sends a sound from a place on as a microphone does; returns where it has come to."""
    for _ in range(round(for_s / 0.02)):
        pacer.put(sound[start : start + PACKET])
        start += PACKET
        await asyncio.sleep(0.02)
    return start


def behind_s(ear: Ear, sent: int) -> float:
    """By how much the newest sound heard is older than the newest sent."""
    return (sent - float(ear.sound.max())) / RATE_HZ


@pytest.mark.parametrize("packet", [PACKET, 5 * PACKET, RATE_HZ, 10 * RATE_HZ])
async def test_after_a_stall_late_sound_is_dropped_for_the_silence_that_was_made(packet: int) -> None:
    ear, sound, done = Ear(), counting(30 * RATE_HZ), list[int]()
    async with pacing(ear) as pacer:
        at = await live(pacer, sound, 0, 3)
        await asyncio.sleep(6)
        late = sound[at : at + 6 * RATE_HZ]
        for start in range(0, len(late), packet):
            assert pacer.put(late[start : start + packet])
            pacer.call_when_sent(lambda start=start: done.append(start))  # type: ignore[misc]
        at += len(late)
        at = await live(pacer, sound, at, 1)
        assert behind_s(ear, at) <= BACKLOG_S
        at = await live(pacer, sound, at, 9)
        assert behind_s(ear, at) <= 0.05
    assert ear.n_lost * 0.08 == pytest.approx(6 - BACKLOG_S, abs=0.2)
    n_heard = int((ear.sound > 0).sum())
    assert n_heard + ear.n_lost * 1_920 == at  # all that was sent was heard, or told as lost
    assert done == [*range(0, len(late), packet)], "what is to be done behind dropped sound is done too"


async def test_late_sound_that_trickles_in_is_dropped_too() -> None:
    ear, sound = Ear(), counting(60 * RATE_HZ)
    async with pacing(ear) as pacer:
        at = await live(pacer, sound, 0, 3)
        await asyncio.sleep(6)
        for _ in range(300):  # twice as fast as it is spoken, until it has caught up
            pacer.put(sound[at : at + 2 * PACKET])
            at += 2 * PACKET
            await asyncio.sleep(0.02)
            assert (at - float(ear.sound.max())) / RATE_HZ <= BACKLOG_S + 0.1
    assert ear.n_lost > 50


@pytest.mark.parametrize("listens_s", [2.0, 20.0])
async def test_files_sent_at_once_by_a_client_that_was_never_live_lose_nothing(listens_s: float) -> None:
    ear, sound = Ear(), counting(10 * RATE_HZ)
    async with pacing(ear) as pacer:
        for start in range(0, len(sound), 5 * RATE_HZ):
            for packet in range(start, start + 5 * RATE_HZ, 4_800):
                pacer.put(sound[packet : packet + 4_800])
            await asyncio.sleep(5 + listens_s)
    np.testing.assert_array_equal(ear.sound[ear.sound > 0], sound)
    assert ear.n_lost == 0


async def test_a_live_client_that_stops_sending_while_it_listens_loses_nothing() -> None:
    ear, sound, at = Ear(), counting(30 * RATE_HZ), 0
    async with pacing(ear) as pacer:
        for _ in range(4):
            at = await live(pacer, sound, at, 3)
            await asyncio.sleep(10)
    assert ear.n_lost == 0
    np.testing.assert_array_equal(ear.sound[ear.sound > 0], sound[:at])
