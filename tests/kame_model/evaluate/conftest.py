"""What tests of evaluations share that call a server."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a whole checkpoint of a few thousand weights, which nobody changes."""
    from tests.support.serving import tiny_checkpoint  # heavy: torch

    folder: Path = tmp_path_factory.mktemp("checkpoint")
    tiny_checkpoint(folder)
    return str(folder / "export")


@pytest.fixture
def nothing_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom a server lets in must not depend on how busy this machine is just when a test starts one."""
    from kame_model.serve.device import slots  # heavy: torch

    async def nothing(*_: object) -> dict[int, float]:
        return {}

    monkeypatch.setattr(slots, "measure_idle_device", nothing)
