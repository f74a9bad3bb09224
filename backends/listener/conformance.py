"""Conformance test of streaming recognisers, built-in ones and plug-ins."""

import threading
import time
from collections.abc import Callable

import numpy as np

from backends.conformance import require, strip_marks
from backends.engine import Samples
from backends.listener.protocol import Heard, ListenerStream, StreamingRecogniser
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ

_LONGEST_CALL_S = 0.5
"""No call blocks, but a busy machine may need some time."""


class HeardLog:
    """Callback that records the transcripts of a stream, from any thread, and can wait for them."""

    def __init__(self, limit_s: float = 60.0) -> None:
        self.all: list[Heard] = []
        self._limit_s = limit_s
        self._changed = threading.Condition()

    def __call__(self, heard: Heard) -> None:
        """Records a transcript."""
        with self._changed:
            self.all.append(heard)
            self._changed.notify_all()

    def wait_until(self, is_enough: Callable[[list[Heard]], object]) -> list[Heard]:
        """Waits until the recorded transcripts satisfy a condition and returns them.

        Raises:
            PromiseBroken: they do not within the timeout.
        """
        with self._changed:
            is_there = self._changed.wait_for(lambda: is_enough(self.all), self._limit_s)
            require(is_there, f"the expected transcript comes within {self._limit_s:g} s; so far: {self.all}")
            return list(self.all)

    def wait_for_finals(self, n_turns: int) -> list[str]:
        """Waits for the final transcripts of at least this many turns and returns the texts of all so far.

        Raises:
            PromiseBroken: they have not ended within the timeout.
        """
        transcripts = self.wait_until(lambda all_: sum(each.is_final for each in all_) >= n_turns)
        return [each.text for each in transcripts if each.is_final]


def check_streaming_recogniser(
    recogniser: StreamingRecogniser, samples: Samples, said: str, *, limit_s: float = 60.0, n_callers: int = 2
) -> None:
    """Checks the promises of `StreamingRecogniser` and `ListenerStream`; closes the recogniser if they hold.

    Args:
        samples: a clearly spoken sentence at 24 kHz; fed as fast as it is accepted.
        said: its words.
        limit_s: timeout for a transcript, seconds.
        n_callers: number of concurrent callers.

    Raises:
        PromiseBroken: a promise does not hold.
    """
    require(isinstance(recogniser.name, str) and recogniser.name, "`name` is the engine's name in the registry")
    silence = np.zeros(SAMPLE_RATE_HZ // 2, dtype=np.float32)
    logs = [HeardLog(limit_s) for _ in range(n_callers)]
    ears = [recogniser.listen(log) for log in logs]
    for start in range(0, len(samples), FRAME_N_SAMPLES):
        _check_quick(lambda start=start: ears[0].feed(samples[start : start + FRAME_N_SAMPLES]))  # type: ignore[misc]
        for ear in ears[1:]:
            _check_quick(lambda ear=ear: ear.feed(np.zeros(FRAME_N_SAMPLES, dtype=np.float32)))  # type: ignore[misc]
    for ear in ears:
        _check_quick(lambda ear=ear: ear.feed(silence))  # type: ignore[misc]
        _check_quick(ear.end_turn)
    heard = logs[0].wait_for_finals(1)[0]
    require(strip_marks(heard) == strip_marks(said), f"the transcript has the spoken words: {said!r}, not {heard!r}")
    require(
        [log.wait_for_finals(1) for log in logs[1:]] == [[""]] * (n_callers - 1),
        "another caller's silence is a final ''",
    )
    require(all(ear.failure is None for ear in ears), "`failure` is None without a failure")
    _check_next_turn(ears[0], logs[0], silence)
    heard_by_others = [each.text for log in logs[1:] for each in log.all if each.text]
    require(not heard_by_others, f"a caller gets no words of another's turn, not even partial ones: {heard_by_others}")
    for ear in ears:
        ear.close()
    n_sent = [len(log.all) for log in logs]
    ears[0].feed(samples)
    ears[0].end_turn()
    recogniser.close()
    recogniser.close()
    require([len(log.all) for log in logs] == n_sent, "a closed ear sends no more transcripts")


def _check_next_turn(ear: ListenerStream, log: HeardLog, silence: Samples) -> None:
    """Checks that a second turn, of silence, gets exactly one final transcript, which is empty."""
    ear.feed(silence)
    ear.end_turn()
    require(log.wait_for_finals(2)[1] == "", "the next turn begins without the words of the one before")
    require(sum(each.is_final for each in log.all) == 2, "there is exactly one final text for each end of a turn")
    require(log.all[-1].is_final, "no transcript of a turn comes after its final one")


def _check_quick(call: Callable[[], None]) -> None:
    """Makes a call, and checks that it takes less than `_LONGEST_CALL_S`."""
    began_s = time.monotonic()
    call()
    require(time.monotonic() - began_s < _LONGEST_CALL_S, f"no call of an ear blocks ({_LONGEST_CALL_S:g} s at most)")
