"""A streaming recogniser for tests: hears the words of a script, one for each bit of sound that is not silent.

It counts samples, not seconds, and tells what it hears within the call that feeds it: the same sound gives the same
words at the same samples, however it is cut.
"""

from collections.abc import Callable, Sequence

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from backends.options import Options
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples

_SILENCE = 1e-3
"""Samples below this are silent: -60 dB."""


class DoubleListenerOptions(Options):
    """What it hears."""

    script: str = Field(
        default="what is the capital of france", description="Words of a caller's turns; turns are separated by |."
    )
    seconds_per_word: float = Field(
        default=0.2, gt=0, description="Sound, less its silence, in which one word is heard, seconds."
    )
    dies_after_s: float = Field(
        default=0.0, ge=0, description="Sound after which an ear hears nothing any more, seconds; 0: it does not die."
    )


class DoubleListener:
    """Hears its script in any sound, from the first turn for each caller, and again from there after the last."""

    name = "double"
    is_immediate = True

    def __init__(self, options: DoubleListenerOptions) -> None:
        self._options = options

    def listen(self, on_heard: Callable[[Heard], None]) -> "DoubleEar":
        """A new caller's ear; calls `on_heard` in the thread that feeds it."""
        return DoubleEar(self._options, on_heard)

    def close(self) -> None:
        """There is nothing to give back."""


class DoubleEar:
    """One caller's ear."""

    def __init__(self, options: DoubleListenerOptions, on_heard: Callable[[Heard], None]) -> None:
        self._turns = [turn.split() for turn in options.script.split("|")]
        self._n_per_word = seconds_to_samples(options.seconds_per_word)
        self._dies_after_s = options.dies_after_s
        self._on_heard = on_heard
        self._turn_index = self._n_fed = self._n_loud = self._n_told = 0
        self._is_closed = False

    @property
    def failure(self) -> str | None:
        """Why nothing is heard any more."""
        is_dead = self._dies_after_s and self._n_fed >= self._dies_after_s * SAMPLE_RATE_HZ
        return f"the double died after {self._dies_after_s:g} s" if is_dead else None

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Tells the turn's words so far each time a word is complete."""
        self._n_fed += len(samples)
        if self._is_closed or self.failure:
            return
        self._n_loud += int(np.count_nonzero(np.abs(samples) >= _SILENCE))
        words = self._list_words()
        if len(words) > self._n_told:
            self._n_told = len(words)
            self._on_heard(Heard(" ".join(words)))

    def end_turn(self) -> None:
        """Tells the turn's words as final: those that have been heard, or none."""
        if self._is_closed:
            return
        words = self._list_words()
        if words:
            self._turn_index += 1
        self._n_loud = self._n_told = 0
        self._on_heard(Heard(" ".join(words), is_final=True))

    def close(self) -> None:
        """Hears nothing any more."""
        self._is_closed = True

    def _list_words(self) -> list[str]:
        return self._turns[self._turn_index % len(self._turns)][: self._n_loud // self._n_per_word]
