"""Delays that were measured before are taken again only where they are of the same checkpoint and settings."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.serve_delays import Wait, WaitsFile, identify
from benchmarks.serve_questions import Question
from data_schemas.errors import ConfigError
from kame_model.checkpoint.files import WEIGHTS
from tests.support.checkpoints import write_checkpoint
from tests.support.soak_verdict import MODES


def test_known_delays_are_those_of_the_checkpoint_and_settings(tmp_path: Path) -> None:
    question = Question("d1", np.zeros(0, np.float32), ("four",))
    file = WaitsFile(tmp_path / "rows.jsonl", "one")
    file.add(Wait("d1", MODES[0], answer_s=0.5))
    again = WaitsFile(tmp_path / "rows.jsonl", "one")
    assert again.waits == file.waits
    assert again.list_missing([question]) == [(question, mode) for mode in MODES[1:]]
    with pytest.raises(ConfigError, match=r"rows\.jsonl has delays of another checkpoint"):
        WaitsFile(tmp_path / "rows.jsonl", "two")


def test_a_checkpoint_is_known_by_its_weights_and_settings(tmp_path: Path) -> None:
    one, two = (write_checkpoint(tmp_path / name, seed) for name, seed in (("one", 1), ("two", 2)))
    known = identify(str(one), 30.0, ["a=1"])
    assert known == identify(str(one), 30.0, ["a=1"])
    others = [(two, 30.0, ["a=1"]), (one, 20.0, ["a=1"]), (one, 30.0, ["a=2"]), (one, 30.0, [])]
    assert known not in {identify(str(folder), wait_s, settings) for folder, wait_s, settings in others}
    (one / WEIGHTS).write_bytes((two / WEIGHTS).read_bytes())
    assert known != identify(str(one), 30.0, ["a=1"]), "another export in the same folder"
