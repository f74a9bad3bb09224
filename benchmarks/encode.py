"""Compares the speed of three ways to encode dialogues to codes.

    python -m benchmarks.encode [--n 24] [--codec codec2|mimi] [--path FILE] [--device auto] [--json]

The ways: one dialogue at a time in one process; windows of dialogues, as `kame encode` passes them to a codec, in one
process; windows in one process per core. All use the same codec and audio, in turn in one run, best of three rounds,
with one thread per process on a CPU. Their codes must be equal. Without `--path`, Mimi has random weights, which take
the same time as trained ones; Codec 2 has none.
"""

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from backends import registry
from backends.codec.folder import WEIGHTS
from backends.options import OptionValue
from data_schemas.config.encode import EncodeConfig
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from kame_model.encode.sound import Encoded, Encoders, Sound
from tests.support.codecs import random_model, write_mimi

N_ROUNDS = 3
SEED = 5


def make_noise(n_dialogues: int) -> list[Sound]:
    """Makes dialogues of 12 to 56 s of noise, for which a codec takes the same time as for speech."""
    draw = np.random.default_rng(SEED)
    found = []
    for number in range(n_dialogues):
        n_samples = int(draw.uniform(12, 56) * SAMPLE_RATE_HZ)
        sink = io.BytesIO()
        soundfile.write(sink, draw.normal(0, 0.05, (n_samples, 2)), SAMPLE_RATE_HZ, format="FLAC", subtype="PCM_16")
        found.append(Sound(f"noise-{number}", n_samples, sink.getvalue()))
    return found


def group_into_windows(sounds: Sequence[Sound], window_s: float) -> list[list[Sound]]:
    """Groups audio in order into windows of at most `window_s` seconds; longer audio is a window of its own."""
    windows: list[list[Sound]] = [[]]
    for sound in sounds:
        held_s = samples_to_seconds(sum(each.n_samples for each in windows[-1]) + sound.n_samples)
        if windows[-1] and held_s > window_s:
            windows.append([])
        windows[-1].append(sound)
    return windows


@contextmanager
def open_options(codec: str, path: str | None, device: str) -> Iterator[dict[str, OptionValue]]:
    """Yields the options of a codec; if it is Mimi and has no `path`, it has random weights during the `with` block."""
    if codec == "codec2" or path is not None:
        yield {} if codec == "codec2" else {"path": str(path), "device": device}
        return
    from moshi.models import loaders

    with tempfile.TemporaryDirectory() as folder:
        kwargs: dict[str, Any] = dict(loaders._mimi_config)
        write_mimi(Path(folder), random_model(kwargs, SEED), kwargs)
        yield {"path": str(Path(folder) / WEIGHTS), "device": device}


def measure_encoding(codec_name: str, options: dict[str, OptionValue], n: int) -> dict[str, float]:
    """Encodes `n` dialogues of noise in three ways; returns the dialogues per second of each way.

    The result also has the ratios of the fastest way to the first one and to real time.

    Exits with a message if the codes of the ways differ.
    """
    codec, sounds = registry.build("codec", codec_name, options), make_noise(n)
    n_cores = os.cpu_count() or 1
    config = EncodeConfig(dataset="", out="", tokenizer="", codec=codec_name, codec_options=options, workers=1)
    with Encoders(config, codec) as one, Encoders(config.model_copy(update={"workers": n_cores}), codec) as many:
        windows = group_into_windows(
            sounds, min(config.window_s, sum(each.n_samples for each in sounds) / SAMPLE_RATE_HZ / n_cores)
        )
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
    audio_s = samples_to_seconds(sum(each.n_samples for each in sounds))
    fastest = max(best.values())
    return best | {
        "ratio to one at a time": fastest / best["one dialogue at a time"],
        "x real time": fastest * audio_s / n,
    }


def main() -> None:
    """Runs the selected benchmark and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=24, help="number of dialogues to encode")
    parser.add_argument("--codec", default="codec2", choices=["codec2", "mimi"], help="codec back-end")
    parser.add_argument("--path", help="weights file of mimi; default: random weights")
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto: cuda if available")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    with open_options(args.codec, args.path, args.device) as options:
        found = measure_encoding(args.codec, options, args.n)
    if args.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:40} {value:12.2f}")


if __name__ == "__main__":
    main()
