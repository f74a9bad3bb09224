"""The schedule of a turn's oracle events: when a back-end is asked, the words heard by then, and the hint level.

Ticks are t = k * interval on the dialogue's clock, inside the turn and after the end of its second word; one more event
is at the end of the turn's last word. r = words ended by t / words of the turn. Overlap with another turn changes
nothing: each turn's ticks count its own words.

| level | r         | instruction to the simulator                                      |
|-------|-----------|-------------------------------------------------------------------|
| 0     | r <= 0.5  | the conversation only                                             |
| 1     | r <= 0.65 | the true answer is a hidden hint; use only keywords of it         |
| 2     | r <= 0.8  | refer to it, and include something that differs from it           |
| 3     | r <= 0.95 | rely on it, never word for word                                   |
| 4     | r < 1     | use it                                                            |
| 5     | r = 1     | no request: the true answer itself is the oracle                  |

(KAME, arXiv 2510.02327.) Differences from the released recipe:

| subject           | released                                          | here                                         |
|-------------------|---------------------------------------------------|----------------------------------------------|
| clock of ticks    | from the dialogue's second word, either speaker's | from the second word of each turn            |
| whose turn        | the one who ended a word last                     | the turn's own, also where two speak at once |
| end of a turn     | change of speaker, or 1 s between two word ends   | end of the turn, whatever pauses it has      |
| r = 1             | repeated in the pause after; may not exist at all | exactly one event, at the last word's end    |
| level 5           | the simulator is asked as well                    | no request: it is the true answer            |
| level 4           | ends at 0.99                                      | r < 1                                        |
| the hint          | the whole next utterance                          | its body: no lead, no tail, no backchannel   |
| the user's words  | predicted in the assistant's turns, under B       | the same, if `both_directions` is on         |
| requests          | one per tick                                      | one per change of words heard, a few a turn  |
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from data_schemas.records import Turn, WordTiming
from data_schemas.units import round_s

TRUTH_LEVEL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One moment of a turn.

    `asks` is the index of the tick whose request answers this one (its own, or an earlier one of the same level); None
    at level 5, which has no request.
    """

    t_s: float
    n_words_heard: int
    n_words: int
    r: float
    level: int
    asks: int | None


def list_words(turn: Turn) -> list[WordTiming]:
    """Returns the words of a turn's speech with their times, without backchannels."""
    return [word for utterance in turn.utterances if utterance.kind == "speech" for word in utterance.words]


def find_level(r: float, bounds: Sequence[float]) -> int:
    """Returns the hint level for a share `r` of words heard; `bounds` are the greatest shares of levels 0 to 3."""
    return TRUTH_LEVEL if r >= 1 else bisect_left(bounds, r)


def make_ticks(
    words: Sequence[WordTiming], interval_s: float, bounds: Sequence[float], max_requests: int
) -> list[Tick]:
    """Returns the ticks of one turn, in order; the last one, and no other, has r = 1. A turn without words has none.

    Args:
        words: the turn's words, in order of time.
        interval_s: time between two ticks, in seconds.
        bounds: greatest shares of words heard of levels 0 to 3 (`find_level`).
        max_requests: maximum number of requests for the turn; each level that occurs has at least one.
    """
    if not words:
        return []
    ends_s = [word.end_s for word in words]
    n_words = len(words)
    heard = [(t_s, bisect_right(ends_s, t_s)) for t_s in _list_times(ends_s, interval_s)]
    moments = [(t_s, n, n / n_words) for t_s, n in heard if n < n_words] + [(ends_s[-1], n_words, 1.0)]
    levels = [find_level(r, bounds) for _, _, r in moments]
    asks = _assign_requests(levels, [n for _, n, _ in moments], max_requests)
    return [
        Tick(t_s=t_s, n_words_heard=n, n_words=n_words, r=r, level=level, asks=ask)
        for (t_s, n, r), level, ask in zip(moments, levels, asks, strict=True)
    ]


def _list_times(ends_s: Sequence[float], interval_s: float) -> list[float]:
    """Returns the multiples of the interval after the second word's end and before the last one's, rounded as stored.

    They are rounded before the comparison: 31 * 0.3 is slightly less than 9.3, and a word that ends at 9.3 s has ended
    by then.
    """
    if len(ends_s) < 3:
        return []
    first, last = math.floor(ends_s[1] / interval_s), math.ceil(ends_s[-1] / interval_s)
    times_s = [round_s(k * interval_s) for k in range(first, last + 1)]
    return [t_s for t_s in times_s if ends_s[1] < t_s < ends_s[-1]]


def _assign_requests(levels: Sequence[int], n_heard: Sequence[int], max_requests: int) -> list[int | None]:
    """Returns, for each tick, the index of the tick whose request answers it; None at level 5.

    Each level's first tick has a request, so that a later one of the level always finds an answer that knew no more
    words than it has heard itself. The remaining requests are distributed over the levels in turn, and evenly over each
    level's ticks. Ticks that heard the same words at the same level share one request.
    """
    fresh = [
        index
        for index, level in enumerate(levels)
        if level != TRUTH_LEVEL and (index == 0 or (level, n_heard[index]) != (levels[index - 1], n_heard[index - 1]))
    ]
    by_level = {level: [index for index in fresh if levels[index] == level] for level in {levels[i] for i in fresh}}
    share = _split_requests({level: len(found) for level, found in by_level.items()}, max_requests)
    asking = sorted(index for level, found in by_level.items() for index in _spread_evenly(found, share[level]))
    return [
        None if level == TRUTH_LEVEL else asking[bisect_right(asking, index) - 1] for index, level in enumerate(levels)
    ]


def _split_requests(wanted: dict[int, int], max_requests: int) -> dict[int, int]:
    """Returns the number of requests of each level: one each first, then in turn, at most as many as wanted.

    Args:
        wanted: number of ticks of each level that could have a request of their own.
    """
    shares = dict.fromkeys(wanted, 0)
    for _ in range(min(max_requests, sum(wanted.values()))):
        level = min((each for each in wanted if shares[each] < wanted[each]), key=lambda each: (shares[each], each))
        shares[level] += 1
    return shares


def _spread_evenly(indices: Sequence[int], n: int) -> list[int]:
    """Returns `n` of the indices, evenly spaced, including the first one."""
    return [indices[position * len(indices) // n] for position in range(n)]
