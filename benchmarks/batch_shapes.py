"""Compares training steps on batches of any length with batches that are padded to multiples, by the size of a step.

    python -m benchmarks.batch_shapes [--frames 4000 1024] [--seconds 20] [--json]

The model is `nano` with random weights, the steps are forward, backward and AdamW in bf16 on random tokens, and the
lengths of the batches are drawn between 80 and 400 frames; padding does not count as frames. oneDNN compiles each
matrix product of a new shape and keeps a limited number of them, so the comparison also has a cache of 4 instead of the
default of 1,024. Every combination is a process of its own with one thread, and all take turns twice, of which the
faster counts.
"""

import os
import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any, Final
from unittest import mock

import torch

from backends.codec.codec2 import TEXT_LEAD
from benchmarks.command import make_parser, print_figures
from data_schemas.code_layout import CodeLayout
from data_schemas.config.training import LENGTH_MULTIPLE
from data_schemas.presets import PRESETS
from kame_model.frames.batch import round_length
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import build_front_end

_CACHE: Final = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_TEXT_CARD, _CARD, _N_CODEBOOKS = 1_500, 512, 6


def measure_speed(n_frames: int, multiple: int, seconds: float) -> float:
    """Runs training steps for a while, and returns their median frames per second, without the first three steps.

    Args:
        n_frames: approximate number of frames of a step.
        multiple: lengths are rounded up to a multiple of it.
        seconds: duration of the measurement; at least eight steps are made.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    draw, speeds = random.Random(0), list[float]()
    layout = CodeLayout.make_parametric([_CARD] * _N_CODEBOOKS, TEXT_LEAD, 0.4)
    model = build_front_end(PRESETS["nano"].model, _TEXT_CARD, layout)
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    until_s = time.perf_counter() + seconds
    while len(speeds) < 8 or time.perf_counter() < until_s:
        length = draw.randint(80, 400)
        padded = round_length(length, multiple)
        n_rows = max(1, n_frames // padded)
        columns = torch.randint(0, _CARD, (n_rows, 1 + 2 * _N_CODEBOOKS, padded + 1))
        oracle = torch.full((n_rows, padded), PADDING_ID)
        started_s = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(columns, oracle)
        assert logits.audio is not None
        loss = logits.text.float().logsumexp(-1).mean() + logits.audio.float().logsumexp(-1).mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        speeds.append(n_rows * length / (time.perf_counter() - started_s))
    return statistics.median_high(speeds[3:])


def compare(n_frames: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Measures each combination of frames, multiple and cache twice; returns a row for each with the better speed."""
    combinations = list(product(n_frames, (1, LENGTH_MULTIPLE), (4, 1_024)))
    runs = [[_measure_in_process(*each, seconds) for each in combinations] for _ in range(2)]
    return [
        {"frames": frames, "multiple": multiple, "cache": cache, "frames_per_s": max(speeds)}
        for (frames, multiple, cache), *speeds in zip(combinations, *runs, strict=True)
    ]


def _measure_in_process(n_frames: int, multiple: int, cache: int, seconds: float) -> float:
    """Returns the result of `measure_speed` in another process, because oneDNN reads its cache size only once."""
    variables = {_CACHE: str(cache), "OMP_NUM_THREADS": "1"}
    with mock.patch.dict(os.environ, variables), ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(measure_speed, n_frames, multiple, seconds).result()


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=int, nargs="+", default=[4_000, 1_024], help="frames of a step")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of a measurement; each is made twice")
    options = parser.parse_args()
    print_figures({"speeds": compare(options.frames, options.seconds)}, options.json)


if __name__ == "__main__":
    main()
