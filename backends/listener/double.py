"""Test double of a streaming recogniser: recognises the words of a script, one per amount of audio that is not silent.

It counts samples instead of seconds, and sends its transcripts within the call that feeds it: the same audio gives the
same words at the same samples, however it is cut.
"""

from collections.abc import Callable, Sequence

import numpy as np
from pydantic import Field

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from backends.options import Options
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples

_SILENCE = 1e-3
"""Samples below this count as silence: -60 dB."""


class DoubleListenerOptions(Options):
    """Options for the script and its timing."""

    script: str = Field(
        default="what is the capital of france", description="Words of a caller's turns; turns are separated by |."
    )
    seconds_per_word: float = Field(default=0.2, gt=0, description="Audio without silence per word, seconds.")
    dies_after_s: float = Field(default=0.0, ge=0, description="Audio after which an ear fails, seconds; 0: never.")


class DoubleListener:
    """Recognises its script in any audio, for each caller from the first turn on, and again after the last."""

    name = "double"
    is_immediate = True

    def __init__(self, options: DoubleListenerOptions) -> None:
        self._options = options

    def listen(self, on_heard: Callable[[Heard], None]) -> "DoubleListenerStream":
        """Returns a new caller's stream; it calls `on_heard` in the thread that feeds it."""
        return DoubleListenerStream(self._options, on_heard)

    def close(self) -> None:
        """Does nothing, as there are no threads or connections."""


class DoubleListenerStream:
    """One caller's stream."""

    def __init__(self, options: DoubleListenerOptions, on_heard: Callable[[Heard], None]) -> None:
        self._turns = [turn.split() for turn in options.script.split("|")]
        self._n_per_word = seconds_to_samples(options.seconds_per_word)
        self._dies_after_s = options.dies_after_s
        self._on_heard = on_heard
        self._turn_index = self._n_fed = self._n_loud = self._n_sent = 0
        self._is_closed = False

    @property
    def failure(self) -> str | None:
        """Why the caller is no longer heard, or None."""
        is_dead = self._dies_after_s and self._n_fed >= self._dies_after_s * SAMPLE_RATE_HZ
        return f"the double died after {self._dies_after_s:g} s" if is_dead else None

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Adds audio, and sends the turn's words so far if it completes another word; `windows` is ignored."""
        self._n_fed += len(samples)
        if self._is_closed or self.failure:
            return
        self._n_loud += int(np.count_nonzero(np.abs(samples) >= _SILENCE))
        words = self._list_words()
        if len(words) > self._n_sent:
            self._n_sent = len(words)
            self._on_heard(Heard(" ".join(words)))

    def end_turn(self) -> None:
        """Sends the turn's words so far as final; if there are any, the script's next turn begins."""
        if self._is_closed:
            return
        words = self._list_words()
        if words:
            self._turn_index += 1
        self._n_loud = self._n_sent = 0
        self._on_heard(Heard(" ".join(words), is_final=True))

    def close(self) -> None:
        """Stops recognising."""
        self._is_closed = True

    def _list_words(self) -> list[str]:
        """Returns the words of the turn so far, by the amount of audio that was not silent."""
        return self._turns[self._turn_index % len(self._turns)][: self._n_loud // self._n_per_word]
