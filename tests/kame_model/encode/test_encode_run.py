"""Encoding a dataset: nothing is made twice, nothing of two kinds stands together, one bad shard spoils no other."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from backends.codec.double import DoubleCodec, DoubleCodecOptions
from backends.engine import Samples
from data_schemas.errors import StoreError
from data_schemas.reader import DatasetReader
from data_schemas.store import TEMPORARY
from kame_model.encode.audio import Encoders
from kame_model.encode.manifest import MANIFEST
from kame_model.encode.run import encode_dataset
from kame_model.encode.token_dataset import TokenDataset
from pipelines.audio import decode_flac
from tests.support.codecs import tiny_mimi
from tests.support.small_datasets import contents, encode_settings, noisy_dialogue, spoil_bit, ten_shards, write_dataset

pytestmark = pytest.mark.full

CARD = DoubleCodecOptions().card


def codes_of(sound: Samples) -> list[list[int]]:
    codes: list[list[int]] = DoubleCodec(DoubleCodecOptions()).encode([sound])[0].tolist()
    return codes


def test_every_dialogue_becomes_a_row_of_both_channels(data: Path, vocabulary: str) -> None:
    manifest = encode_dataset(encode_settings(data, vocabulary))
    dataset = TokenDataset(str(data.with_name("tokens")))
    rows = {dataset[at].dialogue_id: dataset[at] for at in range(len(dataset))}
    reader = DatasetReader(str(data))
    assert set(rows) == {dialogue.dialogue_id for dialogue in reader.iterate_dialogues()}
    for dialogue in reader.iterate_dialogues():
        row, sound = rows[dialogue.dialogue_id], decode_flac(dialogue.flac)
        assert row.a.codes.tolist() == codes_of(sound[:, 0])
        assert row.b.codes.tolist() == codes_of(sound[:, 1])
        assert row.split == dialogue.split
    assert manifest.counts.n_rows == 20
    assert (manifest.counts.n_events, manifest.counts.n_failed_events) == (40, 20)
    assert (dataset.codec_digest, dataset.layout.card) == (DoubleCodec(DoubleCodecOptions()).digest, CARD)


def test_encoding_again_makes_nothing(data: Path, vocabulary: str, encoded: list[int]) -> None:
    seen: list[int] = []
    manifest = encode_dataset(encode_settings(data, vocabulary))
    before = contents(data.with_name("tokens"))
    encoded.clear()
    assert encode_dataset(encode_settings(data, vocabulary), seen.append) == manifest
    assert encoded == []
    assert sum(seen) == 20
    assert contents(data.with_name("tokens")) == before


@pytest.mark.parametrize("kill_after", [1, 4, 19])
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(
    data: Path, vocabulary: str, encoded: list[int], kill_after: int
) -> None:
    class Killed(BaseException):
        pass

    n_done = 0

    def killer(n_dialogues: int) -> None:
        nonlocal n_done
        n_done += n_dialogues
        if n_done >= kill_after:
            raise Killed

    encode_dataset(encode_settings(data, vocabulary, "whole"))
    encoded.clear()
    with pytest.raises(Killed):
        encode_dataset(encode_settings(data, vocabulary), killer)
    tokens = data.with_name("tokens")
    assert not (tokens / MANIFEST).exists()
    (tokens / "codes").mkdir(exist_ok=True)
    (tokens / "codes" / f"train-mine-0{TEMPORARY}").write_bytes(b"half")
    n_before = len(encoded)
    encode_dataset(encode_settings(data, vocabulary))
    assert contents(tokens) == contents(data.with_name("whole"))
    assert len(encoded) <= 40 + 4  # at most the shard that was under way is encoded again
    assert len(encoded) - n_before < 40 or kill_after == 1


def test_any_number_of_processes_gives_the_same_bytes(tmp_path: Path, vocabulary: str) -> None:
    """With moshi's own classes: threads and batches are what could make a difference."""
    tiny_mimi(tmp_path / "codec")
    codec = {"codec": "mimi", "codec_options": {"path": str(tmp_path / "codec"), "n_codebooks": 3}}
    data = write_dataset(tmp_path / "dataset", [[noisy_dialogue(at, n_samples=20_000 + 7_000 * at) for at in range(5)]])
    encode_dataset(encode_settings(data, vocabulary, "one", **codec))
    encode_dataset(encode_settings(data, vocabulary, "two", workers=2, window_s=2.0, **codec))
    assert contents(data.with_name("two")) == contents(data.with_name("one"))
    row = TokenDataset(str(data.with_name("two")))[4]
    assert row.a.codes.shape == (3, 25)
    assert len(np.unique(row.a.codes)) > 1


def test_a_codec_on_a_gpu_is_one_process_unless_more_are_asked_for(data: Path, vocabulary: str) -> None:
    codec = DoubleCodec(DoubleCodecOptions())
    config = encode_settings(data, vocabulary, workers=0)
    with Encoders(config, codec) as here:
        assert here.n_workers == os.cpu_count()
    codec.device = "cuda"  # type: ignore[attr-defined]  # as moshi's have it
    with Encoders(config, codec) as there:
        assert there.n_workers == 1


def test_other_oracles_leave_the_codes_alone(data: Path, vocabulary: str, encoded: list[int]) -> None:
    first = encode_dataset(encode_settings(data, vocabulary))
    write_dataset(data, ten_shards(), version="better", says="eighteen eggs")
    encoded.clear()
    second = encode_dataset(encode_settings(data, vocabulary, oracle_version="better"))
    assert encoded == []
    assert [shard.codes for shard in second.shards] == [shard.codes for shard in first.shards]
    assert {shard.rows.path for shard in second.shards}.isdisjoint(shard.rows.path for shard in first.shards)
    assert (first.oracle_version, second.oracle_version) == ("default", "better")
    rows = {f"rows/{each.name}" for each in (data.with_name("tokens") / "rows").glob("*.arrow")}
    assert rows == {shard.rows.path for shard in second.shards}


def test_a_second_folder_takes_the_codes_of_the_first(data: Path, vocabulary: str, encoded: list[int]) -> None:
    """Same sound, same codec: the oracles alone are others. A file that was damaged there is made anew here."""
    first = encode_dataset(encode_settings(data, vocabulary, "first"))
    write_dataset(data, ten_shards(), version="random", says="no eggs")
    encode_dataset(encode_settings(data, vocabulary, "alone", oracle_version="random"))
    spoil_bit(data.with_name("first") / first.shards[2].codes.path)
    encoded.clear()
    seen: list[int] = []
    folders = [str(data.with_name(name)) for name in ("nowhere", "first")]
    settings = encode_settings(data, vocabulary, "second", oracle_version="random", codes_from=folders)
    encode_dataset(settings, seen.append)
    assert len(encoded) == 4  # two voices of the damaged shard's two dialogues
    assert sum(seen) == 20
    assert contents(data.with_name("second")) == contents(data.with_name("alone"))


def test_codes_of_another_codec_are_not_taken(data: Path, vocabulary: str, encoded: list[int]) -> None:
    encode_dataset(encode_settings(data, vocabulary, "first", codec_options={"n_codebooks": 4}))
    encoded.clear()
    encode_dataset(encode_settings(data, vocabulary, "second", codes_from=[str(data.with_name("first"))]))
    assert len(encoded) == 40


def test_more_dialogues_cost_only_themselves(data: Path, vocabulary: str, encoded: list[int]) -> None:
    first = encode_dataset(encode_settings(data, vocabulary))
    write_dataset(data, [*ten_shards(), [noisy_dialogue(500)]])
    encoded.clear()
    second = encode_dataset(encode_settings(data, vocabulary))
    assert len(encoded) == 2
    assert [each for each in second.shards if each in first.shards] == first.shards
    assert second.fingerprint != first.fingerprint


def test_flagged_dialogues_are_left_out_and_counted(data: Path, vocabulary: str, encoded: list[int]) -> None:
    encode_dataset(encode_settings(data, vocabulary))
    (data / "flags.jsonl").write_text(json.dumps({"dialogue_id": "mine-31-v0", "reason": "hiss", "time": "now"}) + "\n")
    encoded.clear()
    manifest = encode_dataset(encode_settings(data, vocabulary))
    dataset = TokenDataset(str(data.with_name("tokens")))
    assert (manifest.counts.n_flagged, len(dataset)) == (1, 19)
    assert "mine-31-v0" not in dataset.dialogue_ids
    assert encoded == []
    kept = dataset[dataset.dialogue_ids.index("mine-30-v0")]
    assert kept.a.codes.tolist() == codes_of(decode_flac(noisy_dialogue(30).flac)[:, 0])


def test_a_file_that_was_damaged_later_is_made_again(data: Path, vocabulary: str) -> None:
    manifest = encode_dataset(encode_settings(data, vocabulary))
    before = contents(data.with_name("tokens"))
    spoil_bit(data.with_name("tokens") / manifest.shards[3].codes.path)
    spoil_bit(data.with_name("tokens") / manifest.shards[5].rows.path)
    encode_dataset(encode_settings(data, vocabulary))
    assert contents(data.with_name("tokens")) == before


def test_a_full_disk_is_said_so_and_what_is_written_stays(tmp_path: Path, vocabulary: str, tiny_disk: Path) -> None:
    data = write_dataset(tmp_path / "dataset", ten_shards()[:4])
    on_it = encode_settings(data, vocabulary).model_copy(update={"out": str(tiny_disk / "tokens")})
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(200 * 1024))
    with pytest.raises(StoreError, match="No space left"):
        encode_dataset(on_it)
    assert not list((tiny_disk / "tokens").rglob(f"*{TEMPORARY}"))
    assert list((tiny_disk / "tokens" / "rows").glob("*.arrow"))
    ballast.unlink()
    assert encode_dataset(on_it).counts.n_rows == 8
