"""What the comparison with the recipe's prompts asks, and how it adds up."""

from dataclasses import replace
from typing import Any

import pytest

from backends.protocols import ChatReply
from benchmarks.oracle_prompts import INSTRUCTION, LEVELS, count, our_payloads, recipe_payloads
from data_schemas.config import OracleConfig
from tests.support.oracle_dialogues import ANSWER, FORMS, Scripted, follow_up, opened, plain

CONFIG = OracleConfig()


class Counting(Scripted):
    """Counts words as tokens; those of all but the last message come from its cache."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        reply = await super().ask(payload, attempt)
        n_words = [len(message["content"].split()) for message in payload["messages"]]
        return replace(reply, n_tokens_in=sum(n_words), n_tokens_cached=sum(n_words[:-1]))


def test_both_ways_are_counted_and_told_by_request() -> None:
    dialogues = [make() for make in FORMS]
    ours, whole, recipe = (
        count([payload for dialogue in dialogues for payload in made(dialogue, config)], opened(Counting()))
        for made, config in (
            (our_payloads, CONFIG),
            (our_payloads, OracleConfig(max_requests_per_turn=1000, interval_s=0.1)),
            (recipe_payloads, CONFIG),
        )
    )
    assert ours.n_requests < recipe.n_requests
    assert ours.n_requests < whole.n_requests
    assert recipe.n_tokens_cached == 0
    told = ours.beside(recipe)
    assert told["cached_share"] == pytest.approx(ours.n_tokens_cached / ours.n_tokens, abs=1e-3)
    assert told["computed_a_request"] == pytest.approx(ours.n_tokens_computed / ours.n_requests, abs=0.1)
    assert told["requests_of_recipe"] == pytest.approx(ours.n_requests / recipe.n_requests, abs=1e-3)
    assert told["computed_of_recipe"] < told["tokens_of_recipe"]


class Silent(Scripted):
    """Does not tell what came from its cache."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        return replace(await super().ask(payload, attempt), n_tokens_cached=None)


def test_a_server_that_does_not_tell_cached_tokens_is_not_counted_as_one_without_a_cache() -> None:
    with pytest.raises(ValueError, match="does not tell"):
        count(our_payloads(plain(), CONFIG), opened(Silent()))


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
