"""The table of docs/training_large.md is what `benchmarks.memory_table` computes."""

import pytest

from tests.support.benchmark_runs import ROOT, run_benchmark

TOLD = (ROOT / "docs" / "training_large.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "preset",
    [pytest.param("small", marks=pytest.mark.full), pytest.param("moshi-7b", marks=pytest.mark.slow)],
)
def test_the_page_has_the_rows_that_are_computed(preset: str) -> None:
    computed = run_benchmark("memory_table", "--presets", preset).splitlines()
    assert [line for line in computed if line not in TOLD] == []
    assert len([line for line in computed if line.startswith(f"| {preset} |")]) == 6


@pytest.mark.full
def test_what_does_not_fit_is_told() -> None:
    (head,) = [line.strip("| ").split(" | ") for line in TOLD if line.startswith("| preset |")]
    alone = [line for line in TOLD if line.startswith("| moshi-7b | all") and " | 1 | " in line]
    (row,) = [line.strip("| ").split(" | ") for line in alone]
    by = dict(zip(head, row, strict=True))
    assert int(by["GB each"]) > 141
    assert (by["fits 80 GB"], by["fits 141 GB"]) == ("does not fit", "does not fit")
