import random
import shutil
import signal
from pathlib import Path
from typing import cast

import pytest

from benchmarks.kill_training import kill, kill_many, recipe_run
from data_schemas.config.training import TrainConfig
from tests.support.train_runs import Forking, RunError, run_until_change


def test_runs_killed_at_random_moments_end_with_the_same_losses_and_weights(tmp_path: Path) -> None:
    assert len(list(kill_many(tmp_path, n=2, seed=1))) == 2


class Ending:
    """Processes whose runs end by themselves after so many moments."""

    def __init__(self, n_moments: int) -> None:
        self.n_moments, self.asked = n_moments, list[int]()

    def run(self, target: object, config: TrainConfig, moment: int) -> int:
        Path(config.out).mkdir()
        self.asked.append(moment)
        return -signal.SIGKILL if moment <= self.n_moments else 0


def test_a_run_that_ended_before_its_moment_does_not_count_as_killed(tmp_path: Path) -> None:
    forking = Ending(n_moments=3)
    config = recipe_run(tmp_path / "run", tmp_path / "rows", tmp_path / "tokenizer.model")
    moment = kill(cast(Forking, forking), config, random.Random(0), run_until_change, latest=1000)
    assert moment == forking.asked[-1] <= 3
    assert len(forking.asked) > 1
    shutil.rmtree(config.out)
    with pytest.raises(RunError, match="No run was killed"):
        kill(cast(Forking, Ending(n_moments=0)), config, random.Random(0), run_until_change, latest=1000)
