"""How near an oracle is to the true answer, and what a mean of such figures is worth.

Word F1 is that of SQuAD (Rajpurkar et al. 2016) on spoken words, articles and all: twice the words in common ÷ the
words of both. The intervals are percentile bootstraps (Efron 1979) over items: events of one item are not independent.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.script.spoken import spoken_words

Floats = NDArray[np.float64]

N_RESAMPLES = 1000
N_RESAMPLES_OF_RANKS = 200  # each sorts all events anew
INTERVAL_PERCENT = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95% interval over items; nulls where nothing was there to measure. One item has no interval."""

    value: float | None
    low: float | None
    high: float | None


NOTHING = Estimate(None, None, None)


def words_of_text(text: str) -> list[str]:
    """Its spoken words in lower case."""
    return [word.lower() for word in spoken_words(text)]


def word_f1(text: str, truth: str) -> float:
    """Words in common, each as often as in both: 1 for the same words, 0 for none."""
    said, true = Counter(words_of_text(text)), Counter(words_of_text(truth))
    n_both = (said & true).total()
    return 2 * n_both / (said.total() + true.total()) if n_both else 0.0


def is_found(answer: str, text: str) -> bool:
    """Whether the answer's words stand in the text in a row."""
    wanted, said = words_of_text(answer), words_of_text(text)
    starts = range(len(said) - len(wanted) + 1)
    return bool(wanted) and any(said[at : at + len(wanted)] == wanted for at in starts)


def mean_over_items(by_item: Sequence[Sequence[float]], seed: int) -> Estimate:
    """The mean of the items' means."""
    means = np.array([np.mean(values) for values in by_item if len(values)])
    return _estimate(means, lambda chosen: float(means[chosen].mean()), seed) if len(means) else NOTHING


def spearman_over_items(by_item: Sequence[Sequence[tuple[float, float]]], seed: int) -> Estimate:
    """Spearman's rank correlation of pairs, given item by item; nothing where one of the two never changes."""
    pairs = [np.array(values, dtype=np.float64) for values in by_item if len(values)]
    if not pairs or any(len(set(column)) < 2 for column in np.concatenate(pairs).T):
        return NOTHING
    return _estimate(
        pairs, lambda chosen: _spearman(np.concatenate([pairs[at] for at in chosen])), seed, N_RESAMPLES_OF_RANKS
    )


def _estimate(
    items: Sequence[object] | Floats,
    figure: Callable[[NDArray[np.int64]], float],
    seed: int,
    n_resamples: int = N_RESAMPLES,
) -> Estimate:
    """A figure of all items, and its spread when items are drawn with replacement."""
    draw, n_items = np.random.default_rng(seed), len(items)
    if n_items < 2:
        return Estimate(figure(np.arange(n_items)), None, None)
    resampled = [figure(draw.integers(n_items, size=n_items)) for _ in range(n_resamples)]
    low, high = np.nanpercentile(resampled, INTERVAL_PERCENT)
    return Estimate(figure(np.arange(n_items)), float(low), float(high))


def _spearman(pairs: Floats) -> float:
    ranks = np.stack([_ranks(column) for column in pairs.T])
    spread = ranks.std(axis=1)
    return float(np.asarray(np.corrcoef(ranks))[0, 1]) if spread.all() else float("nan")


def _ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    shared: Floats = (last - (count - 1) / 2)[place]
    return shared
