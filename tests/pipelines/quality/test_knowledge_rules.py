"""`kame check` makes level-0 requests again, blind, and finds the ones that were asked for with more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backends.chat.cache import make_reply_key, make_request_id
from backends.chat.protocol import ChatReply
from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue, OracleRow
from pipelines.asking import run_alone
from pipelines.oracle.prompts import find_prompt_set
from pipelines.quality.knowledge_rules import check_knowledge
from tests.support.builders import make_dialogue
from tests.support.oracle_dialogues import (
    ANSWER,
    DOUBLE,
    FORMS,
    Scripted,
    batch_of,
    follow_up,
    interruption,
    opened,
    oracle_stage,
    plain,
)


class Keyed(Scripted):
    """A model whose replies have the ids that the client gives them; what it is asked is first changed, if at all."""

    def __init__(self, n_unusable: int = 0, change: Callable[[str], str] = str) -> None:
        super().__init__(lambda _, attempt: "" if attempt < n_unusable else "It may be quite a few of them.")
        self.change = change

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        reply = await super().ask(payload, attempt)
        last = payload["messages"][-1]
        changed = [*payload["messages"][:-1], last | {"content": self.change(last["content"])}]
        key = make_reply_key(DOUBLE, payload | {"messages": changed}, attempt)
        return replace(reply, request_id=make_request_id(key))


def row_of(dialogue: Dialogue, model: Keyed, **oracle: Any) -> OracleRow:
    stage = oracle_stage(OracleConfig.model_validate(oracle), 7)
    (row,) = run_alone(stage, batch_of([dialogue]), opened(model)).outputs
    return row


def wrong(dialogue: Dialogue, row: OracleRow) -> set[str]:
    prompts = find_prompt_set(row.prompt_digest)
    assert prompts is not None
    return {rule for rule, _ in check_knowledge(row, dialogue.turns, prompts)}


@pytest.mark.parametrize("make", FORMS)
@pytest.mark.parametrize("both", [False, True])
def test_honest_requests_are_found_again_in_every_form(make: Callable[..., Dialogue], both: bool) -> None:
    dialogue = make()
    assert wrong(dialogue, row_of(dialogue, Keyed(), both_directions=both)) == set()


@pytest.mark.parametrize("oracle", [{"temperature": 0.5}, {"max_tokens": 20}, {"max_asks": 1}, {"prompt": "whole"}])
def test_so_they_are_with_other_settings_and_at_a_later_ask(oracle: dict[str, Any]) -> None:
    assert wrong(plain(), row_of(plain(), Keyed(), **oracle)) == set()
    assert wrong(plain(), row_of(plain(), Keyed(n_unusable=2))) == set()


TOLD = {"level 0 knows only what was said"}


def leaks(text: str) -> str:
    return f"{text}\nBy the way: {ANSWER}" if "none" in text else text


def test_a_request_of_level_0_that_was_told_more_than_was_said_is_found() -> None:
    assert wrong(follow_up(), row_of(follow_up(), Keyed(change=leaks))) == TOLD
    row = row_of(plain(), Keyed(n_unusable=1))
    assert {event.attempt for event in row.events if event.status != "truth"} == {1}
    first = replace(row, events=tuple(replace(each, attempt=0) for each in row.events))
    assert wrong(plain(), first) == TOLD
    sooner = replace(row, events=tuple(replace(each, t_s=each.t_s - 0.5) for each in row.events))
    assert wrong(plain(), sooner) == TOLD
    question, cut, *rest = interruption().turns
    promised = replace(cut, spoken_text=cut.written_text)
    assert promised.spoken_text != cut.spoken_text
    dialogue = make_dialogue(question, promised, *rest)
    assert wrong(dialogue, row_of(dialogue, Keyed())) == TOLD
