"""Protocol of forced aligners."""

from collections.abc import Sequence
from typing import Protocol

from backends.engine import Engine, Samples
from data_schemas.records import WordTiming
from data_schemas.units import round_s


class Aligner(Engine, Protocol):
    """Finds the time of each word of a known text; its name is recorded as the words' `method`."""

    @property
    def prefers_own_times(self) -> bool:
        """Whether an utterance for which the synthesiser reported every word's time is not aligned at all."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Supported languages, as two letters."""

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Returns one timing per word, in order, ascending, inside the audio; times count from its first sample.

        Without words, it returns an empty list.

        Raises:
            AlignmentRefused: the words are not found in the audio (the item is rejected).
            TimesRefused: they are found, but not one after another inside it.
            BackendError: the engine itself does not work.
        """


class AlignmentRefused(Exception):
    """These words are not found in this audio; the message says why."""


class TimesRefused(AlignmentRefused):
    """The times of these words are impossible; the message says which."""


def check_order(timings: Sequence[WordTiming], duration_s: float) -> None:
    """Checks that words, by times rounded as for storage, have a duration, do not overlap and are inside the audio.

    Raises:
        TimesRefused: they do not; names the first such word.
    """
    before_s = 0.0
    for timing in timings:
        start_s, end_s = round_s(timing.start_s), round_s(timing.end_s)
        if not before_s <= start_s < end_s <= round_s(duration_s):
            raise TimesRefused(
                f"{timing.word!r} from {start_s} to {end_s} s; the word before it ends at {before_s} s, "
                f"the audio at {duration_s:.3f} s"
            )
        before_s = end_s
