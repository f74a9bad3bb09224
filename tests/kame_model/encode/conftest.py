"""A dataset of ten small shards that a test may spoil, a vocabulary, and a codec that counts what it is given."""

import shutil
from pathlib import Path

import pytest

from backends.codec.double import DoubleCodec
from tests.support.codecs import count_encoded
from tests.support.small_datasets import ten_shards, write_dataset
from tests.support.vocabularies import make_vocabulary


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_vocabulary(tmp_path_factory.mktemp("vocabulary")).path)


@pytest.fixture(scope="module")
def small_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("made"), ten_shards())


@pytest.fixture
def data(small_dataset: Path, tmp_path: Path) -> Path:
    """A copy of the dataset that a test may spoil."""
    return Path(shutil.copytree(small_dataset, tmp_path / "dataset"))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples the codec has been given, sound by sound."""
    return count_encoded(DoubleCodec, monkeypatch)
