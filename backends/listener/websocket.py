"""Live speech recognition over a WebSocket, by a small protocol of JSON and raw audio; one connection per caller.

    we:    {"type": "start", "sample_rate_hz": 24000, "encoding": "pcm_s16le", "language": "en"}
    we:    binary messages: the caller's audio as it comes, 16-bit little-endian mono
    it:    {"type": "heard", "text": "what is the"}                     the turn so far, whenever it changes
    we:    {"type": "end_turn"}                                         the caller has stopped speaking
    it:    {"type": "heard", "text": "What is the time?", "is_final": true}
    it:    {"type": "error", "message": "…"}                            becomes the ear's failure; it may continue

The API key, if there is one, is sent as `Authorization: Bearer …` in the handshake. A lost connection is opened again,
and the audio of the turn so far is sent again. The next turn's audio waits for the final text of the one before; after
a timeout the connection is opened again, so that this text is never taken for the next turn's.
"""

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.fault_log import FaultLog, extract_host
from backends.listener.background import BackgroundLoop, HeardSender
from backends.listener.protocol import Heard, Window
from backends.options import Options
from data_schemas.config.base import VARIABLE_NAME
from data_schemas.units import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_log = logging.getLogger(__name__)
_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 15.0
_MAX_KEPT_BYTES = 30 * SAMPLE_RATE_HZ * 2
"""Audio of a turn, 30 s, that is kept for a new connection; older audio is dropped."""
_CLOSE_TIMEOUT_S = 1.0
_N_QUOTED = 300


class WebsocketListenerOptions(Options):
    """Options for the address and timeouts."""

    url: str = Field(pattern=r"^wss?://", description="URL of the recogniser.")
    language: str = Field(default="en", pattern=r"^[a-z]{2,3}$", description="Language of the speech.")
    api_key_env: str = Field(
        default="KAME_SPEECH_API_KEY",
        pattern=VARIABLE_NAME,
        description="Environment variable that holds the key, if any.",
    )
    connect_timeout_s: float = Field(default=5.0, gt=0, le=60, description="Timeout for connecting, seconds.")
    final_timeout_s: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="Timeout for a turn's last words after its end, seconds; then its text so far is final.",
    )


class WebsocketListener:
    """Transcribes speech by a server. An unreachable server is shown by `failure` of the ears, which keep retrying."""

    name = "websocket"

    def __init__(self, options: WebsocketListenerOptions) -> None:
        self._options = options
        self._faults = FaultLog(_log)
        self._background = BackgroundLoop("listener-websocket")

    def listen(self, on_heard: Callable[[Heard], None]) -> "WebsocketListenerStream":
        """Returns a new caller's ear at once; its own connection is opened in the background, with retries."""
        ear = WebsocketListenerStream(self._options, on_heard, self._background.call, self._faults)
        self._background.call(ear.begin)
        return ear

    def close(self) -> None:
        """Closes all connections."""
        self._background.close(_do_nothing)


async def _do_nothing() -> None:
    """Does nothing: connections are closed when their tasks are cancelled."""


@dataclass
class _Turn:
    """A turn's audio, how much of it was sent over this connection, and its transcript."""

    pcm: deque[bytes] = field(default_factory=deque)
    n_sent: int = 0
    has_ended: bool = False
    is_end_sent: bool = False
    text: str = ""
    deadline: asyncio.TimerHandle | None = None

    def keep_newest(self) -> None:
        """Drops the turn's oldest audio beyond 30 s, whether or not it has been sent."""
        n_over = sum(map(len, self.pcm)) - _MAX_KEPT_BYTES
        while n_over > 0:
            if len(self.pcm[0]) > n_over:
                self.pcm[0] = self.pcm[0][n_over:]
                return
            n_over -= len(self.pcm.popleft())
            self.n_sent = max(0, self.n_sent - 1)


class WebsocketListenerStream:
    """One caller's stream; `call` as for `rehearing.RehearingStream`, `faults` logs failures."""

    def __init__(
        self,
        options: WebsocketListenerOptions,
        on_heard: Callable[[Heard], None],
        call: Callable[..., None],
        faults: FaultLog,
    ) -> None:
        self.failure: str | None = None
        self._options, self._faults = options, faults
        self._sender = HeardSender(on_heard)
        self._call = call
        # From here on: used only in the loop.
        self._turns: deque[_Turn] = deque([_Turn()])  # the first is being recognised, the last is being said
        self._task: asyncio.Task[None] | None = None
        self._has_news = asyncio.Event()
        self._retry_s = _FIRST_RETRY_S

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Queues the next audio, to be sent in the background; `windows` is ignored."""
        self._call(self._take, (np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes())

    def end_turn(self) -> None:
        """Ends the turn; a final `Heard` with the text of the whole turn follows, after at most `final_timeout_s`."""
        self._call(self._end)

    def close(self) -> None:
        """Discards the turn; `on_heard` is not called any more after this has returned."""
        self._sender.close()
        self._call(self._forget)

    def begin(self) -> None:
        """Opens the connection, or closes it and opens another; called in the loop."""
        if self._task is not None:
            self._task.cancel()
        if not self._sender.is_closed:
            self._task = asyncio.create_task(self._keep_connected())

    def _take(self, pcm: bytes) -> None:
        """Adds audio to the turn that is being said; does nothing after `close`."""
        if self._sender.is_closed:
            return
        self._turns[-1].pcm.append(pcm)
        self._turns[-1].keep_newest()
        self._has_news.set()

    def _end(self) -> None:
        """Ends the turn, starts the timeout of its last words, and begins the next one; nothing after `close`."""
        if self._sender.is_closed:
            return
        turn = self._turns[-1]
        turn.has_ended = True
        turn.deadline = asyncio.get_running_loop().call_later(self._options.final_timeout_s, self._give_up, turn)
        self._turns.append(_Turn())
        self._has_news.set()

    def _give_up(self, turn: _Turn) -> None:
        """Ends the wait for a turn's last words: sends its text so far as final, and opens a new connection.

        This is a failure, which is recorded and logged.
        """
        self._fail("timeout", f"it did not send a turn's last words within {self._options.final_timeout_s:g} s")
        self._finish(turn)
        self.begin()

    def _finish(self, turn: _Turn) -> None:
        """Removes a turn and sends its text as final."""
        if turn.deadline is not None:
            turn.deadline.cancel()
        self._turns.remove(turn)
        self._sender.send(Heard(turn.text, is_final=True))
        self._has_news.set()

    async def _keep_connected(self) -> None:
        """Opens one connection after another until it is cancelled; after a failure it waits, each time longer."""
        from websockets.exceptions import InvalidStatus, WebSocketException

        while True:
            if self.failure is not None:
                await asyncio.sleep(self._retry_s)
                self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)
            try:
                await self._run_connection()
                self._fail("connection lost", "it ended the connection")
            except* (OSError, WebSocketException, TimeoutError) as errors:
                error = errors.exceptions[0]
                kind = type(error).__name__
                status = f"HTTP {error.response.status_code}" if isinstance(error, InvalidStatus) else kind
                self._fail(status, str(error)[:_N_QUOTED] or kind)
            except* (ValueError, TypeError, KeyError, RecursionError) as errors:  # JSON may be too deep
                self._fail(type(errors.exceptions[0]).__name__, "it sends messages that are not of the protocol")

    async def _run_connection(self) -> None:
        """Runs one connection from its start, when all turns are sent again, until it is lost."""
        from websockets.asyncio.client import connect

        key = os.environ.get(self._options.api_key_env, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        opening = connect(
            self._options.url,
            additional_headers=headers,
            open_timeout=self._options.connect_timeout_s,
            close_timeout=_CLOSE_TIMEOUT_S,
        )
        async with opening as connection, asyncio.TaskGroup() as both:
            for turn in self._turns:
                turn.n_sent, turn.is_end_sent = 0, False
            sending = both.create_task(self._send(connection))
            async for message in connection:
                self._read(json.loads(message))
            sending.cancel()

    async def _send(self, connection: "ClientConnection") -> None:
        """Sends the start message, then audio and ends of turns as they come, until cancelled.

        The next turn is sent only after the final text of the one before has come.
        """
        start = {
            "type": "start",
            "sample_rate_hz": SAMPLE_RATE_HZ,
            "encoding": "pcm_s16le",
            "language": self._options.language,
        }
        await connection.send(json.dumps(start))
        while True:
            turn = self._turns[0]
            if turn.n_sent < len(turn.pcm):
                turn.n_sent += 1
                await connection.send(turn.pcm[turn.n_sent - 1])
            elif turn.has_ended and not turn.is_end_sent:
                turn.is_end_sent = True
                await connection.send(json.dumps({"type": "end_turn"}))
            else:
                self._has_news.clear()
                await self._has_news.wait()

    def _read(self, message: dict[str, Any]) -> None:
        """Handles a message from the recogniser: sends the text of the first turn on, or records an error.

        A final text counts as a partial one until the end of its turn was sent.

        Raises:
            ValueError, TypeError, KeyError: it is not of the protocol.
        """
        if message["type"] == "error":
            self._fail("an error of its own", str(message["message"])[:_N_QUOTED])
        elif message["type"] == "heard":
            turn = self._turns[0]
            self.failure, self._retry_s = None, _FIRST_RETRY_S
            is_new = message["text"] != turn.text
            turn.text = str(message["text"])
            if message.get("is_final") and turn.is_end_sent:
                self._finish(turn)
            elif is_new:
                self._sender.send(Heard(turn.text))
        else:
            raise ValueError(message["type"])

    def _fail(self, fault: str, reason: str) -> None:
        """Records and logs a failure. `reason` may quote the server and is not logged."""
        remedy = f"Check that it runs, that its URL is right, and the key in {self._options.api_key_env}."
        self._faults.report("The recogniser websocket", extract_host(self._options.url), fault, remedy)
        self.failure = f"The recogniser at {self._options.url}: {reason}."

    def _forget(self) -> None:
        """Drops all turns and closes the connection."""
        for turn in self._turns:
            if turn.deadline is not None:
                turn.deadline.cancel()
        self._turns = deque([_Turn()])
        if self._task is not None:
            self._task.cancel()
