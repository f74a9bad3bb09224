"""What is not encoded, and why: damaged, newer, of another codec, somebody else's; each is said so."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from backends.codec.double import DoubleCodec, DoubleCodecOptions
from data_schemas.errors import BackendError, ConfigError, StoreError
from data_schemas.manifest import MANIFEST as DATASET
from data_schemas.reader import DatasetReader
from kame_model.encode.audio import DamagedShard
from kame_model.encode.folder import LOCK
from kame_model.encode.run import encode_dataset
from tests.support.small_datasets import contents, encode_settings, spoil_bit, spoil_cut
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full

CARD = DoubleCodecOptions().card


@pytest.mark.parametrize("spoil", [spoil_cut, spoil_bit, Path.unlink])
def test_one_bad_shard_among_ten_is_named_and_the_others_stay(
    data: Path, vocabulary: str, encoded: list[int], spoil: Any
) -> None:
    shard = sorted((data / "data").iterdir())[4]
    whole = shard.read_bytes()
    spoil(shard)
    with pytest.raises(DamagedShard, match=f"1 of 10 shards cannot be encoded; the others are.*{shard.name}"):
        encode_dataset(encode_settings(data, vocabulary))
    assert len(encoded) == 36
    shard.write_bytes(whole)
    encoded.clear()
    assert encode_dataset(encode_settings(data, vocabulary)).counts.n_rows == 20
    assert len(encoded) == 4


def test_bad_oracles_are_named_too(data: Path, vocabulary: str) -> None:
    oracles = sorted((data / "oracles" / "default").iterdir())[2]
    spoil_bit(oracles)
    with pytest.raises(DamagedShard, match=f"1 of 10 shards.*oracles/default/{oracles.name}.*checksum"):
        encode_dataset(encode_settings(data, vocabulary))


def with_checksum_of(data: Path, shard: Path) -> None:
    """Lets the manifest say that a changed shard is what was written."""
    manifest = json.loads((data / DATASET).read_text(encoding="utf-8"))
    written = DatasetReader(str(data)).store.describe(str(shard.relative_to(data)))
    entry = next(each for each in manifest["shards"] if each["path"] == written.path)
    entry |= {"sha256": written.sha256, "n_bytes": written.n_bytes}
    (data / DATASET).write_text(json.dumps(manifest), encoding="utf-8")


def test_a_shard_of_a_newer_schema_is_refused(data: Path, vocabulary: str) -> None:
    shard = sorted((data / "data").iterdir())[0]
    table = pq.read_table(shard)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"kame_schema_version": b"99"}), shard)
    with_checksum_of(data, shard)
    with pytest.raises(DamagedShard, match=f"{shard.name} has schema 99; this version of kame reads up to"):
        encode_dataset(encode_settings(data, vocabulary))


def test_sound_that_is_none_is_named_by_its_dialogue(data: Path, vocabulary: str) -> None:
    shard = sorted((data / "data").iterdir())[0]
    table = pq.read_table(shard)
    rows = table.to_pylist()
    rows[0]["audio"]["bytes"] = b"no FLAC"
    pq.write_table(table.from_pylist(rows, schema=table.schema), shard)
    with_checksum_of(data, shard)
    with pytest.raises(DamagedShard, match=f"The audio of {rows[0]['dialogue_id']} cannot be read"):
        encode_dataset(encode_settings(data, vocabulary))


def test_another_codec_does_not_add_to_a_folder(data: Path, vocabulary: str) -> None:
    encode_dataset(encode_settings(data, vocabulary))
    before = contents(data.with_name("tokens"))
    with pytest.raises(ConfigError, match=r"was made with other settings: codec_digest .*; layout "):
        encode_dataset(encode_settings(data, vocabulary, codec_options={"n_codebooks": 4}))
    assert contents(data.with_name("tokens")) == before


def test_another_tokenizer_does_not_either_even_where_the_first_run_was_cut(
    data: Path, vocabulary: str, tmp_path: Path
) -> None:
    sorted((data / "data").iterdir())[9].unlink()
    with pytest.raises(DamagedShard):
        encode_dataset(encode_settings(data, vocabulary))
    other = make_vocabulary(tmp_path, 310).path
    with pytest.raises(ConfigError, match=r"tokenizer_digest .*; text_card 300, not 310"):
        encode_dataset(encode_settings(data, str(other)))


def test_a_codec_that_breaks_its_promise_is_found(data: Path, vocabulary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubleCodec, "encode", lambda self, sounds: [np.full((8, 15), CARD, np.int16) for _ in sounds])
    with pytest.raises(BackendError, match=f"codec double returned codes .* up to {CARD} for mine-"):
        encode_dataset(encode_settings(data, vocabulary))


def test_a_folder_of_somebody_else_is_left_alone(data: Path, vocabulary: str) -> None:
    with pytest.raises(ConfigError, match="is not empty and holds no token rows"):
        encode_dataset(encode_settings(data, vocabulary, "dataset"))


def test_a_run_that_may_wait_gets_the_folder_after_the_other(data: Path, vocabulary: str) -> None:
    encode_dataset(encode_settings(data, vocabulary))
    with ThreadPoolExecutor(1) as pool:
        with FileLock(data.with_name("tokens") / LOCK):
            waiting = pool.submit(encode_dataset, encode_settings(data, vocabulary), wait_s=600)
            with pytest.raises(StoreError, match="Another run is writing"):
                encode_dataset(encode_settings(data, vocabulary))
        assert waiting.result().shards
