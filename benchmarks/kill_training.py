"""Kills training runs at random moments, runs them again, and compares every loss and every weight to the last bit.

    python -m benchmarks.kill_training --n 10 [--seed 0]

Half are killed after a random step, before it is saved; half before a random operation that writes, renames or deletes
a checkpoint's files. Each uses all of `nano`'s recipe: swaps, corrections, answers of other words, copying steps; two
of four make their batches in another process. CPU only, where the same threads add in the same order.
"""

import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.command import make_parser, print_figures
from data_schemas.config.training import TrainConfig
from tests.support.train_runs import (
    Forking,
    RunError,
    assert_same,
    run_tiny,
    run_until_change,
    run_until_step,
    tiny_dataset,
    tiny_run,
)
from tests.support.vocabularies import make_vocabulary

Target = Callable[[TrainConfig, int], None]
"""A training that is killed at its n-th step or file operation."""
N_STEPS = 6
"""Number of steps of a run; the third and the last copy."""
N_CHANGES = 30
"""Approximate number of file operations on checkpoints of such a run."""


def make_recipe_run(out: Path, dataset: Path, vocabulary: Path, workers: int = 0) -> TrainConfig:
    """Returns the configuration of a tiny training in which some steps copy and some answers have other words."""
    shares, copying = {"dialogues": 0.66, "copying": 0.34}, {"batch_size": 2, "max_frames": 100}
    data = {"substitute_share": 0.5, "workers": workers}
    settings = {"tokenizer": str(vocabulary), "shares": shares, "data": data, "copying": copying}
    return tiny_run(out, dataset, max_steps=N_STEPS, **settings)


def kill(forking: Forking, config: TrainConfig, draw: random.Random, run: Target, latest: int) -> int:
    """Kills a run at a moment drawn from 1 to `latest`, and returns that moment.

    A run that ends before its moment is deleted, and an earlier moment is drawn.

    Raises:
        RunError: it ended with an error, or could not be killed.
    """
    while latest:
        moment = draw.randint(1, latest)
        code = forking.run(run, config, moment)
        if code == -signal.SIGKILL:
            return moment
        if code:
            raise RunError(f"A run that was to be killed at moment {moment} of {run.__name__} ended with {code}.")
        shutil.rmtree(config.out)
        latest = moment - 1
    raise RunError(f"No run was killed, whatever its moment of {run.__name__}.")


def kill_many(folder: Path, n: int, seed: int) -> Iterator[str]:
    """Kills `n` trainings and resumes them; yields how each was killed, after checking its result.

    Raises:
        RunError: at the first run whose result is not that of an uninterrupted run.
    """
    forking, draw, tokenizer = Forking(), random.Random(seed), make_vocabulary(folder)
    dataset = tiny_dataset(folder / "rows", text_card=tokenizer.text_card, tokenizer_digest=tokenizer.digest)
    whole = folder / "whole"
    if forking.run(run_tiny, make_recipe_run(whole, dataset, tokenizer.path)):
        raise RunError("The run that nobody killed ended with an error, which is above.")
    for number in range(n):
        out = folder / f"killed-{number}"
        config = make_recipe_run(out, dataset, tokenizer.path, workers=number // 2 % 2)
        if number % 2:
            how = f"before change {kill(forking, config, draw, run_until_change, N_CHANGES)} of checkpoints' files"
        else:
            how = f"after step {kill(forking, config, draw, run_until_step, N_STEPS)}"
        how += ", with a worker" if config.data.workers else ""
        if code := forking.run(run_tiny, config):
            raise RunError(f"A run killed {how} cannot be resumed: {code}; its error is above.")
        assert_same(out, whole)
        shutil.rmtree(out)
        yield how


def main() -> None:
    """Kills runs; exit code 1 at the first difference, whose files are not deleted."""
    parser = make_parser(__doc__)
    parser.add_argument("--n", type=int, default=10, help="number of runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kame-kill-"))
    try:
        print_figures(
            {"the same losses and weights, killed": list(kill_many(folder, options.n, options.seed))}, options.json
        )
    except RunError as error:
        sys.exit(str(error))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
