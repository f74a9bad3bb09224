"""Folders that hold just what the oracle report reads: dialogues without sound, and oracles by a scripted model."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from data_schemas.arrow import to_table
from data_schemas.config import OracleConfig
from data_schemas.manifest import MANIFEST, DatasetCounts, ShardEntry, make_manifest
from data_schemas.records import AudioDialogue, Dialogue, OracleRow, Quality, Surroundings
from data_schemas.store import Store
from pipelines.asking import run_alone
from tests.support.oracle_dialogues import Scripted, batch_of, opened, oracle_stage


def silent(dialogue: Dialogue) -> AudioDialogue:
    """Converts a dialogue to a row of a dataset without sound."""
    own = {each.name: getattr(dialogue, each.name) for each in fields(Dialogue)}
    unknown = dict.fromkeys(("wer", "number_recall", "name_recall"))
    quality = Quality(rms_dbfs_a=-20.0, rms_dbfs_b=-20.0, peak_dbfs=-3.0, mean_word_score=0.0, **unknown)
    around = Surroundings(level_dbfs=-20.0, noise_dbfs=None, room_rt60_s=None, is_telephone=False)
    sound: dict[str, Any] = {"n_samples": 0, "sample_rate_hz": 24_000, "duration_s": 0.0, "audio": None}
    return AudioDialogue(**own, **sound, quality=quality, surroundings=around)


def dataset(folder: Path, oracles: dict[str, list[OracleRow]], dialogues: list[Dialogue]) -> Path:
    """Writes a dataset with just what the oracle report reads, and returns its folder.

    Args:
        oracles: rows by version; the first version is the dataset's default.
    """
    store = Store(str(folder))
    tables = {
        ("data/train-mine-1.parquet", "data", None): to_table([silent(each) for each in dialogues], AudioDialogue)
    } | {
        (f"oracles/{version}/train-mine-1.parquet", "oracle", version): to_table(rows, OracleRow)
        for version, rows in oracles.items()
    }
    entries = []
    for (path, kind, version), table in tables.items():
        written = store.write_table(path, table)
        entries.append(
            ShardEntry(
                path=path,
                kind=kind,
                source="mine",
                split="train",
                oracle_version=version,
                n_rows=table.num_rows,
                n_bytes=written.n_bytes,
                sha256=written.sha256,
            )
        )
    counts = DatasetCounts(dialogues=len(dialogues), audio_s=0.0, events=0, rejects=0)
    manifest = make_manifest(entries, counts, next(iter(oracles)))
    store.write_bytes(MANIFEST, manifest.model_dump_json().encode())
    return folder


def rows_of(dialogues: list[Dialogue], model: Scripted, version: str = "default", **oracle: Any) -> list[OracleRow]:
    """Returns the oracles that a scripted model writes for some dialogues.

    Args:
        oracle: further fields of the configuration of oracles.
    """
    stage = oracle_stage(OracleConfig(version=version, **oracle))
    return run_alone(stage, batch_of(dialogues), opened(model)).outputs
