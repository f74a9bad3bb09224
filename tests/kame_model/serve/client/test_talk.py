"""A caller that is a program: what it sends, what it keeps, and what it says when nobody answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from backends.engine import Samples
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ
from kame_model.serve.client import client as talk_module
from kame_model.serve.client.client import ServerCall, play_in_real_time, read_user_audio, talk
from kame_model.serve.client.talk_record import TalkRecord

Handler = Callable[[ServerConnection], Awaitable[None]]
CODEC_DELAY = 200  # samples; Opus has 6.5 ms


def tone(n_samples: int, hz: float = 440.0) -> Samples:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(n_samples) / SAMPLE_RATE_HZ)).astype(np.float32)


async def at_once(sound: Samples) -> AsyncIterator[Samples]:
    """The frames of a sound, without waiting for them to be said."""
    for start in range(0, len(sound), FRAME_N_SAMPLES):
        await asyncio.sleep(0)
        yield sound[start : start + FRAME_N_SAMPLES]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[str]:
    """A web socket server on this machine; its URL."""

    async def handle(socket: ServerConnection) -> None:
        try:
            await handler(socket)
        except ConnectionClosed:
            return

    async with serve(handle, "127.0.0.1", 0, **options) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def event(kind: str, time_s: float, **data: Any) -> bytes:
    """An event; the time at which it came (`at_s`) is not the server's to say."""
    return b"\x04" + json.dumps({"kind": kind, "time_s": time_s, "at_s": -1.0, "data": data}).encode()


async def parrot(socket: ServerConnection) -> None:
    """Speaks Moshi's protocol: gives sound back as it comes, says a word for each frame, and tells of an oracle."""
    await socket.send(b"\x00")
    await socket.send(event("started", 0.0, mode="tandem", back_end="default", notice="I am a parrot."))
    await socket.send(event("oracle_asked", 0.1, oracle=1, back_end="default", n_words=2))
    await socket.send(event("oracle", 0.3, oracle=1, text="six", age_s=0.2))
    await socket.send(event("oracle", 0.4, oracle=1, text="teen", age_s=0.3))
    await socket.send(event("oracle_asked", 0.5, oracle=2, back_end="other", n_words=4))
    await socket.send(event("oracle_failed", 0.6, oracle=2, back_end="other", reason="gone"))
    await socket.send(event("heard", 0.7, text=" what is it", is_final=True))
    async for message in socket:
        assert isinstance(message, bytes)
        await socket.send(message)
        await socket.send(b"\x02 polly")


async def test_both_sides_text_and_events_are_kept(tmp_path: Path) -> None:
    sound = tone(20 * FRAME_N_SAMPLES)
    seen: list[dict[str, Any]] = []
    played: list[Samples] = []
    async with serving(parrot) as url:

        async def until_all_is_back() -> AsyncIterator[Samples]:
            async for frame in at_once(sound):
                yield frame
            while sum(len(each) for each in played) < len(sound):
                await asyncio.sleep(0)

        talked = await talk(ServerCall(url=url), until_all_is_back(), seen.append, played.append)
    talked.save(tmp_path / "out")
    assert talked.ended == ""
    wav, rate_hz = soundfile.read(tmp_path / "out" / "conversation.wav")
    assert rate_hz == SAMPLE_RATE_HZ
    assert np.allclose(wav[: len(sound), 1], sound, atol=1e-4), "the user, right, from the beginning"
    assistant = wav[:, 0]
    begins = int(np.argmax(np.abs(assistant) > 0.1))
    assert begins >= FRAME_N_SAMPLES, "no player plays before something has come"
    assert np.abs(assistant).max() == pytest.approx(0.3, abs=0.05)
    assert np.count_nonzero(np.abs(assistant) > 0.01) > 0.9 * (len(sound) - CODEC_DELAY)
    lines = (tmp_path / "out" / "transcript.txt").read_text(encoding="utf-8")
    assert "user: what is it\n" in lines
    assert "assistant: " + " ".join(["polly"] * 20) in lines
    written = [json.loads(line) for line in (tmp_path / "out" / "events.jsonl").read_text("utf-8").splitlines()]
    assert [each["kind"] for each in written] == [each["kind"] for each in seen]
    assert written[0]["data"]["notice"] == "I am a parrot."
    assert all(0 <= each["at_s"] < 60 for each in written)
    first, second = talked.get_oracles()
    assert (first.text, first.age_s, first.state) == ("six teen", 0.2, "cut off")
    assert (second.back_end, second.age_s, second.state) == ("other", None, "failed: gone")


async def test_what_is_asked_for_goes_along() -> None:
    asked: list[Request] = []

    async def handler(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked.append(socket.request)
        await parrot(socket)

    async with serving(handler) as url:
        wished = {"mode": "direct", "back_end": "a b", "model": "big", "prompt": "Be brief, please."}
        call = ServerCall(url=url, token="open sesame", **wished, consent="4f2a")
        await talk(call, at_once(tone(FRAME_N_SAMPLES)))
        await talk(ServerCall(url=url), at_once(tone(FRAME_N_SAMPLES)))
    query = "events=1&mode=direct&back_end=a+b&model=big&prompt=Be+brief%2C+please.&record=4f2a"
    assert asked[0].path == f"/api/chat?{query}"
    assert asked[0].headers["Authorization"] == "Bearer open sesame"
    assert (asked[1].path, "Authorization" in asked[1].headers) == ("/api/chat?events=1", False)


def test_any_url_of_the_server_does_and_another_is_refused() -> None:
    for url, address in {
        "host:1": "ws://host:1/api/chat?events=1",
        "http://host:1/": "ws://host:1/api/chat?events=1",
        "https://host/behind": "wss://host/behind/api/chat?events=1",
        "wss://host": "wss://host/api/chat?events=1",
    }.items():
        assert ServerCall(url=url).address == address
    for url in ("ftp://host", "http://", ""):
        with pytest.raises(ConfigError, match="not a server's URL"):
            _ = ServerCall(url=url).address


async def test_the_reason_of_a_refusal_is_told() -> None:
    def refuse(socket: ServerConnection, request: Request) -> Response:
        told = json.dumps({"error": {"code": "full", "message": "All 4\u001b places are taken."}})
        return socket.respond(HTTPStatus.SERVICE_UNAVAILABLE, told)

    async with serving(parrot, process_request=refuse) as url:
        with pytest.raises(BackendError, match=r"rejected the call: All 4 places are taken\. \(HTTP 503\) Try again"):
            await talk(ServerCall(url=url), at_once(tone(1920)))


LONG_PROMPT = "Be brief. " * 300
"""Too long for an address: it goes in the first message."""


@pytest.mark.parametrize("ends", [False, True], ids=["the caller ends it", "the server does"])
async def test_a_prompt_that_the_server_says_nothing_about_is_told_and_what_was_said_is_kept(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk_module, "OWED_S", 0.01)  # this server owes all its sound

    async def deaf_to_prompts(socket: ServerConnection) -> None:
        await socket.send(b"\x00")
        await socket.recv()
        await socket.send(await socket.recv())
        await socket.send(b"\x02 polly")
        if not ends:
            await socket.wait_closed()

    talked = TalkRecord()
    async with serving(deaf_to_prompts) as url:
        with pytest.raises(BackendError, match="has not confirmed the prompt"):
            await talk(ServerCall(url=url, prompt=LONG_PROMPT), forever() if ends else until_heard(talked), kept=talked)
    assert [text for _, _, text in talked.get_lines()] == ["polly"]


async def until_heard(talked: TalkRecord) -> AsyncIterator[Samples]:
    async for frame in forever():
        if talked.get_lines():
            return
        yield frame


async def test_nobody_there_and_somebody_else_are_told() -> None:
    async with serving(parrot) as url:
        pass
    with pytest.raises(BackendError, match=r"No server answers at .* kame serve"):
        await talk(ServerCall(url=url), at_once(tone(1920)))

    async def greet(socket: ServerConnection) -> None:
        await socket.send("hello")

    async with serving(greet) as url:
        with pytest.raises(BackendError, match="does not speak Moshi's protocol"):
            await talk(ServerCall(url=url), at_once(tone(1920)))


async def test_a_server_does_not_steer_the_terminal_and_why_it_ends_is_told_before_what_it_owes() -> None:
    async def steer(socket: ServerConnection) -> None:
        await socket.send(b"\x00")
        await socket.send("\x02 a\x1b]0;b\x07\x9bc".encode())
        await socket.send(event("ended", 0.1, reason="\x1b[2Jover"))

    async with serving(steer) as url:
        talked = await talk(ServerCall(url=url, prompt=LONG_PROMPT), forever())  # which it has not confirmed
    assert talked.ended == "[2Jover"
    assert [text for _, _, text in talked.get_lines()] == ["a]0;bc"]


@pytest.mark.full
async def test_a_server_that_never_says_that_it_is_ready_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk_module, "READY_S", 1.0)
    left = asyncio.Event()

    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()
        left.set()

    async with serving(silent) as url, asyncio.timeout(20):
        with pytest.raises(BackendError, match=r"No server answers at .*TimeoutError"):
            await talk(ServerCall(url=url), at_once(tone(1920)))
        await left.wait()


@pytest.mark.parametrize("message", [b"\x01garbage that is no Ogg page", b"\x04" + b"[" * 100_000])
async def test_what_is_not_of_the_protocol_ends_the_talk_and_leaves_what_was_said(message: bytes) -> None:
    async def garbage(socket: ServerConnection) -> None:
        await socket.send(b"\x00")
        await socket.send(await socket.recv())
        await socket.send(b"\x02 polly")
        await socket.send(message)
        await socket.wait_closed()

    talked = TalkRecord()
    assert not talked.has_begun
    async with serving(garbage) as url:
        with pytest.raises(BackendError, match="does not speak Moshi's protocol"):
            await talk(ServerCall(url=url), forever(), kept=talked)
    assert talked.has_begun
    assert len(talked.mix_sound()) >= FRAME_N_SAMPLES
    assert [text for _, _, text in talked.get_lines()] == ["polly"]


async def forever() -> AsyncIterator[Samples]:
    while True:
        await asyncio.sleep(0)
        yield np.zeros(FRAME_N_SAMPLES, np.float32)


@pytest.mark.parametrize("says_why", [True, False])
async def test_a_server_that_ends_it_leaves_what_was_said(says_why: bool) -> None:
    async def end(socket: ServerConnection) -> None:
        await socket.send(b"\x00")
        await socket.send(await socket.recv())
        if says_why:
            await socket.send(event("ended", 0.1, reason="the longest session is over"))
        else:
            socket.transport.abort()

    async with serving(end) as url:
        talked = await talk(ServerCall(url=url), forever())
    assert ("longest session" if says_why else "connection lost") in talked.ended
    assert len(talked.mix_sound()) >= FRAME_N_SAMPLES


@pytest.mark.looptime
async def test_frames_come_when_a_microphone_would_have_them() -> None:
    clock = asyncio.get_running_loop()
    start_s = clock.time()
    sound = tone(3 * FRAME_N_SAMPLES + 100)
    came = [(clock.time() - start_s, frame) async for frame in play_in_real_time(sound, silence_s=0.1)]
    assert [at_s for at_s, _ in came] == pytest.approx([0.08, 0.16, 0.24, 0.32, 0.40])
    whole = np.concatenate([frame for _, frame in came])
    assert np.array_equal(whole[: len(sound)], sound)
    assert not whole[len(sound) :].any()


def test_of_two_channels_the_user_is_the_right_one(tmp_path: Path) -> None:
    user = tone(24_000)
    soundfile.write(tmp_path / "two.wav", np.stack([np.zeros_like(user), user], axis=1), 24_000)
    soundfile.write(tmp_path / "one.wav", tone(48_000, hz=220), 48_000)  # 440 Hz, played twice as fast
    assert np.allclose(read_user_audio(tmp_path / "two.wav"), user, atol=1e-4)
    one = read_user_audio(tmp_path / "one.wav")
    assert len(one) == 24_000
    assert np.allclose(one[500:-500], tone(24_000)[500:-500], atol=1e-2)


def test_what_is_no_sound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound", encoding="utf-8")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 24_000)
    soundfile.write(tmp_path / "three.wav", np.zeros((10, 3)), 24_000)
    for name in ("text.wav", "none.wav", "empty.wav", "three.wav"):
        with pytest.raises(ConfigError, match=name):
            read_user_audio(tmp_path / name)
