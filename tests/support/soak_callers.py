"""Callers of a server's app without a network, good ones and bad ones, on whatever clock the event loop has."""

import asyncio
import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
import sphn
from starlette.types import ASGIApp, Message

from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from tests.support.arrivals import Arrived, RealtimeSide
from tests.support.serve_doubles import Fault, tone, words_in
from tests.support.served import AsgiSocket

CHAT, REALTIME = "/api/chat", "/v1/realtime"
AUDIO, TEXT, METADATA = 1, 2, 4
MODES = ("tandem", "tandem", "direct", "cascade")
UNHURT = frozenset({"none", "llm-stalls", "llm-fails", "ear-dies", "changes"})
"""Faults that are not the caller's own: its frames have to be on time."""
_N_SPOKEN, _N_SILENT = 18, 10


@dataclass(slots=True)
class Told:
    """What became of one caller.

    Attributes:
        words: of callers, in all that it was told.
        missing: frames that were not answered, of each beginning of the session: a second one follows a reset.
        worst_late_s: the longest time from a frame sent to the frame answered with it.
        n_dropped: frames that the server threw away.
        ended: why the session ended, as the server tells it.
        status: of the HTTP answer that refused it; 0: it was let in.
        kinds: of the events it was told.
    """

    number: int
    fault: Fault
    path: str
    session_id: str = ""
    words: set[str] = field(default_factory=set)
    missing: list[int] = field(default_factory=list)
    worst_late_s: float = 0.0
    n_dropped: int = 0
    ended: str = ""
    status: int = 0
    kinds: set[str] = field(default_factory=set)


class TimedSocket(AsgiSocket):
    """A socket that notes when sound came, and on `/v1/realtime` asks for all of it."""

    def __init__(self, app: ASGIApp, path: str, query: str, address: str) -> None:
        self._runs: list[list[Arrived]] = [[]]
        self._realtime = RealtimeSide()
        self._is_realtime = path == REALTIME
        super().__init__(app, f"{path}?{query}", address=address)

    def runs(self) -> list[list[Arrived]]:
        """The frames of each beginning of the session, by their numbers."""
        return list(self._realtime.runs()) if self._is_realtime else self._runs

    async def _take(self, message: Message) -> None:
        await super()._take(message)
        now_s = asyncio.get_running_loop().time()
        if self._is_realtime and message.get("text"):
            told = json.loads(message["text"])
            self._realtime.take(told, now_s)
            if RealtimeSide.asks_again(told):
                self.send({"type": "response.create"})
        data = message.get("bytes") or b""
        if data[:1] == bytes([AUDIO]):
            self._runs[-1].append(Arrived(len(self._runs[-1]), now_s))
        elif data[:1] == bytes([METADATA]) and json.loads(data[1:])["kind"] == "started" and self._runs[-1]:
            self._runs.append([])


class SoakCaller:
    """One caller, from its coming to its end.

    Args:
        app: app of the server.
        number: tells the caller apart, and seeds what it does.
        fault: what is wrong with it.
    """

    def __init__(self, app: ASGIApp, number: int, fault: Fault) -> None:
        self._random = random.Random(number)
        self._clock = asyncio.get_running_loop().time
        path = self._random.choice((CHAT, CHAT, REALTIME))
        self.told = Told(number, fault, path)
        self._mode = "tandem" if fault.startswith(("llm", "ear")) else self._random.choice(MODES)
        address = f"192.0.2.{number % 250}"
        self._socket = TimedSocket(app, path, f"events=1&mode={self._mode}", address)
        self._opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
        self._sent_s: list[list[float]] = [[]]

    async def run(self) -> Told:
        """Makes the whole call, and returns what the caller was told."""
        while self._socket.accepted is None and not self._socket.status:
            await asyncio.sleep(0.01)
        if self._socket.status:
            self.told.status = self._socket.status
        else:
            if self.told.path == REALTIME:
                self._socket.send({"type": "session.update", "kame": {"events": True}})
            await self._talk()
            await self._socket.leave()
        await self._socket.over
        self._read()
        return self.told

    async def _talk(self) -> None:
        """Does what a caller with this fault does."""
        match self.told.fault:
            case "vanishes":
                await self._say(self._random.randint(1, _N_SPOKEN))
            case "sticks":
                await self._say(8)
                self._socket.takes.clear()
                await self._say(_N_SPOKEN)
                await self._until_over()
                self._socket.takes.set()
            case "garbage":
                await self._say(6)
                await self._send_garbage()
            case "silent":
                await self._until_over()
            case "fast":
                await self._say(10 * _N_SPOKEN, gap_s=FRAME_S / 10)
                await self._say(_N_SILENT, is_silent=True)
            case "changes":
                await self._turn()
                self._change({"mode": self._random.choice(MODES)})
                await self._turn()
                self._change({"reset": True})
                self._sent_s.append([])
                await self._turn()
            case "none":
                await self._turn()
            case _:
                await self._turn()
                await self._turn()

    async def _turn(self) -> None:
        """Speaks, and is then silent."""
        await self._say(_N_SPOKEN)
        await self._say(_N_SILENT, is_silent=True)

    async def _say(self, n_frames: int, gap_s: float = FRAME_S, is_silent: bool = False) -> None:
        """Sends frames at even times until all are sent or the session is over."""
        began_s = self._clock()
        for number in range(n_frames):
            if self._socket.over.done():
                return
            frame = np.zeros(FRAME_N_SAMPLES, np.float32) if is_silent else tone(self.told.number, number)
            self._send(frame)
            await asyncio.sleep(began_s + (number + 1) * gap_s - self._clock())

    def _send(self, frame: Samples) -> None:
        self._sent_s[-1].append(self._clock())
        if self.told.path == CHAT:
            self._socket.send(bytes([AUDIO]) + self._opus.append_pcm(frame))
        else:
            pcm = (frame * 32767).astype("<i2").tobytes()
            self._socket.send({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})

    def _change(self, changes: dict[str, object]) -> None:
        """Asks for a change of the session in the way of its path."""
        if self.told.path == CHAT:
            self._socket.send(bytes([METADATA]) + json.dumps(changes).encode())
        else:
            self._socket.send({"type": "session.update", "kame": changes})

    async def _send_garbage(self) -> None:
        """Sends messages that are none, ten every 10 ms, until the server ends the session, at most 2000."""
        for number in range(2_000):
            if self._socket.over.done():
                return
            body = self._random.randbytes(self._random.randint(0, 300))
            kinds = (body, bytes([AUDIO]) + body, bytes([METADATA]) + body, body.decode(errors="replace"), "{}", "[1]")
            self._socket.send(self._random.choice(kinds))
            if number % 10 == 9:
                await asyncio.sleep(0.01)

    async def _until_over(self) -> None:
        """Waits until the server has ended the session, at most 120 s."""
        await asyncio.wait({self._socket.over}, timeout=120)

    def _read(self) -> None:
        """Sums up in `told` all that was received."""
        told = self.told
        for text, event in self._messages():
            told.words |= words_in(text)
            if event is None:
                continue
            data = event["data"]
            told.kinds.add(event["kind"])
            told.session_id = data.get("session_id", told.session_id)
            told.n_dropped += data["n_frames"] if event["kind"] == "dropped" else 0
            told.ended = data["reason"] if event["kind"] == "ended" else told.ended
        sent_s: list[float]
        came: list[Arrived]
        for sent_s, came in zip_longest(self._sent_s, self._socket.runs(), fillvalue=[]):
            told.missing.append(len(set(range(len(sent_s))) - {frame.number for frame in came}))
            late = (frame.at_s - sent_s[frame.number] for frame in came if frame.number < len(sent_s))
            told.worst_late_s = max(told.worst_late_s, *late, 0.0)

    def _messages(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yields all that the caller was told in text, each with the server's event if it is one; audio is left out."""
        for message in self._socket.received:
            if isinstance(message, str):
                event = json.loads(message)
                if not event["type"].endswith("audio.delta"):
                    yield message, event.get("event") if event["type"] == "kame.event" else None
            elif message[:1] in (bytes([TEXT]), bytes([METADATA])):
                text = message[1:].decode()
                yield text, json.loads(text) if message[0] == METADATA else None
