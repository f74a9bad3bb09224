"""The exact word times of the speech of `backends/tts/double.py`."""

from collections.abc import Sequence

import numpy as np

from backends.aligner.protocol import AlignmentRefused
from backends.engine import Samples
from backends.tts.double import spans
from data_schemas import ids
from data_schemas.records import WordTiming
from data_schemas.units import samples_to_seconds


class DoubleAligner:
    """Computes when each burst was said and looks whether it is there; score 0 for every word."""

    name = "double"
    digest = ids.digest("double aligner", 1)
    languages = ("en",)
    prefers_own_times = False

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """The bursts' times, to the sample, at any speed of the double's speech.

        Raises:
            AlignmentRefused: the sound does not have as many bursts as there are words.
        """
        if not words:
            return []
        bursts = spans(len(words), len(samples))
        loud = np.abs(samples) > 1e-3 * float(np.abs(samples).max(initial=0.0))
        gaps = zip([end for _, end in bursts[:-1]], [start for start, _ in bursts[1:]], strict=True)
        if not all(loud[start:end].any() for start, end in bursts) or any(loud[start:end].any() for start, end in gaps):
            raise AlignmentRefused(f"the sound does not have {len(words)} bursts")
        return [
            WordTiming(
                word=word,
                start_s=samples_to_seconds(start, sample_rate_hz),
                end_s=samples_to_seconds(end, sample_rate_hz),
                score=0.0,
                method=self.name,
            )
            for word, (start, end) in zip(words, bursts, strict=True)
        ]
