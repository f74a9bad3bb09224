"""A back-end that is slower than in training is told of, once."""

import logging

import pytest

from kame_model.checkpoint.kame_json import TrainedDelays
from kame_model.serve.oracle.ages import N_WATCHED, OracleAges
from kame_model.serve.session.events import SessionEvent

TRAINED = TrainedDelays(min_s=0.1, max_s=0.8)


def whispered(oracle: int, age_s: float) -> SessionEvent:
    return SessionEvent("oracle", 1.0, {"oracle": oracle, "text": "it is", "age_s": age_s})


def warnings_of(
    caplog: pytest.LogCaptureFixture, ages: OracleAges, events: list[tuple[str, SessionEvent]]
) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for session, event in events:
            ages.observe(session, event)
    return [record.getMessage() for record in caplog.records]


def test_oracles_older_than_in_training_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    ages = OracleAges(TRAINED)
    late = [("one", whispered(number, 2.2)) for number in range(N_WATCHED)]
    assert warnings_of(caplog, ages, late[:-1]) == []
    (told,) = warnings_of(caplog, ages, late[-1:])
    assert told.startswith("Oracles are 2.20 s old when their first words come (median of 10)")
    assert "trained with 0.8 s at most" in told
    assert warnings_of(caplog, ages, [("two", whispered(number, 3.0)) for number in range(50)]) == []


def test_only_first_words_count_and_only_where_training_is_known(caplog: pytest.LogCaptureFixture) -> None:
    events = [("one", whispered(oracle, 0.5 + 2 * at)) for oracle in range(3 * N_WATCHED) for at in range(3)]
    assert warnings_of(caplog, OracleAges(TRAINED), events) == []
    events = [("one", whispered(number, 9.0)) for number in range(2 * N_WATCHED)]
    assert warnings_of(caplog, OracleAges(None), events) == []


def test_sessions_are_told_apart_and_one_late_oracle_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    ended = SessionEvent("ended", 9.0, {"reason": ""})
    calls = [(f"call {number}", event) for number in range(N_WATCHED) for event in (whispered(1, 2.2), ended)]
    in_time = [("one", whispered(number, 0.4)) for number in range(N_WATCHED)]
    assert warnings_of(caplog, OracleAges(TRAINED), [*in_time, ("one", whispered(99, 9.0))]) == []
    assert len(warnings_of(caplog, OracleAges(TRAINED), calls)) == 1
