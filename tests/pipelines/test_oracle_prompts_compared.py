"""What the comparison with the recipe's prompts asks, and how it adds up."""

from dataclasses import replace
from typing import Any

import pytest

from backends.protocols import ChatReply
from benchmarks.oracle_prompts import INSTRUCTION, LEVELS, compare, our_payloads, recipe_payloads
from data_schemas.config import OracleConfig
from tests.oracle_dialogues import ANSWER, FORMS, Scripted, follow_up, opened, plain

CONFIG = OracleConfig()


class Counting(Scripted):
    """Counts words as tokens; those of all but the last message come from its cache."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        reply = await super().ask(payload, attempt)
        n_words = [len(message["content"].split()) for message in payload["messages"]]
        return replace(reply, n_tokens_in=sum(n_words), n_tokens_cached=sum(n_words[:-1]))


def test_both_ways_are_added_up_on_the_same_dialogues() -> None:
    model = Counting()
    dialogues = [make() for make in FORMS]
    found = compare(dialogues, CONFIG, opened(model))
    assert found.n_dialogues == len(FORMS)
    assert found.ours.n_requests + found.recipe.n_requests == len(model.asked)
    assert found.ours.n_requests < found.recipe.n_requests
    assert found.recipe.n_tokens_cached == 0
    assert found.share_computed < found.share_of_tokens
    assert found.ours.cached_share == pytest.approx(found.ours.n_tokens_cached / found.ours.n_tokens)


def test_ours_are_the_stages_own_and_write_one_token() -> None:
    payloads = our_payloads(plain(), CONFIG)
    assert {payload["max_tokens"] for payload in payloads} == {1}
    assert payloads[0]["messages"][0]["content"].startswith("Two people talk.")


def test_the_recipe_tells_the_instruction_first_and_the_hint_from_level_1_on() -> None:
    told = [payload["messages"][-1]["content"] for payload in recipe_payloads(follow_up(), CONFIG)]
    assert all(text.startswith(INSTRUCTION) for text in told)
    assert {LEVELS[0] in text for text in told if "Hidden hint:" not in text} == {True}
    assert any(f"Hidden hint: Let me think. {ANSWER}" in text for text in told)
    assert all("Assistant: Let me think." in text for text in told[-3:])
