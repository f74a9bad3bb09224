"""Attacks on the server beside a normal caller, and what they cost both: `python -m benchmarks.serve attack`.

Each attack goes to a server that is started for it on the loopback interface, is limited in time and connections, and
ends by itself. A normal caller talks all the time in mode direct, and `/healthz` is requested twice a second. The
front-end is real; recogniser and text-to-speech are test doubles, and no chat model is called, so the figures are those
of the network code.
"""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import numpy as np
import psutil  # type: ignore[import-untyped]
from websockets.exceptions import InvalidStatus

from benchmarks.serve_process import Running, run_server
from benchmarks.serve_realtime import RealtimeCall
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.client.client import play_in_real_time
from tests.support.arrivals import longest_wait_s
from tests.support.raw_sockets import TEXT, asking, frame
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
_FEW_DESCRIPTORS = 128
_N_SILENT = 150
_AGAIN_S = 1.0
_N_ASKED = 8
_SMALL_BYTES = 4096
_N_ASKERS, _N_REQUESTS_PER_S = 30, 100
_LET_IN_S = 30.0
_N_TRIES = 5
_LOST = (OSError, asyncio.IncompleteReadError)

PING, EMPTY_START, EMPTY_CONTINUATION = b"\x89\x80mask", b"\x01\x80mask", b"\x00\x80mask"
"""Masked frames of RFC 6455 without a payload."""
FULL_PING = b"\x89\xfdmask" + bytes(125)
"""Ping of maximum length."""


class Harm:
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

    async def flood(self, piece: bytes, bytes_per_s: float, first: bytes = b"", reads: bool = True) -> None:
        """Opens a socket and sends the same data until the server closes it or the time is over, then waits for `ends`.

        Args:
            piece: the data, which is repeated at `bytes_per_s`.
            first: data that is sent before.
            reads: whether the client reads what the server sends.
        """
        async with self._open_socket() as (reader, writer):
            reading = asyncio.create_task(_read_all(reader)) if reads else None
            writer.write(first)
            chunk = piece * round(bytes_per_s * _TICK_S / len(piece))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    while not writer.is_closing():
                        writer.write(chunk)
                        await writer.drain()
                        await asyncio.sleep(_TICK_S)
            await self.ends.wait()
            if reading is not None:
                reading.cancel()

    async def talk_without_reading(self) -> None:
        """Opens a socket, sends audio in real time, requests as many answers as allowed, and reads none.

        It ends like `flood`.
        """
        sound = base64.b64encode(bytes(2 * FRAME_N_SAMPLES)).decode()
        said = _make_text_frame({"type": "input_audio_buffer.append", "audio": sound})
        none = _make_text_frame({"type": "none", "event_id": "x" * 512})
        asked = none * _N_ASKED + _make_text_frame({"type": "response.create"})
        async with self._open_socket(_SMALL_BYTES) as (_, writer):
            writer.write(_make_text_frame({"type": "session.update", "kame": {"events": True}}))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    while not writer.is_closing():
                        writer.write(said + asked)
                        await asyncio.sleep(FRAME_S)
            await self.ends.wait()

    async def ask_often(self, source: str) -> None:
        """Sends requests without a token, on one connection after another, faster than allowed.

        Args:
            source: IP address of the client.
        """
        await self.begins.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while True:
                    with suppress(*_LOST):
                        await self._ask_until_closed(_ABOUT * round(_N_REQUESTS_PER_S * _TICK_S), source)
                    self.n_closed += 1
                    await asyncio.sleep(_TICK_S)

    async def _ask_until_closed(self, requests: bytes, source: str) -> None:
        """Sends requests on one connection until the server closes it."""
        reader, writer = await asyncio.open_connection(*self._place, local_addr=(source, 0))
        reading = asyncio.create_task(_read_all(reader))
        try:
            while not reading.done():
                writer.write(requests)
                await writer.drain()
                await asyncio.sleep(_TICK_S)
        finally:
            reading.cancel()
            writer.transport.abort()

    async def send_slowly(self, number: int, head: bytes, source: str) -> None:
        """Sends the head of a request without a token at one byte per second, and reconnects when the server closes.

        Args:
            number: number of the client; clients start in turn within the first second.
            head: the data; if it is empty, nothing is sent.
            source: IP address of the client.
        """
        await self.begins.wait()
        await asyncio.sleep(number / _N_SILENT)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while True:
                    with suppress(*_LOST):
                        await self._send_until_closed(head, source)
                    self.n_closed += 1
                    await asyncio.sleep(_AGAIN_S)

    async def _send_until_closed(self, head: bytes, source: str) -> None:
        """Sends the head of a request, one byte per second, on one connection, and waits until the server closes it."""
        reader, writer = await asyncio.open_connection(*self._place, local_addr=(source, 0))
        sending = asyncio.create_task(_send_byte_by_byte(writer, head))
        try:
            await _read_all(reader)  # until it is closed
        finally:
            sending.cancel()
            writer.transport.abort()

    @asynccontextmanager
    async def _open_socket(
        self, most_unread: int = 1 << 16
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Opens a socket in mode cascade, which needs no time of the device, and yields it when the attack begins.

        A lost connection ends the `with` block without an error.

        Args:
            most_unread: maximum number of bytes that this side leaves unread.

        Raises:
            RunError: it was rejected.
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


async def _send_byte_by_byte(writer: asyncio.StreamWriter, head: bytes) -> None:
    """Sends the data at one byte per second, until all is sent or the connection is lost."""
    with suppress(*_LOST):
        for at in range(len(head)):
            writer.write(head[at : at + 1])
            await writer.drain()
            await asyncio.sleep(1.0)


def _make_text_frame(message: dict[str, Any]) -> bytes:
    """Returns a message as a WebSocket frame with JSON."""
    return frame(TEXT, json.dumps(message).encode())


@dataclass(frozen=True, slots=True)
class Attack:
    """A kind of attack.

    Attributes:
        seconds: duration.
        do: runs all of its clients at once.
        n_in: number of clients that are accepted first, before all others.
        n_descriptors: file descriptors of the server (`ulimit -n`); with None, as many as this process.
    """

    name: str
    seconds: float
    do: Callable[[Harm], Sequence[Awaitable[None]]]
    n_in: int = 0
    n_descriptors: int | None = None


_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Slow: a\r\n" * 20
_ABOUT = b"GET /v1/about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_HERE, _ELSEWHERE = "127.0.0.1", "127.0.0.2"
"""IP addresses of attackers: the good caller's own, and another one (Linux has all of 127.0.0.0/8)."""


def _make_slow_attack(name: str, head: bytes, source: str) -> Attack:
    """Makes an attack of many clients that run `Harm.send_slowly`, on a server with few file descriptors."""

    def do(harm: Harm) -> list[Awaitable[None]]:
        return [harm.send_slowly(number, head, source) for number in range(_N_SILENT)]

    return Attack(f"{_N_SILENT} {name}, {source}", 15.0, do, n_descriptors=_FEW_DESCRIPTORS)


ATTACKS = (
    Attack("none", 8.0, lambda _: []),
    Attack("pings, 0.8 MB/s", 8.0, lambda harm: [harm.flood(PING, 800_000)], 1),
    Attack("empty fragments, 0.8 MB/s", 8.0, lambda harm: [harm.flood(EMPTY_CONTINUATION, 800_000, EMPTY_START)], 1),
    Attack("pings, 10 MB/s, unread", 10.0, lambda harm: [harm.flood(FULL_PING, 10_000_000, reads=False)], 1),
    Attack("6 callers read nothing", 75.0, lambda harm: [harm.talk_without_reading() for _ in range(6)], 6),
    Attack(
        f"{_N_ASKERS} askers, 3,000 requests/s",
        8.0,
        lambda harm: [harm.ask_often(_ELSEWHERE) for _ in range(_N_ASKERS)],
    ),
    _make_slow_attack("silent sockets", b"", _ELSEWHERE),
    _make_slow_attack("slow headers", _HEAD, _ELSEWHERE),
    _make_slow_attack("silent sockets", b"", _HERE),
    _make_slow_attack("slow headers", _HEAD, _HERE),
)


@dataclass(slots=True)
class Outcome:
    """Result of an attack.

    Attributes:
        n_sent, n_answered, n_dropped: frames of the good caller.
        longest_gap_ms: longest time between two frames that it received.
        ended: why the good caller's session ended early; empty if it did not.
        grown_mib: maximum growth of the server's memory.
        descriptors: file descriptors of the server: before, maximum, after the attack with its clients, without them.
        n_asked, n_healthy: number of requests to `/healthz`, and of answers within 2 s.
        unhealthy: the other responses.
        n_closed: number of the attackers' connections that the server closed or rejected.
    """

    name: str
    n_sent: int = 0
    n_answered: int = 0
    n_dropped: int = 0
    longest_gap_ms: float = 0.0
    ended: str = ""
    grown_mib: float = 0.0
    descriptors: list[int] = field(default_factory=list)
    n_asked: int = 0
    n_healthy: int = 0
    unhealthy: list[str] = field(default_factory=list)
    n_closed: int = 0


def run_attacks(
    checkpoint: str, only: Sequence[str], settings: Sequence[str], on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    """Runs each attack in turn, each on a server of its own; returns their results.

    Args:
        only: parts of the names of the attacks to run; if empty, all are run.
        settings: additional options for `kame serve --set`.
        on_outcome: called with each result.

    Raises:
        RunError: a server does not start or end, or has no time even for the good caller.
    """
    outcomes = []
    for each in ATTACKS:
        if not only or any(part in each.name for part in only):
            outcomes.append(_run_on_server(checkpoint, settings, each))
            on_outcome(outcomes[-1])
    return outcomes


def _run_on_server(checkpoint: str, settings: Sequence[str], attack: Attack) -> Outcome:
    """Runs one attack on a new server, and again on another one, at most five times, if it refuses the good caller.

    Raises:
        RunError: no server lets the good caller in, or a server does not start or end.
    """
    for _ in range(_N_TRIES):
        with suppress(InvalidStatus), run_server(checkpoint, [*SETTINGS, *settings], attack.n_descriptors) as server:
            return asyncio.run(_measure_attack(server, attack))
    raise RunError("The server lets the good caller in at no time: the machine has too much else to do.")


async def _measure_attack(server: Running, attack: Attack) -> Outcome:
    """Runs an attack on a server while the good caller talks, from before it until after it.

    Raises:
        RunError, TimeoutError: the clients that are to be accepted first are refused, or not accepted within 30 s.
        InvalidStatus: the good caller is refused.
    """
    outcome = Outcome(attack.name)
    url = httpx.URL(server.url)
    harm = Harm((url.host, url.port or 80), attack.seconds)
    process = psutil.Process(server.process_id)
    outcome.descriptors = [process.num_fds()] * 2
    harming = [asyncio.ensure_future(each) for each in attack.do(harm)]
    async with asyncio.timeout(_LET_IN_S):
        while harm.n_in < attack.n_in and not any(each.done() for each in harming):
            await asyncio.sleep(_TICK_S)
    sound = np.zeros(round((_BEFORE_S + attack.seconds + _BEHIND_S) * SAMPLE_RATE_HZ), np.float32)
    async with RealtimeCall(server.url, "mode=direct") as call:
        talking = asyncio.create_task(call.say(play_in_real_time(sound, 0.0)))
        await asyncio.sleep(_BEFORE_S)
        watching = asyncio.create_task(_watch(process, server.url, _measure_mib(process), outcome))
        harm.begins.set()
        await asyncio.sleep(attack.seconds)
        await asyncio.sleep(_TICK_S)
        outcome.descriptors.append(process.num_fds())
        harm.ends.set()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.gather(*harming)
        await talking
        await call.wait_until_answered()
        outcome.descriptors.append(process.num_fds())
    outcome.n_closed = harm.n_closed
    outcome.n_sent, outcome.n_answered = call.n_sent, min(call.n_answered, call.n_sent)
    outcome.n_dropped = sum(each["data"]["n_frames"] for each in call.select_events("dropped"))
    outcome.longest_gap_ms = 1000 * max(map(longest_wait_s, call.side.runs()), default=0.0)
    outcome.ended = call.ended
    return outcome


async def _watch(process: psutil.Process, url: str, before_mib: float, outcome: Outcome) -> None:
    """Records the server's memory, descriptors and health in the result, twice a second, until it is cancelled."""
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    while True:
        try:
            async with httpx.AsyncClient(timeout=_ANSWER_S) as client:
                (await client.get(f"{url}/healthz")).raise_for_status()
            outcome.n_asked += 1
            outcome.n_healthy += 1
        except httpx.HTTPError as error:
            outcome.n_asked += 1
            outcome.unhealthy.append(repr(error))
        outcome.grown_mib = max(outcome.grown_mib, _measure_mib(process) - before_mib)
        outcome.descriptors[1] = max(outcome.descriptors[1], process.num_fds())
        next_s = max(next_s + _ASK_S, loop.time())
        await asyncio.sleep(next_s - loop.time())


def _measure_mib(process: psutil.Process) -> float:
    """Returns the resident memory of a process in MiB."""
    return float(process.memory_info().rss) / 2**20


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Returns the results as a table with a row for each attack."""
    head = ("attack", "answered", "dropped", "gap ms", "+MiB", "descriptors", "/healthz", "closed")
    rows = [
        (
            each.name,
            f"{each.n_answered}/{each.n_sent}",
            f"{each.n_dropped}",
            f"{each.longest_gap_ms:.0f}",
            f"{each.grown_mib:.0f}",
            "/".join(map(str, each.descriptors)),
            f"{each.n_healthy}/{each.n_asked}",
            f"{each.n_closed}",
        )
        for each in outcomes
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    ended = [f"{each.name}: {each.ended}" for each in outcomes if each.ended]
    return "\n".join([*lines, "descriptors: before/most/clients still there/clients gone", *ended])


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the results as JSON values."""
    return {"attacks": [asdict(each) for each in outcomes]}
