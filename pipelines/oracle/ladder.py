"""Computes the figures of a hint ladder: how close the oracles of each level are to the true answer.

Chance is what level 0's oracles have in common with the true answers of other items, shuffled within the source, and
how often those items' answers are found in them. Random oracles are such answers themselves, so there is no chance for
them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from pipelines.oracle.nearness import IntervalEstimate, estimate_mean, estimate_spearman
from pipelines.oracle.schedule import TRUTH_LEVEL

Value = TypeVar("Value")

LEVELS = range(TRUTH_LEVEL)
FORMAT = 3
"""Version of the report's JSON format; readers ignore other versions."""
FEWEST_WORDS, MOST_WORDS = 10, 30
"""The length of the paper's oracles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """Closeness of an oracle to its own true answer, and on average to those of other items (level 0 only)."""

    own: float
    chance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEvent:
    """One event that was requested; a failed one has nothing but its item and level.

    `found` is 1 if it contains the answer, else 0 (None: unknown); `similarity` is by embeddings, if requested.
    """

    item_id: str
    level: int
    f1: Closeness | None = None
    similarity: Closeness | None = None
    found: Closeness | None = None
    n_words: int = 0

    @property
    def has_its_length(self) -> bool:
        """Whether the oracle has 10 to 30 words, as those of the paper have."""
        return FEWEST_WORDS <= self.n_words <= MOST_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFigures:
    """One level of one source.

    `n_events` counts the answered events, without those that share a request, and `n_failed` all failed ones, including
    those that share one; `length_share` is the share of answers with `FEWEST_WORDS` to `MOST_WORDS` words.
    """

    n_events: int
    n_failed: int
    length_share: float | None
    word_f1: IntervalEstimate
    answer_found: IntervalEstimate
    similarity: IntervalEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTrend:
    """How one measure of closeness depends on the level: level 0 against chance, and Spearman's correlation."""

    chance: IntervalEstimate
    above_chance: IntervalEstimate
    spearman: IntervalEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """The ladder of one source; `rises` says whether the means of word F1 rise strictly from level 0 to 4."""

    n_items: int
    n_failed: int
    levels: dict[int, LevelFigures]
    word_f1: LevelTrend
    answer_found: LevelTrend
    similarity: LevelTrend
    rises: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """The writer of the oracles of some dialogues."""

    simulator: str
    endpoint: str | None
    model: str | None
    prompts: str
    n_dialogues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderReport:
    """The ladder of one version of a dataset's oracles, by source; `dataset` is the manifest's fingerprint.

    `sources` has the items' questions, `other_turns` the user's other turns, `user_words` the user's words while the
    assistant speaks (`both_directions`). `embeddings` is the model by which similarity was measured. `length_shares`
    is, by level and over all of these, the share of answers with 10 to 30 words.
    """

    format: int = FORMAT
    version: str
    dataset: str
    embeddings: str | None = None
    simulators: list[Simulator] = field(default_factory=list)
    length_shares: dict[int, float | None] = field(default_factory=dict)
    sources: dict[str, SourceFigures] = field(default_factory=dict)
    other_turns: dict[str, SourceFigures] = field(default_factory=dict)
    user_words: dict[str, SourceFigures] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return asdict(self)


def measure_source(measured: Sequence[MeasuredEvent], seed: int) -> SourceFigures:
    """Computes the figures of one source's events by level, and how they depend on the level.

    Args:
        measured: the source's events of all levels.
        seed: for the resampling by which the intervals are estimated.
    """
    levels = {level: _measure_level([each for each in measured if each.level == level], seed) for level in LEVELS}
    means = [levels[level].word_f1.value for level in LEVELS]
    return SourceFigures(
        n_items=len({each.item_id for each in measured}),
        n_failed=sum(figures.n_failed for figures in levels.values()),
        levels=levels,
        word_f1=_measure_trend([(each, each.f1) for each in measured if each.f1], seed),
        answer_found=_measure_trend([(each, each.found) for each in measured if each.found], seed),
        similarity=_measure_trend([(each, each.similarity) for each in measured if each.similarity], seed),
        rises=all(one is not None and other is not None and one < other for one, other in pairwise(means)),
    )


def measure_length_shares(measured: Sequence[MeasuredEvent]) -> dict[int, float | None]:
    """Returns, by level, the share of answers with 10 to 30 words; None for a level without answers."""
    return {level: _measure_length_share([each for each in measured if each.level == level]) for level in LEVELS}


def _measure_length_share(measured: Sequence[MeasuredEvent]) -> float | None:
    """Returns the share of answers with 10 to 30 words; None if there are no answers."""
    answered = [each.has_its_length for each in measured if each.f1]
    return sum(answered) / len(answered) if answered else None


def _measure_level(own: Sequence[MeasuredEvent], seed: int) -> LevelFigures:
    """Computes one level's figures from its events; failed events are counted and otherwise left out."""
    f1s = [(each.item_id, each.f1.own) for each in own if each.f1]
    similarities = [(each.item_id, each.similarity.own) for each in own if each.similarity]
    found_flags = [(each.item_id, each.found.own) for each in own if each.found]
    return LevelFigures(
        n_events=len(f1s),
        n_failed=len(own) - len(f1s),
        length_share=_measure_length_share(own),
        word_f1=estimate_mean(_group_by_item(f1s), seed),
        answer_found=estimate_mean(_group_by_item(found_flags), seed),
        similarity=estimate_mean(_group_by_item(similarities), seed),
    )


def _measure_trend(nears: Sequence[tuple[MeasuredEvent, Closeness]], seed: int) -> LevelTrend:
    """Estimates how one measure of closeness depends on the level, from each event with its value."""
    chances = [(each.item_id, near.own, near.chance) for each, near in nears if near.chance is not None]
    return LevelTrend(
        chance=estimate_mean(_group_by_item((item, chance) for item, _, chance in chances), seed),
        above_chance=estimate_mean(_group_by_item((item, own - chance) for item, own, chance in chances), seed),
        spearman=estimate_spearman(
            _group_by_item((each.item_id, (each.level, near.own)) for each, near in nears), seed
        ),
    )


def _group_by_item(pairs: Iterable[tuple[str, Value]]) -> list[list[Value]]:
    """Returns the values of each item as a list, in order of the items' ids; the pairs are (item, value)."""
    found: dict[str, list[Value]] = defaultdict(list)
    for item, value in pairs:
        found[item].append(value)
    return [found[item] for item in sorted(found)]
