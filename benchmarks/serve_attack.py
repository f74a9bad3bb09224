"""Attacks on the server beside a normal caller, and what they cost both: `python -m benchmarks.serve attack`.

Each attack goes to a server that is started for it on the loopback interface, is limited in time and connections, and
ends by itself. A normal caller talks all the time in mode direct, and `/healthz` is requested twice a second. The
front-end is real; recogniser and text-to-speech are test doubles, and no chat model is called, so the figures are those
of the network code.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import numpy as np
import psutil  # type: ignore[import-untyped]
from websockets.exceptions import InvalidStatus

from benchmarks.command import measure_mib
from benchmarks.serve_process import RunningServer, run_server
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.client.client import play_in_real_time
from tests.support.arrivals import longest_wait_s
from tests.support.raw_sockets import TEXT, asking, frame
from tests.support.realtime_call import RealtimeCall
from tests.support.realtime_protocol import append
from tests.support.runs import RunError

SETTINGS = (
    "back_ends.0.chat.engine=openai",
    "back_ends.0.chat.base_url=http://127.0.0.1:1/v1",
    "back_ends.0.chat.model=none",
    "listener.engine=double",
    "cascade.tts=double",
    "limits.max_sessions=8",
    "limits.budget_share=1",
    "limits.max_sessions_per_address=16",
)
"""Settings of each server: as cheap as possible besides the front-end, with several clients of one address."""
_BEFORE_S, _BEHIND_S = 3.0, 3.0
_ASK_S, _ANSWER_S = 0.5, 2.0
_TICK_S = 0.02
_LET_IN_S = 30.0
_N_TRIES = 5
_LOST = (OSError, asyncio.IncompleteReadError)
_HERE, _ELSEWHERE = "127.0.0.1", "127.0.0.2"
"""IP addresses of attackers: the good caller's own, and another one (Linux has all of 127.0.0.0/8)."""

Outcome = dict[str, Any]
Send = Callable[[asyncio.StreamWriter], Awaitable[None]]


class AttackClients:
    """The clients of an attack, and its state.

    Args:
        place: host and port of the server.
        seconds: duration of each attack.

    Attributes:
        n_in: number of the attackers' sockets that were accepted.
        begins, ends: set when they begin and when they leave; the good caller is connected all that time.
        n_closed: number of the attackers' connections that the server closed or rejected.
    """

    def __init__(self, place: tuple[str, int], seconds: float) -> None:
        self._place, self._seconds = place, seconds
        self.n_in = 0
        self.begins, self.ends = asyncio.Event(), asyncio.Event()
        self.n_closed = 0

    async def flood(
        self, piece: bytes, every_s: float = _TICK_S, first: bytes = b"", most_unread: int | None = None
    ) -> None:
        """Opens a socket and sends the same data until the server closes it or the time is over, then waits for `ends`.

        Args:
            first: data that is sent before.
            most_unread: size of the client's buffer, if it reads nothing that the server sends.
        """
        async with self._open_socket(most_unread or 1 << 16) as (reader, writer):
            reading = asyncio.create_task(_read_all(reader)) if most_unread is None else None
            writer.write(first)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    while not writer.is_closing():
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(every_s)
            await self.ends.wait()
            if reading is not None:
                reading.cancel()

    async def reconnect(self, number: int, send: Send, source: str, again_s: float) -> None:
        """Sends on one connection after another, each until the server closes it, until the time is over.

        The clients begin in turn, 150 a second, from the IP address `source`; each waits `again_s` between connections.
        """
        await self.begins.wait()
        await asyncio.sleep(number / 150)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while True:
                    with suppress(*_LOST):
                        await self._send_until_closed(send, source)
                    self.n_closed += 1
                    await asyncio.sleep(again_s)

    async def _send_until_closed(self, send: Send, source: str) -> None:
        """Sends on one connection until the server closes it."""
        reader, writer = await asyncio.open_connection(*self._place, local_addr=(source, 0))
        sending = asyncio.ensure_future(send(writer))
        try:
            await _read_all(reader)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.transport.abort()

    @asynccontextmanager
    async def _open_socket(self, most_unread: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Opens a socket in mode cascade, which needs no time of the device, and yields it when the attack begins.

        A lost connection ends the `with` block without an error; a rejected one raises a RunError.
        """
        bare = socket.socket()
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, most_unread)
        bare.setblocking(False)
        await asyncio.get_running_loop().sock_connect(bare, self._place)
        reader, writer = await asyncio.open_connection(sock=bare, limit=most_unread)
        try:
            writer.write(asking("/v1/realtime?mode=cascade", self._place[0]))
            status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode()
            if " 101 " not in status:
                raise RunError(f"An attacker was not let in: {status}.")
            self.n_in += 1
            await self.begins.wait()
            with suppress(*_LOST):
                yield reader, writer
            self.n_closed += writer.is_closing()
        finally:
            writer.transport.abort()


async def _read_all(reader: asyncio.StreamReader) -> None:
    """Reads and discards all data until the connection ends."""
    with suppress(*_LOST):
        while await reader.read(1 << 20):
            pass


async def _ask_often(writer: asyncio.StreamWriter) -> None:
    """Sends 100 requests a second without a token, until the connection is lost: faster than allowed."""
    while True:
        writer.write(b"GET /v1/about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * round(100 * _TICK_S))
        await writer.drain()
        await asyncio.sleep(_TICK_S)


async def _send_slowly(writer: asyncio.StreamWriter) -> None:
    """Sends the head of a request without a token at one byte per second."""
    for byte in b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Slow: a\r\n" * 20:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1.0)


async def _send_nothing(writer: asyncio.StreamWriter) -> None:
    """Sends nothing."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A kind of attack.

    Attributes:
        seconds: duration.
        do: runs one of its clients, which is given its number.
        n_clients: number of clients, which run at once.
        is_let_in: whether they are accepted first, before all others.
        n_descriptors: file descriptors of the server (`ulimit -n`); with None, as many as this process.
    """

    name: str
    seconds: float
    do: Callable[[AttackClients, int], Awaitable[object]]
    n_clients: int = 1
    is_let_in: bool = True
    n_descriptors: int | None = None


def list_attacks() -> Iterator[Attack]:
    """Yields all attacks; the first one has no clients."""
    ping, full_ping = b"\x89\x80mask", b"\x89\xfdmask" + bytes(125)  # masked frames of RFC 6455
    empty_start, empty_continuation = b"\x01\x80mask", b"\x00\x80mask"
    n_frames_in_a_tick = round(0.8e6 * _TICK_S / len(ping))
    messages = (
        {"type": "session.update", "kame": {"events": True}},
        append(np.zeros(FRAME_N_SAMPLES, np.float32)),
        *[{"type": "none", "event_id": "x" * 512}] * 8,
        {"type": "response.create"},
    )
    start, *talk = (frame(TEXT, json.dumps(each).encode()) for each in messages)
    yield Attack("none", 8.0, lambda harm, _: harm.ends.wait(), n_clients=0)
    yield Attack("pings, 0.8 MB/s", 8.0, lambda harm, _: harm.flood(ping * n_frames_in_a_tick))
    continued = empty_continuation * n_frames_in_a_tick
    yield Attack("empty fragments, 0.8 MB/s", 8.0, lambda harm, _: harm.flood(continued, first=empty_start))
    pings = full_ping * round(10e6 * _TICK_S / len(full_ping))
    yield Attack("pings, 10 MB/s, unread", 10.0, lambda harm, _: harm.flood(pings, most_unread=1 << 16))
    yield Attack(
        "6 callers read nothing",
        75.0,
        lambda harm, _: harm.flood(b"".join(talk), FRAME_S, start, most_unread=4096),
        n_clients=6,
    )
    ask_often = partial(AttackClients.reconnect, send=_ask_often, source=_ELSEWHERE, again_s=_TICK_S)
    yield Attack("30 askers, 3,000 requests/s", 8.0, ask_often, n_clients=30, is_let_in=False)
    for source in (_ELSEWHERE, _HERE):
        for name, send in (("silent sockets", _send_nothing), ("slow headers", _send_slowly)):
            do = partial(AttackClients.reconnect, send=send, source=source, again_s=1.0)
            yield Attack(f"150 {name}, {source}", 15.0, do, n_clients=150, is_let_in=False, n_descriptors=128)


def run_attacks(checkpoint: str, only: Sequence[str]) -> Iterator[Outcome]:
    """Runs each attack in turn, each on a server of its own; yields their results.

    If a server refuses the good caller, the attack is repeated on another one, at most five times.

    Args:
        only: parts of the names of the attacks to run; if empty, all are run.

    Raises:
        RunError: a server does not start or end, or has no time even for the good caller.
    """
    for attack in list_attacks():
        if only and not any(part in attack.name for part in only):
            continue
        outcome = None
        for _ in range(_N_TRIES):
            with suppress(InvalidStatus), run_server(checkpoint, SETTINGS, attack.n_descriptors) as server:
                outcome = asyncio.run(_measure_attack(server, attack))
                break
        if outcome is None:
            raise RunError("The server lets the good caller in at no time: the machine has too much else to do.")
        print(outcome, file=sys.stderr, flush=True)
        yield outcome


async def _measure_attack(server: RunningServer, attack: Attack) -> Outcome:
    """Runs an attack on a server while the good caller talks, from before it until after it.

    Returns the frames of the good caller (`n_sent`, `n_answered`, `n_dropped`), the longest time between two that it
    received, and why its session `ended` early; the maximum growth of the server's memory; its file descriptors before,
    at most, after the attack with its clients, and without them; the number of requests to `/healthz`, and what came
    other than an answer within 2 s; and how many of the attackers' connections the server closed or rejected.

    Raises:
        RunError, TimeoutError: the clients that are to be accepted first are refused, or not accepted within 30 s.
        InvalidStatus: the good caller is refused.
    """
    url = httpx.URL(server.url)
    harm = AttackClients((url.host, url.port or 80), attack.seconds)
    process = psutil.Process(server.process_id)
    seen = [(measure_mib(process), process.num_fds(), "")]
    harming = [asyncio.ensure_future(attack.do(harm, number)) for number in range(attack.n_clients)]
    async with asyncio.timeout(_LET_IN_S):
        while attack.is_let_in and harm.n_in < attack.n_clients and not any(each.done() for each in harming):
            await asyncio.sleep(_TICK_S)
    sound = np.zeros(round((_BEFORE_S + attack.seconds + _BEHIND_S) * SAMPLE_RATE_HZ), np.float32)
    async with RealtimeCall(server.url, "mode=direct") as call:
        talking = asyncio.create_task(call.say(play_in_real_time(sound, 0.0)))
        await asyncio.sleep(_BEFORE_S)
        before_mib = measure_mib(process)
        watching = asyncio.create_task(_watch(process, server.url, seen))
        harm.begins.set()
        await asyncio.sleep(attack.seconds + _TICK_S)
        n_with_clients = process.num_fds()
        harm.ends.set()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.gather(*harming)
        await talking
        await call.wait_until_answered()
        descriptors = [seen[0][1], max(n for _, n, _ in seen), n_with_clients, process.num_fds()]
    return {
        "name": attack.name,
        "n_sent": call.n_sent,
        "n_answered": min(call.n_answered, call.n_sent),
        "n_dropped": sum(each["data"]["n_frames"] for each in call.side.events if each["kind"] == "dropped"),
        "longest_gap_ms": 1000 * max(map(longest_wait_s, call.side.runs()), default=0.0),
        "ended": call.ended,
        "grown_mib": max([before_mib, *(mib for mib, _, _ in seen[1:])]) - before_mib,
        "descriptors": descriptors,
        "n_asked": len(seen) - 1,
        "unhealthy": [fault for _, _, fault in seen if fault],
        "n_closed": harm.n_closed,
    }


async def _watch(process: psutil.Process, url: str, seen: list[tuple[float, int, str]]) -> None:
    """Adds a server's memory, descriptors and fault in answering `/healthz` twice a second, until it is cancelled."""
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    while True:
        fault = ""
        try:
            async with httpx.AsyncClient(timeout=_ANSWER_S) as client:
                (await client.get(f"{url}/healthz")).raise_for_status()
        except httpx.HTTPError as error:
            fault = repr(error)
        seen.append((measure_mib(process), process.num_fds(), fault))
        next_s = max(next_s + _ASK_S, loop.time())
        await asyncio.sleep(next_s - loop.time())
