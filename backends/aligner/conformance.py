"""Conformance test of aligners, built-in ones and plug-ins."""

from collections.abc import Sequence

import numpy as np

from backends.aligner.protocol import Aligner, AlignmentRefused
from backends.conformance import check_identity, check_threads, require, require_raises
from backends.engine import Samples
from data_schemas.records import WordTiming
from data_schemas.units import SAMPLE_RATE_HZ

_AGREES_S = 0.05
_PAUSE_S = 1.0
_FOLLOWS_S = 0.2
"""Tolerance for the shift of a time when silence is inserted, as speech that is cut open sounds different."""


def check_aligner(aligner: Aligner, samples: Samples, words: Sequence[str]) -> None:
    """Checks the promises of `Aligner`.

    Args:
        samples: these words, clearly spoken, at 24 kHz.
        words: at least two.

    Raises:
        PromiseBroken: a promise does not hold.
    """
    check_identity(aligner)
    require(isinstance(aligner.prefers_own_times, bool), "`prefers_own_times` is True or False")
    languages = aligner.languages
    require(
        languages and all(len(each) == 2 and each.islower() for each in languages), "`languages` are two letters each"
    )
    timings = aligner.align(samples, SAMPLE_RATE_HZ, words)
    require([each.word for each in timings] == list(words), "there is one timing a word, in order, as it was given")
    edges = [edge for each in timings for edge in (each.start_s, each.end_s)]
    require(edges == sorted(edges) and edges[0] >= 0, "times ascend from the first sample")
    require(edges[-1] <= len(samples) / SAMPLE_RATE_HZ, "times lie inside the audio")
    require(all(each.start_s < each.end_s for each in timings), "every word has a duration")
    require(all(each.method and np.isfinite(each.score) for each in timings), "each timing has a method and a score")
    require(aligner.align(samples, SAMPLE_RATE_HZ, []) == [], "there are no times without words")
    refused = "silence instead of the words is an AlignmentRefused"
    silence = np.zeros(SAMPLE_RATE_HZ, dtype=np.float32)
    require_raises(AlignmentRefused, lambda: aligner.align(silence, SAMPLE_RATE_HZ, words), refused)

    def align() -> list[WordTiming]:
        return aligner.align(samples, SAMPLE_RATE_HZ, words)

    require(align() == timings, "the same audio has the same times, whatever was aligned in between")
    check_threads(align, 1, lambda one, other: one == other)
    twice = aligner.align(np.repeat(samples, 2), 2 * SAMPLE_RATE_HZ, words)
    shifts_s = [abs(one.start_s - other.start_s) for one, other in zip(timings, twice, strict=True)]
    require(max(shifts_s) < _AGREES_S, "the same audio at another sample rate has the same times")
    _check_listens(aligner, samples, timings)


def _check_listens(aligner: Aligner, samples: Samples, timings: Sequence[WordTiming]) -> None:
    """Checks that times come from the audio: inserted silence moves the words after it and no others."""
    words, pause = [each.word for each in timings], np.zeros(round(_PAUSE_S * SAMPLE_RATE_HZ), dtype=np.float32)
    first = max(range(len(words) - 1), key=lambda at: timings[at + 1].start_s - timings[at].end_s) + 1
    gap_s = (timings[first - 1].end_s + timings[first].start_s) / 2
    for n_before, at_s, promise in (
        (0, 0.0, "silence before the first word moves all words by as much"),
        (first, gap_s, "a pause between two words moves those behind it, and leaves those before it"),
        (len(words), len(samples) / SAMPLE_RATE_HZ, "silence after the last word moves none"),
    ):
        at = round(at_s * SAMPLE_RATE_HZ)
        found = aligner.align(np.concatenate([samples[:at], pause, samples[at:]]), SAMPLE_RATE_HZ, words)
        for index, (one, other) in enumerate(zip(timings, found, strict=True)):
            moved_s = 0.0 if index < n_before else _PAUSE_S
            require(abs(other.start_s - one.start_s - moved_s) < _FOLLOWS_S, promise)
