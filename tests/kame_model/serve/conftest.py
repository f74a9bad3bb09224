"""What all tests of the server share."""

import pytest

from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device import slots
from kame_model.text.tokenizer import Tokenizer
from tests.support.serving import tiny_checkpoint
from tests.support.vocabularies import make_vocabulary


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A whole checkpoint of a few thousand weights, which nobody changes."""
    return tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Of a small vocabulary."""
    return make_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(autouse=True)
def nothing_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom a server lets in must not depend on how busy this machine is just when a test starts one."""

    async def nothing(*_: object) -> dict[int, float]:
        return {}

    monkeypatch.setattr(slots, "measure_idle_device", nothing)
