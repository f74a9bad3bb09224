"""Computes figures with their confidence intervals for the rows of figures.json.

The 95% interval is a *bootstrap percentile* interval: items, and the seeds of a system with several, are resampled with
replacement (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). All records of an item are
resampled together, because several runs of one question are not independent. Percentiles of small samples are too
narrow, therefore:

- for few items they are widened so that a mean's interval would be Student's (Hesterberg, What Teachers Should Know
  About the Bootstrap, 2015, section 3.4);
- they are at least as wide as Student's interval of the variance over items and, if there are several, over seeds, with
  the degrees of freedom of Welch and Satterthwaite (1946), because two values carry very little information;
- a quantile has no interval if there are too few items to have some on either side of it (0.9 of fewer than 36);
- if all items agree, so does every resample: a share's interval is at least Wilson's (1927), that of a difference of
  two shares at least Newcombe's for paired shares (Statistics in Medicine 17, 1998, page 2635, method 8).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

_CONFIDENCE: Final = 0.95
_N_DRAWS: Final = 2000
TIME = "_s"
"""Suffix of measures in seconds, which also get the median and the 90th percentile."""
QUANTILES: Final = {"median": 0.5, "p90": 0.9}

_TAIL: Final = (1 - _CONFIDENCE) / 2
_Z: Final = float(ndtri(1 - _TAIL))
_MOST_RECORDS: Final = 1 << 22  # drawn at once: 32 MB of weights

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """A figure with its 95% interval.

    The figure is None without items. The interval is None with only one item, except that of a share, and for a
    quantile of too few items.
    """

    value: float | None
    low: float | None
    high: float | None


NOTHING: Final = Estimate(None, None, None)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The values of one measure, such as whether the answer was said, in R records.

    Attributes:
        part, whole: float64[R]; the figure is the sum of parts divided by the sum of wholes. A plain value has the
            whole 1; a record without the measure has 0 in both.
        unit: int64[R], index of the record's unit among all `n_units` of the row.
        seed: int64[R], index of the record's seed among `n_seeds`.
        is_share: whether all values are true or false.
    """

    part: Floats
    whole: Floats
    unit: NDArray[np.int64]
    seed: NDArray[np.int64]
    n_units: int
    n_seeds: int
    is_share: bool

    @property
    def n_asked(self) -> int:
        """Number of units that have the measure."""
        return len(np.unique(self.unit[self.whole > 0]))


def list_measures(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of all measures of these records, in order."""
    return list(dict.fromkeys(name for record in records for name in record["measures"]))


def make_sample(runs: Sequence[Sequence[Mapping[str, Any]]], name: str, units: Sequence[str] | None = None) -> Sample:
    """Collects one measure of a row's records.

    Args:
        runs: the records of each seed of a system; each has `unit` and `measures`.
        units: all units of the row, for pairing with the sample of another system; None: those of the records.
    """
    known = sorted({record["unit"] for run in runs for record in run}) if units is None else units
    number_of = {unit: number for number, unit in enumerate(known)}
    seed_records = [(seed, record) for seed, run in enumerate(runs) for record in run]
    values = [record["measures"].get(name) for _, record in seed_records]
    pairs = [_split_part_and_whole(each) for each in values]
    return Sample(
        part=np.array([part for part, _ in pairs], np.float64),
        whole=np.array([whole for _, whole in pairs], np.float64),
        unit=np.array([number_of[record["unit"]] for _, record in seed_records], np.int64),
        seed=np.array([seed for seed, _ in seed_records], np.int64),
        n_units=len(known),
        n_seeds=len(runs),
        is_share=all(each is None or isinstance(each, bool) for each in values),
    )


def compute_value(sample: Sample, quantile: float | None = None) -> float | None:
    """Computes the mean of a measure, or a quantile, rounded to four places; None without values."""
    value = _compute_statistic(sample, np.ones((1, len(sample.part))), quantile)[0]
    return None if np.isnan(value) else round(float(value), 4)


def estimate(sample: Sample, quantile: float | None = None) -> Estimate:
    """Computes the mean or a quantile with its 95% interval over items and seeds.

    The interval is not below 0 if no value is, as for times and counts, and that of a share is within 0 and 1.
    """
    value = compute_value(sample, quantile)
    if value is None:
        return NOTHING
    low, high = _compute_interval([sample], value, quantile)
    if np.all(sample.part >= 0):
        low = float(np.maximum(low, 0.0))  # which keeps NaN
    if sample.is_share and quantile is None:
        least, most = compute_wilson_interval(value, sample.n_asked)
        low, high = max(0.0, np.fmin(low, least)), min(1.0, np.fmax(high, most))
    return _round_estimate(value, low, high)


def compute_difference(one: Sample, other: Sample, quantile: float | None = None) -> Estimate:
    """Computes `one` minus `other` with its interval: items are resampled in pairs, seeds separately for each.

    It is `NOTHING` if either has no values.

    Args:
        one, other: samples of the same units, in the same order.
    """
    values = [compute_value(each, quantile) for each in (one, other)]
    if values[0] is None or values[1] is None:
        return NOTHING
    value = values[0] - values[1]
    low, high = _compute_interval([one, other], value, quantile)
    if one.is_share and other.is_share and quantile is None:
        least, most = _compute_newcombe_interval(one, other)
        low, high = max(-1.0, np.fmin(low, least)), min(1.0, np.fmax(high, most))
    return _round_estimate(value, low, high)


def average_estimates(figures: Sequence[Estimate], *, is_one_seed: bool) -> Estimate:
    """Returns the mean of figures of different items; its interval comes from their intervals (Zou and Donner, 2008).

    There is no interval if one of the figures has none.

    Args:
        figures: figures that have a value.
        is_one_seed: whether the figures are of one seed and therefore independent; over several seeds, which they
            share, they are assumed to be fully correlated, which gives the widest interval.
    """
    value, low, high = np.array(figures, np.float64).T
    below, above = (
        np.linalg.norm(each, 2 if is_one_seed else 1) / len(figures) for each in (value - low, high - value)
    )
    return _round_estimate(value.mean(), value.mean() - below, value.mean() + above)


def compute_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Computes the figures of a row of `figures.json` from its items' records.

    Returns:
        `n`, the number of items, and for each measure NAME: `NAME` (the mean, None if no item has it) and
        `NAME_interval`; `NAME_n` if fewer items have it; for times also `NAME_median` and `NAME_p90`.
    """
    n = len({record["unit"] for record in records})
    figures: dict[str, Any] = {"n": n}
    for name in list_measures(records):
        sample = make_sample([records], name)
        mean = estimate(sample)
        figures[name] = mean.value
        figures[f"{name}_interval"] = None if mean.low is None else [mean.low, mean.high]
        if sample.n_asked < n:
            figures[f"{name}_n"] = sample.n_asked
        if name.endswith(TIME):
            figures |= {f"{name}_{which}": compute_value(sample, quantile) for which, quantile in QUANTILES.items()}
    return figures


def compute_wilson_interval(value: float, n: int) -> tuple[float, float]:
    """Computes Wilson's 95% score interval of a share of n independent items."""
    middle = (value + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * (value * (1 - value) / n + _Z**2 / (4 * n**2)) ** 0.5 / (1 + _Z**2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def _compute_newcombe_interval(one: Sample, other: Sample) -> tuple[float, float]:
    """Computes Newcombe's interval of the difference of two paired shares, by his method 8."""
    of_one, of_other = _compute_unit_means(one), _compute_unit_means(other)
    both = ~np.isnan(of_one) & ~np.isnan(of_other)
    correlation = 0.0
    if both.sum() > 1 and of_one[both].std() > 0 and of_other[both].std() > 0:
        correlation = float(np.corrcoef(of_one[both], of_other[both])[0, 1])
    p, q = (float(each.part.sum() / each.whole.sum()) for each in (one, other))
    (p_low, p_high), (q_low, q_high) = (
        compute_wilson_interval(p, one.n_asked),
        compute_wilson_interval(q, other.n_asked),
    )
    return p - q - _join_bounds(p - p_low, q_high - q, correlation), p - q + _join_bounds(
        p_high - p, q - q_low, correlation
    )


def _join_bounds(one: float, other: float, correlation: float) -> float:
    """Returns the distance of a bound from the difference of two figures, by Newcombe's formula.

    Args:
        one, other: distance of each figure from its own bound.
        correlation: of the two figures.
    """
    return math.sqrt(max(0.0, one**2 - 2 * correlation * one * other + other**2))


def _compute_unit_means(sample: Sample) -> Floats:
    """Returns float64[n_units], the mean of each unit; NaN for units without the measure."""
    parts, wholes = (np.bincount(sample.unit, each, sample.n_units) for each in (sample.part, sample.whole))
    return _divide(parts.astype(np.float64), wholes.astype(np.float64))


def _compute_interval(samples: Sequence[Sample], value: float, quantile: float | None) -> tuple[float, float]:
    """Computes the interval of a sample's figure, or of the difference of two samples; NaN if there is none."""
    n_units = min(each.n_asked for each in samples)
    if n_units < 2 or (quantile is not None and max(quantile, 1 - quantile) ** n_units > _TAIL):
        return np.nan, np.nan
    low, high = _compute_percentiles(_resample_figures(samples, quantile, draws_seeds=True), n_units)
    of_items = float(np.nanvar(_resample_figures(samples, quantile, draws_seeds=False))) * n_units / (n_units - 1)
    of_seeds = [(_estimate_variance_of_seeds(each, quantile), each.n_seeds - 1) for each in samples if each.n_seeds > 1]
    variance = of_items + sum(each for each, _ in of_seeds)
    if variance == 0:
        return low, high
    freedom = variance**2 / (of_items**2 / (n_units - 1) + sum(each**2 / n for each, n in of_seeds))
    half = stdtrit(freedom, 1 - _TAIL) * math.sqrt(variance)
    return float(np.fmin(low, value - half)), float(np.fmax(high, value + half))


def _estimate_variance_of_seeds(sample: Sample, quantile: float | None) -> float:
    """Estimates the variance of the mean over seeds from the seeds' figures; 0 if fewer than two have values."""
    weights = (sample.seed == np.arange(sample.n_seeds)[:, None]).astype(np.float64)
    means = _compute_statistic(sample, weights, quantile)
    means = means[~np.isnan(means)]
    return float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0


def _resample_figures(samples: Sequence[Sample], quantile: float | None, draws_seeds: bool) -> Floats:
    """Returns float64[_N_DRAWS]: the figure (or the difference of two) for each resample of units and seeds; NaN if a
    resample has no values."""
    figures = np.empty((len(samples), _N_DRAWS))
    for number, sample in enumerate(samples):
        units, seeds = _draw_counts(sample.n_units, 0), _draw_counts(sample.n_seeds, 1 + number)
        a_chunk = max(1, _MOST_RECORDS // max(1, len(sample.part)))
        for some in (slice(at, at + a_chunk) for at in range(0, _N_DRAWS, a_chunk)):
            weights = units[some][:, sample.unit]
            if draws_seeds:
                weights = weights * seeds[some][:, sample.seed]
            figures[number, some] = _compute_statistic(sample, weights, quantile)
    drawn: Floats = figures[0] if len(samples) == 1 else figures[0] - figures[1]
    return drawn


@cache
def _draw_counts(n: int, stream: int) -> Floats:
    """Returns float64[_N_DRAWS, n]: how often each of n is drawn; all ones if n is 1.

    The same arguments give the same draws, so that systems are resampled in pairs; the array must not be changed.
    """
    if n == 1:
        return np.ones((_N_DRAWS, 1))
    drawn = np.random.default_rng((stream, n)).multinomial(n, np.full(n, 1 / n), size=_N_DRAWS)
    return drawn.astype(np.float64)


def _compute_statistic(sample: Sample, weights: Floats, quantile: float | None) -> Floats:
    """Returns float64[D] for weights float64[D, R]: the weighted mean or quantile; NaN without values.

    A quantile that lies between two values is their mean.
    """
    if quantile is None:
        return _divide(weights @ sample.part, weights @ sample.whole)
    asked = np.flatnonzero(sample.whole > 0)
    if not len(asked):
        return np.full(len(weights), np.nan)
    values = sample.part[asked] / sample.whole[asked]
    order = np.argsort(values, kind="stable")
    values, cumulated = values[order], np.cumsum(weights[:, asked[order]], axis=1)
    sought = quantile * cumulated[:, -1:]
    below, upto = (cumulated < sought - 1e-9).sum(axis=1), (cumulated <= sought + 1e-9).sum(axis=1)
    last = len(values) - 1
    found: Floats = (values[np.minimum(below, last)] + values[np.minimum(upto, last)]) / 2
    found[cumulated[:, -1] == 0] = np.nan
    return found


def _divide(parts: Floats, wholes: Floats) -> Floats:
    """Divides parts by wholes; NaN where the whole is 0."""
    shares: Floats = np.full(len(parts), np.nan)
    np.divide(parts, wholes, out=shares, where=wholes > 0)
    return shares


def _compute_percentiles(drawn: Floats, n_units: int) -> tuple[float, float]:
    """Returns the bounds of the middle 95% of the draws, widened for few units; NaN if all draws are NaN."""
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return np.nan, np.nan
    z = stdtrit(n_units - 1, 1 - _TAIL) * (n_units / (n_units - 1)) ** 0.5
    tail = 100 * ndtr(-z)
    low, high = np.percentile(drawn, (tail, 100 - tail))
    return float(low), float(high)


def _split_part_and_whole(value: Any) -> tuple[float, float]:
    """Returns a measure as (part, whole): a pair as it is, a number or truth value as (value, 1), None as (0, 0)."""
    if value is None:
        return 0.0, 0.0
    if isinstance(value, bool | int | float):
        return float(value), 1.0
    part, whole = value
    return float(part), float(whole)


def _round_estimate(value: float, low: float, high: float) -> Estimate:
    """Makes an estimate of values rounded to four places; NaN becomes None."""
    rounded = (None if np.isnan(each) else round(float(each), 4) for each in (value, low, high))
    return Estimate(*rounded)
