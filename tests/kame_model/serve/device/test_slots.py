"""How the number of slots is found; what a server makes of it is in test_measured_slots.py."""

import pytest

from kame_model.serve.device.slots import find_most_that_fit


@pytest.mark.parametrize("most", [1, 2, 7, 8, 13])
def test_the_most_slots_that_fit_are_found_and_none_is_tried_twice(most: int) -> None:
    for n_fit in range(most + 1):
        tried: list[int] = []

        def fits(n_slots: int, n_fit: int = n_fit, tried: list[int] = tried) -> bool:
            tried.append(n_slots)
            return n_slots <= n_fit

        assert find_most_that_fit(fits, most) == max(1, n_fit)
        assert len(set(tried)) == len(tried) <= most.bit_length() + 1
        assert 1 not in tried
