"""How much of the batches of each preset is padding."""

import pytest

from benchmarks.loader import measure_padding

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("preset", "n_rows", "most"), [("nano", 300, 0.055), ("small", 700, 0.05), ("moshi-7b", 300, 0.05)]
)
def test_few_frames_of_a_presets_batches_are_padding(preset: str, n_rows: int, most: float) -> None:
    """`nano`, which is made for CPUs, has a little more: its lengths are multiples of 32."""
    assert 0 < measure_padding(preset, n_rows) < most
