"""Models that think, and models of whose answers none is of use."""

from dataclasses import replace
from typing import Any

import pytest

from backends.chat.protocol import ChatReply
from data_schemas.config import OracleConfig
from data_schemas.errors import BackendError
from data_schemas.records import Dialogue, OracleRow
from pipelines.asking import run_alone
from pipelines.stage import StageResult
from tests.support.oracle_dialogues import USABLE, Scripted, batch_of, opened, oracle_stage, plain

pytestmark = pytest.mark.full

SHORT = "It may be four."


def run(model: Scripted, *dialogues: Dialogue, **oracle: Any) -> StageResult[OracleRow]:
    stage = oracle_stage(OracleConfig.model_validate(oracle))
    return run_alone(stage, batch_of(dialogues), opened(model))


THOUGHT = "<think>\nThey ask for apples.\n</think>\n\n"


class Thinking(Scripted):
    """A model that thinks before it answers; the client parts the two."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        return replace(await super().ask(payload, attempt), thought=THOUGHT)


def test_what_a_model_thinks_is_kept_and_not_said() -> None:
    row = run(Thinking(), plain()).outputs[0]
    assert {(event.text, event.raw_text) for event in row.events if event.status == "answered"} == {
        (USABLE, THOUGHT + USABLE)
    }
    cut = run(Thinking(lambda *_: ""), plain(), max_failed_share=1.0).outputs[0]
    failed = [event for event in cut.events if event.status == "failed"]
    assert {event.raw_text for event in failed} == {THOUGHT}
    assert all("only_thought" in (event.error or "") for event in failed)


def many() -> list[Dialogue]:
    return [plain(item_id=f"mine-{number}") for number in range(20)]


def test_a_run_of_which_nearly_no_answer_can_be_used_is_stopped() -> None:
    model = Scripted(lambda *_: "I'm sorry, I cannot help with that.")
    with pytest.raises(
        BackendError, match=r"(?s)38 of the last 38 answers of 'double'.*38 are refusal.*sorry.*chat\.extra"
    ):
        run(model, *many())
    n_first = sum(attempt == 0 for _, attempt in model.asked)
    n_in_all = sum(len(run(Scripted(), each).outputs[0].events) for each in many())
    assert 38 <= n_first < n_in_all


def test_a_run_is_not_stopped_where_some_can_be_used_or_the_second_answers_are_bad() -> None:
    model = Scripted()
    model.answer = lambda _, attempt: "" if attempt or len(model.asked) % 8 else USABLE
    assert run(model, *many(), max_failed_share=1.0).outputs
    assert run(Scripted(lambda _, attempt: "" if attempt else SHORT), *many()).outputs
