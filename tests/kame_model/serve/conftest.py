"""What holds for all tests of the server."""

import pytest

from kame_model.serve import server


@pytest.fixture(autouse=True)
def nothing_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom a server lets in must not depend on how busy this machine is just when a test starts one."""
    monkeypatch.setattr(server, "probe", lambda engine: {})
