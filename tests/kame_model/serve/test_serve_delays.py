"""The benchmark of delays can be interrupted: what is known is not measured again."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.serve_delays import Wait, WaitsFile, lasts_s
from benchmarks.serve_questions import Question
from benchmarks.serve_verdict import MODES
from data_schemas.units import SAMPLE_RATE_HZ

ASKED = [Question(name, np.zeros(5 * SAMPLE_RATE_HZ, np.float32), ["five"]) for name in ("one", "two")]


def test_what_is_in_the_file_is_known_and_the_rest_is_asked_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first = WaitsFile(path)
    assert [(question.dialogue_id, mode) for question, mode in first.missing(ASKED)] == [
        (name, mode) for name in ("one", "two") for mode in MODES
    ]
    waits = [Wait("one", mode, answer_s=1.5, heard="how many") for mode in MODES[:2]]
    for wait in waits:
        first.add(wait)
    again = WaitsFile(path)
    assert again.waits == waits
    assert [(question.dialogue_id, mode) for question, mode in again.missing(ASKED)] == [
        ("one", MODES[2]),
        *(("two", mode) for mode in MODES),
    ]
    assert WaitsFile(None).missing(ASKED) == first.missing([]) + WaitsFile(tmp_path / "none").missing(ASKED)


def test_how_long_it_takes_is_told_before_it_begins() -> None:
    assert lasts_s(WaitsFile(None).missing(ASKED), 30.0) == pytest.approx((6 * (5 + 4), 6 * (5 + 30)))
