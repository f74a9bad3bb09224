"""The reader finds dialogues with their oracles, and the card states what it counts."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from data_schemas.errors import DatasetError
from data_schemas.manifest import Counts, ShardEntry, make_manifest
from data_schemas.reader import DatasetReader
from pipelines.figures import Figures, collect_figures
from pipelines.run.publish import render_card


@pytest.fixture(scope="module")
def reader(made: Path) -> DatasetReader:
    return DatasetReader(str(made))


def every_id(made: Path) -> list[str]:
    return [each for file in sorted(made.glob("data/*")) for each in pq.read_table(file)["dialogue_id"].to_pylist()]


def test_any_dialogue_is_found_with_its_oracles(made: Path, reader: DatasetReader) -> None:
    for wanted in every_id(made):
        row, oracle = reader.dialogue(wanted)
        assert row.dialogue_id == wanted
        assert row.flac.startswith(b"fLaC")
        assert oracle is not None
        assert oracle.dialogue_id == wanted
    assert reader.dialogue()[0].dialogue_id in every_id(made)


def test_a_dialogue_nobody_made_is_named(reader: DatasetReader) -> None:
    with pytest.raises(DatasetError, match="has no dialogue nobody"):
        reader.dialogue("nobody")


def test_oracles_of_a_version_that_is_not_there_are_none(made: Path) -> None:
    row, oracle = DatasetReader(str(made), "no_such_version").dialogue()
    assert row.turns
    assert oracle is None


def test_figures_are_those_of_the_manifest(reader: DatasetReader) -> None:
    found, said = collect_figures(reader), reader.manifest.counts
    assert (found.n_dialogues, found.n_events, sum(found.rejects.values())) == (
        said.dialogues,
        said.events,
        said.rejects,
    )
    assert found.total_audio_s == pytest.approx(said.audio_s, abs=0.01)
    assert sum(found.splits.values()) == sum(found.licences.values()) == said.dialogues
    assert sum(found.voices.values()) >= 2 * said.dialogues
    assert sum(found.forms.values()) == said.dialogues
    assert sum(found.statuses.values()) == said.events
    assert found.statuses["truth"] >= said.dialogues


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


def test_the_card_has_a_config_for_every_version_of_oracles() -> None:
    shards = [entry("d", "data"), entry("o1", "oracle", "default"), entry("o2", "oracle", "brief")]
    manifest = make_manifest(shards, Counts(dialogues=1, audio_s=1, events=1, rejects=0), "brief")
    configs = yaml.safe_load(render_card(manifest, Figures()).split("---")[1])["configs"]
    read = {each["config_name"]: each["data_files"] for each in configs}
    assert read == {
        "default": [{"split": "test", "path": ["d"]}],
        "oracles": [{"split": "test", "path": ["o2"]}],
        "oracles-default": [{"split": "test", "path": ["o1"]}],
    }


def test_the_card_counts_a_source_of_which_all_was_refused() -> None:
    figures = Figures()
    figures.rejects["mine", "not_json"] = 3
    manifest = make_manifest([], Counts(dialogues=0, audio_s=0, events=0, rejects=3), "default")
    assert "| mine | 0 | 0.0 | 3 |" in render_card(manifest, figures)


def test_rows_of_each_shard_come_with_their_oracles(made: Path, reader: DatasetReader) -> None:
    rows = [row for shard in reader.shards() for row in reader.rows(shard)]
    assert [row.dialogue_id for row, _ in rows] == [row.dialogue_id for row in reader.dialogues()]
    assert all(oracle is not None and oracle.dialogue_id == row.dialogue_id for row, oracle in rows)
    other = DatasetReader(str(made), "no_such_version")
    assert all(oracle is None for shard in other.shards() for _, oracle in other.rows(shard))
