"""Limits in flight and a minute, on a clock that jumps from event to event."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.chat.limits import BURST_S, FIRST_LIMIT, AdaptiveLimit, Pace, RateLimit
from data_schemas.config import ChatConfig


class JumpingSelector(selectors.DefaultSelector):
    """Waits for nobody: the time it was to wait has passed at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits for somebody else"
        self.now_s += timeout
        return super().select(0)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs to the end on a clock that starts at 0."""
    selector = JumpingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now_s  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """Answers in 1 s when it has one request, in `slowdown` s more for each other; more than `n_slots` wait."""

    def __init__(self, n_slots: int, slowdown: float = 0.0, n_bearable: int = 10_000) -> None:
        self.slots = asyncio.Semaphore(n_slots)
        self.n_bearable = n_bearable
        self.slowdown = slowdown
        self.n_in = self.most = self.n_refused = 0
        self.busy_s = 0.0

    async def answer(self) -> bool:
        self.n_in += 1
        self.most = max(self.most, self.n_in)
        try:
            if self.n_in > self.n_bearable:
                self.n_refused += 1
                return False
            async with self.slots:
                took_s = 1 + self.slowdown * (self.n_in - 1)
                await asyncio.sleep(took_s)
                self.busy_s += took_s
            return True
        finally:
            self.n_in -= 1


async def ask_many(limit: AdaptiveLimit, server: Server, n: int) -> float:
    """Asks until each of `n` is answered; the time it took."""

    async def ask() -> None:
        while True:
            async with limit.take_place():
                begun_s = now_s()
                if await server.answer():
                    limit.record_answer(begun_s, now_s())
                    return
                limit.record_overload(begun_s)
                await asyncio.sleep(0.1)

    await asyncio.gather(*(ask() for _ in range(n)))
    return now_s()


@pytest.mark.parametrize(("bound", "n_slots"), [(64, 64), (1024, 32)])
def test_it_fills_what_a_server_has_and_stops_growing_where_requests_would_only_queue(bound: int, n_slots: int) -> None:
    limit, server = AdaptiveLimit(bound), Server(n_slots)
    took_s = run(ask_many(limit, server, 2_000))
    assert n_slots <= limit.limit <= 64
    assert server.most <= 64
    assert server.busy_s / (n_slots * took_s) > 0.9


def test_slower_answers_do_not_stop_it_while_more_come_a_second() -> None:
    limit, server = AdaptiveLimit(256), Server(256, slowdown=0.005)  # among 256 an answer takes 2.3 s, not 1
    run(ask_many(limit, server, 4_000))
    assert limit.limit >= 128


def test_refusals_bring_it_down_to_what_is_borne() -> None:
    limit, server = AdaptiveLimit(1024), Server(1024, n_bearable=20)
    took_s = run(ask_many(limit, server, 2_000))
    assert limit.limit <= 24
    assert server.n_refused < 400
    assert took_s < 2 * 2_000 / 20


def test_refusals_of_one_burst_count_once() -> None:
    async def burst() -> int:
        limit = AdaptiveLimit(1024)
        await asyncio.sleep(1)
        for _ in range(10):
            limit.record_overload(begun_s=0.5)
        return limit.limit

    assert run(burst()) == FIRST_LIMIT // 2


def test_idle_places_are_no_reason_to_grow() -> None:
    async def one_by_one() -> int:
        limit, server = AdaptiveLimit(1024), Server(8)
        for _ in range(200):
            await ask_many(limit, server, 1)
        return limit.limit

    assert run(one_by_one()) == FIRST_LIMIT


@given(st.lists(st.sampled_from(["answer", "fail", "give up"]), max_size=60), st.integers(1, 8))
def test_places_are_neither_lost_nor_made_and_given_in_the_order_of_asking(ends: list[str], bound: int) -> None:
    held, order = 0, list[int]()

    async def hold(limit: AdaptiveLimit, end: str, number: int) -> None:
        nonlocal held
        async with limit.take_place():
            held += 1
            order.append(number)
            assert held <= limit.limit
            try:
                await asyncio.sleep(1 + number % 3)
                if end == "fail":
                    raise ValueError(end)
            finally:
                held -= 1

    async def everybody() -> None:
        limit = AdaptiveLimit(bound)
        tasks = [asyncio.create_task(hold(limit, end, number)) for number, end in enumerate(ends)]
        await asyncio.sleep(1)
        for task, end in zip(tasks, ends, strict=True):
            if end == "give up":
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == sorted(order)
        await asyncio.gather(*(hold(limit, "answer", 0) for _ in range(bound)))

    run(everybody())
    assert held == 0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(60, 6_000))
def test_a_rate_holds_over_any_span(amounts: list[int], per_minute: int) -> None:
    times: list[float] = []

    async def take() -> None:
        rate = RateLimit(per_minute)
        for amount in amounts:
            await rate.take(amount)
            times.append(now_s())

    run(take())
    for first in range(len(amounts)):
        for last in range(first, len(amounts)):
            taken_before_last = sum(amounts[first:last])
            assert taken_before_last <= per_minute / 60 * (times[last] - times[first] + BURST_S) + 1e-6


def test_what_was_overestimated_is_given_back() -> None:
    async def take(correction: int) -> float:
        rate = RateLimit(60)
        await rate.take(600)
        rate.correct(correction)
        await rate.take(1)
        return now_s()

    assert run(take(0)) - run(take(-300)) == pytest.approx(300)


def test_a_pause_holds_everybody_back() -> None:
    async def ask() -> tuple[float, float]:
        pace = Pace(ChatConfig())
        await pace.wait_until_ready(10)
        before_s = now_s()
        pace.pause(7)
        await asyncio.gather(*(pace.wait_until_ready(10) for _ in range(5)))
        return before_s, now_s()

    assert run(ask()) == (0, 7)


def test_both_rates_hold() -> None:
    async def ask(config: ChatConfig) -> float:
        pace = Pace(config)
        for _ in range(13):
            await pace.wait_until_ready(100)
        return now_s()

    assert run(ask(ChatConfig(max_requests_per_minute=60))) == pytest.approx(12 - BURST_S)
    assert run(ask(ChatConfig(max_tokens_per_minute=6_000))) == pytest.approx(12 - BURST_S)
    assert run(ask(ChatConfig())) == 0


def test_who_gives_up_waiting_leaves_the_rate_to_those_behind() -> None:
    async def ask() -> float:
        limit = RateLimit(60)
        await limit.take(2)
        given_up = asyncio.create_task(limit.take(600))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await limit.take(1)
        return now_s()

    assert run(ask()) <= 1
