"""Voice activity detection (VAD) and turn detection with silero-vad's ONNX model (MIT), in windows of 32 ms.

The model's file is in the `silero-vad` package, whose own code is not imported because it requires torchaudio.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backends.engine import Samples
from backends.listener.protocol import Window
from data_schemas.errors import BackendError
from data_schemas.units import SAMPLE_RATE_HZ

MODEL_RATE_HZ = 16_000
WINDOW_N_SAMPLES = 512
"""Samples per window at 16 kHz (silero_vad/utils_vad.py, `OnnxWrapper`)."""
WINDOW_S = WINDOW_N_SAMPLES / MODEL_RATE_HZ

_CONTEXT_N_SAMPLES = 64
"""End of the previous window, which the model gets again."""
_STATE_SHAPE = (2, 1, 128)
_HYSTERESIS = 0.15
"""Speech continues down to this far below the probability at which it starts (silero's `neg_threshold`)."""
_N_START_WINDOWS = 3
"""Consecutive windows of speech, 96 ms, before speech counts as started: clicks are shorter."""

Change = Literal["started", "stopped"]


class SpeechMeter:
    """Measures the probability of speech, window by window, in one caller's audio.

    Raises:
        BackendError: the model's package is missing or damaged.
    """

    def __init__(self) -> None:
        self._session = _load_session()
        self.reset()

    def reset(self) -> None:
        """Forgets all audio so far, also that of an incomplete window."""
        import soxr

        # LQ delays by at most 20 ms, HQ by 35, and the model's output is the same.
        self._resampler = soxr.ResampleStream(SAMPLE_RATE_HZ, MODEL_RATE_HZ, 1, dtype="float32", quality="LQ")
        self._rest = np.zeros(0, dtype=np.float32)
        self._context = np.zeros(_CONTEXT_N_SAMPLES, dtype=np.float32)
        self._state = np.zeros(_STATE_SHAPE, dtype=np.float32)

    def feed(self, samples: Samples) -> list[Window]:
        """Adds audio, 24 kHz and of any length, and returns the windows that it completes."""
        resampled = self._resampler.resample_chunk(np.ascontiguousarray(samples, dtype=np.float32))
        sound = np.concatenate([self._rest, resampled])
        n_whole = len(sound) // WINDOW_N_SAMPLES * WINDOW_N_SAMPLES
        self._rest = sound[n_whole:]
        return [self._measure(window) for window in sound[:n_whole].reshape(-1, WINDOW_N_SAMPLES)]

    def _measure(self, window: Samples) -> Window:
        """Returns the next window with its probability of speech, which also depends on the windows before it."""
        inputs = {
            "input": np.concatenate([self._context, window])[None],
            "state": self._state,
            "sr": np.array(MODEL_RATE_HZ, dtype=np.int64),
        }
        probability, self._state = self._session.run(None, inputs)
        self._context = window[-_CONTEXT_N_SAMPLES:]
        return Window(window, float(probability[0, 0]))


class SpeechGate:
    """Classifies windows as speech or not by their probabilities, with hysteresis."""

    def __init__(self, speech_probability: float) -> None:
        self.adjust(speech_probability)
        self._is_open = False

    def adjust(self, speech_probability: float) -> None:
        """Changes the probability at which speech begins, from the next window on."""
        self._begins = speech_probability
        self._ends = max(speech_probability - _HYSTERESIS, 0.01)

    def passes(self, probability: float) -> bool:
        """Takes the probability of the next window, and returns whether that window is speech."""
        self._is_open = probability >= (self._ends if self._is_open else self._begins)
        return self._is_open


class TurnDetector:
    """Detects when a caller begins to speak and when the caller's turn has ended.

    Args:
        speech_probability: a window is speech if the model's probability is at least this.
        turn_end_silence_s: silence after which a turn has ended.

    Attributes:
        windows: the windows that the last call of `feed` completed.
        is_speaking: whether speech has started and the turn has not ended.

    Raises:
        BackendError: see `SpeechMeter`.
    """

    def __init__(self, speech_probability: float, turn_end_silence_s: float) -> None:
        self.windows: list[Window] = []
        self._meter = SpeechMeter()
        self._gate = SpeechGate(speech_probability)
        self.adjust(speech_probability, turn_end_silence_s)
        self.reset()

    def adjust(self, speech_probability: float, turn_end_silence_s: float) -> None:
        """Changes the arguments from the next audio on, without interrupting speech."""
        self._speech_probability = speech_probability
        self._n_end_windows = max(1, round(turn_end_silence_s / WINDOW_S))
        self._gate.adjust(speech_probability)

    def reset(self) -> None:
        """Forgets all audio so far: nobody speaks. The arguments and `windows` stay as they are."""
        self._meter.reset()
        self._gate = SpeechGate(self._speech_probability)
        self.is_speaking = False
        self._n_windows = 0  # consecutive windows of speech while silent, or of silence while speaking

    def feed(self, samples: Samples) -> list[Change]:
        """Adds audio, 24 kHz and of any length, and returns the changes that it causes; mostly none."""
        changes: list[Change] = []
        self.windows = self._meter.feed(samples)
        for window in self.windows:
            is_speech = self._gate.passes(window.probability)
            self._n_windows = self._n_windows + 1 if is_speech != self.is_speaking else 0
            if self._n_windows >= (self._n_end_windows if self.is_speaking else _N_START_WINDOWS):
                changes.append("stopped" if self.is_speaking else "started")
                self.is_speaking = not self.is_speaking
                self._n_windows = 0
        return changes


@cache
def _load_session() -> Any:
    """Loads the model once per process: running it keeps no state, and releases the GIL.

    Raises:
        BackendError: it is missing, or does not load.
    """
    import onnxruntime

    remedy = "Install kame-pipeline[serve] (in a clone: make install)."
    found = find_spec("silero_vad")
    folders = (found.submodule_search_locations if found else None) or ()
    files = [Path(folder) / "data" / "silero_vad.onnx" for folder in folders]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        path = next(file for file in files if file.is_file())
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except StopIteration:
        raise BackendError("There is no model of silero-vad here.", remedy) from None
    except Exception as error:  # onnxruntime's errors have no common class
        raise BackendError(f"The model of silero-vad does not load: {error}.", remedy) from error
