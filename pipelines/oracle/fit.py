"""Warns early in a run if a model does not fit its prompts: counts unusable first answers by level."""

import logging
from collections import Counter, defaultdict

N_LOOKED_AT = 200
"""Number of requests after which the counts are checked, once per run: those of the first parts."""
FEWEST = 20
"""Minimum number of requests of a level for a share."""
HIGH_SHARE = 0.4
"""A higher share in a level causes a warning: the embedded model has 17% overall (docs/oracles.md)."""

_log = logging.getLogger(__name__)


class FirstAnswers:
    """Counts the outcome of each request's first answer, and warns if many of a level are unusable."""

    def __init__(self, model: str, prompts: str) -> None:
        self._who = f"{model} with prompts {prompts}"
        self._n_asked: Counter[int] = Counter()
        self._refused: dict[int, Counter[str]] = defaultdict(Counter)

    def note(self, attempt: int, level: int, reason: str = "") -> None:
        """Counts an answer; after `N_LOOKED_AT` first answers, it logs a warning if many of a level are unusable.

        Args:
            attempt: number of the request; only answers to attempt 0, the first one, count.
            level: the hint level of the request.
            reason: why the answer is unusable; empty if it is usable.
        """
        if attempt:
            return
        self._n_asked[level] += 1
        if reason:
            self._refused[level][reason] += 1
        if self._n_asked.total() == N_LOOKED_AT and any(self._is_high(level) for level in self._n_asked):
            _log.warning(
                "Of the first %d answers of %s many are unusable and are requested again: %s. Look at some with `kame "
                "preview`; another oracle.prompt or chat model may fit better (docs/oracles.md).",
                N_LOOKED_AT,
                self._who,
                "; ".join(self._format_level(level) for level in sorted(self._refused)),
            )

    def _is_high(self, level: int) -> bool:
        """Returns whether many answers of a level are unusable; False if the level has fewer than `FEWEST` answers."""
        n_asked = self._n_asked[level]
        return n_asked >= FEWEST and self._refused[level].total() > HIGH_SHARE * n_asked

    def _format_level(self, level: int) -> str:
        """Returns the number of a level's unusable answers, of all its answers, and of each reason, as text."""
        refused = self._refused[level]
        reasons = ", ".join(f"{reason} {n}" for reason, n in refused.most_common())
        return f"level {level} {refused.total()} of {self._n_asked[level]} ({reasons})"
