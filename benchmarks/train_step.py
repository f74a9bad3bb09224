"""Compares whole training steps with a bare forward and backward pass of the same batches.

    python -m benchmarks.train_step [--preset nano] [--lora-rank 64] [--steps 12] [--precision fp32] [--json]
    python -m benchmarks.train_step --whole-only [--minutes 10] [--batch-frames 16000] [--rows 2000] [--json]

The bare pass is stock moshi's: `forward_text`, `forward_depformer_training`, cross-entropy, `backward`; no oracle, no
optimiser, no data. A whole step is that of `kame train`: making batches, oracle, separate losses, clipping, AdamW,
metrics. Both use the same micro-batches in turn, and the best time of each step counts. Settings are those of the
preset's recipe unless given; the bare pass has the same precision, and never recomputes activations.

`--whole-only` runs no bare pass, whose model would need memory too, and saves no checkpoint at the end unless the run
ends by `--minutes`. On several GPUs, make the inputs once, then start one process on each GPU:

    python -m benchmarks.train_step --preset moshi-7b --folder /tmp/7b --make-inputs
    torchrun --nproc-per-node 8 -m benchmarks.train_step --preset moshi-7b --folder /tmp/7b --whole-only --json

Weights are random. With `--lora-rank`, adapters are trained in both, and a checkpoint of random weights is written
first (moshi-7b: 16 GB in the temporary folder).
"""

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import torch
from moshi.models.lm import LMModel
from moshi.utils.compile import no_compile
from torch.nn import functional

from benchmarks.command import make_parser, print_figures
from data_schemas.config.training import Precision, TrainConfig
from data_schemas.rates import CPU, RateBook
from flows.settings import build_train_config
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.data.loader import RowSource
from kame_model.data.mixture import open_datasets
from kame_model.estimate import count_stage, estimate_memory
from kame_model.frames.batch import Batch
from kame_model.model.front_end import FrontEnd, build_front_end, make_lm_kwargs
from kame_model.model.lora import add_lora
from kame_model.train.parallel import find_device
from kame_model.train.run import train
from kame_model.train.throughput import count_weights, find_known_gpu, find_peak_flops
from kame_model.train.trainer import SilentProgress
from tests.support.made_rows import made_with, write_made


class MeasuredError(Exception):
    """Raised after the last step, to end the run without a checkpoint, which has 94 GB for all weights of moshi-7b."""


class Stopwatch(SilentProgress):
    """Progress callback that records the seconds of each step, and the figures.

    Args:
        last_step: `MeasuredError` is raised after this step; with None, the run ends by itself.
    """

    def __init__(self, last_step: int | None = None) -> None:
        self.seconds: list[float] = []
        self.figures: Mapping[str, float] = {}
        self.losses: list[float] = []
        self._last_step, self._began_s = last_step, 0.0

    def begin(self, step: int, max_steps: int) -> None:
        """Records the start of the first step."""
        self._began_s = time.perf_counter()

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Records the end of a step and its figures; raises a `MeasuredError` after the last step."""
        now_s = time.perf_counter()
        self.seconds.append(now_s - self._began_s)
        self._began_s = now_s
        if figures is not self.figures and "loss" in figures:
            self.losses.append(figures["loss"])
        self.figures = figures
        if step == self._last_step:
            raise MeasuredError


def make_benchmark_config(
    folder: Path,
    preset: str,
    n_steps: int,
    precision: str | None,
    device: str | None,
    lora_rank: int | None = None,
    batch_frames: int | None = None,
    minutes: float | None = None,
) -> TrainConfig:
    """Returns the configuration of a training by a preset's recipe, on inputs that `make_inputs` writes.

    Precision, device and batch_frames of None are those of the recipe; without a rank, all weights are trained; with
    `minutes`, the run has no number of steps.
    """
    typed: dict[str, Any] = {
        "out": str(folder / "run"),
        "max_steps": n_steps if minutes is None else 10**6,
        "max_hours": None if minutes is None else minutes / 60,
        "init_from": None if lora_rank is None else str(folder / "base"),
        "lora.rank": lora_rank,
        "hardware.precision": precision,
        "hardware.device": device,
        "data.datasets": [{"path": str(folder / "rows")}],
        "data.batch_frames": batch_frames,
        "optim.accumulation": int(os.environ.get("WORLD_SIZE", "1")),  # of torchrun: one micro-batch in each process
        "shares.copying": 0.0,  # made-up rows have no vocabulary
        "data.substitute_share": 0.0,
        "keep.evaluate_examples": 0,
        "keep.save_every": 10**6,
        # Also in the middle: the figures are those of the second half, without what is made ready in the first step.
        "keep.log_every": max(1, n_steps // 2) if minutes is None else max(1, min(10, int(minutes))),
        "keep.tensorboard": False,
    }
    config = build_train_config(preset, "dialogues", None, typed)
    if find_device(config.hardware.device).type == "cuda":
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"workers": 0})})  # cores are the device


def make_inputs(config: TrainConfig, n_rows: int = 64) -> None:
    """Writes random dialogues of 15 to 40 s as token rows and, if adapters are trained, random base weights."""
    is_nano = config.model.preset == "nano"
    by = made_with(text_card=1500, card=512, n_codebooks=6) if is_nano else made_with(32_000, 2048, 8)
    write_made(Path(config.data.datasets[0].path), n_rows, 1, by, n_words=(20, 50))
    if config.init_from is not None:
        front_end = build_front_end(config.model, by.text_card, by.layout, find_device(config.hardware.device))
        export_checkpoint(front_end, None, None, Path(config.init_from), TrainingFacts(), torch.bfloat16)


class StockMoshi:
    """A stock moshi model, with moshi's adapters if the run has some."""

    def __init__(self, config: TrainConfig) -> None:
        (dataset, *_) = open_datasets(config.data.datasets)
        kwargs = make_lm_kwargs(config.model, dataset.text_card, dataset.layout)
        self.device = find_device(config.hardware.device)
        self.is_mixed = config.hardware.precision == "bf16-mixed"
        self.lm = LMModel(device=self.device, dtype=torch.float32, **kwargs)
        if config.lora is not None:
            frozen_type = torch.bfloat16 if self.is_mixed else torch.float32
            add_lora(FrontEnd(self.lm, config.model.oracle, kwargs, dataset.layout), config.lora, frozen_type)

    def step(self, batch: Batch) -> float:
        """Makes a forward and backward pass, and returns its seconds."""
        batch = batch.to(self.device)
        started_s = time.perf_counter()
        with no_compile(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_mixed):
            hidden, text = self.lm.forward_text(batch.inputs)
            audio = self.lm.forward_depformer_training(batch.columns[..., 1:], hidden)
        loss = _cross_entropy(text[:, 0], batch.text_labels) + _cross_entropy(audio, batch.audio_labels)
        self.lm.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        float(loss.detach())
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started_s


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns the mean cross-entropy over all positions with a label other than -1."""
    return functional.cross_entropy(logits.float().flatten(0, -2), labels.flatten(), ignore_index=-1)


def measure_whole(config: TrainConfig) -> dict[str, Any]:
    """Runs a training; returns speed and memory of its steps, and the memory that `kame plan` computes.

    The inputs must exist. Files of the run stay in `config.out`.
    """
    watch = Stopwatch(None if config.max_hours else config.max_steps)
    with suppress(MeasuredError):
        train(config, watch)
    (dataset, *_) = open_datasets(config.data.datasets)
    model, counts = count_stage(config, dataset.text_card, dataset.layout)
    device = find_device(config.hardware.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else CPU
    n_devices = config.optim.accumulation or 1
    computed = estimate_memory(config, model, counts, RateBook([]), name, n_devices).value or 0.0
    n_weights, n_trained = count_weights(model)
    product_type = torch.bfloat16 if config.hardware.precision == "bf16-mixed" else torch.float32
    return {
        "preset": config.model.preset,
        "n_weights": n_weights,
        "n_trained": n_trained,
        "n_steps": len(watch.seconds),
        "batch_frames": config.data.batch_frames,
        "device": name,
        "n_devices": n_devices,
        "peak_flops": find_peak_flops(device, product_type),
        "peak_from": "data sheet" if find_known_gpu(name) else "measured matrix product",
        "computed_gb": computed / 1e9,
        "first_loss": watch.losses[0],
        "last_loss": watch.losses[-1],
        **{name: watch.figures[name] for name in ("frames_per_s", "tokens_per_s", "mfu", "memory_gb")},
        "hardware": config.hardware.model_dump(),
    }


def measure(config: TrainConfig, n_rounds: int = 2) -> dict[str, Any]:
    """Writes the inputs, and measures the seconds of whole and bare steps without the first, and bare / whole.

    Of each step, the best time of all rounds counts.
    """
    whole: list[list[float]] = []
    bare: list[list[float]] = []
    make_inputs(config)
    source = RowSource(open_datasets(config.data.datasets), config.data, config.seed, config.optim.accumulation or 1)
    batches = [micro.batch for step in range(config.max_steps) for micro in source.load_batches(step)]
    stock = StockMoshi(config)
    for number in range(n_rounds):
        bare.append([stock.step(batch) for batch in batches])
        watch = Stopwatch()
        result = train(config.model_copy(update={"out": f"{config.out}-{number}"}), watch)
        whole.append(watch.seconds)
    bare_s, whole_s = (sum(map(min, zip(*(each[1:] for each in rounds), strict=True))) for rounds in (bare, whole))
    speeds = {name: watch.figures[name] for name in ("frames_per_s", "tokens_per_s", "mfu")}
    sizes = {"n_weights": result.n_weights, "n_trained": result.n_trained, "n_steps": config.max_steps}
    by = {"preset": config.model.preset, "hardware": config.hardware.model_dump()}
    return {**sizes, **by, "bare_s": bare_s, "whole_s": whole_s, "ratio": bare_s / whole_s, **speeds}


def main() -> None:
    """Runs the benchmark and prints its figures; options that do not fit together end the program."""
    parser = make_parser(__doc__)
    parser.add_argument("--preset", default="nano")
    parser.add_argument("--steps", type=int, default=12, help="optimiser steps per round; the first does not count")
    parser.add_argument("--lora-rank", type=int, help="train adapters of this rank; default: train all weights")
    parser.add_argument("--precision", choices=get_args(Precision), help="default: as in the recipe")
    parser.add_argument("--device", help="cpu or cuda; default: as in the recipe")
    parser.add_argument("--batch-frames", type=int, help="frames per micro-batch; default: as in the recipe")
    parser.add_argument("--rows", type=int, default=64, help="number of random dialogues")
    parser.add_argument("--minutes", type=float, help="train for this long instead; with --whole-only")
    parser.add_argument("--whole-only", action="store_true", help="measure whole steps only, also under torchrun")
    parser.add_argument("--folder", type=Path, help="folder of the inputs and the run; default: a temporary one")
    parser.add_argument("--make-inputs", action="store_true", help="write the inputs to --folder and measure nothing")
    options = parser.parse_args()
    if options.minutes is not None and not options.whole_only:
        parser.error("--minutes needs --whole-only")
    if options.make_inputs and options.folder is None:
        parser.error("--make-inputs needs --folder")
    chosen = (options.preset, options.steps, options.precision, options.device, options.lora_rank)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        config = make_benchmark_config(folder, *chosen, options.batch_frames, options.minutes)
        if options.make_inputs or (options.whole_only and not Path(config.data.datasets[0].path).exists()):
            make_inputs(config, options.rows)
        if options.make_inputs:
            return
        measured = measure_whole(config) if options.whole_only else measure(config)
    if os.environ.get("RANK", "0") == "0":
        print_figures(measured, options.json)


if __name__ == "__main__":
    main()
