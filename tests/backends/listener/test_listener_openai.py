"""Listening by a server with /v1/audio/transcriptions, against a server of this test's own."""

import io
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import soundfile

from backends import registry
from backends.listener.conformance import HeardLog
from backends.listener.openai_transcription import OpenAIListener
from backends.listener.protocol import ListenerStream
from tests.support.http_servers import QuietHandler, http_server
from tests.support.spoken_question import silence, spoken_question

pytestmark = pytest.mark.full

KEY = "sk-very-secret"


@dataclass
class Server:
    """Answers each sound with its length, or with the status it is told."""

    status: int = 200
    lengths_s: list[float] = field(default_factory=list)
    forms: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    base_url: str = ""
    is_stuck: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def posted(self, body: bytes) -> None:
            told.keys.append(self.headers.get("Authorization", ""))
            told.forms.append(body)
            if told.is_stuck.is_set():
                told.goes_on.wait()
            start = body.index(b"RIFF")
            samples, rate_hz = soundfile.read(io.BytesIO(body[start:]), dtype="float32")
            assert rate_hz == 16_000
            assert np.abs(samples).max() > 0.05
            told.lengths_s.append(len(samples) / rate_hz)
            self.answer(told.status, json.dumps({"text": f" {len(samples) / rate_hz:.1f} seconds. "}).encode())

    with http_server(Handler) as url:
        told.base_url = f"{url}/v1"
        try:
            yield told
        finally:
            told.goes_on.set()


@pytest.fixture
def listened(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("KAME_SPEECH_API_KEY", KEY)
    opened: list[OpenAIListener] = []

    def listen(told: HeardLog, **options: Any) -> ListenerStream:
        given: dict[str, Any] = {"base_url": server.base_url, "model": "whisper-1", "final_timeout_s": 30.0}
        built = registry.build("listener", "openai", given | options)
        assert isinstance(built, OpenAIListener)
        opened.append(built)
        return built.listen(told)

    yield listen
    for each in opened:
        each.close()


def test_the_turn_so_far_is_sent_anew_while_it_is_said(server: Server, listened: Any) -> None:
    told = HeardLog()
    ear = listened(told, interval_s=0.1)
    said = spoken_question()
    ear.feed(silence(5))
    ear.feed(said[: len(said) * 2 // 3])
    told.wait_until(bool)
    ear.feed(np.concatenate([said[len(said) * 2 // 3 :], silence(0.5)]))
    ear.end_turn()
    final = told.wait_for_finals(1)[0]
    assert len(server.lengths_s) >= 2
    assert server.lengths_s[0] < server.lengths_s[-1] < 3  # the silence before is never sent
    assert final == f"{server.lengths_s[-1]:.1f} seconds."
    assert set(server.keys) == {f"Bearer {KEY}"}
    fields = dict(re.findall(rb'name="(\w+)"\r\n\r\n([^\r]+)\r\n', server.forms[-1]))
    assert fields == {b"model": b"whisper-1", b"language": b"en", b"response_format": b"json", b"temperature": b"0.0"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "refuses our key.*KAME_SPEECH_API_KEY"),
        (404, "did not serve model 'whisper-1'"),
        (422, "refuses audio: HTTP 422"),
        (500, "HTTP 500"),
    ],
)
def test_a_server_that_refuses_is_told_and_the_turn_still_ends(
    server: Server, listened: Any, status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.status = status
    told = HeardLog()
    ear = listened(told)
    ear.feed(spoken_question())
    ear.end_turn()
    assert told.wait_for_finals(1) == [""]
    assert re.search(reason, str(ear.failure))
    assert KEY not in str(ear.failure)
    place = server.base_url.removeprefix("http://").removesuffix("/v1")
    assert f"The recogniser openai at {place} failed: HTTP {status}." in caplog.text
    assert not {KEY, "seconds."} & set(caplog.text.split()), "neither the key nor what the server said"


def test_a_server_that_hangs_ends_no_turn_late_and_is_heard_again_when_it_works(server: Server, listened: Any) -> None:
    told = HeardLog()
    ear = listened(told, final_timeout_s=0.2)
    server.is_stuck.set()
    ear.feed(spoken_question())
    ear.end_turn()
    assert told.wait_for_finals(1) == [""]
    assert "within 0.2 s" in str(ear.failure)
    server.is_stuck.clear()
    server.goes_on.set()
    ear.close()
    later = HeardLog()
    again = listened(later)
    again.feed(spoken_question())
    again.end_turn()
    assert later.wait_for_finals(1)[0].endswith("seconds.")
    assert again.failure is None


def test_a_server_that_is_not_there_is_no_error_but_told_by_the_ear(listened: Any) -> None:
    told = HeardLog()
    ear = listened(told, base_url="http://127.0.0.1:1/v1")
    ear.feed(spoken_question())
    ear.end_turn()
    assert told.wait_for_finals(1) == [""]
    assert "did not answer" in str(ear.failure)
