"""The same dataset opened by the tools that people have: datasets, pandas, PyArrow and DuckDB."""

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset
import pytest

from data_schemas.arrow import make_schema
from data_schemas.manifest import Manifest
from data_schemas.reader import read_manifest
from data_schemas.records import AudioDialogue, OracleRow
from data_schemas.store import Store

pytestmark = pytest.mark.full

JOIN = """select count(*), count(distinct d.dialogue_id), sum(len(o.events))
          from '{0}/data/*.parquet' d join '{0}/oracles/default/*.parquet' o using (dialogue_id)"""


@pytest.fixture(scope="module")
def manifest(made: Path) -> Manifest:
    return read_manifest(Store(str(made)))


def load(made: Path, cache: Path, *config: str) -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.load_dataset(str(made), *config, cache_dir=str(cache))


def test_datasets_gives_the_splits_and_plays_the_sound(made: Path, manifest: Manifest, tmp_path: Path) -> None:
    if ctypes.util.find_library("avcodec") is None:
        pytest.skip("the libraries of ffmpeg are not there, by which datasets decodes sound: make system")
    splits = load(made, tmp_path)
    rows = {entry.split: 0 for entry in manifest.select_kind("data")}
    for entry in manifest.select_kind("data"):
        rows[entry.split] += entry.n_rows
    assert {name: split.num_rows for name, split in splits.items()} == rows
    row = splits["train"][0]
    heard = row["audio"].get_all_samples()
    assert (heard.sample_rate, tuple(heard.data.shape)) == (24_000, (2, row["n_samples"]))
    left, right = heard.data.numpy()
    user, assistant = (slice(*(round(turn[edge] * 24_000) for edge in ("start_s", "end_s"))) for turn in row["turns"])
    assert np.abs(right[user]).mean() > 0.01
    assert np.abs(left[assistant]).mean() > 0.01
    assert not left[user].any()


def test_datasets_gives_oracles_that_join_with_dialogues(made: Path, manifest: Manifest, tmp_path: Path) -> None:
    oracles = load(made, tmp_path, "oracles")
    dialogues = load(made, tmp_path)
    for name, split in oracles.items():
        assert set(split["dialogue_id"]) == set(dialogues[name]["dialogue_id"])
    events = [event for split in oracles.values() for row in split for event in row["events"]]
    assert len(events) == manifest.counts.events
    assert {event["level"] for event in events} >= {0, 5}


def test_the_card_names_what_datasets_reads(made: Path, tmp_path: Path) -> None:
    tell = "print(sorted(datasets.get_dataset_config_names(sys.argv[1])))"
    command = [sys.executable, "-c", f"import sys, datasets; datasets.disable_progress_bars(); {tell}", str(made)]
    told = subprocess.check_output(command, env=os.environ | {"HF_HOME": str(tmp_path)}, text=True)
    assert told.strip() == "['default', 'oracles']"


def test_pandas(made: Path, manifest: Manifest) -> None:
    pandas = pytest.importorskip("pandas")
    dialogues = pandas.read_parquet(made / "data")
    oracles = pandas.read_parquet(made / "oracles" / "default")
    assert len(dialogues) == manifest.counts.dialogues
    assert dialogues["duration_s"].sum() == pytest.approx(manifest.counts.audio_s, abs=0.01)
    assert len(dialogues.merge(oracles, on="dialogue_id")) == len(dialogues)


def test_pyarrow(made: Path, manifest: Manifest) -> None:
    dialogues = pyarrow.dataset.dataset(made / "data", format="parquet")
    oracles = pyarrow.dataset.dataset(made / "oracles" / "default", format="parquet")
    assert dialogues.schema.equals(make_schema(AudioDialogue))
    assert oracles.schema.equals(make_schema(OracleRow))
    ids = dialogues.to_table(columns=["dialogue_id"])["dialogue_id"].to_pylist()
    assert sorted(ids) == sorted(oracles.to_table(columns=["dialogue_id"])["dialogue_id"].to_pylist())
    assert len(set(ids)) == manifest.counts.dialogues


def test_duckdb(made: Path, manifest: Manifest) -> None:
    duckdb = pytest.importorskip("duckdb")
    counts = manifest.counts
    assert duckdb.sql(JOIN.format(made)).fetchall() == [(counts.dialogues, counts.dialogues, counts.events)]
    per_source = f"select source, round(sum(duration_s), 3) from '{made}/data/*.parquet' group by source"
    assert sum(audio_s for _, audio_s in duckdb.sql(per_source).fetchall()) == pytest.approx(counts.audio_s, abs=0.01)
