"""What a run's record tells, also of a run that was stopped."""

import json
from pathlib import Path

import pytest

from data_schemas.config import RefreshConfig
from flows.runs.record import record_run


def test_a_run_stopped_while_its_answer_cache_is_down_is_recorded_and_says_that_it_was_stopped(tmp_path: Path) -> None:
    config = RefreshConfig(out=str(tmp_path), cache_url="postgresql://nobody@127.0.0.1:9/none")
    with pytest.raises(KeyboardInterrupt), record_run(config):
        raise KeyboardInterrupt
    (file,) = (tmp_path / "runs").glob("*.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record["outcome"].startswith("KeyboardInterrupt")
    assert record["models"] is None
