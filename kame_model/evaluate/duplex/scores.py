"""The measures of Full-Duplex-Bench v1, by its own definitions (Lin and others 2025, arXiv 2503.04721).

Details that the paper leaves open are taken from the scripts of its repository (`evaluation/eval_*.py` of
github.com/DanielLin94144/Full-Duplex-Bench), so that both give the same figures for the same words and segments.
Unexpected behaviour of the scripts is kept, and documented below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backends.engine import Samples
from data_schemas.units import round_s
from kame_model.evaluate.calls.delays import Span, TimedWord

TURN_S: Final = 1.0
"""Words of this total duration are a turn, however few they are (`turn_duration_threshold`)."""
TURN_WORDS: Final = 3
"""Shorter speech is a turn if it has more words than this (`turn_num_words_threshold`)."""

LONGEST_BACKCHANNEL_S: Final = 3.0
"""A segment of speech longer than this is a turn whatever is said (`time_threshold` of eval_backchannel.py)."""
BACKCHANNEL_WORDS: Final = 2
WINDOW_S: Final = 0.2
_EPSILON: Final = 1e-10

_VAD_RATE_HZ: Final = 16_000
_VAD_WINDOW: Final = 512
_SPEECH, _SILENCE = 0.5, 0.35
_LEAST_SPEECH, _LEAST_SILENCE, _PAD = 4000, 1600, 480
"""`get_speech_timestamps` of silero-vad as eval_backchannel.py calls it, all at its defaults: 250, 100 and 30 ms."""


def is_turn(words: Sequence[TimedWord]) -> bool:
    """Returns whether what the assistant said is a turn (*take-over*): neither silence nor a backchannel.

    It is a turn if it lasts a second or more from the first word's start to the last one's end, or has more than three
    words (eval_pause_handling.py, eval_smooth_turn_taking.py, eval_user_interruption.py).
    """
    return bool(words) and (words[-1].end_s - words[0].start_s >= TURN_S or len(words) > TURN_WORDS)


def compute_latency_s(words: Sequence[TimedWord], user_end_s: float) -> float | None:
    """Returns the latency from the user's end to the first word if the turn is taken; 0 if the word started before.

    It is None if no turn is taken: the benchmark's average excludes such items too.
    """
    return round_s(max(0.0, words[0].start_s - user_end_s)) if is_turn(words) else None


@dataclass(frozen=True, slots=True)
class Backchannels:
    """What the assistant says while it should only listen.

    Attributes:
        takes_turn: whether it takes the turn.
        spans: its backchannels.
    """

    takes_turn: bool
    spans: list[Span]


def find_backchannels(segments: Sequence[Span], words: Sequence[TimedWord]) -> Backchannels:
    """Finds backchannels among segments of speech, step by step as eval_backchannel.py does.

    A segment over 3 s is a turn and ends the search; backchannels before it are kept. Any other segment of less than a
    second with at most two words is a backchannel; the rest are turns, which discard the backchannels before them. As
    in the script, the last segment decides whether the turn was taken: a backchannel after a turn clears it.
    """
    takes, spans = False, list[Span]()
    for start_s, end_s in segments:
        if end_s - start_s > LONGEST_BACKCHANNEL_S:
            return Backchannels(True, spans)
        n_words = sum(word.start_s <= end_s and word.end_s > start_s for word in words)
        takes = end_s - start_s >= TURN_S or n_words > BACKCHANNEL_WORDS
        spans = [] if takes else [*spans, (start_s, end_s)]
    return Backchannels(takes, spans)


def compute_distribution(spans: Sequence[Span], duration_s: float) -> NDArray[np.float64]:
    """Returns the distribution of backchannels over windows of 0.2 s, which sums to 1: each counts in all it touches.

    Args:
        spans: the backchannels.
        duration_s: length of the audio; it has `int(duration_s / 0.2) + 1` windows.
    """
    counts = np.full(int(duration_s / WINDOW_S) + 1, _EPSILON)
    for start_s, end_s in spans:
        counts[int(start_s / WINDOW_S) : int(end_s / WINDOW_S) + 1] += 1
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def compute_divergence(spans: Sequence[Span], duration_s: float, people: Sequence[float]) -> float:
    """Computes the divergence of backchannel times from those of people (*JSD*); 1 if there is no backchannel.

    The benchmark uses scipy's `jensenshannon`: the square root of the Jensen-Shannon divergence in nats, at most 0.83.
    The human distribution is stretched to the same number of windows by linear interpolation, as in the script.

    Args:
        people: probability of a backchannel of human listeners in each window (icc_gt_distribution.json).
    """
    if not spans:
        return 1.0
    of_assistant = compute_distribution(spans, duration_s)
    of_people = np.interp(np.linspace(0, 1, len(of_assistant)), np.linspace(0, 1, len(people)), people)
    of_people = of_people / of_people.sum()
    middle = (of_assistant + of_people) / 2
    divergence = (_compute_relative_entropy(of_assistant, middle) + _compute_relative_entropy(of_people, middle)) / 2
    return round(float(np.sqrt(max(0.0, divergence))), 4)


def _compute_relative_entropy(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Returns the Kullback-Leibler divergence of `one` from `other`, in nats."""
    some = one > 0
    return float((one[some] * np.log(one[some] / other[some])).sum())


def find_speech(sound: Samples) -> list[Span]:
    """Finds segments of speech in audio at 24 kHz with silero-vad's default rule (`get_speech_timestamps`).

    Raises:
        BackendError: the detector's model is missing.
    """
    from backends.listener.vad import SpeechMeter
    from data_schemas.units import SAMPLE_RATE_HZ

    probabilities = [window.probability for window in SpeechMeter().feed(sound)]
    n_samples = round(len(sound) * _VAD_RATE_HZ / SAMPLE_RATE_HZ)
    found: list[tuple[int, int]] = []
    start: int | None = None
    silent_from: int | None = None
    for number, probability in enumerate(probabilities):
        at = number * _VAD_WINDOW
        if probability >= _SPEECH:
            silent_from = None
            start = at if start is None else start
        elif probability < _SILENCE and start is not None:
            silent_from = at if silent_from is None else silent_from
            if at - silent_from >= _LEAST_SILENCE:
                if silent_from - start > _LEAST_SPEECH:
                    found.append((start, silent_from))
                start = silent_from = None
    if start is not None and n_samples - start > _LEAST_SPEECH:
        found.append((start, n_samples))
    padded = [(max(0, start - _PAD), min(n_samples, end + _PAD)) for start, end in found]
    return [(round_s(start / _VAD_RATE_HZ), round_s(end / _VAD_RATE_HZ)) for start, end in padded]
