"""A checkpoint for all tests of the web."""

import pytest

from kame_model.checkpoint.load import Checkpoint
from tests.serving import tiny_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("web"))
