"""What waits between a session and its transport: bounded, so that no client costs the others anything."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.serve.session.events import SessionEvent

_MAX_EVENTS = 1024
"""Events kept for a subscriber that does not read; older ones are thrown away."""


@dataclass(frozen=True, slots=True, eq=False)
class SaidFrame:
    """80 ms of what the session says.

    Attributes:
        number: counts from 0 in each session; one is missing where sound was dropped for a slow client.
        samples: float32[1920].
        text: the piece of text that belongs to it; mostly empty.
    """

    number: int
    samples: Samples
    text: str


class Inbox:
    """Sound as it comes from a client, in any lengths, cut into frames of 1,920 samples.

    What is no number becomes silence, and what is too loud is clipped: one endless value in the device's state would
    outlive its session, since attention multiplies what it masks by zero.

    Args:
        max_backlog_s: sound kept; older is dropped.

    Attributes:
        n_past: frames that came so far and do not wait any more: taken, dropped or forgotten.
    """

    def __init__(self, max_backlog_s: float) -> None:
        self.n_past = 0
        self._max_frames = max(1, round(max_backlog_s / FRAME_S))
        self._waiting: Samples = np.zeros(0, np.float32)

    @property
    def n_frames(self) -> int:
        """Whole frames that wait."""
        return len(self._waiting) // FRAME_N_SAMPLES

    @property
    def n_begun(self) -> int:
        """Frames that came so far, with the one of which more has to come."""
        return self.n_past + -(-len(self._waiting) // FRAME_N_SAMPLES)

    def put(self, samples: Samples) -> int:
        """Adds sound; returns how many frames of older sound were dropped for it."""
        clean = np.clip(np.nan_to_num(samples.astype(np.float32, copy=False), posinf=1, neginf=-1), -1, 1)
        waiting = np.concatenate([self._waiting, clean])
        n_dropped = max(0, len(waiting) // FRAME_N_SAMPLES - self._max_frames)
        self.n_past += n_dropped
        self._waiting = waiting[n_dropped * FRAME_N_SAMPLES :]
        return n_dropped

    def take(self) -> Samples | None:
        """The oldest frame, if a whole one waits."""
        if self.n_frames == 0:
            return None
        frame, self._waiting = self._waiting[:FRAME_N_SAMPLES], self._waiting[FRAME_N_SAMPLES:]
        self.n_past += 1
        return frame

    def clear(self) -> None:
        """Forgets what waits."""
        self.n_past = self.n_begun
        self._waiting = np.zeros(0, np.float32)


class Outbox:
    """Frames on their way to a client; one reader.

    Args:
        max_unsent_s: sound kept; older is dropped, its text goes along with the next frame.
    """

    def __init__(self, max_unsent_s: float) -> None:
        self._max_frames = max(1, round(max_unsent_s / FRAME_S))
        self._waiting: deque[SaidFrame] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, frame: SaidFrame) -> int:
        """Adds a frame; returns how many older ones were dropped for it (0 or 1)."""
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
        """Forgets what waits."""
        self._waiting.clear()

    def close(self) -> None:
        """Forgets what waits, and ends `read_frames`."""
        self._closed = True
        self._waiting.clear()
        self._changed.set()

    async def read_frames(self) -> AsyncIterator[SaidFrame]:
        """The frames as they come, until `close`."""
        while not self._closed:
            if self._waiting:
                yield self._waiting.popleft()
            else:
                self._changed.clear()
                await self._changed.wait()


class EventFeeds:
    """What happens, for any number of subscribers who come and go; of too many events the oldest are thrown away."""

    def __init__(self) -> None:
        self._feeds: list[asyncio.Queue[SessionEvent]] = []

    def put(self, event: SessionEvent) -> None:
        """Tells everybody; `ended` is the last."""
        for feed in self._feeds:
            if feed.full():
                feed.get_nowait()
            feed.put_nowait(event)

    def clear(self) -> None:
        """Forgets what waits for anybody."""
        for feed in self._feeds:
            while not feed.empty():
                feed.get_nowait()

    def subscribe(self, first: SessionEvent, end: SessionEvent | None) -> AsyncIterator[SessionEvent]:
        """The events from now on, `first` before them; where the end has been already, it alone after that."""
        feed = asyncio.Queue[SessionEvent](_MAX_EVENTS)
        for event in filter(None, (first, end)):
            feed.put_nowait(event)
        self._feeds.append(feed)
        return self._read(feed)

    async def _read(self, feed: "asyncio.Queue[SessionEvent]") -> AsyncIterator[SessionEvent]:
        try:
            while True:
                event = await feed.get()
                yield event
                if event.kind == "ended":
                    return
        finally:
            self._feeds.remove(feed)
