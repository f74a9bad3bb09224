"""How the number of slots is found; what a server makes of it is in test_server.py."""

import pytest

from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device.engine_thread import EngineOpener, most_that_fit
from tests.support.serving import serve_config


@pytest.mark.parametrize("most", [1, 2, 7, 8, 13])
def test_the_most_slots_that_fit_are_found_and_none_is_tried_twice(most: int) -> None:
    for n_fit in range(most + 1):
        tried: list[int] = []

        def fits(n_slots: int, n_fit: int = n_fit, tried: list[int] = tried) -> bool:
            tried.append(n_slots)
            return n_slots <= n_fit

        assert most_that_fit(fits, most) == max(1, n_fit)
        assert len(set(tried)) == len(tried) <= most.bit_length() + 1
        assert 1 not in tried


@pytest.mark.parametrize(
    ("max_sessions", "n_slots", "step_s", "wants"),
    [
        (0, 1, 0.020, True),  # two would take 40 ms of the 64 at most
        (0, 1, 0.040, False),
        (0, 4, 0.050, True),
        (0, 4, 0.055, False),  # five: 69 ms
        (0, 4, 0.070, True),  # not even four fit any more
        (0, 1, 0.070, False),
        (0, 8, 0.001, False),  # there are no more than eight
        (4, 4, 0.001, False),  # as configured
        (4, 4, 0.070, False),
    ],
)
def test_another_number_of_slots_is_looked_for_where_it_is_likely_to_fit_better(
    checkpoint: Checkpoint, max_sessions: int, n_slots: int, step_s: float, wants: bool
) -> None:
    opener = EngineOpener(checkpoint, serve_config(limits={"max_sessions": max_sessions}))
    assert opener.wants_another(n_slots, step_s) is wants
