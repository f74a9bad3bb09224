"""Measures whether batches are ready when a step needs them, and what batching by length saves.

    python -m benchmarks.loader [--steps 20] [--dialogues 1000] [--json]

The making of a step's batches is timed beside its forward and backward pass with nano. Then the same dialogues are
batched in shuffled order ("naive") and by length ("packed"): padding of both, and frames per second of the forward and
backward pass. Last, the padding is measured with the recipe of each preset. All dialogues are random, of 15 to 40 s.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import make_parser, print_figures
from benchmarks.train_step import StockMoshi, make_benchmark_config, make_inputs
from data_schemas.config.training import TrainConfig
from data_schemas.presets import PRESETS
from kame_model.data.batch_plan import BatchPlan, PlannedExample
from kame_model.data.example import ExampleMaker
from kame_model.data.loader import RowSource
from kame_model.data.mixture import open_datasets
from kame_model.frames.batch import Batch, collate, round_length
from kame_model.train.throughput import count_frames


def batch_shuffled(
    batches: list[list[PlannedExample]], batch_frames: int, lengths: "np.ndarray[Any, Any]"
) -> list[list[PlannedExample]]:
    """Returns the dialogues of all batches in random order, cut into batches of at most `batch_frames` with padding."""
    planned = [each for batch in batches for each in batch]
    order = np.random.default_rng(0).permutation(len(planned)).tolist()
    cut: list[list[PlannedExample]] = [[]]
    longest = 0
    for place in order:
        length = int(lengths[planned[place].unit.row]) + 1
        if cut[-1] and (len(cut[-1]) + 1) * round_length(max(longest, length)) > batch_frames:
            cut.append([])
            longest = 0
        longest = max(longest, length)
        cut[-1].append(planned[place])
    return cut


def compute_padding_share(batches: list[Batch]) -> float:
    """Returns the share of input positions that are padding."""
    return 1 - sum(map(count_frames, batches)) / sum(each.oracle.numel() for each in batches)


def measure_padding(preset: str, n_rows: int) -> float:
    """Returns the share of padding in one round of a preset's micro-batches, on random dialogues."""
    with tempfile.TemporaryDirectory() as folder:
        config = make_benchmark_config(Path(folder), preset, 1, None, "cpu")
        make_inputs(config, n_rows)
        source = RowSource(open_datasets(config.data.datasets), config.data, config.seed, 1)
        batches: list[Batch] = []
        while source.observe(None)["round"] == 0:
            batches += [each.batch for each in source.load_batches(len(batches))]
    return compute_padding_share(batches)


def measure(config: TrainConfig, n_steps: int) -> dict[str, Any]:
    """Measures the padding and speed of both ways of batching, and the seconds a step of loading and measuring."""
    datasets = open_datasets(config.data.datasets)
    source = RowSource(datasets, config.data, config.seed, 1)
    source.load_batches(0)  # opens files, plans the first round
    started_s = time.perf_counter()
    for step in range(1, n_steps + 1):
        source.load_batches(step)
    loading_s = (time.perf_counter() - started_s) / n_steps
    maker, bare = ExampleMaker(datasets, config.data, config.seed), StockMoshi(config)
    pools = BatchPlan(datasets, config.data, config.seed).get_pools(0)
    started_s = time.perf_counter()
    planned = [batch for pool in pools for batch in pool.cut(maker.measure)]
    measuring_s = (time.perf_counter() - started_s) / len(planned)
    ways: dict[str, Any] = {}
    shuffled = batch_shuffled(planned, config.data.batch_frames, datasets[0].lengths)
    for name, batched in {"packed": planned, "naive": shuffled}.items():
        batches = [collate([maker.make_example(each, 0)[0] for each in batch]) for batch in batched]
        timed = batches[: max(2, n_steps // 4)]
        bare.step(timed[0])
        spent_s = [bare.step(batch) for batch in timed]
        ways[name] = {
            "padding": compute_padding_share(batches),
            "frames_per_s": sum(map(count_frames, timed)) / sum(spent_s),
            "step_s": sum(spent_s) / len(spent_s),
        }
    share = loading_s / ways["packed"]["step_s"]
    return {"loading_s": loading_s, "loading_share": share, "measuring_s": measuring_s, "ways": ways}


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dialogues", type=int, default=1_000, help="random dialogues for the padding of the presets")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = make_benchmark_config(Path(folder), "nano", 1, "fp32", "cpu")
        make_inputs(config)
        measured = measure(config, options.steps)
    measured["padding"] = {preset: measure_padding(preset, options.dialogues) for preset in PRESETS}
    print_figures(measured, options.json)


if __name__ == "__main__":
    main()
