"""Measures how close an oracle is to the true answer, with confidence intervals of the means.

Word F1 is that of SQuAD (Rajpurkar et al. 2016) on spoken words, including articles: twice the words in common ÷ the
words of both. The intervals are percentile bootstraps (Efron 1979) over items, since events of one item are not
independent.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spoken.number_words import find_cardinal
from spoken.spoken_text import find_last_words, split_lower_words

Floats = NDArray[np.float64]

N_RESAMPLES = 1000
N_RESAMPLES_OF_RANKS = 200  # each sorts all events again
INTERVAL_PERCENT = (2.5, 97.5)
FEWEST_ITEMS = 10
"""With fewer items, a bootstrap's interval would be far too narrow; none is given."""

_PIECE = re.compile(r"[a-z']+|[.?!;:]|(?<!thousand)(?<!million)(?<!billion),")
_MARK = "."


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A figure with its 95% interval over items, and the number of items and events behind it.

    None if there was nothing to measure; no interval below `FEWEST_ITEMS`.
    """

    value: float | None
    low: float | None
    high: float | None
    n_items: int
    n_events: int


NOTHING = IntervalEstimate(None, None, None, 0, 0)


def compute_word_f1(text: str, truth: str) -> float:
    """Returns the F1 of two texts' words, counted with repetitions: 1 if all are the same, 0 if none is in both."""
    said, true = Counter(split_lower_words(text)), Counter(split_lower_words(truth))
    n_both = (said & true).total()
    return 2 * n_both / (said.total() + true.total()) if n_both else 0.0


def is_found(answer: str, text: str) -> bool:
    """Returns whether the text contains the answer's words in sequence; "two" is not found in "forty two".

    An answer without words is never found.
    """
    wanted = _split_words_with_marks(answer)
    return bool(wanted) and find_last_words(wanted, _split_words_with_marks(text)) is not None


def _split_words_with_marks(text: str) -> list[str]:
    """Returns the words of a text in lower case, with `_MARK` between two numbers that punctuation separates.

    "two, three" are two numbers, "thousand, two hundred" is one.
    """
    words: list[str] = []
    is_parted = False
    for piece in _PIECE.findall(text.lower()):
        if not piece[0].isalpha():
            is_parted = True
            continue
        if is_parted and words and find_cardinal(words[-1]) and find_cardinal(piece):
            words.append(_MARK)
        words.append(piece)
        is_parted = False
    return words


def estimate_mean(by_item: Sequence[Sequence[float]], seed: int) -> IntervalEstimate:
    """Estimates the mean of the items' means; items without values are left out. Returns `NOTHING` if all are."""
    there = [values for values in by_item if len(values)]
    means = np.array([np.mean(values) for values in there])
    return _estimate(there, lambda chosen: float(means[chosen].mean()), seed) if there else NOTHING


def estimate_spearman(by_item: Sequence[Sequence[tuple[float, float]]], seed: int) -> IntervalEstimate:
    """Estimates Spearman's rank correlation of the two values of all pairs.

    Returns `NOTHING` if there are no pairs, or one of the two values is constant.

    Args:
        by_item: the pairs of each item.
        seed: for the resampling by which the interval is estimated.
    """
    pairs = [np.array(values, dtype=np.float64) for values in by_item if len(values)]
    if not pairs or any(len(set(column)) < 2 for column in np.concatenate(pairs).T):
        return NOTHING
    return _estimate(
        pairs,
        lambda chosen: _compute_spearman(np.concatenate([pairs[at] for at in chosen])),
        seed,
        N_RESAMPLES_OF_RANKS,
    )


def _estimate(
    items: Sequence[Sequence[object] | Floats],
    figure: Callable[[NDArray[np.int64]], float],
    seed: int,
    n_resamples: int = N_RESAMPLES,
) -> IntervalEstimate:
    """Returns a figure of all items with its 95 % interval, by a bootstrap over items.

    With fewer than `FEWEST_ITEMS` items there is no interval.

    Args:
        items: the events of each item; here they are only counted.
        figure: computes the figure of a sample, given the indices of its items.
    """
    draw, n_items, n_events = np.random.default_rng(seed), len(items), sum(len(each) for each in items)
    value = figure(np.arange(n_items))
    if n_items < FEWEST_ITEMS:
        return IntervalEstimate(value, None, None, n_items, n_events)
    resampled = [figure(draw.integers(n_items, size=n_items)) for _ in range(n_resamples)]
    low, high = np.nanpercentile(resampled, INTERVAL_PERCENT)
    return IntervalEstimate(value, float(low), float(high), n_items, n_events)


def _compute_spearman(pairs: Floats) -> float:
    """Returns the rank correlation of pairs, [n_pairs, 2]; nan if one of the two is constant."""
    ranks = np.stack([_compute_ranks(column) for column in pairs.T])
    spread = ranks.std(axis=1)
    return float(np.asarray(np.corrcoef(ranks))[0, 1]) if spread.all() else float("nan")


def _compute_ranks(values: Floats) -> Floats:
    """Returns ranks from 1; equal values share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    shared: Floats = (last - (count - 1) / 2)[place]
    return shared
