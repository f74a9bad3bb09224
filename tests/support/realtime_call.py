"""A caller of `/v1/realtime` over the network, who requests every frame and records when each came."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from backends.engine import Samples
from tests.support.arrivals import RealtimeSide
from tests.support.realtime_protocol import append

_DROPPED = "input_audio_dropped"
"""The protocol's error for dropped frames, which the event `dropped` reports with their number."""
_OWED_S = 3.0
_OPEN_S = 60.0


class RealtimeCall:
    """A call, as an asynchronous context manager.

    Attributes:
        side: received events.
        n_sent: number of frames sent.
        ended: why the server ended the call, or the first error that it sent or made; empty if the call went well.

    Raises:
        websockets.exceptions.InvalidStatus: it was refused.
    """

    def __init__(self, url: str, query: str = "") -> None:
        self.side = RealtimeSide()
        self.n_sent = 0
        self.ended = ""
        self._address = f"{url.replace('http', 'ws', 1)}/v1/realtime?{query}"
        self._clock = asyncio.get_running_loop().time
        self._news = asyncio.Event()
        self._socket: ClientConnection
        self._hearing: asyncio.Task[None]

    async def __aenter__(self) -> "RealtimeCall":
        self._socket = await connect(self._address, proxy=None, open_timeout=_OPEN_S)
        await self.send({"type": "session.update", "kame": {"events": True}})
        self._hearing = asyncio.create_task(self._hear())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hearing.cancel()
        await self._socket.close()
        with suppress(asyncio.CancelledError):
            await self._hearing

    async def send(self, message: dict[str, Any]) -> None:
        """Sends a message of the protocol; raises `ConnectionClosed` if the server has ended the call."""
        await self._socket.send(json.dumps(message))

    async def say(self, frames: AsyncIterator[Samples]) -> None:
        """Sends frames as they come, until there are no more or the server has ended the call (`ended`)."""
        try:
            async for frame in frames:
                await self.send(append(frame))
                self.n_sent += 1
        except ConnectionClosed as error:
            self.ended = self.ended or f"connection lost: {error}"

    async def wait_until_answered(self) -> None:
        """Waits until the server has sent a frame for each one that it received; after 3 s it returns all the same."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_OWED_S):
                while self.n_answered < self.n_sent and not self._hearing.done():
                    self._news.clear()
                    await self._news.wait()

    @property
    def n_answered(self) -> int:
        """Number of frames that came, plus those that passed while the caller requested more."""
        return sum(map(len, self.side.responses)) + self.side.n_unasked

    async def _hear(self) -> None:
        """Records the server's messages until the connection ends, and requests each next response.

        It ends at a message that is not of the protocol; that, and the protocol's errors, become `ended`.
        """
        try:
            async for text in self._socket:
                message = json.loads(text)
                self.side.take(message, self._clock())
                if message["type"] == "error" and message["error"]["code"] != _DROPPED:
                    self.ended = self.ended or f"error {message['error']['code']}: {message['error']['message']}"
                if RealtimeSide.asks_again(message):
                    await self.send({"type": "response.create"})
                self._news.set()
            self.ended = self.ended or "the server closed the connection"
        except ConnectionClosed as error:
            self.ended = self.ended or f"connection lost: {error}"
        except (KeyError, IndexError, TypeError, ValueError) as error:
            self.ended = self.ended or f"the server sent what is not of the protocol: {error!r}"
        finally:
            self._news.set()  # who waits for an answer waits no longer
