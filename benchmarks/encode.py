"""Compares the speed of three ways to encode dialogues to codes.

    python -m benchmarks.encode [--n 24] [--codec codec2|mimi] [--json]

The ways: one dialogue at a time in one process; windows of dialogues, as `kame encode` passes them to a codec, in one
process; windows in one process per core. All use the same codec and audio, in turn in one run, best of three rounds,
with one thread per process on a CPU; Mimi runs on the GPU if there is one. Their codes must be equal. Mimi has random
weights, which take the same time as trained ones; Codec 2 has none.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from moshi.models import loaders

from backends import registry
from backends.codec.folder import WEIGHTS
from backends.options import OptionValue
from benchmarks.command import make_parser, print_figures
from data_schemas.config.encode import EncodeConfig
from data_schemas.manifest import DATA, ShardEntry
from data_schemas.reader import read_manifest
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from kame_model.encode.audio import Encoded, Encoders, read_windows
from tests.support.codecs import random_model, write_mimi
from tests.support.small_datasets import noisy_dialogue, write_dataset

N_ROUNDS = 3
SEED = 5


def write_noise(folder: Path, n_dialogues: int) -> tuple[Store, ShardEntry]:
    """Writes a shard of dialogues of 12 to 56 s of noise, for which a codec takes the same time as for speech."""
    n_samples = (np.random.default_rng(SEED).uniform(12, 56, n_dialogues) * SAMPLE_RATE_HZ).astype(int)
    write_dataset(folder, [[noisy_dialogue(number, n_samples=int(n)) for number, n in enumerate(n_samples)]])
    store = Store(str(folder))
    (entry,) = read_manifest(store).select_kind(DATA)
    return store, entry


def measure_encoding(folder: Path, codec_name: str, options: dict[str, OptionValue], n: int) -> dict[str, float]:
    """Encodes `n` dialogues of noise, which it writes, in three ways; returns the dialogues per second of each way.

    The result also has the ratios of the fastest way to the first one and to real time. Exits with a message if the
    codes of the ways differ.
    """
    codec, n_cores = registry.build("codec", codec_name, options), os.cpu_count() or 1
    store, entry = write_noise(folder / "noise", n)
    sounds = [sound for window in read_windows(store, entry, 0.0) for sound in window]
    audio_s = samples_to_seconds(sum(each.n_samples for each in sounds))
    config = EncodeConfig(dataset="", out="", tokenizer="", codec=codec_name, codec_options=options, workers=1)
    with Encoders(config, codec) as one, Encoders(config.model_copy(update={"workers": n_cores}), codec) as many:
        windows = list(read_windows(store, entry, min(config.window_s, audio_s / n_cores)))
        ways: dict[str, Callable[[], Iterator[Encoded]]] = {
            "one dialogue at a time": lambda: one.encode([each] for each in sounds),
            "windows, one process": lambda: one.encode(windows),
            f"windows, {n_cores} processes": lambda: many.encode(windows),
        }
        best = dict.fromkeys(ways, 0.0)
        codes: dict[str, list[bytes]] = {}
        for number in range(N_ROUNDS + 1):
            for name, way in ways.items():
                started_s = time.monotonic()
                codes[name] = [voice.tobytes() for window in way() for pair in window for voice in pair]
                if number:  # the first round loads models and libraries
                    best[name] = max(best[name], n / (time.monotonic() - started_s))
        if len({tuple(each) for each in codes.values()}) != 1:
            raise SystemExit("The three ways gave different codes.")
    fastest = max(best.values())
    ratios = {"ratio to one at a time": fastest / best["one dialogue at a time"], "x real time": fastest * audio_s / n}
    return best | ratios


def main() -> None:
    """Runs the selected benchmark and prints its figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--n", type=int, default=24, help="number of dialogues to encode")
    parser.add_argument("--codec", default="codec2", choices=["codec2", "mimi"], help="codec back-end")
    args = parser.parse_args()
    codec_options: dict[str, OptionValue] = {}
    with tempfile.TemporaryDirectory() as folder:
        if args.codec == "mimi":
            kwargs = dict(loaders._mimi_config)
            write_mimi(Path(folder) / "codec", random_model(kwargs, SEED), kwargs)
            codec_options = {"path": str(Path(folder) / "codec" / WEIGHTS), "device": "auto"}
        print_figures(measure_encoding(Path(folder), args.codec, codec_options, args.n), args.json)


if __name__ == "__main__":
    main()
