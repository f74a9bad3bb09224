"""Outcomes to figures: shares with intervals, answers that stand in the question apart, WER against the oracle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jiwer

from data_schemas.config.base import Config
from kame_model.evaluate.conditions import CONDITIONS
from kame_model.evaluate.proof import Outcome

CONFIDENCE = 0.95


class Share(Config):
    """So many of so many items, with Wilson's interval of 95%: one dialogue an item is run, so they are independent."""

    n: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share; 0 of nothing is 0."""
        return self.n / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] of {self.of}"


class ConditionFigures(Config):
    """What came of one condition.

    Attributes:
        said: the true answer was said.
        said_stranger: the answer of the dialogue whose oracle the wrong one is was said.
        said_at_last: the true answer was said after the correction; null where there was none.
        repeated: the true answer was said more often than the oracle says it, of those that said it.
        silent: nothing was said once the question was heard.
        wer: words of the answer against those of the oracle that told it; null without an oracle.
        median_delay_s: from the end of the question to the answer's first word.
        heard: a recogniser heard the true answer in the decoded sound; null where nobody listened.
    """

    condition: str
    group: str
    said: Share
    said_stranger: Share
    said_at_last: Share | None
    repeated: Share
    silent: Share
    wer: float | None
    median_delay_s: float | None
    heard: Share | None


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    holds: Callable[[Outcome], bool]


GROUPS = (
    _Group("answer not in the question", lambda each: not each.in_question),
    _Group("answer in the question", lambda each: each.in_question),
)


def figures(outcomes: Sequence[Outcome]) -> list[ConditionFigures]:
    """A line a condition and group, those without outcomes left out."""
    lines = []
    for condition in CONDITIONS:
        for group in GROUPS:
            own = [each for each in outcomes if each.condition == condition and group.holds(each)]
            if own:
                lines.append(_line(condition, group.name, own))
    return lines


def share(n: int, of: int) -> Share:
    """A share with its interval (scipy's Wilson interval)."""
    from scipy.stats import binomtest

    if of == 0:
        return Share(n=0, of=0, low=0.0, high=1.0)
    interval = binomtest(n, of).proportion_ci(CONFIDENCE, method="wilson")
    return Share(n=n, of=of, low=round(float(interval.low), 4), high=round(float(interval.high), 4))


def _line(condition: str, group: str, own: Sequence[Outcome]) -> ConditionFigures:
    corrected = [each for each in own if each.n_said_at_last is not None]
    listened = [each for each in own if each.n_heard is not None]
    sayers = [each for each in own if each.n_said]
    delays = sorted(each.delay_s for each in own if each.delay_s is not None)
    return ConditionFigures(
        condition=condition,
        group=group,
        said=share(len(sayers), len(own)),
        said_stranger=share(sum(each.n_stranger > 0 for each in own), len(own)),
        said_at_last=share(sum(bool(each.n_said_at_last) for each in corrected), len(corrected)) if corrected else None,
        repeated=share(sum(each.n_said > max(each.n_told, 1) for each in sayers), len(sayers)),
        silent=share(sum(each.delay_s is None for each in own), len(own)),
        wer=_wer(own),
        median_delay_s=delays[len(delays) // 2] if delays else None,
        heard=share(sum(bool(each.n_heard) for each in listened), len(listened)) if listened else None,
    )


def _wer(own: Sequence[Outcome]) -> float | None:
    """Over all words; what was told is the reference."""
    pairs = [(each.told.lower(), each.said) for each in own if each.told]
    if not pairs:
        return None
    told, said = zip(*pairs, strict=True)
    return round(float(jiwer.wer(list(told), list(said))), 4)
