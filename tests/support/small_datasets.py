"""Datasets on disk in a moment, without any stage: dialogues of a second of noise with a few words and oracles."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from data_schemas import ids
from data_schemas.arrow import to_table
from data_schemas.config.encode import EncodeConfig
from data_schemas.manifest import DATA, MANIFEST, ORACLE, DatasetCounts, ShardEntry, make_manifest
from data_schemas.reader import read_manifest_if_any
from data_schemas.records import Audio, AudioDialogue, OracleRow
from data_schemas.store import Store
from kame_model.encode.folder import LOCK
from pipelines.audio import to_flac
from tests.support.token_rows import audio_dialogue, event, oracle_row, said_turn

QUESTION = "So how many eggs?"
ANSWER = "Well, eighteen eggs."


def noisy_dialogue(
    number: int, split: str = "train", n_samples: int = 28_000, answer: str = "eighteen"
) -> AudioDialogue:
    """A question and an answer in 1.17 s of noise, other noise for each number."""
    sound = np.random.default_rng(number).normal(0, 0.1, (n_samples, 2)).astype(np.float32)
    dialogue = audio_dialogue(
        said_turn(0, "B", QUESTION, ("so", 0.1, 0.16), ("how", 0.24, 0.3), ("many", 0.34, 0.44), ("eggs", 0.52, 0.64)),
        said_turn(
            1,
            "A",
            ANSWER.replace("eighteen", answer),
            ("well", 0.74, 0.8),
            (answer, 0.9, 1.06),
            ("eggs", 1.08, 1.16),
            answer_word_index=1,
        ),
        duration_s=n_samples / 24_000,
        dialogue_id=f"mine-{number}-v0",
        item_id=f"mine-{number}",
        split=split,
    )
    return replace(dialogue, n_samples=n_samples, audio=Audio(bytes=to_flac(sound), path=f"mine-{number}-v0.flac"))


def oracles_of(dialogue: AudioDialogue, version: str, says: str = "a few eggs") -> OracleRow:
    """Makes the oracles of a dialogue: an event that was answered with `says`, one that failed, and the truth."""
    told = oracle_row(
        event(0, t_s=0.4, r=0.5, text=says),
        event(1, t_s=0.5, r=0.5, text=None, status="failed", error="no answer"),
        event(2, t_s=0.64, r=1.0, level=5, status="truth", text="eighteen eggs."),
    )
    return replace(told, dialogue_id=dialogue.dialogue_id, split=dialogue.split, oracle_version=version)


def write_dataset(
    folder: Path, shards: Sequence[Sequence[AudioDialogue]], version: str = "default", says: str = "a few eggs"
) -> Path:
    """Writes a dataset of these shards, each of one split, with oracles, and returns its folder.

    Oracles of other versions that are there already stay in the manifest.
    """
    store = Store(str(folder))
    before = read_manifest_if_any(store)
    entries = [each for each in before.select_kind(ORACLE) if each.oracle_version != version] if before else []
    for rows in shards:
        name = f"{rows[0].split}-mine-{ids.digest('shard', [row.dialogue_id for row in rows])}.parquet"
        data = store.write_table(f"data/{name}", to_table(list(rows), AudioDialogue))
        said = [oracles_of(row, version, says) for row in rows]
        oracle = store.write_table(f"oracles/{version}/{name}", to_table(said, OracleRow))
        for kind, written in ((DATA, data), (ORACLE, oracle)):
            entries.append(
                ShardEntry(
                    path=written.path,
                    kind=kind,
                    source="mine",
                    split=rows[0].split,
                    oracle_version=version if kind == ORACLE else None,
                    data_path=data.path if kind == ORACLE else None,
                    n_rows=len(rows),
                    n_bytes=written.n_bytes,
                    sha256=written.sha256,
                )
            )
    n_rows = sum(map(len, shards))
    counts = DatasetCounts(dialogues=n_rows, audio_s=1.0 * n_rows, events=3 * n_rows, rejects=0)
    store.write_bytes(MANIFEST, make_manifest(entries, counts, version).model_dump_json().encode())
    return folder


def ten_shards(n_each: int = 2) -> list[list[AudioDialogue]]:
    """Makes ten shards of `n_each` dialogues; the last shard is of the test split, and the others of training."""
    return [
        [noisy_dialogue(10 * shard + row, "test" if shard == 9 else "train") for row in range(n_each)]
        for shard in range(10)
    ]


def encode_settings(data: Path, vocabulary: str, out: str = "tokens", **fields: Any) -> EncodeConfig:
    """Configures the encoding of a dataset by the double codec, in this process, to a folder beside it."""
    values: dict[str, Any] = {"codec": "double", "workers": 1}
    return EncodeConfig(dataset=str(data), out=str(data.with_name(out)), tokenizer=vocabulary, **values | fields)


def contents(out: Path) -> dict[str, bytes]:
    """Returns the content of every file of a folder of token rows except its lock, by path."""
    files = (each for each in out.rglob("*") if each.is_file() and each.name != LOCK)
    return {str(each.relative_to(out)): each.read_bytes() for each in files}


def spoil_cut(shard: Path) -> None:
    """Removes the last 500 bytes of a file."""
    shard.write_bytes(shard.read_bytes()[:-500])


def spoil_bit(shard: Path) -> None:
    """Turns one bit in the middle of a file."""
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
