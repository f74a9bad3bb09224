"""The benchmark of the chat client ends also where a process of it does not do its part."""

import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks.oracle import measure_kill
from tests.support.runs import RunError

pytestmark = pytest.mark.full


def test_a_client_that_ends_before_it_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()  # in which the client cannot keep its answers
    monkeypatch.setattr(tempfile, "TemporaryDirectory", lambda: nullcontext(str(tmp_path / "file")))
    with pytest.raises(RunError, match="ended with 1"):
        measure_kill(n=8)
