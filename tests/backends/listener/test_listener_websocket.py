"""Listening over our small web socket protocol, against recognisers of this test's own."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from backends import registry
from backends.listener.conformance import HeardLog
from backends.listener.protocol import Heard, ListenerStream
from backends.listener.websocket import WebsocketListener
from tests.support.http_servers import QuietHandler, http_server

pytestmark = pytest.mark.full

Behaviour = Callable[[ServerConnection, int], None]
"""A connection, and how many there were before it."""


def sound(time_s: float, level: float = 0.5) -> Any:
    return np.full(round(time_s * 24_000), level, dtype=np.float32)


def heard(text: str, **more: Any) -> str:
    return json.dumps({"type": "heard", "text": text} | more)


def counting(connection: ServerConnection, n_before: int) -> None:
    """Hears how many tenths of a second a turn has, and how loud its last sample is."""
    start = {"type": "start", "sample_rate_hz": 24_000, "encoding": "pcm_s16le", "language": "en"}
    assert json.loads(connection.recv()) == start
    pcm = b""
    for message in connection:
        if isinstance(message, bytes):
            pcm += message
        else:
            assert json.loads(message) == {"type": "end_turn"}
        tenths = round(len(pcm) / 4800)
        level = np.frombuffer(pcm, "<i2")[-1] / 32_767 if pcm else 0
        connection.send(heard(f"{tenths} tenths at {level:.1f}", is_final=isinstance(message, str)))
        if isinstance(message, str):
            pcm = b""


class Recognisers:
    """Servers, and ears that listen by them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.headers: list[str | None] = []

    def serve(self, behaves: Behaviour) -> str:
        numbers = iter(range(1000))

        def handle(connection: ServerConnection) -> None:
            assert connection.request is not None
            self.headers.append(connection.request.headers.get("Authorization"))
            with suppress(ConnectionClosed):
                behaves(connection, next(numbers))

        server = self._stack.enter_context(serve(handle, "127.0.0.1", 0))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.shutdown)
        return f"ws://127.0.0.1:{server.socket.getsockname()[1]}"

    def listen(self, url: str, told: HeardLog, **options: Any) -> ListenerStream:
        given: dict[str, Any] = {"url": url, "final_timeout_s": 30.0}
        built = registry.build("listener", "websocket", given | options)
        assert isinstance(built, WebsocketListener)
        self._stack.callback(built.close)
        return built.listen(told)


@pytest.fixture
def recognisers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recognisers]:
    monkeypatch.setattr("backends.listener.websocket._FIRST_RETRY_S", 0.01)
    monkeypatch.setattr("backends.listener.websocket._LAST_RETRY_S", 0.05)
    with ExitStack() as stack:
        yield Recognisers(stack)


def test_turns_are_heard_while_they_are_said_and_whole_at_their_end(
    recognisers: Recognisers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_SPEECH_API_KEY", "sk-secret")
    told = HeardLog()
    ear = recognisers.listen(recognisers.serve(counting), told)
    ear.feed(sound(0.2))
    ear.feed(sound(0.1, level=7))
    ear.end_turn()
    ear.feed(sound(0.4, level=-0.2))
    ear.end_turn()
    ear.end_turn()
    assert told.wait_for_finals(3) == ["3 tenths at 1.0", "4 tenths at -0.2", "0 tenths at 0.0"]
    assert told.all[:3] == [
        Heard("2 tenths at 0.5"),
        Heard("3 tenths at 1.0"),
        Heard("3 tenths at 1.0", is_final=True),
    ]
    assert ear.failure is None
    assert recognisers.headers == ["Bearer sk-secret"]


def test_of_more_than_is_kept_of_a_turn_the_newest_is_sent(
    recognisers: Recognisers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.listener.websocket._MAX_KEPT_BYTES", 3 * 4800)
    told = HeardLog()
    ear = recognisers.listen(recognisers.serve(counting), told)
    ear.feed(np.concatenate([sound(0.1, 0.2), sound(0.3, 0.4)]))
    ear.end_turn()
    assert told.wait_for_finals(1) == ["3 tenths at 0.4"]


def test_callers_have_connections_of_their_own(recognisers: Recognisers) -> None:
    url = recognisers.serve(counting)
    told = [HeardLog() for _ in range(3)]
    ears = [recognisers.listen(url, each) for each in told]
    for level, ear in enumerate(ears, 1):
        ear.feed(sound(0.1 * level, level / 10))
    for ear in ears:
        ear.end_turn()
    assert [each.wait_for_finals(1)[0] for each in told] == ["1 tenths at 0.1", "2 tenths at 0.2", "3 tenths at 0.3"]
    assert recognisers.headers == [None, None, None]


def sending(*messages: str | bytes) -> Behaviour:
    """Sends these whatever it is sent."""

    def behaves(connection: ServerConnection, n_before: int) -> None:
        for message in messages:
            connection.send(message)
        for _ in connection:
            pass

    return behaves


@pytest.mark.parametrize("first", ["leaves", "crashes", '{"type": "heard"}', "[" * 100_000], ids=lambda each: each[:20])
def test_a_connection_that_is_lost_is_made_anew_and_the_turn_is_whole(recognisers: Recognisers, first: str) -> None:
    def behaves(connection: ServerConnection, n_before: int) -> None:
        if n_before:
            counting(connection, n_before)
        elif first != "leaves":
            connection.recv()
            connection.recv()
            if first == "crashes":
                connection.close(1011, "crashed")
            else:
                sending(first)(connection, n_before)

    told = HeardLog()
    ear = recognisers.listen(recognisers.serve(behaves), told)
    ear.feed(sound(0.3))
    told.wait_until(bool)
    ear.feed(sound(0.2))
    ear.end_turn()
    assert told.wait_for_finals(1) == ["5 tenths at 0.5"]
    assert len(recognisers.headers) == 2
    assert ear.failure is None


@pytest.mark.parametrize("message", ["{", "[1]", "null", '{"type": "heard"}', '{"type": "song"}', b"\xff\xfe", None])
def test_what_speaks_another_protocol_or_none_is_told(recognisers: Recognisers, message: str | bytes | None) -> None:
    told = HeardLog()
    url = "ws://127.0.0.1:1" if message is None else recognisers.serve(sending(message))
    ear = recognisers.listen(url, told, final_timeout_s=0.2)
    ear.feed(sound(0.1))
    ear.end_turn()
    assert told.wait_for_finals(1) == [""]
    assert str(ear.failure).startswith("The recogniser at ws://127.0.0.1")


def test_half_a_character_is_none(recognisers: Recognisers) -> None:
    told = HeardLog()
    recognisers.listen(recognisers.serve(sending(heard("be \ud83d kind \ud83d\ude0a"))), told)
    assert told.wait_until(bool) == [Heard("be  kind \U0001f60a")]


def test_an_error_that_the_recogniser_tells_is_told(recognisers: Recognisers, caplog: pytest.LogCaptureFixture) -> None:
    told = HeardLog()
    errs = sending(json.dumps({"type": "error", "message": "no more memory"}), heard("and yet"))
    ear = recognisers.listen(recognisers.serve(errs), told)
    told.wait_until(bool)
    assert "no more memory" not in caplog.text
    assert "The recogniser websocket at 127.0.0.1:" in caplog.text
    assert "failed: an error of its own. Check that it runs" in caplog.text
    assert ear.failure is None  # it went on


def test_the_log_has_the_status_and_no_secret_of_the_url(
    recognisers: Recognisers, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(QuietHandler):
        protocol_version = "HTTP/1.1"

    with http_server(Refusing) as url:
        place = url.removeprefix("http://")
        told = HeardLog()
        ear = recognisers.listen(f"ws://me:pass-word@{place}/v1?key=sk-very-secret", told, final_timeout_s=0.5)
        ear.end_turn()
        assert told.wait_for_finals(1) == [""]
    assert f"The recogniser websocket at {place} failed: HTTP " in caplog.text
    assert not {"pass-word", "sk-very-secret"} & set(re.findall(r"[\w-]+", caplog.text))


def test_a_late_final_text_is_never_taken_for_the_next_turns(recognisers: Recognisers) -> None:
    may_answer = threading.Event()

    def late(connection: ServerConnection, n_before: int) -> None:
        if n_before:
            counting(connection, n_before)
        for message in connection:
            if isinstance(message, str) and "end_turn" in message:
                may_answer.wait()
                connection.send(heard("too late", is_final=True))

    told = HeardLog()
    ear = recognisers.listen(recognisers.serve(late), told, final_timeout_s=0.3)
    ear.feed(sound(0.1))
    ear.end_turn()
    assert told.wait_for_finals(1) == [""]
    may_answer.set()
    ear.feed(sound(0.2))
    told.wait_until(lambda all_: len(all_) > 1)
    ear.end_turn()
    assert told.wait_for_finals(2)[1] == "2 tenths at 0.5"


def test_a_closed_ear_tells_nothing_more(recognisers: Recognisers) -> None:
    told = HeardLog()
    ear = recognisers.listen(recognisers.serve(counting), told)
    ear.feed(sound(0.1))
    told.wait_until(bool)
    ear.close()
    n_told = len(told.all)
    ear.feed(sound(0.1))
    ear.end_turn()
    other = HeardLog()
    again = recognisers.listen(recognisers.serve(counting), other)
    again.end_turn()
    other.wait_for_finals(1)
    assert len(told.all) == n_told
