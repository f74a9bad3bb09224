"""Moonshine tiny-en, streaming: the embedded live speech recognition (English, CPU, model in the wheel).

Moonshine's own streams also process the whole turn again each time, do not drop what they have processed before a
pause, and omit a turn's last half second unless forced; so it recognises pieces as recordings, each with its own
stream.
"""

import asyncio

from pydantic import Field

from backends.asr.moonshine import load_transcriber
from backends.engine import Samples
from backends.listener.background import ComputingThreads
from backends.listener.rehearing import Rehearing, RehearingOptions
from backends.listener.vad import MODEL_RATE_HZ
from data_schemas.errors import BackendError

_FORCE_UPDATE = 1
"""`MOONSHINE_FLAG_FORCE_UPDATE` (moonshine_voice/transcriber.py): also process audio newer than half a second."""
_NEVER_S = 1e9
_BLOCK_N_SAMPLES = 8_000
"""Samples per call: Moonshine converts them to C one by one, 0.5 ms, and other threads may run in between."""


class MoonshineListenerOptions(RehearingOptions):
    """Options for the interval and the number of threads."""

    threads: int = Field(default=1, ge=1, le=64, description="Pieces recognised at once, for all callers together.")


class MoonshineListener(Rehearing):
    """Transcribes English while it is spoken; one model per process, loaded by the constructor.

    Raises:
        BackendError: the model does not load.
    """

    name = "moonshine"

    def __init__(self, options: MoonshineListenerOptions) -> None:
        super().__init__(options)
        self._transcriber = load_transcriber()
        self._threads = ComputingThreads("moonshine", options.threads)

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """Returns the transcript of samples at 16 kHz; empty if nothing is recognised. Urgent work is done first.

        Raises:
            BackendError: Moonshine fails on them.
        """
        return str(await asyncio.wrap_future(self._threads.submit(self._transcribe, samples, is_urgent=is_urgent)))

    async def shutdown(self) -> None:
        """Ends the threads."""
        self._threads.close()

    def _transcribe(self, samples: Samples) -> str:
        """Transcribes samples at 16 kHz in the calling thread, in a stream of their own.

        Raises:
            BackendError: Moonshine fails on them.
        """
        from moonshine_voice.errors import MoonshineError  # type: ignore[import-untyped]

        try:
            with self._transcriber.create_stream(update_interval=_NEVER_S) as stream:
                stream.start()
                for start in range(0, len(samples), _BLOCK_N_SAMPLES):
                    stream.add_audio(samples[start : start + _BLOCK_N_SAMPLES].tolist(), MODEL_RATE_HZ)
                transcript = stream.update_transcription(_FORCE_UPDATE)
        except MoonshineError as error:
            raise BackendError(f"Moonshine failed on {len(samples)} samples: {error}.") from error
        return " ".join(line.text.strip() for line in transcript.lines if line.text.strip())
