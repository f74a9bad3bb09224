"""The losses of a short run of a tiny front-end on made-up rows, by which a change of numerics is seen.

    python -m tests.support.golden_losses > tests/golden/nano_losses.json

Its test (`tests/kame_model/train/test_train_golden.py`) compares them to a thousandth: processors round differently.
Make the file anew only for a change that is meant to change losses, and say so in the commit.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from kame_model.train.run import train
from tests.support.train_runs import tiny_dataset, tiny_run, told

COMMAND = "python -m tests.support.golden_losses > tests/golden/nano_losses.json"
PARTS = ("loss", "text", "padding", "semantic", "acoustic", "answer", "text_fed", "gradient_norm")


def golden_losses(folder: Path) -> list[dict[str, Any]]:
    """Returns the losses of each step of a run of eight steps with all randomness, and of its validation at the end.

    Args:
        folder: where its rows and the run are written.
    """
    rows = tiny_dataset(folder / "rows")
    train(tiny_run(folder / "run", rows, max_steps=8, keep={"evaluate_every": 8}))
    lines = told(folder / "run")
    training = [{name: line[name] for name in PARTS if name in line} for line in lines if line["kind"] == "train"]
    looks = [
        {column: line[column]["loss"] for column in ("right", "wrong", "none")} for line in lines if "right" in line
    ]
    return [*training, *looks]


def main() -> None:
    """Prints the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        losses = golden_losses(Path(folder))
    sys.stdout.write(json.dumps({"made_by": COMMAND, "steps": losses}, indent=1) + "\n")


if __name__ == "__main__":
    main()
