"""The client's audio device: this machine's microphone and loudspeaker."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from backends.engine import Samples
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ

MAX_WAITING_S = 1.0
"""Audio buffered for the loudspeaker, seconds; if more arrives, as after a delay, the oldest is dropped."""


class SoundDevice:
    """A microphone and a loudspeaker in use; created by `open_sound_device`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[Samples] = asyncio.Queue()
        self._to_play: deque[np.float32] = deque(maxlen=round(MAX_WAITING_S * SAMPLE_RATE_HZ))

    async def capture_frames(self) -> AsyncIterator[Samples]:
        """Yields what the microphone records, float32[1920] each. It never ends: nothing comes from a closed device."""
        while True:
            yield await self._heard.get()

    def play(self, samples: Samples) -> None:
        """Queues audio for the loudspeaker; of more than `MAX_WAITING_S`, the oldest is dropped."""
        self._to_play.extend(samples)

    def on_input(self, data: Samples, n_frames: int, time: object, status: object) -> None:
        """Callback of the device's thread with recorded audio, [1920, 1]."""
        self._loop.call_soon_threadsafe(self._heard.put_nowait, data[:, 0].copy())

    def on_output(self, data: Samples, n_frames: int, time: object, status: object) -> None:
        """Callback of the device's thread that fills the buffer to play, [n, 1]; silence after the queued audio."""
        n_there = min(len(data), len(self._to_play))
        data[:n_there, 0] = [self._to_play.popleft() for _ in range(n_there)]
        data[n_there:, 0] = 0


@contextmanager
def open_sound_device() -> Iterator[SoundDevice]:
    """Context manager that opens and yields microphone and loudspeaker, inside a running event loop.

    Raises:
        BackendError: there are none, or PortAudio is not installed.
    """
    try:
        import sounddevice  # type: ignore[import-untyped]
    except (ImportError, OSError) as error:  # OSError: the package is installed, the system's PortAudio is not
        raise BackendError(
            f"No sound device can be used: {error}.",
            "Install PortAudio (Debian: apt-get install libportaudio2) and `pip install sounddevice`, or use a file.",
        ) from error
    device = SoundDevice()
    settings: dict[str, Any] = {"samplerate": SAMPLE_RATE_HZ, "channels": 1, "blocksize": FRAME_N_SAMPLES}
    try:
        with (
            sounddevice.InputStream(**settings, dtype="float32", callback=device.on_input),
            sounddevice.OutputStream(**settings, dtype="float32", callback=device.on_output),
        ):
            yield device
    except sounddevice.PortAudioError as error:
        raise BackendError(f"The sound device does not work: {error}.", "Use a sound file instead.") from error
