"""The table of docs/training_large.md is what `benchmarks.memory_table` computes."""

import pytest

from tests.support.benchmark_runs import ROOT, run_benchmark

TOLD = (ROOT / "docs" / "training_large.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("preset", "n_rows"),
    [pytest.param("small", 6, marks=pytest.mark.full), pytest.param("moshi-7b", 12, marks=pytest.mark.slow)],
)
def test_the_page_has_the_rows_that_are_computed(preset: str, n_rows: int) -> None:
    computed = run_benchmark("memory_table", "--presets", preset).splitlines()
    assert [line for line in computed if line not in TOLD] == []
    assert len([line for line in computed if line.startswith(f"| {preset} |")]) == n_rows
