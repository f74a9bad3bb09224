"""Doubles of recogniser and chat model in which each word is traced to its caller, and which fail as they are told to.

A caller's sound is a tone whose pitch is the caller's number, so that it survives any codec: what hears it, what is
asked of the chat model and what comes of it are made of that caller's own word alone.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ

Fault = Literal[
    "none",
    "vanishes",  # the caller is gone in the middle of a turn
    "sticks",  # the caller takes nothing any more, and does not go
    "garbage",  # the caller sends what is no message
    "silent",  # the caller sends nothing
    "fast",  # the caller sends ten times as fast as one speaks
    "llm-stalls",  # the chat model says nothing, or stops in the middle
    "llm-fails",  # the chat model's server is gone
    "ear-dies",  # the recogniser hears nothing for a while, and says so
    "ear-raises",  # the recogniser has a fault of its own
    "changes",  # the caller changes mode, begins anew, and goes on
]

ON_PURPOSE = "on purpose"
"""Stands in every error of these doubles."""
N_WORDS = 26 * 26
"""Callers that can be told apart; pitches repeat with every `N_PITCHES`, and callers at once are neighbours."""
N_PITCHES = 200
_LOWEST_HZ, _STEP_HZ = 200.0, 37.5
_LOUD = 0.05
_WORD = re.compile(r"\bzq[a-z]{2}\b")
_DEAD_N_FRAMES = 20
_STALL_S = 1e6
_GAP_S = 0.03
_WINDOW = np.hanning(FRAME_N_SAMPLES)


def word_of(number: int) -> str:
    """Returns the only word that a caller says."""
    first, second = divmod(number % N_WORDS, 26)
    return f"zq{chr(97 + first)}{chr(97 + second)}"


def words_in(text: str) -> set[str]:
    """Returns the words of callers in a text."""
    return set(_WORD.findall(text.lower()))


def tone(number: int, frame: int) -> Samples:
    """Returns 80 ms of a caller's voice; `frame` is the number of the frame, so that frames join without a break."""
    at_s = (np.arange(FRAME_N_SAMPLES) + frame * FRAME_N_SAMPLES) / SAMPLE_RATE_HZ
    pitch_hz = _LOWEST_HZ + _STEP_HZ * (number % N_PITCHES)
    return np.asarray(0.3 * np.sin(2 * np.pi * pitch_hz * at_s), np.float32)


def pitch_in(frame: Samples) -> int | None:
    """Returns the number of the voice in a frame; None for silence or no clear tone."""
    if np.abs(frame).max() < _LOUD:
        return None
    strongest = int(np.abs(np.fft.rfft(frame * _WINDOW)).argmax())
    number = (strongest * SAMPLE_RATE_HZ / FRAME_N_SAMPLES - _LOWEST_HZ) / _STEP_HZ
    return round(number) if abs(number - round(number)) < 0.2 and number > -0.2 else None


class ToneRecogniser:
    """Hears the word of the voice that speaks, once every fourth frame.

    Args:
        callers: the callers of now by their pitch, each with its number and what goes wrong with it; looked up when a
            voice is heard, so that an ear that is given another's sound hears another's word.
    """

    name = "tones"

    def __init__(self, callers: Mapping[int, tuple[int, Fault]]) -> None:
        self._callers = callers

    def listen(self, on_heard: Callable[[Heard], None]) -> "ToneEar":
        """A new caller's ear."""
        return ToneEar(self._callers, on_heard)

    def close(self) -> None:
        """There is nothing to give back."""


class ToneEar:
    """One caller's ear. Tells once more after it was closed, as a thread that is late would."""

    def __init__(self, callers: Mapping[int, tuple[int, Fault]], on_heard: Callable[[Heard], None]) -> None:
        self._callers, self._on_heard = callers, on_heard
        self._words: list[str] = []
        self._last: int | None = None
        self._n_loud = self._n_dead = 0

    @property
    def failure(self) -> str | None:
        """Why nothing is heard just now."""
        return "the double is dead" if self._n_dead else None

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Hears the next frame of the caller; a pitch counts when two frames in a row have it.

        Raises:
            RuntimeError: the fault `ear-raises`.
        """
        self._n_dead = max(0, self._n_dead - 1)
        pitch, self._last = self._last, pitch_in(samples)
        if pitch is None or pitch != self._last or self._n_dead or pitch not in self._callers:
            return
        number, fault = self._callers[pitch]
        self._n_loud += 1
        if fault == "ear-raises" and self._n_loud > 10:
            raise RuntimeError(f"The recogniser's own fault, {ON_PURPOSE}.")
        if fault == "ear-dies" and self._n_loud == 10:
            self._n_dead = _DEAD_N_FRAMES
        elif self._n_loud % 4 == 1:
            self._words.append(word_of(number))
            self._tell(is_final=False)

    def end_turn(self) -> None:
        """Tells the turn as final."""
        self._tell(is_final=True)
        self._words, self._n_loud = [], 0

    def close(self) -> None:
        """Tells what a late thread would, at once and a little later."""
        self._tell(is_final=True)
        for wait_s in (0.04, 0.16):
            asyncio.get_running_loop().call_later(wait_s, self._tell, True)

    def _tell(self, is_final: bool) -> None:
        self._on_heard(Heard(" ".join(self._words), is_final))


class WordChat:
    """Answers with the callers' words that it finds in all it is asked, of history and prompt too.

    Args:
        faults: what goes wrong with whom, by the caller's word.

    Attributes:
        n_asked, n_open: requests so far, and those being answered.
        n_mixed: requests that held words of several callers.
        n_failed: answers that failed on purpose, by fault.
    """

    def __init__(self, faults: Mapping[str, Fault]) -> None:
        self._faults = faults
        self.n_asked = self.n_open = self.n_mixed = 0
        self.n_failed: Counter[Fault] = Counter()

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """Yields the pieces of an answer; fails or stalls if a caller whose word is in the request has such a fault."""
        words = set.union(*(words_in(message["content"]) for message in payload["messages"]))
        self.n_asked += 1
        self.n_mixed += len(words) > 1
        self.n_open += 1
        fault: Fault = next((self._faults[word] for word in words if word in self._faults), "none")
        try:
            if fault == "llm-fails" and self.n_asked % 3:
                self.n_failed[fault] += 1
                raise BackendError(f"The chat model's server is gone, {ON_PURPOSE}.")
            n_before_stall = self.n_asked % 4 if fault == "llm-stalls" else 1_000
            for number, piece in enumerate(f" it is {word}," for _ in range(3) for word in sorted(words)):
                if number == n_before_stall:
                    self.n_failed[fault] += 1
                    await asyncio.sleep(_STALL_S)
                await asyncio.sleep(_GAP_S)
                yield piece
            yield " so."
        finally:
            self.n_open -= 1

    async def aclose(self) -> None:
        """Nothing is open."""
