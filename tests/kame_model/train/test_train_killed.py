from pathlib import Path

from benchmarks.kill_training import kill_many


def test_runs_killed_at_random_moments_end_with_the_same_losses_and_weights(tmp_path: Path) -> None:
    assert len(list(kill_many(tmp_path, n=2, seed=1))) == 2
