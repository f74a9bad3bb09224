"""Kyutai's streaming recognisers (stt-1b-en_fr, stt-2.6b-en) by moshi: all callers in one step of 80 ms on one device.

The model writes what it hears with a delay that its `config.json` tells (0.5 s and 2.5 s). When a turn has ended it is
given that much silence at once, so that the last words come as fast as the device steps.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.listener.background import Teller
from backends.listener.kyutai_model import KyutaiModel
from backends.listener.protocol import Heard, Window
from backends.options import FilePath, Options
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S

_log = logging.getLogger(__name__)
_MAX_BEHIND = 125
"""Frames, 10 s, that an ear may be behind; older ones are not heard."""
_GATHER_S = 0.02
"""Callers' frames do not come at the same instant: so long the step waits for the others'."""
_RETRY_S = 1.0


class KyutaiListenerOptions(Options):
    """Which model, where it runs, and for how many callers."""

    path: FilePath = Field(default="", description="Folder with config.json and what it names; empty: from the Hub.")
    repo: str = Field(default="kyutai/stt-1b-en_fr", description="Repository on the Hub.")
    revision: str = Field(default="", description="Its revision; empty: the newest.")
    device: str = Field(default="cuda", description="PyTorch device, as cpu or cuda.")
    max_callers: int = Field(default=8, ge=1, le=1024, description="Callers that can be heard at once.")


class KyutaiListener:
    """Writes down English or French while it is spoken; the model is loaded now.

    Raises:
        ConfigError: the folder holds no such model.
        BackendError: the Hub does not give it, or it does not load.
    """

    name = "kyutai"

    def __init__(self, options: KyutaiListenerOptions) -> None:
        self._model = KyutaiModel(options.path, options.repo, options.revision, options.device)
        self._ears: list[KyutaiEar | None] = [None] * options.max_callers
        self._wake = threading.Condition()
        self._is_closed = False
        self._is_warm = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener-kyutai", daemon=True)
        self._thread.start()
        self._is_warm.wait()

    def listen(self, on_heard: Callable[[Heard], None]) -> "KyutaiEar":
        """A new caller's ear.

        Raises:
            BackendError: `max_callers` are being heard already.
        """
        with self._wake:
            self._let_go()
            if None not in self._ears:
                raise BackendError(
                    f"Kyutai's recogniser hears {len(self._ears)} callers already.", "Raise max_callers."
                )
            ear = KyutaiEar(self._model, on_heard, self._wake)
            self._ears[self._ears.index(None)] = ear
            self._wake.notify()
            return ear

    def close(self) -> None:
        """Ends its thread."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        """Steps whenever an ear has a frame; a step that fails is told to all ears, and the streams begin anew."""
        while not self._is_closed:
            try:
                with self._model.streaming(len(self._ears)):
                    self._is_warm.set()
                    self._run_steps()
            except Exception as error:  # noqa: BLE001 -- torch's or moshi's: whatever ends a step must not end the ears
                what = (str(error).splitlines() or [type(error).__name__])[0]
                _log.warning("Kyutai's recogniser failed; it begins anew: %s", what)
                self._is_warm.set()  # callers may come, and are told of the failure
                with self._wake:
                    for ear in filter(None, self._ears):
                        ear.fail(what)
                    self._wake.wait_for(lambda: self._is_closed, _RETRY_S)

    def _run_steps(self) -> None:
        known: dict[int, KyutaiEar] = {}
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._is_closed or any(self._count_waiting()))
                if max(self._count_waiting(), default=0) < 2:  # one step for all, not one each
                    self._wake.wait_for(lambda: self._is_closed or all(self._count_waiting()), _GATHER_S)
                if self._is_closed:
                    return
                self._let_go()
                ears = {slot: ear for slot, ear in enumerate(self._ears) if ear is not None}
                taken = {slot: ear.take() for slot, ear in ears.items() if ear.n_waiting}
            new = [slot for slot, ear in ears.items() if ear is not known.get(slot)]
            known = ears
            try:
                tokens = self._model.step({slot: frame for slot, frame in taken.items() if frame is not None}, new)
                for slot, token in tokens.items():
                    ears[slot].hears(token)
            finally:  # a turn's end comes once, whatever becomes of the others' step
                for slot, frame in taken.items():
                    if frame is None:
                        ears[slot].finish()

    def _count_waiting(self) -> list[int]:
        """Frames that wait, of each caller; with the condition held."""
        return [ear.n_waiting for ear in self._ears if ear is not None and not ear.is_closed]

    def _let_go(self) -> None:
        """Frees the slots of ears that have been closed; with the condition held."""
        self._ears = [None if ear is None or ear.is_closed else ear for ear in self._ears]


class KyutaiEar:
    """One caller's ear."""

    def __init__(self, model: KyutaiModel, on_heard: Callable[[Heard], None], wake: threading.Condition) -> None:
        self.failure: str | None = None
        self._model = model
        self._teller = Teller(on_heard)
        self._wake = wake
        self._rest = np.zeros(0, dtype=np.float32)
        self._frames: deque[Samples | None] = deque(_make_silence(model.prefix_s))  # None: a turn's end
        self._tokens: list[int] = []  # the turn's, the recogniser's thread alone
        self._told = ""

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """The next sound."""
        with self._wake:
            sound = np.concatenate([self._rest, samples.astype(np.float32, copy=False)])
            n_whole = len(sound) // FRAME_N_SAMPLES * FRAME_N_SAMPLES
            self._rest = sound[n_whole:]
            self._frames.extend(sound[:n_whole].reshape(-1, FRAME_N_SAMPLES))
            self._give_up_oldest()
            self._wake.notify()

    def end_turn(self) -> None:
        """The turn's last words come as a final `Heard`, when the model's delay has been stepped through."""
        with self._wake:
            if len(self._rest):
                self._frames.append(np.pad(self._rest, (0, FRAME_N_SAMPLES - len(self._rest))))
                self._rest = self._rest[:0]
            self._frames.extend(_make_silence(self._model.delay_s))
            self._frames.append(None)
            self._wake.notify()

    def close(self) -> None:
        """Nothing is told once this has returned."""
        self._teller.close()
        with self._wake:
            self._frames.clear()
            self._wake.notify()

    @property
    def is_closed(self) -> bool:
        """Whether nobody wants to hear it any more."""
        return self._teller.is_closed

    @property
    def n_waiting(self) -> int:
        """Frames that wait; asked with the condition held."""
        return len(self._frames)

    def take(self) -> Samples | None:
        """The next frame, or None for a turn's end; asked with the condition held."""
        return self._frames.popleft()

    def hears(self, token: int | None) -> None:
        """One frame's text token, None where the model says no word; words are told when they are whole."""
        self.failure = None
        starts_word = token is None or self._model.starts_word(token)
        if starts_word and self._tokens:
            self._tell_partial()
        if token is not None:
            self._tokens.append(token)

    def finish(self) -> None:
        """Tells the turn's text as final."""
        text = self._model.text(self._tokens)
        self._tokens, self._told = [], ""
        self._teller.tell(Heard(text, is_final=True))

    def fail(self, reason: str) -> None:
        """Why nothing was heard in a step that failed."""
        self.failure = f"Kyutai's recogniser failed: {reason}"

    def _tell_partial(self) -> None:
        text = self._model.text(self._tokens)
        if text and text != self._told:
            self._told = text
            self._teller.tell(Heard(text))

    def _give_up_oldest(self) -> None:
        n_over = len(self._frames) - _MAX_BEHIND
        if n_over <= 0:
            return
        if self.failure is None:
            _log.warning("Kyutai's recogniser is %.0f s behind; the oldest sound is not heard.", _MAX_BEHIND * FRAME_S)
        self.failure = "Kyutai's recogniser is slower than speech"
        oldest = [self._frames.popleft() for _ in range(n_over)]
        self._frames.extendleft(frame for frame in oldest if frame is None)


def _make_silence(time_s: float) -> list[Samples]:
    """Frames of silence for at least this long."""
    return [np.zeros(FRAME_N_SAMPLES, dtype=np.float32)] * -(-round(time_s * 1000) // 80)
