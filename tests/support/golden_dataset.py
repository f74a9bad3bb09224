"""A small dataset as the present schema writes it, kept for later versions to read: tests/golden/dataset_schema_<N>.

    python -m tests.support.golden_dataset

makes that of the present `SCHEMA_VERSION`; run it when the version is raised, never for an older one.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from data_schemas.reader import DatasetReader, dump_dialogue
from data_schemas.records import SCHEMA_VERSION, Audio
from pipelines.audio import to_flac
from tests.support.small_datasets import noisy_dialogue, write_dataset

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
ROWS = "expected_rows.json"


def golden_folder(version: int) -> Path:
    """Returns the folder of the dataset that was written with a version of the schema."""
    return GOLDEN / f"dataset_schema_{version}"


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields each row of a dataset as JSON, with the size of its sound in bytes."""
    reader = DatasetReader(str(folder))
    for shard in reader.list_shards():
        for row, oracle in reader.iterate_rows(shard):
            yield {**dump_dialogue(row, oracle), "n_bytes": len(row.flac)}


def write(folder: Path) -> None:
    """Writes the dataset of two silent dialogues, and beside it what its rows hold."""
    dialogues = []
    for number, split in enumerate(("train", "validation")):
        row = noisy_dialogue(number, split)
        flac = to_flac(np.zeros((row.n_samples, 2), np.float32))
        dialogues.append([replace(row, audio=Audio(bytes=flac, path=f"{row.dialogue_id}.flac"))])
    write_dataset(folder, dialogues)
    (folder / ROWS).write_text(f"{json.dumps(list(read_rows(folder)), indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    write(golden_folder(SCHEMA_VERSION))
