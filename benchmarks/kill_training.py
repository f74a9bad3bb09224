"""Kills training runs at random moments, runs them again, and compares every loss and every weight to the last bit.

    python -m benchmarks.kill_training --n 10 [--seed 0]

Half are killed after a drawn step, before it is saved; half before a drawn one of the operations that write, rename or
remove a checkpoint's files. Each has all that `nano`'s recipe has: swaps, corrections, answers of other words, steps of
copying; two of four make their batches in a process of their own. CPU only: there the same threads add in the same
order.
"""

import argparse
import random
import shutil
import signal
import string
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from data_schemas.config.training import TrainConfig
from kame_model.text.tokenizer import Tokenizer
from kame_model.text.training import train_tokenizer
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

Target = Callable[[TrainConfig, int], None]
"""A run that is killed at its n-th step or change."""

N_STEPS = 6
"""Steps of a run; the third and the last are of copying."""

N_CHANGES = 30
"""About as many operations on checkpoints' files as such a run makes."""


def recipe_run(out: Path, dataset: Path, vocabulary: Path, workers: int = 0) -> TrainConfig:
    """A tiny run that copies in a share of its steps, and gives a share of answers other words."""
    return tiny_run(
        out,
        dataset,
        max_steps=N_STEPS,
        tokenizer=str(vocabulary),
        shares={"dialogues": 0.66, "copying": 0.34},
        data={"substitute_share": 0.5, "workers": workers},
        copying={"batch_size": 2, "max_frames": 100},
    )


def kill(forking: Forking, config: TrainConfig, draw: random.Random, target: Target, latest: int) -> int:
    """Kills a run at a moment drawn up to the latest, and tells which.

    A run that ends before its moment was never killed: it is removed, and an earlier moment is drawn.

    Raises:
        RunError: it ended with an error, or is never killed.
    """
    while latest:
        moment = draw.randint(1, latest)
        code = forking.run(target, config, moment)
        if code == -signal.SIGKILL:
            return moment
        if code:
            raise RunError(f"A run that was to be killed at moment {moment} of {target.__name__} ended with {code}.")
        shutil.rmtree(config.out)
        latest = moment - 1
    raise RunError(f"No run was killed, whatever its moment of {target.__name__}.")


def kill_many(folder: Path, n: int, seed: int = 0) -> Iterator[str]:
    """Kills `n` runs and tells how, each after its outcome was compared with that of a run never killed.

    Raises:
        RunError: at the first that came out otherwise.
    """
    forking, draw = Forking(), random.Random(seed)
    tokenizer = made_up_vocabulary(folder / "tokenizer.model")
    dataset = tiny_dataset(folder / "rows", text_card=tokenizer.text_card, tokenizer_digest=tokenizer.digest)
    whole = folder / "whole"
    if forking.run(run_tiny, recipe_run(whole, dataset, tokenizer.path)):
        raise RunError("The run that nobody killed ended with an error, which stands above.")
    for number in range(n):
        out = folder / f"killed-{number}"
        config = recipe_run(out, dataset, tokenizer.path, workers=number // 2 % 2)
        if number % 2:
            how = f"before change {kill(forking, config, draw, run_until_change, N_CHANGES)} of checkpoints' files"
        else:
            how = f"after step {kill(forking, config, draw, run_until_step, N_STEPS)}"
        how += ", with a worker" if config.data.workers else ""
        if code := forking.run(run_tiny, config):
            raise RunError(f"A run killed {how} cannot be gone on with: {code}; its error stands above.")
        assert_same(out, whole)
        shutil.rmtree(out)
        yield how


def made_up_vocabulary(path: Path) -> Tokenizer:
    """Pieces that begin words, and pieces that go on with them, of random letters."""
    draw = random.Random(0)
    words = ("".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 7))) for _ in range(300))
    return train_tokenizer(words, 200, path).tokenizer


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
