"""Bounded queues between a session and its transport, so that a slow client costs the others nothing."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.serve.session.events import SessionEvent

_MAX_EVENTS = 1024
"""Events kept for a subscriber that does not read; older ones are dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class SaidFrame:
    """80 ms of what the session says.

    Attributes:
        number: counts from 0 in each session, and again after a reset; numbers are missing if audio was dropped for a
            slow client.
        samples: float32[1920].
        text: the piece of text that belongs to it; mostly empty.
    """

    number: int
    samples: Samples
    text: str


class Inbox:
    """Splits a client's audio, in pieces of any length, into frames of 1,920 samples.

    NaN becomes silence, and the amplitude is clipped: one infinite value in the device's state would outlive its
    session, since attention multiplies what it masks by zero.

    Args:
        max_backlog_s: the longest audio kept; if there is more, all but the newest half of this is dropped. A session
            that is always behind thus misses a few long stretches; single frames would break every word.

    Attributes:
        n_past: frames that arrived and no longer wait: taken, dropped or cleared.
    """

    def __init__(self, max_backlog_s: float) -> None:
        self.n_past = 0
        self._max_frames = max(1, round(max_backlog_s / FRAME_S))
        self._n_kept = (self._max_frames + 1) // 2  # of too many
        self._waiting: Samples = np.zeros(0, np.float32)

    @property
    def n_frames(self) -> int:
        """The number of complete frames that wait."""
        return len(self._waiting) // FRAME_N_SAMPLES

    @property
    def n_begun(self) -> int:
        """The number of frames that arrived, including an incomplete one."""
        return self.n_past + -(-len(self._waiting) // FRAME_N_SAMPLES)

    @property
    def n_room(self) -> int:
        """The number of samples that can be added now without a drop."""
        return (self._max_frames + 1) * FRAME_N_SAMPLES - 1 - len(self._waiting)

    def put(self, samples: Samples) -> int:
        """Adds audio; returns how many frames were dropped, the oldest first, if necessary also of this audio."""
        clean = np.clip(np.nan_to_num(samples.astype(np.float32, copy=False), posinf=1, neginf=-1), -1, 1)
        waiting = np.concatenate([self._waiting, clean])
        n_frames = len(waiting) // FRAME_N_SAMPLES
        n_dropped = n_frames - self._n_kept if n_frames > self._max_frames else 0
        self.n_past += n_dropped
        self._waiting = waiting[n_dropped * FRAME_N_SAMPLES :]
        return n_dropped

    def take(self) -> Samples | None:
        """Returns the oldest complete frame, float32[1920], and removes it; None if there is none."""
        if self.n_frames == 0:
            return None
        frame, self._waiting = self._waiting[:FRAME_N_SAMPLES], self._waiting[FRAME_N_SAMPLES:]
        self.n_past += 1
        return frame

    def clear(self) -> None:
        """Discards the waiting audio, whose frames, with an incomplete one, then count in `n_past`."""
        self.n_past = self.n_begun
        self._waiting = np.zeros(0, np.float32)


class Outbox:
    """Queues frames for a client; there is one reader.

    Args:
        max_unsent_s: the longest audio kept; older audio is dropped, and its text moves to the next frame.
    """

    def __init__(self, max_unsent_s: float) -> None:
        self._max_frames = max(1, round(max_unsent_s / FRAME_S))
        self._waiting: deque[SaidFrame] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, frame: SaidFrame) -> int:
        """Adds a frame, unless the outbox is closed; returns how many older ones were dropped for it (0 or 1).

        The text of a dropped frame is added to the next one.
        """
        if self._closed:
            return 0
        self._waiting.append(frame)
        self._changed.set()
        if len(self._waiting) <= self._max_frames:
            return 0
        text = self._waiting.popleft().text
        self._waiting[0] = replace(self._waiting[0], text=text + self._waiting[0].text)
        return 1

    def clear(self) -> None:
        """Discards what waits."""
        self._waiting.clear()

    def close(self) -> None:
        """Discards what waits, and ends `read_frames`."""
        self._closed = True
        self._waiting.clear()
        self._changed.set()

    async def read_frames(self) -> AsyncIterator[SaidFrame]:
        """Yields the frames as they are added, until `close`."""
        while not self._closed:
            if self._waiting:
                yield self._waiting.popleft()
            else:
                self._changed.clear()
                await self._changed.wait()


class EventFeeds:
    """Delivers events to any number of subscribers; a full queue drops its oldest events."""

    def __init__(self) -> None:
        self._feeds: list[asyncio.Queue[SessionEvent]] = []

    def put(self, event: SessionEvent) -> None:
        """Delivers an event to all subscribers; `ended` is the last."""
        for feed in self._feeds:
            if feed.full():
                feed.get_nowait()
            feed.put_nowait(event)

    def clear(self) -> None:
        """Discards the waiting events of all subscribers."""
        for feed in self._feeds:
            while not feed.empty():
                feed.get_nowait()

    def subscribe(self, first: SessionEvent, end: SessionEvent | None) -> AsyncIterator[SessionEvent]:
        """Subscribes to the events from now on, preceded by `first`, and by `end` if the session has already ended."""
        feed = asyncio.Queue[SessionEvent](_MAX_EVENTS)
        for event in filter(None, (first, end)):
            feed.put_nowait(event)
        self._feeds.append(feed)
        return self._read(feed)

    async def _read(self, feed: "asyncio.Queue[SessionEvent]") -> AsyncIterator[SessionEvent]:
        """Yields the events of one subscriber until `ended`; the subscription then ends."""
        try:
            while True:
                event = await feed.get()
                yield event
                if event.kind == "ended":
                    return
        finally:
            self._feeds.remove(feed)
