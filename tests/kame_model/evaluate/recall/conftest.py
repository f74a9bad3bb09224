"""A tiny checkpoint and its vocabulary, a piece a word."""

from pathlib import Path

import pytest

from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.text.tokenizer import Tokenizer
from tests.support.front_ends import tiny_front_end
from tests.support.recall_rows import make_vocabulary


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return make_vocabulary(tmp_path)


@pytest.fixture
def checkpoint(tmp_path: Path, tokenizer: Tokenizer) -> Checkpoint:
    export_checkpoint(tiny_front_end(), tokenizer, None, tmp_path / "made" / "tiny", TrainingFacts(step=1))
    return load_checkpoint(tmp_path / "made" / "tiny")
