"""What waits between a session and its transport is bounded, and nothing in it can harm the others."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.mailbox import EventFeeds, Inbox, Outbox, SaidFrame

_T = TypeVar("_T")


def counting(start: int, n_samples: int) -> np.ndarray:
    """Samples that tell where they stood: each a little larger than the one before."""
    return np.arange(start, start + n_samples, dtype=np.float32) / 2**20


def frame(number: int, text: str = "") -> SaidFrame:
    return SaidFrame(number, np.zeros(FRAME_N_SAMPLES, np.float32), text)


async def next_of(stream: AsyncIterator[_T], n: int) -> list[_T]:
    return [await anext(stream) for _ in range(n)]


@given(st.lists(st.integers(0, 6000), max_size=30), st.integers(1, 5))
def test_sound_of_any_lengths_comes_out_in_frames_or_is_counted_as_dropped(lengths: list[int], n_frames: int) -> None:
    inbox = Inbox(n_frames * FRAME_S)
    n_put = n_dropped = 0
    for n_samples in lengths:
        n_dropped += inbox.put(counting(n_put, n_samples))
        n_put += n_samples
        assert inbox.n_frames <= n_frames
    taken = []
    while (frame := inbox.take()) is not None:
        assert frame.shape == (FRAME_N_SAMPLES,)
        taken.append(frame)
    heard = np.concatenate(taken) if taken else np.zeros(0, np.float32)
    assert np.array_equal(heard, counting(n_dropped * FRAME_N_SAMPLES, len(heard)))
    assert n_dropped * FRAME_N_SAMPLES + len(heard) == n_put - n_put % FRAME_N_SAMPLES


def test_a_reader_that_is_too_slow_misses_long_stretches_and_not_every_few_frames() -> None:
    inbox, n_frames, dropped, heard = Inbox(10 * FRAME_S), 300, [], []
    for number in range(n_frames):
        dropped.append(inbox.put(np.full(FRAME_N_SAMPLES, number / n_frames, np.float32)))
        if number % 3 and (frame := inbox.take()) is not None:  # two of three
            heard.append(round(float(frame[0]) * n_frames))
    stretches = np.diff(heard)[np.diff(heard) > 1] - 1
    assert stretches.min() >= 5
    assert [each for each in dropped if each] == [*stretches]  # each is told once
    assert 70 <= stretches.sum() <= 100  # no more than it has no time for


def test_no_sound_can_poison_the_state_of_the_device() -> None:
    inbox = Inbox(1.0)
    wild = np.array([np.nan, np.inf, -np.inf, 1e38, -3, 0.5, 0, 0] * (FRAME_N_SAMPLES // 8), np.float32)
    inbox.put(wild)
    frame = inbox.take()
    assert frame is not None
    assert frame[:8].tolist() == [0, 1, -1, 1, -1, 0.5, 0, 0]


def test_a_cleared_inbox_holds_no_half_frame_either() -> None:
    inbox = Inbox(1.0)
    inbox.put(counting(0, FRAME_N_SAMPLES - 1))
    inbox.clear()
    inbox.put(np.zeros(FRAME_N_SAMPLES, np.float32))
    frame = inbox.take()
    assert frame is not None
    assert not frame.any()


async def test_a_slow_reader_loses_the_oldest_sound_and_no_text() -> None:
    outbox = Outbox(3 * FRAME_S)
    dropped = [outbox.put(frame(number, f" {number}")) for number in range(5)]
    assert dropped == [0, 0, 0, 1, 1]
    read = await next_of(outbox.read_frames(), 3)
    assert [each.number for each in read] == [2, 3, 4]
    assert [each.text for each in read] == [" 0 1 2", " 3", " 4"]


async def test_frames_come_as_they_are_said_and_end_with_the_session() -> None:
    outbox = Outbox(1.0)
    reading = asyncio.create_task(_numbers(outbox))
    await asyncio.sleep(0)
    outbox.put(frame(0))
    await asyncio.sleep(0)
    outbox.put(frame(1))
    outbox.clear()
    outbox.put(frame(2))
    await asyncio.sleep(0)
    outbox.put(frame(3))
    outbox.close()
    outbox.put(frame(4))
    assert await reading == [0, 2]


async def _numbers(outbox: Outbox) -> list[int]:
    return [each.number async for each in outbox.read_frames()]


async def test_events_begin_with_started_and_end_with_ended_however_many_are_lost() -> None:
    feeds = EventFeeds()
    events = feeds.subscribe(SessionEvent("started", 0.0), None)
    assert (await anext(events)).kind == "started"
    for at in range(3000):
        feeds.put(SessionEvent("said", float(at)))
    feeds.put(SessionEvent("ended", 3000.0))
    told = [event async for event in events]
    assert len(told) < 1500
    assert [event.time_s for event in told] == [3001.0 - len(told) + at for at in range(len(told))]
    assert told[-1].kind == "ended"
