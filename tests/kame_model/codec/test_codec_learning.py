"""Codebooks from a dataset's voices: what is left of it, and only once."""

import json
import shutil
from pathlib import Path

import pytest

from backends.codec.codec2_learnt import BOOKS, LearntCodec2, LearntCodec2Options
from backends.conformance import make_chirps
from data_schemas.config.codec import CodecLearnConfig
from data_schemas.errors import ConfigError, DatasetError, StoreError
from data_schemas.manifest import MANIFEST, ORACLE, make_manifest
from data_schemas.reader import DatasetReader
from kame_model.codec.learning import RECORD, learn_codec

CONFIG = CodecLearnConfig(n_stages=1)


@pytest.fixture(scope="module")
def readers(made: Path) -> list[DatasetReader]:
    return [DatasetReader(str(made))]


@pytest.fixture
def learnt(readers: list[DatasetReader], tmp_path: Path) -> Path:
    learn_codec(readers, CONFIG, str(tmp_path / "codec"))
    return tmp_path / "codec"


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_a_dataset_becomes_codebooks_of_as_many_entries_as_its_speech_is_enough_for(learnt: Path) -> None:
    codec = LearntCodec2(LearntCodec2Options(path=str(learnt)))
    assert codec.layout.card in (2, 4, 8, 16, 32, 64)
    assert json.loads((learnt / RECORD).read_text())["card"] == codec.layout.card
    assert codec.encode([make_chirps(0, 5 * 1920)])[0].shape == (4, 5)


def test_what_was_killed_is_learnt_again_and_what_stands_is_left_alone(
    readers: list[DatasetReader], learnt: Path
) -> None:
    whole = contents(learnt)
    (learnt / BOOKS).unlink()  # written last
    learn_codec(readers, CONFIG, str(learnt))
    assert contents(learnt) == whole
    (learnt / BOOKS).write_bytes(b"not looked at")
    assert learn_codec(readers, CONFIG, str(learnt)) == json.loads(whole[RECORD])
    assert (learnt / BOOKS).read_bytes() == b"not looked at"


def test_more_oracles_leave_the_codec_as_it_is(
    readers: list[DatasetReader], learnt: Path, made: Path, tmp_path: Path
) -> None:
    """A dataset with another version of oracles has another fingerprint, and the same sound."""
    folder = tmp_path / "more"
    shutil.copytree(made, folder)
    manifest = readers[0].manifest
    added = manifest.select_kind(ORACLE)[0].model_copy(
        update={"path": "oracles/more.parquet", "oracle_version": "more"}
    )
    more = make_manifest([*manifest.shards, added], manifest.counts, manifest.oracle_version, manifest.split)
    assert more.fingerprint != manifest.fingerprint
    (folder / MANIFEST).write_text(more.model_dump_json())
    before = contents(learnt)
    learn_codec([DatasetReader(str(folder))], CONFIG, str(learnt))
    assert contents(learnt) == before


def test_a_folder_of_other_settings_or_with_a_damaged_record_is_refused(
    readers: list[DatasetReader], learnt: Path
) -> None:
    with pytest.raises(ConfigError, match="holds a codec of other speech or settings"):
        learn_codec(readers, CONFIG.model_copy(update={"seed": 1}), str(learnt))
    (learnt / RECORD).rename(learnt / "elsewhere")
    with pytest.raises(ConfigError, match="holds a codec of other speech or settings"):
        learn_codec(readers, CONFIG, str(learnt))
    (learnt / RECORD).write_text("{")
    with pytest.raises(StoreError, match=r"codec\.json is damaged"):
        learn_codec(readers, CONFIG, str(learnt))


def test_a_dataset_without_training_dialogues_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="0 s of speech are too little"):
        learn_codec([], CONFIG, str(tmp_path))
