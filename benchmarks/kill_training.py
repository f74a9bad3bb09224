"""Kills training runs at random moments, runs them again, and compares every loss and every weight to the last bit.

    python -m benchmarks.kill_training --n 10 [--seed 0]

Half are killed after a drawn step, before it is saved; half before a drawn one of the operations that write, rename or
remove a checkpoint's files. A run may be killed again while it goes on. CPU only: there the same threads add in the
same order.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.train_runs import (
    Forking,
    RunError,
    assert_same,
    run_tiny,
    run_until_change,
    run_until_step,
    tiny_dataset,
    tiny_run,
)
from data_schemas.config.training import TrainConfig

N_CHANGES = 30
"""About as many operations on checkpoints' files as a run of six steps makes."""


def kill_many(folder: Path, n: int, seed: int = 0, n_steps: int = 6) -> Iterator[str]:
    """Kills `n` runs and tells how, each after its outcome was compared with that of a run never killed.

    Raises:
        RunError: at the first that came out otherwise.
    """
    forking, draw = Forking(), random.Random(seed)
    dataset, whole = tiny_dataset(folder / "rows"), folder / "whole"
    if forking.run(run_tiny, tiny_run(whole, dataset, max_steps=n_steps)):
        raise RunError("The run that nobody killed ended with an error, which stands above.")
    for number in range(n):
        out = folder / f"killed-{number}"
        config = tiny_run(out, dataset, max_steps=n_steps)
        target: Callable[[TrainConfig, int], None]
        if number % 2:
            moment = draw.randint(1, N_CHANGES)
            target = run_until_change
            how = f"before change {moment} of checkpoints' files"
        else:
            moment, target = draw.randint(1, n_steps), run_until_step
            how = f"after step {moment}"
        if (code := forking.run(target, config, moment)) not in (0, -signal.SIGKILL):
            raise RunError(f"A run that was to be killed {how} ended with {code}.")
        if code := forking.run(run_tiny, config):
            raise RunError(f"A run killed {how} cannot be gone on with: {code}; its error stands above.")
        assert_same(out, whole)
        shutil.rmtree(out)
        yield how


def main() -> None:
    """Kills as many runs as asked for, and ends with 1 at the first difference."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kill_training", description="Kill runs; compare losses."
    )
    parser.add_argument("--n", type=int, default=10, help="runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kame-kill-"))
    try:
        for number, how in enumerate(kill_many(folder, options.n, options.seed), start=1):
            print(f"{number:4d}  {how}: the same losses and weights", flush=True)
    except RunError as error:
        sys.exit(str(error))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
