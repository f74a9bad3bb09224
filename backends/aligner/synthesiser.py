"""The synthesiser's own word times, where it tells them of every word of an utterance (Piper; see `Speech.words`)."""

from collections.abc import Sequence

from backends.protocols import AlignmentRefused, Samples
from data_schemas import ids
from data_schemas.records import WordTiming


class SynthesiserTimes:
    """Stands in the place of an aligner: the alignment stage takes the clip's own times and never asks for others."""

    name = "synthesiser"
    digest = ids.digest("synthesiser's own times", 1)
    languages = ("en",)

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Never finds a word in sound.

        Raises:
            AlignmentRefused: always: the synthesiser did not tell the times.
        """
        raise AlignmentRefused(f"the synthesiser told no times for these {len(words)} words")
