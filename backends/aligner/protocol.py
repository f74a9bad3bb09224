"""What an aligner must do."""

from collections.abc import Sequence
from typing import Protocol

from backends.engine import Engine, Samples
from data_schemas.records import WordTiming
from data_schemas.units import round_s


class Aligner(Engine, Protocol):
    """Finds when each word of a known text is said; its name is stored as the words' `method`."""

    @property
    def prefers_own_times(self) -> bool:
        """Whether an utterance of which the synthesiser told every word's time is not to be aligned at all."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages it can time, as two letters."""

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """One timing a word, in order, ascending, inside the sound; times from its first sample.

        Raises:
            AlignmentRefused: the words are not found in the sound (the item becomes a reject).
            TimesRefused: they are, but not one after another inside it.
        """


class AlignmentRefused(Exception):
    """These words are not found in this sound; the message says why."""


class TimesRefused(AlignmentRefused):
    """These words have times that cannot be; the message says which."""


def check_order(timings: Sequence[WordTiming], duration_s: float) -> None:
    """Refuses times, as they are stored, of words that do not last, lie over one another, or outside the sound.

    Raises:
        TimesRefused: such a word; the first is named.
    """
    before_s = 0.0
    for timing in timings:
        start_s, end_s = round_s(timing.start_s), round_s(timing.end_s)
        if not before_s <= start_s < end_s <= round_s(duration_s):
            raise TimesRefused(
                f"{timing.word!r} from {start_s} to {end_s} s; the word before it ends at {before_s} s, "
                f"the sound at {duration_s:.3f} s"
            )
        before_s = end_s
