"""Logs a warning, once, if the latency of the back-end is higher than the front-end was trained for."""

import logging
from collections import deque
from statistics import median
from typing import Final

from kame_model.checkpoint.kame_json import TrainedDelays
from kame_model.serve.session.events import SessionEvent

_LOG = logging.getLogger(__name__)

N_WATCHED: Final = 10
"""Number of oracles whose median is compared, so that one late oracle causes no warning."""


class OracleAges:
    """Measures how old oracles are when their first words arrive, which training samples as the back-end's delay.

    Args:
        trained: the delays of training; None: nothing is measured.
    """

    def __init__(self, trained: TrainedDelays | None) -> None:
        self._trained = trained
        self._newest: dict[str, int | str] = {}  # the latest oracle of each session
        self._ages_s: deque[float] = deque(maxlen=N_WATCHED)

    def observe(self, session_id: str, event: SessionEvent) -> None:
        """Records the age of each new oracle in a tandem session's events.

        The first time that the median of the last `N_WATCHED` ages is above the longest delay of training, a warning is
        logged; after that, nothing is recorded.
        """
        if event.kind == "ended":
            self._newest.pop(session_id, None)
        if self._trained is None or event.kind != "oracle" or self._newest.get(session_id) == event.data["oracle"]:
            return
        self._newest[session_id] = event.data["oracle"]
        self._ages_s.append(event.data["age_s"])
        if len(self._ages_s) == N_WATCHED and median(self._ages_s) > self._trained.max_s:
            _LOG.warning(
                "Oracles are %.2f s old when their first words come (median of %d); the front-end was trained with %g s"
                " at most, and will often answer before it knows. Take a faster chat model, or a front-end that was"
                " trained with a longer data.feed.delay.max_s.",
                median(self._ages_s),
                N_WATCHED,
                self._trained.max_s,
            )
            self._trained = None
            self._newest.clear()
