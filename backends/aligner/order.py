"""What the times of an utterance's words must be, whoever told them."""

from collections.abc import Sequence

from backends.aligner.protocol import TimesRefused
from data_schemas.records import WordTiming
from data_schemas.units import round_s


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
