"""Second half of `kame bench`: codec and server steps on a device in one new process, training steps in another.

This way, the memory of training is not mixed with that of engines. On a CPU, times are based on processor times, which
a busy machine affects less; on a GPU they are elapsed times, in which the device waits for nobody else.
"""

import math
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Final, Self

import torch

from backends.registry import make_device_option
from data_schemas.config.model import SamplingConfig
from data_schemas.config.training import TrainConfig
from data_schemas.presets import PRESETS
from data_schemas.rates import CPU, Mfu, Rates, RatesOrigin, StepCost, StepTimes
from data_schemas.records import AudioDialogue, OracleRow
from data_schemas.store import Store
from flows.runs.plan import name_device
from flows.settings import build_train_config
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.encode.audio import StoredAudio, encode_window
from kame_model.encode.dialogue import make_token_row
from kame_model.encode.folder import TOKENIZER
from kame_model.encode.manifest import (
    MANIFEST,
    MadeWith,
    RowCounts,
    TokenFile,
    TokenShard,
    make_manifest,
    read_manifest,
)
from kame_model.encode.rows import write_codes, write_rows
from kame_model.estimate import (
    count_activation_bytes,
    count_stage,
    count_weight_bytes,
    get_peak_flops,
    name_model,
    name_training,
)
from kame_model.serve.device.engine import N_WARM_UP, FrontEndEngine
from kame_model.train.parallel import find_device
from kame_model.train.run import train
from kame_model.train.throughput import find_known_gpu
from kame_model.train.trainer import SilentProgress

N_STEPS: Final = 6
CALLERS: Final = (1, 2, 4, 8)
N_SERVED: Final = 15


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """Device on which times are measured, and the name under which its rates are stored: cpu, or a GPU's."""

    device: torch.device
    name: str

    @classmethod
    def find(cls, wanted: str) -> Self:
        """Finds the device of a setting; a GPU with a data sheet is named as there.

        Raises:
            ConfigError: there is no such device.
        """
        name = name_device(wanted)
        return cls(find_device(wanted), find_known_gpu(name) or name)

    def read_s(self) -> float:
        """Returns seconds so far: of the processor, or on a GPU elapsed ones, after waiting for its work."""
        if self.device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize(self.device)
        return time.perf_counter()


class StepClock(SilentProgress):
    """Progress callback that records, at the end of each step, the time of `target` and the elapsed time so far."""

    def __init__(self, target: MeasuredDevice) -> None:
        self._target = target
        self.marks_s: list[tuple[float, float]] = []

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Records both times at the end of a step."""
        self.marks_s.append((self._target.read_s(), time.perf_counter()))

    def compute_step_s(self) -> float:
        """Computes the mean time that a step takes on a quiet machine in seconds, without the first one.

        On a CPU it is the mean processor time, times the least share of its processor time that a step has taken by the
        clock: that of the step which other programs disturbed least. Several threads make this share less than 1.
        """
        steps = [(to[0] - since[0], to[1] - since[1]) for since, to in pairwise(self.marks_s)]
        return fmean(own_s for own_s, _ in steps) * min(elapsed_s / own_s for own_s, elapsed_s in steps)


def measure_training(
    checkpoint: str,
    dialogues: Sequence[AudioDialogue],
    oracles: Sequence[OracleRow],
    origin: RatesOrigin,
    device: str = CPU,
) -> Rates:
    """Measures the codec, training and serving with the vocabulary and codec of a trained checkpoint, in new processes.

    Args:
        device: cpu, cuda or auto.

    Raises:
        ConfigError: there is no such device.
        KameError: the checkpoint cannot be read, or has no vocabulary or codec.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), max_tasks_per_child=1
        ) as alone,  # each in a new process
    ):
        rows = list(dialogues), list(oracles)
        served = alone.submit(_measure_serving, checkpoint, *rows, origin, device, Path(folder)).result()
        trained = alone.submit(_measure_steps, Path(folder), served.steps[0].preset, device, origin).result()
    return trained.model_copy(update={"costs": [*served.costs, *trained.costs], "steps": served.steps})


def _measure_serving(
    source: str,
    dialogues: Sequence[AudioDialogue],
    oracles: Sequence[OracleRow],
    origin: RatesOrigin,
    device: str,
    folder: Path,
) -> Rates:
    """Measures the codec and a server's step, and writes the token rows for training into the folder."""
    target = MeasuredDevice.find(device)
    checkpoint = load_checkpoint(source, target.device)
    preset = checkpoint.front_end.preset
    config = make_bench_config(folder, preset, "dialogues", target)
    n_frames = N_STEPS * config.data.batch_frames * (config.optim.accumulation or 1)
    codec_cost = _write_rows(folder / "rows", checkpoint, dialogues, oracles, n_frames, target)
    step_s = {n: _measure_server_step(checkpoint, n, target) for n in CALLERS}
    return Rates(origin=origin, costs=[codec_cost], steps=[StepTimes(preset=preset, device=target.name, step_s=step_s)])


def _write_rows(
    folder: Path,
    checkpoint: Checkpoint,
    dialogues: Sequence[AudioDialogue],
    oracles: Sequence[OracleRow],
    n_frames: int,
    target: MeasuredDevice,
) -> StepCost:
    """Writes token rows of the dialogues, all of split train, and returns the cost of encoding them by the codec.

    The dialogues are repeated until they have at least `n_frames` frames.
    """
    codec, tokenizer, store = checkpoint.load_codec(str(target.device)), checkpoint.load_tokenizer(), Store(str(folder))
    where = target if make_device_option("codec", codec.name, str(target.device)) else MeasuredDevice.find(CPU)
    sounds = [StoredAudio(each.dialogue_id, each.n_samples, each.flac) for each in dialogues]
    encode_window(codec, sounds[:1])
    before_s = where.read_s()
    codes = encode_window(codec, sounds)
    taken_s = where.read_s() - before_s
    asked = {each.dialogue_id: each for each in oracles}
    pairs = zip(dialogues, codes, strict=True)
    made = [make_token_row(each, asked.get(each.dialogue_id), own, tokenizer)[0] for each, own in pairs]
    n_copies = math.ceil(n_frames / sum(row.n_frames for row in made))  # so that batches are full
    rows = [replace(row, dialogue_id=f"{row.dialogue_id}-{n}") for n in range(n_copies) for row in made]
    codes = codes * n_copies
    written = (
        write_codes(store, "codes/train.arrow", [row.dialogue_id for row in rows], codes),
        write_rows(store, "rows/train.arrow", rows, range(len(rows))),
    )
    files = [TokenFile(path=each.path, n_rows=len(rows), n_bytes=each.n_bytes, sha256=each.sha256) for each in written]
    counts = RowCounts(n_rows=len(rows), n_frames=sum(row.n_frames for row in rows))
    shard = TokenShard(
        data_path="data/train", source="bench", split="train", codes=files[0], rows=files[1], counts=counts
    )
    manifest = make_manifest([shard], MadeWith.from_codec(codec, tokenizer), "bench", "bench")
    store.write_bytes(TOKENIZER, tokenizer.path.read_bytes())
    store.write_bytes(MANIFEST, manifest.model_dump_json().encode())
    duration_s = sum(each.duration_s for each in dialogues)
    return StepCost(step="codec", engine=codec.name, device=where.name, per="duration_s", seconds=taken_s / duration_s)


def _measure_steps(folder: Path, preset: str, device: str, origin: RatesOrigin) -> Rates:
    """Trains a few steps of each stage in `folder`, and returns their rates.

    A stage on speech rows is not trained: it gets the figures of dialogues. The peak memory of this process counts as
    that of training.
    """
    target = MeasuredDevice.find(device)
    costs, mfu, rest_bytes = list[StepCost](), list[Mfu](), None
    for plan in PRESETS[preset].plan:
        if plan.main == "speech":
            continue  # needs speech rows; its steps are those of dialogues, which have as much sound
        config = make_bench_config(folder, preset, plan.name, target)
        clock = StepClock(target)
        train(config, clock)
        frame_s = clock.compute_step_s() / config.data.batch_frames / (config.optim.accumulation or 1)
        names = [name_training(config)]
        if plan.main == "dialogues":
            names.append(name_training(config).replace("/dialogues/", "/speak/"))
            by = read_manifest(Store(str(folder / "rows"))).made_with
            shape, counts = count_stage(config, by.text_card, by.layout)
            speed = make_speed(config, target.name, counts.flops / frame_s)
            costs += [speed] if isinstance(speed, StepCost) else []
            mfu += [speed] if isinstance(speed, Mfu) else []
            if target.name == CPU:
                counted = count_weight_bytes(config, shape) + count_activation_bytes(config, shape, counts)
                peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                rest_bytes = max(1.0, peak_bytes - counted)
        costs += [
            StepCost(step="train", engine=each, device=target.name, per="frame", seconds=frame_s) for each in names
        ]
    return Rates(origin=origin, costs=costs, mfu=mfu, training_bytes=rest_bytes)


def make_speed(config: TrainConfig, device: str, flops_per_s: float) -> StepCost | Mfu:
    """Makes the rate of a training's speed: on a GPU with a data sheet its model FLOPs utilisation (MFU), otherwise the
    cost of a floating-point operation.

    Args:
        device: name of the device.
        flops_per_s: floating-point operations per second that the training reached.
    """
    known = find_known_gpu(device)
    if known is None:
        return StepCost(step="flop", device=device, per="operation", seconds=1 / flops_per_s)
    return Mfu(device=known, model=name_model(config), share=flops_per_s / get_peak_flops(known, config))


def make_bench_config(folder: Path, preset: str, stage: str, target: MeasuredDevice) -> TrainConfig:
    """Builds the configuration of a few steps of a preset's stage on the token rows in `folder`/rows.

    There is no evaluation, and a checkpoint only at the end.
    """
    typed = {
        "out": str(folder / f"run-{stage}"),
        "max_steps": N_STEPS,
        "shares.speech": 0.0,
        "data.datasets": [{"path": str(folder / "rows")}],
        "data.workers": 0,
        "hardware.device": str(target.device),
        "keep.evaluate_examples": 0,
        "keep.save_every": 10**6,
        "keep.log_every": 10**6,
        "keep.tensorboard": False,
    }
    return build_train_config(preset, stage, None, typed)


def _measure_server_step(checkpoint: Checkpoint, n_callers: int, target: MeasuredDevice) -> float:
    """Returns the time of a server step for a number of sessions in seconds: the minimum, or on a GPU the median."""
    codec, tokenizer = checkpoint.load_codec(str(target.device)), checkpoint.load_tokenizer()
    sampling = checkpoint.choose_sampling(SamplingConfig())
    times_s = []
    with FrontEndEngine(checkpoint.front_end, codec, tokenizer, n_callers, sampling) as engine:
        for _ in range(N_WARM_UP + N_SERVED):
            before_s = target.read_s()
            engine.time_step(n_callers)
            times_s.append(target.read_s() - before_s)
    return min(times_s) if target.name == CPU else median(times_s[N_WARM_UP:])
