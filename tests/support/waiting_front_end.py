"""A front-end that waits for its oracle and says it once, and a recogniser that hears what it says.

It stands in the place of the server's engine. A word is a tone whose pitch is its number in a list of all words that
were ever said; the recogniser finds the pitches again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from backends.engine import Samples
from data_schemas import ids
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ
from kame_model.evaluate.calls.delays import find_audible_spans
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn, FrameOut
from kame_model.text.tokenizer import Tokenizer

N_WORD_FRAMES = 3
"""A word's tone fills two of them."""
PATIENCE_N_FRAMES = 20
"""It speaks when the user has been silent, and no oracle has come, for so long."""

_LOWEST_HZ, _STEP_HZ = 300, 25
_WORDS: list[str] = []


@dataclass
class _Slot:
    oracle: list[int] = field(default_factory=list)
    to_say: list[tuple[Samples, str]] = field(default_factory=list)
    n_waited: int = 0
    has_begun: bool = False


class WaitingEngine:
    """Stands in for the server's `FrontEndEngine`, and takes its arguments.

    It says an oracle once, when the user has been silent and no oracle has come for `PATIENCE_N_FRAMES`.
    """

    def __init__(self, front_end: Any, codec: Any, tokenizer: Tokenizer, n_slots: int, *more: Any) -> None:
        self.n_slots = n_slots
        self._tokenizer = tokenizer
        self._slots = [_Slot() for _ in range(n_slots)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to give back."""

    def measure(self) -> float:
        return 0.001

    def time_step(self, n_callers: int) -> float:
        return 0.001

    def reset(self, slot: int) -> None:
        self._slots[slot] = _Slot()

    def step(self, inputs: Mapping[int, FrameIn]) -> dict[int, FrameOut]:
        return {slot: self._step(self._slots[slot], given) for slot, given in inputs.items()}

    def _step(self, slot: _Slot, given: FrameIn) -> FrameOut:
        if given.oracle == self._tokenizer.text_card:
            slot.oracle = []
        elif given.oracle != PADDING_ID:
            slot.oracle.append(given.oracle)
        is_waiting = given.oracle == PADDING_ID and float(np.abs(given.samples).max()) < 0.01
        slot.n_waited = slot.n_waited + 1 if is_waiting else 0
        if slot.oracle and not slot.has_begun and slot.n_waited > PATIENCE_N_FRAMES:
            slot.has_begun = True
            for word in self._tokenizer.decode(slot.oracle).split():
                slot.to_say += said(word)
        samples, text = slot.to_say.pop(0) if slot.to_say else (np.zeros(FRAME_N_SAMPLES, np.float32), "")
        return FrameOut(samples, PADDING_ID, text)


def said(word: str) -> list[tuple[Samples, str]]:
    """Returns the three frames of a word, two of its tone and one of silence, with its text in the first.

    A word that was never said before is added to the list of all words, which decides its pitch.
    """
    if word not in _WORDS:
        _WORDS.append(word)
    pitch_hz = _LOWEST_HZ + _STEP_HZ * _WORDS.index(word)
    time_s = np.arange(2 * FRAME_N_SAMPLES) / SAMPLE_RATE_HZ
    tone = (0.3 * np.sin(2 * np.pi * pitch_hz * time_s)).astype(np.float32)
    silence = np.zeros(FRAME_N_SAMPLES, np.float32)
    return [(tone[:FRAME_N_SAMPLES], f" {word}"), (tone[FRAME_N_SAMPLES:], ""), (silence, "")]


class PitchRecogniser:
    """Recognises the words of `said` in whole recordings, by the pitches of their tones."""

    name = "pitch"
    digest = ids.digest("pitch recogniser")
    max_calls_in_flight = 1

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        words = []
        for start_s, end_s in find_audible_spans(samples, gap_s=0.03):
            tone = samples[round(start_s * sample_rate_hz) : round(end_s * sample_rate_hz)]
            spectrum = np.abs(np.fft.rfft(tone * np.hanning(len(tone)), n=sample_rate_hz))
            number = round((int(spectrum.argmax()) - _LOWEST_HZ) / _STEP_HZ)
            if 0 <= number < len(_WORDS):
                words.append(_WORDS[number])
        return " ".join(words)
