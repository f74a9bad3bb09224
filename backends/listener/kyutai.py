"""Kyutai's streaming recognisers (stt-1b-en_fr, stt-2.6b-en) by moshi: all callers share a batched step of 80 ms.

The model's text is delayed by the time in its `config.json` (0.5 s and 2.5 s). When a turn has ended, it gets that much
silence at once, so that the last words come as fast as the device can step.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.listener.background import HeardSender
from backends.listener.kyutai_model import KyutaiModel
from backends.listener.protocol import Heard, Window
from backends.options import FilePath, Options
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S

_log = logging.getLogger(__name__)
_MAX_BEHIND = 125
"""Frames, 10 s, that an ear may be behind; older ones are dropped."""
_GATHER_S = 0.02
"""Callers' frames do not arrive at the same time: the step waits this long for those of the others."""
_RETRY_S = 1.0


class KyutaiListenerOptions(Options):
    """Options for the model, its device, and the number of callers."""

    path: FilePath = Field(default="", description="Folder with config.json and what it names; empty: from the Hub.")
    repo: str = Field(default="kyutai/stt-1b-en_fr", description="Repository on the Hub.")
    revision: str = Field(default="", description="Revision of the repository; empty: the latest.")
    device: str = Field(default="cuda", description="PyTorch device, such as cpu or cuda.")
    max_callers: int = Field(default=8, ge=1, le=1024, description="Maximum number of concurrent callers.")


class KyutaiListener:
    """Transcribes English or French while it is spoken; the constructor loads the model.

    Raises:
        ConfigError: the folder contains no such model.
        BackendError: the download fails, or the model does not load.
    """

    name = "kyutai"

    def __init__(self, options: KyutaiListenerOptions) -> None:
        self._model = KyutaiModel(options.path, options.repo, options.revision, options.device)
        self._ears: list[KyutaiListenerStream | None] = [None] * options.max_callers
        self._wake = threading.Condition()
        self._is_closed = False
        self._is_warm = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener-kyutai", daemon=True)
        self._thread.start()
        self._is_warm.wait()

    def listen(self, on_heard: Callable[[Heard], None]) -> "KyutaiListenerStream":
        """Returns a new caller's stream.

        Raises:
            BackendError: there are `max_callers` already.
        """
        with self._wake:
            self._free_closed_slots()
            if None not in self._ears:
                what = f"Kyutai's recogniser already serves its maximum of {len(self._ears)} sessions."
                raise BackendError(what, "Raise max_callers.")
            ear = KyutaiListenerStream(self._model, on_heard, self._wake)
            self._ears[self._ears.index(None)] = ear
            self._wake.notify()
            return ear

    def close(self) -> None:
        """Ends the recogniser's thread; open ears get no more transcripts, not even of turns that have ended."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        """Runs a step whenever an ear has a frame; a failed step is reported to all ears and resets the streams."""
        while not self._is_closed:
            try:
                with self._model.streaming(len(self._ears)):
                    self._is_warm.set()
                    self._run_steps()
            except Exception as error:  # noqa: BLE001 -- of torch or moshi: no error of a step may end the ears
                what = (str(error).splitlines() or [type(error).__name__])[0]
                _log.warning("Kyutai's recogniser failed and is restarted: %s", what)
                self._is_warm.set()  # callers may come, and see the failure
                with self._wake:
                    for ear in filter(None, self._ears):
                        ear.fail(what)
                    self._wake.wait_for(lambda: self._is_closed, _RETRY_S)

    def _run_steps(self) -> None:
        """Runs steps until the recogniser is closed; each step takes the next frame of all callers who have one."""
        known: dict[int, KyutaiListenerStream] = {}
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._is_closed or any(self._count_waiting()))
                if max(self._count_waiting(), default=0) < 2:  # one step for all callers, not one each
                    self._wake.wait_for(lambda: self._is_closed or all(self._count_waiting()), _GATHER_S)
                if self._is_closed:
                    return
                self._free_closed_slots()
                ears = {slot: ear for slot, ear in enumerate(self._ears) if ear is not None}
                taken = {slot: ear.take() for slot, ear in ears.items() if ear.n_waiting}
            new = [slot for slot, ear in ears.items() if ear is not known.get(slot)]
            known = ears
            try:
                tokens = self._model.step({slot: frame for slot, frame in taken.items() if frame is not None}, new)
                for slot, token in tokens.items():
                    ears[slot].add_token(token)
            finally:  # a turn's end is sent even if the step fails
                for slot, frame in taken.items():
                    if frame is None:
                        ears[slot].finish()

    def _count_waiting(self) -> list[int]:
        """Returns the number of waiting frames of each caller; requires the condition's lock."""
        return [ear.n_waiting for ear in self._ears if ear is not None and not ear.is_closed]

    def _free_closed_slots(self) -> None:
        """Frees the slots of closed ears; requires the condition's lock."""
        self._ears = [None if ear is None or ear.is_closed else ear for ear in self._ears]


class KyutaiListenerStream:
    """One caller's stream."""

    def __init__(self, model: KyutaiModel, on_heard: Callable[[Heard], None], wake: threading.Condition) -> None:
        self.failure: str | None = None
        self._model = model
        self._sender = HeardSender(on_heard)
        self._wake = wake
        self._rest = np.zeros(0, dtype=np.float32)
        self._frames: deque[Samples | None] = deque(_make_silence(model.prefix_s))  # None: a turn's end
        self._tokens: list[int] = []  # of the turn; used only by the recogniser's thread
        self._sent_text = ""

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Queues the next audio, 24 kHz; of more than 10 s that wait, the oldest is dropped. `windows` is ignored."""
        if self.is_closed:
            return
        with self._wake:
            sound = np.concatenate([self._rest, samples.astype(np.float32, copy=False)])
            n_whole = len(sound) // FRAME_N_SAMPLES * FRAME_N_SAMPLES
            self._rest = sound[n_whole:]
            self._frames.extend(sound[:n_whole].reshape(-1, FRAME_N_SAMPLES))
            self._drop_oldest()
            self._wake.notify()

    def end_turn(self) -> None:
        """Ends the turn: its last words come as a final `Heard` after as many steps as the model's delay has."""
        with self._wake:
            if len(self._rest):
                self._frames.append(np.pad(self._rest, (0, FRAME_N_SAMPLES - len(self._rest))))
                self._rest = self._rest[:0]
            self._frames.extend(_make_silence(self._model.delay_s))
            self._frames.append(None)
            self._wake.notify()

    def close(self) -> None:
        """Discards the turn; `on_heard` is not called any more after this has returned."""
        self._sender.close()
        with self._wake:
            self._frames.clear()
            self._wake.notify()

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._sender.is_closed

    @property
    def n_waiting(self) -> int:
        """Number of waiting frames; requires the condition's lock."""
        return len(self._frames)

    def take(self) -> Samples | None:
        """Returns the next frame, or None for a turn's end; requires the condition's lock."""
        return self._frames.popleft()

    def add_token(self, token: int | None) -> None:
        """Adds one frame's text token, None for no word; sends the turn's text when a complete word changes it.

        Clears `failure` once less than 5 s of audio wait: until then, the ear is still behind.
        """
        if len(self._frames) < _MAX_BEHIND // 2:
            self.failure = None
        starts_word = token is None or self._model.starts_word(token)
        if starts_word and self._tokens:
            self._send_partial()
        if token is not None:
            self._tokens.append(token)

    def finish(self) -> None:
        """Sends the turn's text as final; the next token belongs to the next turn."""
        text = self._model.decode(self._tokens)
        self._tokens, self._sent_text = [], ""
        self._sender.send(Heard(text, is_final=True))

    def fail(self, reason: str) -> None:
        """Records why nothing was recognised in a step that failed."""
        self.failure = f"Kyutai's recogniser failed: {reason}"

    def _send_partial(self) -> None:
        """Sends the turn's text so far if it is not empty and has changed."""
        text = self._model.decode(self._tokens)
        if text and text != self._sent_text:
            self._sent_text = text
            self._sender.send(Heard(text))

    def _drop_oldest(self) -> None:
        """Drops the oldest frames above `_MAX_BEHIND`, but no end of a turn, and records that as the failure."""
        n_over = len(self._frames) - _MAX_BEHIND
        if n_over <= 0:
            return
        if self.failure is None:
            _log.warning("Kyutai's recogniser is %.0f s behind; the oldest audio is dropped.", _MAX_BEHIND * FRAME_S)
        self.failure = "Kyutai's recogniser is slower than speech"
        oldest = [self._frames.popleft() for _ in range(n_over)]
        self._frames.extendleft(frame for frame in oldest if frame is None)


def _make_silence(time_s: float) -> list[Samples]:
    """Makes frames of silence for at least this long."""
    return [np.zeros(FRAME_N_SAMPLES, dtype=np.float32)] * -(-round(time_s * 1000) // 80)
