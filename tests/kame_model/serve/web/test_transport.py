"""Clients that mean harm, over a real network of this machine: they are closed, and others are answered."""

import asyncio
import errno
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import httpx
import pytest

from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.web.app import keep_tokens_out_of_logs
from tests.support.raw_sockets import BINARY, CONTINUED, PING, RESERVED, TEXT, asking, connected, frame
from tests.support.served import Served, served
from tests.support.serving import until

pytestmark = [pytest.mark.full]
PATHS = ("/api/chat", "/v1/realtime")
MOST_S = 30


@asynccontextmanager
async def running(checkpoint: Checkpoint, **limits: float) -> AsyncIterator[Served]:
    """A server with these limits, for half a minute at most."""
    async with served(checkpoint, limits={"max_sessions": 2, **limits}) as found, asyncio.timeout(MOST_S):
        yield found


@asynccontextmanager
async def connection(place: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    host, port = place.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes, by a reset too."""
    came = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            came += piece
    return came


async def n_closed(place: str, reason: str) -> float:
    """How many connections the server has closed for this reason, as Prometheus is told it."""
    async with httpx.AsyncClient() as client:
        lines = (await client.get(f"http://{place}/metrics")).text.splitlines()
    return sum(
        float(line.split()[1]) for line in lines if line.startswith(f'kame_connections_closed_total{{reason="{reason}"')
    )


async def is_healthy(place: str) -> bool:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"http://{place}/healthz")).text == '{"status":"ok"}'


@contextmanager
def uvicorn_log(caplog: pytest.LogCaptureFixture) -> Iterator[logging.Logger]:
    """uvicorn's own logger does not propagate."""
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    try:
        yield log
    finally:
        log.removeHandler(caplog.handler)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("first", "piece"),
    [(b"", frame(PING, b"")), (frame(TEXT, b"", is_last=False), frame(CONTINUED, b"", is_last=False))],
    ids=["pings", "empty fragments"],
)
async def test_a_flood_ends_its_session(checkpoint: Checkpoint, path: str, first: bytes, piece: bytes) -> None:
    async with running(checkpoint) as server:
        reader, writer = await connected(server.place, path)
        await until(lambda: bool(server.server.sessions))
        writer.write(first + piece * 20_000)
        await rest(reader)
        await until(lambda: not server.server.sessions)
        assert await n_closed(server.place, "too_many_frames") == 1
        writer.close()


async def test_who_pings_as_often_as_is_allowed_is_answered(checkpoint: Checkpoint) -> None:
    async with running(checkpoint) as server:
        reader, writer = await connected(server.place, "/v1/realtime")
        for _ in range(200):
            writer.write(frame(PING, b"here"))
        writer.write(frame(TEXT, json.dumps({"type": "none", "event_id": "behind them"}).encode()))
        assert (await reader.readuntil(b"behind them")).count(b"\x8a\x04here") == 200
        writer.transport.abort()


async def test_who_pings_and_reads_nothing_gives_the_descriptor_back(checkpoint: Checkpoint) -> None:
    most = {"max_messages_per_s": 100_000, "max_bytes_per_s": 50_000_000, "max_burst_bytes": 50_000_000}
    async with running(checkpoint, **most, max_unwritten_bytes=65_536) as server:
        _, writer = await connected(server.place, "/v1/realtime")
        with suppress(ConnectionError):
            while not writer.transport.is_closing():
                writer.write(frame(PING, bytes(125)) * 1_000)
                await writer.drain()
        assert await n_closed(server.place, "unread") == 1
        assert server.server.sessions == {}


async def test_who_reads_nothing_of_an_answer_gives_the_descriptor_back(checkpoint: Checkpoint) -> None:
    async with (
        running(checkpoint, write_timeout_s=0.05, entry_timeout_s=1000, max_requests_per_s=100_000) as server,
        connection(server.place) as (_, writer),
    ):
        writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2_000)
        while not await n_closed(server.place, "write_timeout"):  # `running` gives up after half a minute
            await asyncio.sleep(0)
        assert (await is_healthy(server.place), await n_closed(server.place, "write_timeout")) == (True, 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"PATCH /v1/sessions/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body"],
)
async def test_who_does_not_ask_in_time_is_closed(checkpoint: Checkpoint, sent: bytes) -> None:
    async with running(checkpoint, entry_timeout_s=0.05) as server:
        async with connection(server.place) as (reader, writer):
            writer.write(sent)
            assert await rest(reader) == b""
        assert await n_closed(server.place, "entry_timeout") == 1


async def test_sockets_beyond_all_places_are_refused_and_health_is_told(checkpoint: Checkpoint) -> None:
    limits = {"max_connections": 8, "max_connections_before_entry": 7, "max_sessions": 4, "max_sessions_per_address": 8}
    async with running(checkpoint, **limits) as server:
        inside = [await connected(server.place, "/api/chat") for _ in range(4)]  # half of the places are for others
        async with connection(server.place) as (reader, writer):
            writer.write(asking("/api/chat"))
            answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"too_many_connections"' in answer
        async with AsyncExitStack() as silent:
            for _ in range(30):
                await silent.enter_async_context(connection(server.place))
            assert await is_healthy(server.place)
            assert await n_closed(server.place, "pushed_out") >= 26
        for _, writer in inside:
            writer.transport.abort()


class FailingAccept:
    """The event loop's accept, which fails once with each of `errors`, whenever they are given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[int] = []
        accept = asyncio.SelectorEventLoop.sock_accept

        async def failing(loop: asyncio.SelectorEventLoop, listener: socket.socket) -> Any:
            if self.errors:
                raise OSError(self.errors.pop(), "injected")
            return await accept(loop, listener)

        monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_accept", failing)


async def test_a_server_out_of_descriptors_lets_clients_connect_again(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    FailingAccept(monkeypatch).errors += [errno.EMFILE] * 2
    async with running(checkpoint) as server:
        assert await is_healthy(server.place)
    told = [record.levelname for record in caplog.records if "Nobody can connect" in record.getMessage()]
    assert told == ["ERROR"]


async def test_clients_that_have_gone_before_they_are_accepted_push_nobody_out(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = FailingAccept(monkeypatch)
    async with running(checkpoint) as server, connection(server.place) as (reader, writer):
        accept.errors += [errno.ECONNABORTED, errno.EPROTO, errno.EPERM]
        for _ in range(2):
            assert await is_healthy(server.place)
        assert accept.errors == []
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert (await rest(reader)).startswith(b"HTTP/1.1 200 ")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_server_whose_listener_is_broken_says_so_and_ends(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    FailingAccept(monkeypatch).errors.append(errno.EBADF)
    async with running(checkpoint) as server:
        await until(server.web.done)
    told = [record.levelname for record in caplog.records if "has stopped listening" in record.getMessage()]
    assert told == ["CRITICAL"]


async def test_a_fault_of_ours_as_a_client_connects_is_told(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("kame_model.serve.web.transport.H11Protocol.__init__", fail)
    async with running(checkpoint) as server, connection(server.place) as (reader, _):
        assert await rest(reader) == b""
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert "a fault of ours" in str(record.exc_info[1])


async def test_an_address_that_asks_too_often_is_refused_and_its_callers_go_on(checkpoint: Checkpoint) -> None:
    async with running(checkpoint, max_requests_per_s=5) as server:
        _, caller = await connected(server.place, "/v1/realtime")
        await until(lambda: bool(server.server.sessions))
        async with connection(server.place) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1_000)
            answer = await rest(reader)
        assert 19 <= answer.count(b"HTTP/1.1 200 ") < 100
        assert answer.count(b"HTTP/1.1 429 ") == 1
        assert answer.endswith(b'"message":"Your address sends too many requests; try again later."}}')
        assert server.server.sessions
        caller.transport.abort()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("?prompt=" + "x" * 9_000, "", 414, "address_too_long"),
        ("?prompt=" + "x" * 100_000, "", 414, "address_too_long"),
        ("", "X-Long: " + "x" * 9_000 + "\r\n", 431, "headers_too_long"),
        ("", "X-Long: " + "x" * 100_000, 431, "headers_too_long"),
        ("", "X-Many: x\r\n" * 200, 431, "headers_too_long"),
        ("", "X(Odd): x\r\n", 400, ""),
    ],
    ids=["query", "longer query", "header", "longer header", "headers", "no header"],
)
async def test_a_request_that_cannot_be_read_is_answered(
    checkpoint: Checkpoint, path: str, query: str, headers: str, status: int, code: str
) -> None:
    async with running(checkpoint) as server, connection(server.place) as (reader, writer):
        writer.write(asking(path + query, headers=headers))
        answer = await rest(reader)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert not code or json.loads(body)["error"]["code"] == code


async def test_a_query_of_almost_8_kilobytes_is_read(checkpoint: Checkpoint) -> None:
    async with running(checkpoint) as server:
        _, writer = await connected(server.place, "/v1/realtime?none=" + "x" * 7_900)
        await until(lambda: len(server.server.sessions) == 1)
        writer.transport.abort()


async def test_who_is_refused_leaves_no_error_logged(checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture) -> None:
    async with running(checkpoint) as server:
        with uvicorn_log(caplog):
            for target in ("/nowhere", "/api/chat?mode=none", "/v1/realtime?record=unasked"):
                async with connection(server.place) as (reader, writer):
                    writer.write(asking(target))
                    assert b"HTTP/1.1 4" in await rest(reader)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


BAD = {
    "no UTF-8": frame(TEXT, b"\xff\xfe"),
    "no UTF-8 in parts": frame(TEXT, b'{"\xe2', is_last=False) + frame(CONTINUED, b'("}'),
    "unmasked": frame(TEXT, b"{}", is_masked=False),
    "reserved": frame(RESERVED, b"x"),
    "a gigabyte": b"\x82\xff" + struct.pack(">Q", 10**9) + b"maskxxxx",
    "continues nothing": frame(CONTINUED, b"x"),
}


async def test_frames_that_are_none_and_lost_clients(checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture) -> None:
    with uvicorn_log(caplog):
        async with running(checkpoint, max_sessions_per_address=2) as server:
            n_tasks = len(asyncio.all_tasks())
            for path in PATHS:
                for bad in BAD.values():
                    reader, writer = await connected(server.place, path)
                    writer.write(bad)
                    await reader.read()  # until the server closes
                    writer.close()
                _, writer = await connected(server.place, path)
                writer.write(frame(BINARY, b"\x01half a frame")[:5])
                # SO_LINGER of 0: the connection is reset, as when a machine loses its network
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.close()
            await until(lambda: not server.server.sessions)
            await until(lambda: len(asyncio.all_tasks()) <= n_tasks)
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


async def test_tokens_stay_out_of_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    keep_tokens_out_of_logs()
    with uvicorn_log(caplog) as log:
        log.error('%s - "WebSocket %s" [accepted]', "192.0.2.1", "/api/chat?mode=tandem&token=s3cret&events=1")
    assert "/api/chat?mode=tandem&token=...&events=1" in caplog.text
    assert "s3cret" not in caplog.text
