"""A model that does not fit its prompts is told of early, once, by level and reason."""

import logging
from typing import Any

import pytest

from data_schemas.config import OracleConfig
from pipelines.asking import run_alone
from pipelines.oracle.fit import N_LOOKED_AT, FirstAnswers
from tests.support.oracle_dialogues import USABLE, Scripted, batch_of, opened, oracle_stage, plain

pytestmark = pytest.mark.full


def warnings_of(answer: Any, n_dialogues: int, caplog: pytest.LogCaptureFixture) -> list[str]:
    dialogues = [plain(dialogue_id=f"mine-{n}-v0", item_id=f"mine-{n}") for n in range(n_dialogues)]
    config = OracleConfig(interval_s=0.2, max_requests_per_turn=40, max_failed_share=1.0)
    with caplog.at_level(logging.WARNING):
        run_alone(oracle_stage(config), batch_of(dialogues), opened(Scripted(answer)))
    return [record.getMessage() for record in caplog.records]


def refuses_at_level_0(payload: dict[str, Any], _: int) -> str:
    return "I cannot answer that." if "none" in payload["messages"][-1]["content"] else USABLE


def test_a_level_of_which_much_cannot_stand_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    (told,) = warnings_of(refuses_at_level_0, 60, caplog)
    assert told.startswith(f"Of the first {N_LOOKED_AT} answers of double with prompts v2 many are unusable")
    assert "level 0 " in told
    assert "(refusal " in told
    assert "level 2" not in told


def test_nothing_is_told_of_answers_that_stand_of_few_and_of_second_ones(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(lambda *_: USABLE, 60, caplog) == []
    assert warnings_of(refuses_at_level_0, 2, caplog) == []
    first = FirstAnswers("double", "v2")
    with caplog.at_level(logging.WARNING):
        for attempt in (0, 1) * N_LOOKED_AT:
            first.note(attempt, 0, "refusal" if attempt else "")
    assert caplog.records == []
