"""Calculates memory, operations and speed of training: full and with adapters, on 1, 4 and 8 GPUs.

    python -m benchmarks.memory_table [--presets small moshi-7b]

The figures are those of `kame plan` (`kame_model/estimate.py`), with each preset's recipe for dialogues; if it
recomputes activations, also without that. A row fits if a process needs at most the nominal memory of a GPU; memory of
the driver and fragmentation are not included.
"""

import argparse
from collections.abc import Iterator

from data_schemas.presets import PRESETS
from data_schemas.rates import RateBook
from flows.settings import build_train_config
from kame_model.estimate import AIMED_MFU, count_stage, estimate_memory, get_assumed_codes
from kame_model.evaluate.report.folder import format_table
from kame_model.train.throughput import PEAK_FLOPS, count_weights

LORA_RANK = 64
NUMBERS_OF_GPUS = (1, 4, 8)
SIZES_GB = {"80 GB": 80, "141 GB": 141}
"""Memory of GPUs by their product names, in units of 10^9 bytes: H100 or A100, and H200."""

HEAD = [
    *("preset", "trained", "weights", "GFLOP a frame", "GPUs", "GB each"),
    *(f"fits {name}" for name in SIZES_GB),
    f"frames/s of all H100 or H200 at an MFU of {AIMED_MFU:.0%}",
]


def list_rows(preset: str, lora_rank: int | None, recomputes: bool | None = None) -> Iterator[list[str]]:
    """Yields the rows of a preset as text, one for each number of GPUs.

    Without a rank, all weights are trained; without `recomputes`, activations are recomputed as in the recipe.
    """
    typed = {
        "data.datasets": [{"path": "to-be-made"}],
        "init_from": "weights",
        "lora.rank": lora_rank,
        "optim.accumulation": max(NUMBERS_OF_GPUS),
        "hardware.activation_checkpointing": recomputes,
    }
    config = build_train_config(preset, "dialogues", None, typed)
    model, counts = count_stage(config, *get_assumed_codes("mimi"))
    n_weights, n_trained = count_weights(model)
    what = "all" if lora_rank is None else f"LoRA {lora_rank}"
    how = ", nothing recomputed" if recomputes is False else ""
    for n_gpus in NUMBERS_OF_GPUS:
        figure = estimate_memory(config, model, counts, RateBook([]), "H200", n_gpus)
        taken_gb = (figure.value or 0.0) / 1e9
        yield [
            preset,
            f"{what}: {n_trained / 1e6:,.0f} M{how}",
            f"{n_weights / 1e6:,.0f} M",
            f"{counts.flops / 1e9:,.3g}",
            str(n_gpus),
            f"{taken_gb:,.0f}",
            *("yes" if taken_gb <= size else "does not fit" for size in SIZES_GB.values()),
            f"{n_gpus * AIMED_MFU * PEAK_FLOPS['H100'] / counts.flops:,.0f}",
        ]


def main() -> None:
    """Computes and prints the table: by preset, then all weights or adapters, then number of GPUs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["small", "moshi-7b"])
    rows: list[list[str]] = []
    for preset in parser.parse_args().presets:
        for rank in (None, LORA_RANK):
            rows += list_rows(preset, rank)
            if PRESETS[preset].settings.get("hardware", {}).get("activation_checkpointing"):
                rows += list_rows(preset, rank, recomputes=False)
    print(format_table(HEAD, rows))


if __name__ == "__main__":
    main()
