"""Other people's clients talk to our server over a real network: Moshi's two in Python, and the openai package's."""

import asyncio
import base64
import sys
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any
from unittest.mock import MagicMock, Mock

import aiohttp
import numpy as np
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.web.realtime_events import encode_pcm16
from tests.support.served import Served, served
from tests.support.serving import saying

pytestmark = [pytest.mark.full]


@pytest_asyncio.fixture
async def at(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("KAME_SERVE_TOKEN", "s3cret")
    async with served(checkpoint) as running:
        yield running


@pytest.fixture
def sound_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[MagicMock]:
    """A module `sounddevice` of which the test calls the callbacks."""
    device = MagicMock()
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    monkeypatch.delitem(sys.modules, "moshi.client", raising=False)
    yield device
    sys.modules.pop("moshi.client", None)


async def test_moshis_client_in_a_terminal(at: Served, sound_device: MagicMock) -> None:
    from moshi import client

    printed, heard = Mock(), []
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"ws://{at.place}/api/chat?token=s3cret") as socket,
    ):
        connection = client.Connection(printed, socket, asyncio.get_running_loop())
        running = asyncio.create_task(connection.run())
        for _ in range(25):
            sound_device.InputStream.call_args.kwargs["callback"](saying("alpha")[:, None], FRAME_N_SAMPLES, None, None)
            await asyncio.sleep(FRAME_S)
        while not connection._output_queue.empty():
            out = np.zeros((FRAME_N_SAMPLES, 1), np.float32)
            sound_device.OutputStream.call_args.kwargs["callback"](out, FRAME_N_SAMPLES, None, None)
            heard.append(out)
        await socket.close()
        await running
    assert len(heard) >= 12
    assert any(each.any() for each in heard)
    assert "".join(call.args[0] for call in printed.print_token.call_args_list).strip()
    logged = [call.args for call in printed.log.call_args_list]
    assert [entry for entry in logged if entry[0] != "info"] == [("warning", "unknown message kind 0")]


async def test_moshis_client_in_a_page(at: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    page = types.ModuleType("gradio_webrtc")

    class StreamHandler:
        def __init__(self, layout: str, rate_hz: int, frame: int, input_sample_rate: int) -> None:
            self.output_sample_rate = rate_hz

    for name in ("AdditionalOutputs", "WebRTC"):
        setattr(page, name, type(name, (), {"__init__": lambda self, *args: setattr(self, "args", args)}))
    page.StreamHandler = StreamHandler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gradio", types.ModuleType("gradio"))
    monkeypatch.setitem(sys.modules, "gradio_webrtc", page)
    from moshi import client_gradio

    handler = client_gradio.MoshiHandler(f"http://{at.place}")
    handler.ws_url += "?token=s3cret"

    def talk() -> list[Any]:
        for _ in range(10):
            handler.receive((24_000, np.round(saying("alpha") * 32767).astype(np.int16)[None]))
        outputs = [handler.emit() for _ in range(6)]
        handler.shutdown()
        return outputs

    outputs = await asyncio.wait_for(asyncio.to_thread(talk), 60)
    sounds = [each[1] for each in outputs if isinstance(each, tuple)]
    assert sounds
    assert all(each.shape == (1, FRAME_N_SAMPLES) for each in sounds)
    assert any(hasattr(each, "args") for each in outputs)


async def test_the_openai_package(at: Served) -> None:
    openai = AsyncOpenAI(api_key="s3cret", base_url=f"http://{at.place}/v1")
    seen: list[Any] = []
    async with openai.realtime.connect(model="kame") as connection:
        created = await connection.recv()
        assert created.type == "session.created"
        await connection.session.update(session={"type": "realtime", "instructions": "Be brief, please."})

        async def say() -> None:
            for number in range(30):
                sound = base64.b64encode(encode_pcm16(saying("alpha" if number < 10 else None))).decode()
                await connection.input_audio_buffer.append(audio=sound)
                await asyncio.sleep(FRAME_S)
            await connection.response.cancel()
            await connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
            )

        saying_it = asyncio.create_task(say())
        async with asyncio.timeout(60):
            async for event in connection:
                seen.append(event)
                if event.type == "error" and event.error.code == "not_supported":
                    break
        await saying_it
    kinds = [event.type for event in seen]
    for kind in (
        "session.updated",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "conversation.item.added",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.done",
    ):
        assert kind in kinds
    (updated,) = [event for event in seen if event.type == "session.updated"]
    assert updated.session.instructions == "Be brief, please."


async def test_the_openai_package_without_the_token_is_told(at: Served) -> None:
    openai = AsyncOpenAI(api_key="wrong", base_url=f"http://{at.place}/v1")
    with pytest.raises(Exception, match="401"):
        async with openai.realtime.connect(model="kame"):
            pass
