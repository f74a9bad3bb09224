"""Connections by themselves, on a simulated clock: places, deadlines, and what each may send."""

import asyncio
import base64
import json
import resource
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sphn
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from data_schemas.config.serving import LimitsConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.web.connections import Connection, Connections, WsFrameCounter, find_most_connections
from kame_model.serve.web.realtime_websocket import MAX_WAITING_S
from tests.support.raw_sockets import BINARY, CONTINUED, PING, frame
from tests.support.serving import saying

pytestmark = [pytest.mark.looptime]
PINGED, EMPTY = frame(PING, b""), frame(CONTINUED, b"", is_last=False)


class Transport(asyncio.Transport):
    """A client's end that reads nothing unless it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.n_unread = 0
        self.is_aborted = self.is_closed = False

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_aborted or self.is_closed

    def get_write_buffer_size(self) -> int:
        return self.n_unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It has none."""


@asynccontextmanager
async def connections(most: int = 100, proxies: Sequence[str] = (), **limits: Any) -> AsyncIterator[Connections]:
    """Connections that are watched."""
    found = Connections(LimitsConfig(**limits), lambda peer: None if peer in proxies else peer, most)
    watching = asyncio.create_task(found.watch())
    yield found
    watching.cancel()


def connect(home: Connections, address: str = "192.0.2.1") -> tuple[Connection, Transport]:
    """A client that has connected and can be written to."""
    connection, transport = home.open(address), Transport()
    assert connection is not None
    connection.open(transport)
    return connection, transport


def append_frame(seconds: float) -> bytes:
    """Sound for the realtime protocol, as openai's client sends it."""
    sound = base64.b64encode(bytes(2 * round(seconds * SAMPLE_RATE_HZ))).decode()
    return frame(BINARY, json.dumps({"type": "input_audio_buffer.append", "audio": sound}).encode())


def realtime_chunks() -> Iterator[tuple[float, bytes]]:
    for _ in range(600):
        yield 0.1, append_frame(0.1)


def opus_pages() -> Iterator[tuple[float, bytes]]:
    writer = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    for _ in range(750):
        yield FRAME_S, frame(BINARY, b"\x01" + writer.append_pcm(saying("golf")))


def worklet_blocks() -> Iterator[tuple[float, bytes]]:
    """A page that sends each block of 128 samples by itself, in two fragments, and pings with every tenth."""
    for number in range(1_000):
        block = append_frame(128 / SAMPLE_RATE_HZ)
        yield 128 / SAMPLE_RATE_HZ, block + EMPTY + (b"" if number % 10 else PINGED)


def file_at_once() -> Iterator[tuple[float, bytes]]:
    """All sound that may wait, and then as much again a second as messages may have at all."""
    limits = LimitsConfig()
    for _ in range(round(MAX_WAITING_S)):
        yield 0.0, append_frame(1.0)
    for _ in range(60):
        yield 1.0, frame(BINARY, bytes(limits.max_bytes_per_s))


def stalled_network() -> Iterator[tuple[float, bytes]]:
    """Two seconds of the most messages that are allowed, all at once, and then as many a second for a minute."""
    per_s = LimitsConfig().max_messages_per_s
    yield 0.0, frame(BINARY, b"\x06") * 2 * per_s
    for _ in range(60):
        yield 1.0, frame(BINARY, b"\x06") * per_s


@pytest.mark.parametrize(
    "send",
    [realtime_chunks, opus_pages, worklet_blocks, file_at_once, stalled_network],
    ids=lambda send: send.__name__,
)
@pytest.mark.full
async def test_who_does_the_most_that_is_allowed_is_not_cut_off(send: Any) -> None:
    async with connections() as home:
        connection, transport = connect(home)
        connection.has_entered = True
        for wait_s, sent in send():
            await asyncio.sleep(wait_s)
            assert connection.take_frames(sent)
        assert not transport.is_aborted
        assert not home.n_closed


@pytest.mark.parametrize("piece", [PINGED, EMPTY], ids=["pings", "empty fragments"])
async def test_a_flood_of_frames_is_cut_off_before_a_burst_of_them_is_parsed(piece: bytes) -> None:
    limits = LimitsConfig()
    async with connections() as home:
        connection, transport = connect(home)
        connection.has_entered = True
        n_taken = 0
        for _ in range(100):
            await asyncio.sleep(0.01)  # 0.8 MB/s
            if not connection.take_frames(piece * 1333):
                break
            n_taken += 1333
    assert transport.is_aborted
    assert home.n_closed == {"too_many_frames": 1}
    assert n_taken <= 2 * limits.max_excess * limits.max_messages_per_s


async def test_a_flood_of_bytes_is_cut_off_too() -> None:
    async with connections(max_bytes_per_s=65_536, max_burst_bytes=65_536, max_excess=2) as home:
        connection, transport = connect(home)
        assert connection.take_bytes(bytes(131_072))
        await asyncio.sleep(0.5)
        assert connection.take_bytes(bytes(65_536))
        assert not connection.take_bytes(b"x")
    assert transport.is_aborted
    assert home.n_closed == {"too_many_bytes": 1}


async def test_who_has_not_entered_in_time_is_closed_and_who_has_is_not() -> None:
    async with connections(entry_timeout_s=10) as home:
        (_, silent), (asking, page), (entered, caller) = connect(home), connect(home), connect(home)
        entered.has_entered = True
        await asyncio.sleep(9)
        asking.answer()
        assert not silent.is_aborted
        await asyncio.sleep(2)
        assert silent.is_aborted
        assert not page.is_aborted
        await asyncio.sleep(10)
        assert page.is_aborted
        assert not caller.is_aborted
    assert home.n_closed == {"entry_timeout": 2}


async def test_who_reads_nothing_is_cut_off_and_who_reads_slowly_is_not() -> None:
    async with connections(write_timeout_s=10) as home:
        (stuck, gone), (slow, there) = connect(home), connect(home)
        for each in (stuck, slow):
            each.has_entered = True
            each.pause()
        for _ in range(12):
            await asyncio.sleep(1)
            slow.resume()
            slow.pause()
        assert gone.is_aborted
        assert not there.is_aborted
    assert home.n_closed == {"write_timeout": 1}


async def test_a_connection_that_closes_does_not_wait_for_ever_for_what_is_left_to_be_read() -> None:
    async with connections(write_timeout_s=10) as home:
        connection, transport = connect(home)
        connection.has_entered = True
        transport.close()
        await asyncio.sleep(9)
        assert not transport.is_aborted
        await asyncio.sleep(3)
        assert transport.is_aborted


async def test_no_more_waits_to_be_read_than_may() -> None:
    async with connections(max_unwritten_bytes=100_000) as home:
        connection, transport = connect(home)
        transport.n_unread = 100_000
        connection.check_unwritten()
        assert not transport.is_aborted
        transport.n_unread += 1
        connection.check_unwritten()
        assert transport.is_aborted
    assert home.n_closed == {"unread": 1}


async def test_the_oldest_before_its_entry_makes_room_of_those_that_come_in_crowds() -> None:
    async with connections(max_connections_before_entry=4) as home:
        _, lonely = connect(home, "192.0.2.7")
        crowd = [connect(home, "192.0.2.1")[1] for _ in range(3)]
        _, newest = connect(home, "192.0.2.8")
        assert [each.is_aborted for each in crowd] == [True, False, False]
        assert not lonely.is_aborted
        assert not newest.is_aborted
    assert home.n_closed == {"pushed_out": 1}


async def test_who_is_being_answered_is_the_last_to_make_room() -> None:
    async with connections(max_connections_before_entry=4) as home:
        asking, page = connect(home)
        asking.is_asking = True
        silent = [connect(home)[1] for _ in range(6)]
        assert not page.is_aborted
        assert [each.is_aborted for each in silent] == [True, True, True, False, False, False]
        asking.answer()
        connect(home)
        assert page.is_aborted


async def test_whoever_asks_finds_a_place_while_sessions_have_all_others() -> None:
    async with connections(most=12, max_connections_before_entry=4) as home:
        callers: list[Transport] = []
        while home.may_enter:
            connection, caller = connect(home, f"192.0.2.{len(callers)}")
            connection.has_entered = True
            callers.append(caller)
        assert len(callers) == 8
        asking = [connect(home, "198.51.100.1")[1] for _ in range(20)]
        assert not asking[-1].is_aborted
        assert not any(caller.is_aborted for caller in callers)


async def test_connections_of_one_address_are_few_and_those_of_a_trusted_proxy_are_not() -> None:
    async with connections(max_sessions_per_address=2, max_connections_per_address=2, proxies=["10.0.0.1"]) as home:
        (first, caller), (_, waiting) = connect(home), connect(home)
        first.has_entered = True
        second, newest = connect(home)
        assert waiting.is_aborted, "its own older one makes room"
        assert not caller.is_aborted
        second.has_entered = True
        assert home.open("192.0.2.1") is None, "sessions make none"
        assert not newest.is_aborted
        assert not any(connect(home, "10.0.0.1")[1].is_aborted for _ in range(20))
    assert home.n_closed == {"pushed_out": 1, "refused": 1}


async def test_who_is_over_gives_the_place_back() -> None:
    async with connections(max_sessions_per_address=1, max_connections_per_address=1) as home:
        for _ in range(5):
            connection, _ = connect(home)
            connection.has_entered = True
            connection.end()
    assert not home.n_closed


async def test_requests_of_an_address_are_counted_together_and_those_of_a_trusted_proxy_are_not() -> None:
    async with connections(max_requests_per_s=5, proxies=["10.0.0.1"]) as home:
        assert [home.take_request("192.0.2.1") for _ in range(22)] == [True] * 20 + [False] * 2
        assert not home.may_ask("192.0.2.1")
        assert home.may_ask("192.0.2.2")
        proxy, _ = connect(home, "10.0.0.1")
        assert all(home.take_request(proxy.address) for _ in range(1_000))
        assert home.may_ask("10.0.0.1")
        await asyncio.sleep(1)
        assert home.may_ask("192.0.2.1")
        assert [home.take_request("192.0.2.1") for _ in range(6)] == [True] * 5 + [False]
    assert home.n_closed == {"too_many_requests": 4}


@pytest.mark.parametrize("n_sessions", [4, 32, 100, 1024])
async def test_as_many_sessions_as_are_set_find_connections_and_requests_beside_them(
    monkeypatch: pytest.MonkeyPatch, n_sessions: int
) -> None:
    limits: dict[str, Any] = {"max_sessions": n_sessions, "max_sessions_per_address": n_sessions}
    descriptors(monkeypatch, 100_000)
    async with connections(find_most_connections(LimitsConfig(**limits)), **limits) as home:
        for _ in range(n_sessions):
            assert home.may_enter
            connect(home)[0].has_entered = True
        assert not any(connect(home)[1].is_aborted for _ in range(20))
    assert not home.n_closed


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_sessions_per_address": 40, "max_connections_per_address": 39}, "max_connections_per_address is 39"),
        ({"max_connections_per_address": 3}, "4 sessions of one address"),
        (
            {"max_sessions": 9, "max_connections": 16},
            "9 sessions need as many connections, but max_connections=16 leaves 8,",
        ),
        ({"max_sessions": 600, "max_connections": 600}, "but max_connections=600 leaves 536,"),
    ],
)
async def test_fewer_connections_than_sessions_are_a_mistake_that_is_told(limits: dict[str, int], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        LimitsConfig(**limits)
    assert LimitsConfig.model_validate(LimitsConfig(max_sessions=600).model_dump()).max_connections == 664


def descriptors(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))


async def test_there_are_fewer_places_where_the_process_may_open_few_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    descriptors(monkeypatch, 5_000)
    assert 1_000 < find_most_connections(LimitsConfig(max_connections=5_000, reserved_descriptors=64)) < 4_936
    assert "in place of limits.max_connections=5000" in caplog.text
    descriptors(monkeypatch, 1_000_000)
    assert find_most_connections(LimitsConfig()) == 512
    descriptors(monkeypatch, resource.RLIM_INFINITY)
    assert find_most_connections(LimitsConfig()) == 512


async def test_a_server_that_could_hold_next_to_nobody_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptors(monkeypatch, 70)
    with pytest.raises(ConfigError, match=r"limits\.reserved_descriptors=64 .*ulimit -n"):
        find_most_connections(LimitsConfig())


OPCODES = (0x0, 0x1, 0x2, 0x8, 0x9, 0xA)
FRAMES = st.lists(
    st.builds(
        frame,
        st.sampled_from(OPCODES),
        st.sampled_from([bytes(n) for n in (0, 1, 125, 126, 127, 300, 65_535, 65_536)]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@given(frames=FRAMES, data=st.data())
async def test_bytes_cut_anywhere_have_the_same_number_of_frames(frames: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=30)))
    pieces = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    one_by_one = [sent[at : at + 1] for at in range(len(sent))] if len(sent) < 1_000 else pieces
    for parts in (pieces, one_by_one):
        counter = WsFrameCounter()
        assert sum(counter.count(piece) for piece in parts) == len(frames)


async def test_of_a_flood_no_more_is_counted_than_decides() -> None:
    assert WsFrameCounter().count(frame(PING, b"") * 100_000, most=20.5) == 21
