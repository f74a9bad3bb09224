"""A microphone and a loudspeaker: what goes from the device's thread to the talk, and back."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ
from kame_model.serve.client.sound_device import MAX_WAITING_S, open_sound_device


class PortAudioError(Exception):
    """As sounddevice's."""


class FakeStream:
    """A device of the same interface; a test calls its callback as the device's thread would."""

    opened: ClassVar[list["FakeStream"]] = []
    works = True

    def __init__(self, *, callback: Callable[..., None], **settings: Any) -> None:
        self.callback, self.settings = callback, settings

    def __enter__(self) -> None:
        if not self.works:
            raise PortAudioError("no default device")
        self.opened.append(self)

    def __exit__(self, *error: object) -> None:
        self.opened.remove(self)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[FakeStream]:
    """Those that are open: microphone, loudspeaker."""
    fake = SimpleNamespace(InputStream=FakeStream, OutputStream=FakeStream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    return FakeStream.opened


def played(stream: FakeStream, n_samples: int) -> list[float]:
    """What the device plays next."""
    block = np.full((n_samples, 1), 9, np.float32)
    stream.callback(block, n_samples, None, None)
    return [float(sample) for sample in block[:, 0]]


async def test_what_is_heard_comes_as_frames_and_what_is_said_is_played(streams: list[FakeStream]) -> None:
    with open_sound_device() as device, ThreadPoolExecutor(1) as its_thread:
        microphone, loudspeaker = streams
        assert microphone.settings["samplerate"] == SAMPLE_RATE_HZ
        assert microphone.settings["blocksize"] == FRAME_N_SAMPLES
        for number in (1, 2):
            block = np.full((FRAME_N_SAMPLES, 1), number, np.float32)
            its_thread.submit(microphone.callback, block, FRAME_N_SAMPLES, None, None).result()
            block[:] = 0  # the device uses its memory again
        frames = device.capture_frames()
        assert [float((await anext(frames)).max()) for _ in range(2)] == [1, 2]
        device.play(np.array([0.1, 0.2, 0.3], np.float32))
        assert played(loudspeaker, 2) == pytest.approx([0.1, 0.2])
        assert played(loudspeaker, 3) == pytest.approx([0.3, 0, 0]), "silence where nothing is to be played"
    assert streams == []


async def test_after_a_hitch_the_oldest_sound_is_left_out(streams: list[FakeStream]) -> None:
    with open_sound_device() as device:
        device.play(np.arange(3 * SAMPLE_RATE_HZ, dtype=np.float32))
        assert played(streams[1], 1) == [(3 - MAX_WAITING_S) * SAMPLE_RATE_HZ]


async def test_no_device_and_no_portaudio_are_told(streams: list[FakeStream], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeStream, "works", False)
    with pytest.raises(BackendError, match=r"does not work: no default device\. Use a"), open_sound_device():
        pytest.fail("it was opened")
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(BackendError, match="libportaudio2"), open_sound_device():
        pytest.fail("it was opened")
