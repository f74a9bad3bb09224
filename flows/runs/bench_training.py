"""Second half of `kame bench`: codec, training steps and a server's step, in another process.

This way, their memory is not mixed with that of the engines in the first half.
"""

import math
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import torch

from data_schemas.config.model import SamplingConfig
from data_schemas.config.training import TrainConfig
from data_schemas.presets import PRESETS
from data_schemas.rates import Cost, Origin, Rates, StepTimes
from data_schemas.records import AudioDialogue, OracleRow
from data_schemas.store import Store
from flows.settings import build_train_config
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.encode.dialogue import make_token_row
from kame_model.encode.folder import TOKENIZER
from kame_model.encode.manifest import MANIFEST, Counts, MadeWith, TokenFile, TokenShard, make_manifest, read_manifest
from kame_model.encode.rows import write_codes, write_rows
from kame_model.encode.sound import Sound, encode_window
from kame_model.estimate import count_activation_bytes, count_stage, count_weight_bytes, name_training
from kame_model.serve.device.engine import Engine
from kame_model.train.run import train
from kame_model.train.trainer import Silent

N_STEPS: Final = 6
CALLERS: Final = (1, 2, 4, 8)
N_SERVED: Final = 15


class Clock(Silent):
    """Progress callback that records the processor time so far at the end of each step."""

    def __init__(self) -> None:
        self.marks_s: list[float] = []

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Records the processor time at the end of a step."""
        self.marks_s.append(time.process_time())

    def compute_step_s(self) -> float:
        """Computes the mean processor time of a step in seconds, without the first one."""
        return (self.marks_s[-1] - self.marks_s[0]) / (len(self.marks_s) - 1)


def measure_training(
    checkpoint: str, dialogues: Sequence[AudioDialogue], oracles: Sequence[OracleRow], origin: Origin
) -> Rates:
    """Measures the codec, training and serving with the vocabulary and codec of a trained checkpoint, in a new process.

    Raises:
        KameError: the checkpoint cannot be read, or has no vocabulary or codec.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(_measure, checkpoint, list(dialogues), list(oracles), origin).result()


def _measure(source: str, dialogues: Sequence[AudioDialogue], oracles: Sequence[OracleRow], origin: Origin) -> Rates:
    """Measures what `measure_training` returns, in this process, whose memory is measured as well."""
    checkpoint = load_checkpoint(source)
    with tempfile.TemporaryDirectory() as folder:
        preset = checkpoint.front_end.preset
        n_frames = N_STEPS * make_bench_config(Path(folder), preset, "dialogues").data.batch_frames
        codec_cost = _write_rows(Path(folder) / "rows", checkpoint, dialogues, oracles, n_frames)
        costs, rest_bytes = _measure_steps(Path(folder), preset)
    step_s = {n: _measure_server_step(checkpoint, n) for n in CALLERS}
    steps = [StepTimes(preset=preset, step_s=step_s)]
    return Rates(origin=origin, costs=[codec_cost, *costs], steps=steps, training_bytes=max(1.0, rest_bytes))


def _write_rows(
    folder: Path,
    checkpoint: Checkpoint,
    dialogues: Sequence[AudioDialogue],
    oracles: Sequence[OracleRow],
    n_frames: int,
) -> Cost:
    """Writes token rows of the dialogues, all of split train, and returns the cost of encoding them by the codec.

    The dialogues are repeated until they have at least `n_frames` frames.
    """
    codec, tokenizer, store = checkpoint.codec(), checkpoint.tokenizer(), Store(str(folder))
    sounds = [Sound(each.dialogue_id, each.n_samples, each.flac) for each in dialogues]
    encode_window(codec, sounds[:1])
    before_s = time.process_time()
    codes = encode_window(codec, sounds)
    taken_s = time.process_time() - before_s
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
    counts = Counts(n_rows=len(rows), n_frames=sum(row.n_frames for row in rows))
    shard = TokenShard(
        data_path="data/train", source="bench", split="train", codes=files[0], rows=files[1], counts=counts
    )
    manifest = make_manifest([shard], MadeWith.from_codec(codec, tokenizer), "bench", "bench")
    store.write_bytes(TOKENIZER, tokenizer.path.read_bytes())
    store.write_bytes(MANIFEST, manifest.model_dump_json().encode())
    duration_s = sum(each.duration_s for each in dialogues)
    return Cost(step="codec", engine=codec.name, per="duration_s", seconds=taken_s / duration_s)


def _measure_steps(folder: Path, preset: str) -> tuple[list[Cost], float]:
    """Trains a few steps of each stage but those on speech rows, for which the figures of dialogues are used.

    Returns:
        The costs in processor seconds of a thread, per frame of each kind of training and per floating-point operation;
        and the peak memory of the process in bytes without weights and activations.
    """
    costs, counted = [], 0.0
    for plan in PRESETS[preset].plan:
        if plan.main == "speech":
            continue  # needs speech rows; its steps are those of dialogues, which have as much sound
        config = make_bench_config(folder, preset, plan.name)
        clock = Clock()
        train(config, clock)
        frame_s = clock.compute_step_s() / torch.get_num_threads() / config.data.batch_frames
        costs.append(Cost(step="train", engine=name_training(config), per="frame", seconds=frame_s))
        if plan.main == "dialogues":
            like = name_training(config).replace("/dialogues/", "/speak/")
            costs.append(Cost(step="train", engine=like, per="frame", seconds=frame_s))
            by = read_manifest(Store(str(folder / "rows"))).made_with
            shape, counts = count_stage(config, by.text_card, by.layout)
            costs.append(Cost(step="flop", per="operation", seconds=frame_s / counts.flops))
            counted = count_weight_bytes(config, shape) + count_activation_bytes(config, shape, counts)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return costs, peak_bytes - counted


def make_bench_config(folder: Path, preset: str, stage: str) -> TrainConfig:
    """Builds the configuration of a few steps of a preset's stage, without evaluation and checkpoints."""
    typed = {
        "out": str(folder / f"run-{stage}"),
        "max_steps": N_STEPS,
        "shares.speech": 0.0,
        "data.datasets": [{"path": str(folder / "rows")}],
        "data.workers": 0,
        "hardware.device": "cpu",
        "keep.evaluate_examples": 0,
        "keep.save_every": 10**6,
        "keep.log_every": 10**6,
        "keep.tensorboard": False,
    }
    return build_train_config(preset, stage, None, typed)


def _measure_server_step(checkpoint: Checkpoint, n_callers: int) -> float:
    """Returns the minimum processor time of a server step for a number of sessions, in seconds."""
    codec, tokenizer = checkpoint.codec(), checkpoint.tokenizer()
    sampling = checkpoint.sampling(SamplingConfig())
    times_s = []
    with Engine(checkpoint.front_end, codec, tokenizer, n_callers, sampling) as engine:
        for _ in range(N_SERVED):
            before_s = time.process_time()
            engine.time_step(n_callers)
            times_s.append(time.process_time() - before_s)
    return min(times_s)
