"""Speech and recognition over OpenAI's protocol, against a server of this test's own."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import soundfile

from backends import registry
from backends.asr.openai_transcription import OpenAITranscription
from backends.engine import Samples
from backends.tts.openai_speech import OpenAISpeech
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import BackendError, ConfigError
from tests.support.http_servers import QuietHandler, http_server

pytestmark = pytest.mark.full

KEY = "sk-very-secret"


def tone(n_samples: int, rate_hz: int) -> Samples:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(n_samples) / rate_hz)).astype(np.float32)


def wav(samples: Samples, rate_hz: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format="WAV", subtype="PCM_16")
    return file.getvalue()


def saying(message: str) -> bytes:
    return json.dumps({"error": {"message": message}}).encode()


@dataclass
class Server:
    """What it answers, one answer after another, the last for ever; and what it was asked."""

    answers: list[tuple[int, bytes]]
    paths: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    base_url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server([(200, b"")])

    class Handler(QuietHandler):
        def posted(self, body: bytes) -> None:
            told.paths.append(self.path)
            told.keys.append(self.headers.get("Authorization", ""))
            told.bodies.append(body)
            status, answer = told.answers.pop(0) if len(told.answers) > 1 else told.answers[0]
            kind = "application/json" if answer.startswith(b"{") else "audio/wav"
            self.answer(status, answer, kind, retry_after_ms="1")

    with http_server(Handler) as url:
        told.base_url = f"{url}/v1"
        yield told


def speech(server: Server, **options: Any) -> OpenAISpeech:
    built = registry.build(
        "tts", "openai", {"base_url": server.base_url, "model": "m", "voices": "alloy,nova"} | options
    )
    assert isinstance(built, OpenAISpeech)
    return built


def recogniser(server: Server) -> OpenAITranscription:
    built = registry.build("asr", "openai", {"base_url": server.base_url, "model": "w", "max_attempts": 2})
    assert isinstance(built, OpenAITranscription)
    return built


def test_it_asks_as_openai_wants_it_with_the_key_of_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server.answers = [(200, wav(tone(24_000, 24_000), 24_000))]
    speech(server, api_key_env="MY_KEY").synthesise("Hello there.", "nova", 1.25)
    assert server.paths == ["/v1/audio/speech"]
    assert server.keys == [f"Bearer {KEY}"]
    assert json.loads(server.bodies[0]) == {
        "model": "m",
        "voice": "nova",
        "input": "Hello there.",
        "response_format": "wav",
        "speed": 1.25,
    }


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 24_000, 48_000])
def test_wav_of_any_rate_and_two_channels_becomes_mono_at_our_rate(server: Server, rate_hz: int) -> None:
    server.answers = [(200, wav(np.stack([tone(rate_hz, rate_hz)] * 2, axis=1), rate_hz))]
    sound = speech(server).synthesise("Hello.", "alloy", 1.0).samples
    assert sound.dtype == np.float32
    assert sound.ndim == 1
    assert len(sound) == pytest.approx(24_000, abs=2)
    assert np.abs(sound[2_000:-2_000] - tone(24_000, 24_000)[2_000 : len(sound) - 2_000]).max() < 0.02


def test_pcm_is_16_bits_at_the_rate_of_the_options(server: Server) -> None:
    pcm = (tone(12_000, 24_000) * 32_767).astype("<i2").tobytes()
    server.answers = [(200, pcm)]
    same = speech(server, response_format="pcm").synthesise("Hello.", "alloy", 1.0).samples
    assert np.abs(same - tone(12_000, 24_000)).max() < 1e-4
    twice = speech(server, response_format="pcm", pcm_rate_hz=12_000).synthesise("Hello.", "alloy", 1.0).samples
    assert len(twice) == pytest.approx(24_000, abs=2)
    server.answers = [(200, b"odd")]
    with pytest.raises(BackendError, match="sent no pcm audio"):
        speech(server, response_format="pcm").synthesise("Hello.", "alloy", 1.0)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"api_key_env": KEY}, "api_key_env"), ({"base_url": f"http://me:{KEY}@127.0.0.1/v1"}, "base_url")],
)
def test_a_key_in_the_options_is_rejected_and_not_quoted(server: Server, options: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        speech(server, **options)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "content", "error", "told", "n_asked"),
    [
        (500, saying("no memory"), BackendError, r"did not serve model 'm' \(HTTP 500.*no memory", 3),
        (200, b"<html>not sound</html>", BackendError, "sent no wav audio", 1),
        (200, b"", BackendError, "sent no wav audio", 1),
        (400, saying("input too long"), SpeechRefused, "HTTP 400.*input too long", 1),
        (422, saying("input too long"), SpeechRefused, "HTTP 422.*input too long", 1),
        (200, wav(np.zeros(2_400, dtype=np.float32), 24_000), SpeechRefused, "nothing but silence", 1),
    ],
)
def test_a_broken_server_stops_the_run_after_all_tries_and_a_text_it_makes_nothing_of_is_refused(
    server: Server, status: int, content: bytes, error: type[Exception], told: str, n_asked: int
) -> None:
    server.answers = [(status, content)]
    with pytest.raises(error, match=told):
        speech(server, max_attempts=3).synthesise("Hello.", "alloy", 1.0)
    assert len(server.paths) == n_asked


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_no_error_quotes_the_key(server: Server, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("KAME_SPEECH_API_KEY", KEY)
    server.answers = [(status, saying(f"wrong: {KEY}"))]
    with pytest.raises(BackendError) as caught:
        speech(server, max_attempts=1).synthesise("Hello.", "alloy", 1.0)
    assert KEY not in str(caught.value)
    assert caught.value.remedy
    assert ("KAME_SPEECH_API_KEY" in str(caught.value)) == (status in (401, 403))


def test_an_unknown_voice_is_a_wrong_setting(server: Server) -> None:
    with pytest.raises(ConfigError, match=r"no voice 'nobody'.*alloy,nova"):
        speech(server).synthesise("Hello.", "nobody", 1.0)
    with pytest.raises(ConfigError, match="no voices"):
        speech(server, voices=" , ")


def test_the_recognisers_digest_follows_the_version_of_the_resampler(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = recogniser(server).digest
    assert recogniser(server).digest == before
    monkeypatch.setattr("data_schemas.fingerprint.version", lambda package: f"another {package}")
    assert recogniser(server).digest != before


def test_digests_stand_for_model_and_voice_not_for_the_place(server: Server) -> None:
    first, elsewhere, other = (
        speech(server),
        speech(server, base_url="http://other.example/v1", api_key_env="X", max_attempts=1),
        speech(server, model="m2"),
    )
    assert first.digest == elsewhere.digest != other.digest
    assert first.list_voices() == elsewhere.list_voices()
    assert {voice.digest for voice in first.list_voices()}.isdisjoint(voice.digest for voice in other.list_voices())


def test_a_recording_is_sent_as_wav_and_its_text_comes_back(server: Server) -> None:
    server.answers = [(503, b"{}"), (200, b'{"text": " two apples "}')]
    assert recogniser(server).transcribe(tone(24_000, 24_000), 24_000) == "two apples"
    assert server.paths == ["/v1/audio/transcriptions"] * 2
    body = server.bodies[-1]
    start = body.index(b"RIFF")
    sound, rate_hz = soundfile.read(io.BytesIO(body[start:]))
    assert (rate_hz, len(sound)) == (16_000, 16_000)
    assert b'name="model"\r\n\r\nw\r\n' in body
    assert b'name="language"\r\n\r\nen\r\n' in body


def test_a_refused_recording_stops_the_run(server: Server) -> None:
    server.answers = [(413, saying("too large"))]
    with pytest.raises(BackendError, match=r"refuses a recording of 2400 samples: HTTP 413.*too large"):
        recogniser(server).transcribe(tone(2_400, 24_000), 24_000)
