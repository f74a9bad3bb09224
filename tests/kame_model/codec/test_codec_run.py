"""A training of nano-mimi: what it leaves, and that it can be killed."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from backends.codec.folder import KWARGS, WEIGHTS
from backends.codec.nano_mimi import NanoMimi, NanoMimiOptions
from backends.conformance import make_chirps
from data_schemas.config.codec import CodecTrainConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.manifest import MANIFEST, ORACLE, make_manifest
from data_schemas.reader import DatasetReader
from kame_model.codec.run import RECORD, STATE, train_codec
from kame_model.codec.training import StepFigures
from tests.support.codecs import TINY

pytestmark = pytest.mark.full

CONFIG = CodecTrainConfig(
    model=TINY,
    minutes=None,
    steps=10,
    batch_size=4,
    clip_frames=8,
    continuous_share=0.4,
    encoder_rate=0.1,
    save_every_s=1e-6,
    threads=1,
)


class Killed(BaseException):
    """What a test stops a training with."""


class Steps:
    """Keeps what each step came to, and stops before the training goes on from step `stop_at`."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.seen: list[StepFigures] = []
        self.stop_at = stop_at

    def __call__(self, figures: StepFigures) -> None:
        self.seen.append(figures)
        if figures.step == self.stop_at:
            raise Killed


@pytest.fixture(scope="module")
def readers(made: Path) -> list[DatasetReader]:
    return [DatasetReader(str(made))]


@pytest.fixture(scope="module")
def trained(readers: list[DatasetReader], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[StepFigures]]:
    out, steps = tmp_path_factory.mktemp("trained") / "codec", Steps()
    train_codec(readers, CONFIG, str(out), steps)
    return out, steps.seen


def test_a_training_leaves_a_codec_and_its_record(trained: tuple[Path, list[StepFigures]]) -> None:
    out, steps = trained
    assert sorted(path.name for path in out.iterdir()) == sorted([WEIGHTS, KWARGS, RECORD])
    record = json.loads((out / RECORD).read_text())
    assert record["n_steps"] == len(steps) == 10
    assert record["config"]["model"]["card"] == 32
    codec = NanoMimi(NanoMimiOptions(path=str(out)))
    assert codec.encode([make_chirps(0, 5 * 1920)])[0].shape == (3, 5)


def test_codebooks_start_after_their_share_of_the_training(trained: tuple[Path, list[StepFigures]]) -> None:
    _, steps = trained
    assert [each.has_codebooks for each in steps] == [False] * 4 + [True] * 6
    assert [each.commitment > 0 for each in steps] == [False] * 4 + [True] * 6
    assert steps[-1].done == 1


@pytest.mark.parametrize("stop_at", [2, 5, 9])
def test_a_killed_training_goes_on_to_the_same_weights(
    readers: list[DatasetReader], trained: tuple[Path, list[StepFigures]], tmp_path: Path, stop_at: int
) -> None:
    """Killed before its step was saved, so that one step is taken twice."""
    first, second = Steps(stop_at), Steps()
    with pytest.raises(Killed):
        train_codec(readers, CONFIG, str(tmp_path), first)
    assert [path.name for path in tmp_path.iterdir()] == [STATE]
    train_codec(readers, CONFIG, str(tmp_path), second)
    assert [each.loss for each in (*first.seen[:-1], *second.seen)] == [each.loss for each in trained[1]]
    for name, weights in load_file(trained[0] / WEIGHTS).items():
        assert (load_file(tmp_path / WEIGHTS)[name] == weights).all()


def test_the_encoder_can_stay_as_it_is_once_there_are_codebooks(readers: list[DatasetReader], tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"encoder_rate": 0.0})
    with pytest.raises(Killed):
        train_codec(readers, config, str(tmp_path), Steps(stop_at=6))
    with pytest.raises(Killed):
        train_codec(readers, config, str(tmp_path), Steps(stop_at=9))
    import torch

    before = torch.load(tmp_path / STATE, weights_only=True)["model"]
    train_codec(readers, config, str(tmp_path), Steps())
    after = load_file(tmp_path / WEIGHTS)
    held = [name for name in after if name.startswith(("encoder", "quantizer")) and "_codebook" not in name]
    held = [name for name in held if "output_proj" not in name]
    assert held
    assert all((before[name].numpy() == after[name]).all() for name in held)
    assert any((before[name].numpy() != after[name]).any() for name in after if name.startswith("decoder."))


def test_the_same_again_only_tells_the_record(readers: list[DatasetReader], trained: tuple[Path, object]) -> None:
    steps = Steps()
    record = train_codec(readers, CONFIG, str(trained[0]), steps)
    assert (record["n_steps"], steps.seen) == (10, [])


def test_more_oracles_leave_the_codec_as_it_is(
    readers: list[DatasetReader], trained: tuple[Path, object], made: Path, tmp_path: Path
) -> None:
    """A dataset with another version of oracles has another fingerprint, and the same sound."""
    folder = tmp_path / "more"
    shutil.copytree(made, folder)
    manifest = readers[0].manifest
    added = manifest.of_kind(ORACLE)[0].model_copy(update={"path": "oracles/more.parquet", "oracle_version": "more"})
    more = make_manifest([*manifest.shards, added], manifest.counts, manifest.oracle_version, manifest.split)
    assert more.fingerprint != manifest.fingerprint
    (folder / MANIFEST).write_text(more.model_dump_json())
    steps = Steps()
    train_codec([DatasetReader(str(folder))], CONFIG, str(trained[0]), steps)
    assert steps.seen == []


def test_a_folder_of_another_training_is_refused(
    readers: list[DatasetReader], trained: tuple[Path, object], tmp_path: Path
) -> None:
    other = CONFIG.model_copy(update={"seed": 1})
    with pytest.raises(ConfigError, match="holds a codec of another training"):
        train_codec(readers, other, str(trained[0]), Steps())
    with pytest.raises(Killed):
        train_codec(readers, CONFIG, str(tmp_path), Steps(stop_at=2))
    with pytest.raises(ConfigError, match="another training that was not finished"):
        train_codec(readers, other, str(tmp_path), Steps())


def test_a_damaged_state_is_told(readers: list[DatasetReader], tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train_codec(readers, CONFIG, str(tmp_path), Steps(stop_at=2))
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:1_000])
    with pytest.raises(StoreError, match=r"training.state is damaged"):
        train_codec(readers, CONFIG, str(tmp_path), Steps())


def test_a_full_disk_is_told_and_leaves_nothing_half(readers: list[DatasetReader], tiny_disk: Path) -> None:
    filler = tiny_disk / "filler"
    filler.write_bytes(bytes(200 * 1024))
    with pytest.raises(StoreError, match=r"Cannot write .*Make room"):
        train_codec(readers, CONFIG, str(tiny_disk / "codec"), Steps())
    assert list((tiny_disk / "codec").iterdir()) == []


def test_a_loss_that_is_no_number_is_told(readers: list[DatasetReader], tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"l1_weight": float("inf")})
    with pytest.raises(ConfigError, match=r"training diverged: .* at step 0"):
        train_codec(readers, config, str(tmp_path), Steps())
