"""Test double of an aligner: the exact word times of the speech of `backends/tts/double.py`, anywhere in audio."""

from collections.abc import Sequence

import numpy as np

from backends.aligner.protocol import AlignmentRefused
from backends.engine import Samples
from data_schemas import ids
from data_schemas.records import WordTiming
from data_schemas.units import samples_to_seconds

_LEAST_GAP_S = 0.01
"""Shorter silences are zero crossings inside a burst; a gap of the double's speech is longer at any speed."""


class DoubleAligner:
    """Finds the bursts by the silence between them; the score of every word is 0."""

    name = "double"
    digest = ids.digest("double aligner", 2)
    languages = ("en",)
    prefers_own_times = False

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Returns the bursts' times, exact to the sample, at any speed of the double's speech.

        Raises:
            AlignmentRefused: the audio does not have as many bursts as there are words.
        """
        if not words:
            return []
        bursts = _find_bursts(samples, round(_LEAST_GAP_S * sample_rate_hz))
        if len(bursts) != len(words):
            raise AlignmentRefused(f"the audio has {len(bursts)} bursts, not {len(words)}")
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


def _find_bursts(samples: Samples, least_gap: int) -> list[tuple[int, int]]:
    """Returns start and end sample (exclusive) of each burst; gaps of at least `least_gap` zeros separate bursts.

    A burst begins and ends with a 0, so that each span is one sample longer than its sound at both ends.
    """
    loud = np.flatnonzero(samples)
    if not len(loud):
        return []
    ends = np.flatnonzero(np.diff(loud) > least_gap)
    starts, last = loud[np.r_[0, ends + 1]], loud[np.r_[ends, len(loud) - 1]]
    return [(max(0, int(start) - 1), min(len(samples), int(end) + 2)) for start, end in zip(starts, last, strict=True)]
