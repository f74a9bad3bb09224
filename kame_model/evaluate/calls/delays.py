"""Measures latency and overlap: when somebody is heard, how long an answer takes, and when words are said.

Loudness is measured in hops of 10 ms, so that the error of an edge is less than a frame of 80 ms.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from backends.engine import Samples
from data_schemas.units import FRAME_S, SAMPLE_RATE_HZ, round_s
from kame_model.serve.client.answer_watch import AUDIBLE, AUDIBLE_SHARE

_HOP_S: Final = 0.01
_HOP_N_SAMPLES: Final = round(_HOP_S * SAMPLE_RATE_HZ)

GAP_S: Final = 0.3
"""A silence of at most this length, as between two words, does not split a span."""

RUN_OVER_S: Final = 0.3
"""Speech that ends at most this long after a turn's end was said during the turn and ran over its end, as a backchannel
does, and is not the answer: a reaction to the end and the shortest word take longer together."""

_SILENT: Final = 1e-3
"""Sound below this level is inaudible, however quiet the rest is: 60 dB below full scale."""

EDGE_S: Final = 0.25
"""Silence that `cut_to_audible` keeps at both ends, in seconds."""

Span = tuple[float, float]
"""Start and end, seconds."""


def find_audible_spans(sound: Samples, threshold: float | None = None, gap_s: float = GAP_S) -> list[Span]:
    """Finds the spans of time in which a sound is audible, in order.

    Args:
        sound: float32 [n_samples] at 24 kHz.
        threshold: root mean square of a hop above which it is audible, such as `AUDIBLE`, which callers use for a
            server's sound (`AnswerWatch`); None: the same, but for a quiet sound 14 dB below its loudest hop.
        gap_s: maximum length of a silence within a span, seconds.
    """
    n_hops = -(-len(sound) // _HOP_N_SAMPLES)
    padded = np.pad(sound.astype(np.float64), (0, n_hops * _HOP_N_SAMPLES - len(sound)))
    loudness = np.sqrt(np.square(padded.reshape(-1, _HOP_N_SAMPLES)).mean(axis=1))
    if threshold is None:
        threshold = max(_SILENT, min(AUDIBLE, AUDIBLE_SHARE * float(loudness.max(initial=0.0))))
    heard = np.flatnonzero(loudness > threshold)
    if not len(heard):
        return []
    cuts = np.flatnonzero(np.diff(heard) - 1 > gap_s / _HOP_S) + 1
    return [(round_s(float(hops[0]) * _HOP_S), round_s(float(hops[-1] + 1) * _HOP_S)) for hops in np.split(heard, cuts)]


def cut_to_audible(sound: Samples) -> Samples:
    """Returns a sound at 24 kHz without silence at both ends, of which `EDGE_S` is kept; empty if all is silent.

    A recogniser should not get the silence before an answer: after three seconds or more of it, Moonshine transcribes
    some answers as music that it transcribes rightly alone.
    """
    spans = find_audible_spans(sound, AUDIBLE)
    if not spans:
        return sound[:0]
    start_s, end_s = max(0.0, spans[0][0] - EDGE_S), spans[-1][1] + EDGE_S
    return sound[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)]


class TimedWord(NamedTuple):
    """A word of the assistant with its start and end, seconds."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of the answer to one turn of a user.

    Attributes:
        first_sound_s: from the turn's end to the first sound of the answer; negative if the answer started before the
            turn's end and continued for more than `RUN_OVER_S` after it; None: no answer.
        was_speaking: whether the assistant was heard at the turn's end, from before it until after it, whether that was
            the answer or not.
        overlap_s: how long both were heard at once, seconds, from the turn's start on.
        overlap_share: that as a share of the user's speech in the turn; None: the user said nothing.
    """

    first_sound_s: float | None
    was_speaking: bool
    overlap_s: float
    overlap_share: float | None

    @property
    def ttfat_s(self) -> float | None:
        """Time to first audible token (MoshiRAG, arXiv 2604.12928): `first_sound_s`, but 0 for an answer that started
        before the turn's end."""
        return None if self.first_sound_s is None else max(0.0, self.first_sound_s)


def measure_delays(
    user: Sequence[Span], assistant: Sequence[Span], turn: Span, until_s: float = float("inf")
) -> Delays:
    """Measures the delays of the answer to one turn.

    The answer is the assistant's first span that starts after the turn's start and ends more than `RUN_OVER_S` after
    the turn's end, so that what it said before the user spoke does not count, and neither does what ran over the end.

    Args:
        user, assistant: audible spans of each, on one time line.
        turn: the user's turn, from its first to its last audible sound.
        until_s: start of the user's next turn; speech from then on does not count.
    """
    start_s, end_s = turn
    from_s = round_s(end_s + RUN_OVER_S)
    answers = [span for span in assistant if span[0] >= start_s and span[1] > from_s and span[0] < until_s]
    own = [(max(a, start_s), min(b, until_s)) for a, b in user if b > start_s and a < until_s]
    own_s = sum(b - a for a, b in own)
    overlap_s = sum(max(0.0, min(b, d) - max(a, c)) for a, b in own for c, d in assistant)
    return Delays(
        first_sound_s=round_s(answers[0][0] - end_s) if answers else None,
        was_speaking=any(a < end_s < b for a, b in assistant),
        overlap_s=round_s(overlap_s),
        overlap_share=round(overlap_s / own_s, 4) if own_s else None,
    )


def time_words(pieces: Sequence[tuple[float, str]]) -> list[TimedWord]:
    """Returns the words of a text that arrived in pieces; a word lasts from its first piece to a frame after its last.

    Args:
        pieces: each piece with its time of arrival, in order.
    """
    words: list[TimedWord] = []
    is_between = True
    for at_s, piece in pieces:
        for part in re.findall(r"\s+|\S+", piece):
            if not part.isspace():
                begun = TimedWord("", at_s, at_s) if is_between else words.pop()
                words.append(TimedWord(begun.text + part, begun.start_s, round_s(at_s + FRAME_S)))
            is_between = part.isspace()
    return words
