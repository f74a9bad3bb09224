"""The reader finds dialogues with their oracles, and the card states what it counts."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from data_schemas.errors import DatasetError
from data_schemas.manifest import DatasetCounts, ShardEntry, make_manifest
from data_schemas.reader import DatasetReader
from pipelines.figures import Figures, collect_figures
from pipelines.run.publish import render_card


@pytest.fixture(scope="module")
def reader(made: Path) -> DatasetReader:
    return DatasetReader(str(made))


def every_id(made: Path) -> list[str]:
    return [each for file in sorted(made.glob("data/*")) for each in pq.read_table(file)["dialogue_id"].to_pylist()]


def test_any_dialogue_and_row_of_a_shard_is_found_with_its_oracles(made: Path, reader: DatasetReader) -> None:
    for wanted in every_id(made):
        row, oracle = reader.read_dialogue(wanted)
        assert row.dialogue_id == wanted
        assert row.flac.startswith(b"fLaC")
        assert oracle is not None
        assert oracle.dialogue_id == wanted
    assert reader.read_dialogue()[0].dialogue_id in every_id(made)
    with pytest.raises(DatasetError, match="has no dialogue nobody"):
        reader.read_dialogue("nobody")
    rows = [row for shard in reader.list_shards() for row in reader.iterate_rows(shard)]
    assert [row.dialogue_id for row, _ in rows] == [row.dialogue_id for row in reader.iterate_dialogues()]
    assert all(oracle is not None and oracle.dialogue_id == row.dialogue_id for row, oracle in rows)
    other = DatasetReader(str(made), "no_such_version")
    assert other.read_dialogue()[1] is None
    assert all(oracle is None for shard in other.list_shards() for _, oracle in other.iterate_rows(shard))


def test_the_card_on_disk_states_these_figures_and_names_every_file(made: Path, reader: DatasetReader) -> None:
    text = (made / "README.md").read_text(encoding="utf-8")
    assert text == render_card(reader.manifest, collect_figures(reader))
    head = yaml.safe_load(text.split("---")[1])
    named = {path for config in head["configs"] for file in config["data_files"] for path in file["path"]}
    assert named == {entry.path for entry in reader.manifest.shards if entry.kind != "rejects"}
    assert reader.manifest.fingerprint in text
    for (source, reason), n in collect_figures(reader).rejects.items():
        assert f"| {source} | {reason} | {n} |" in text


def entry(path: str, kind: str, version: str | None = None) -> ShardEntry:
    return ShardEntry(
        path=path, kind=kind, source="mine", split="test", oracle_version=version, n_rows=1, n_bytes=1, sha256="0" * 64
    )


def test_the_card_has_a_config_for_every_version_of_oracles_and_counts_what_was_refused() -> None:
    shards = [entry("d", "data"), entry("o1", "oracle", "default"), entry("o2", "oracle", "brief")]
    manifest = make_manifest(shards, DatasetCounts(dialogues=1, audio_s=1, events=1, rejects=0), "brief")
    configs = yaml.safe_load(render_card(manifest, Figures()).split("---")[1])["configs"]
    read = {each["config_name"]: each["data_files"] for each in configs}
    assert read == {
        "default": [{"split": "test", "path": ["d"]}],
        "oracles": [{"split": "test", "path": ["o2"]}],
        "oracles-default": [{"split": "test", "path": ["o1"]}],
    }
    figures = Figures()
    figures.rejects["mine", "not_json"] = 3
    manifest = make_manifest([], DatasetCounts(dialogues=0, audio_s=0, events=0, rejects=3), "default")
    assert "| mine | 0 | 0.0 | 3 |" in render_card(manifest, figures)
