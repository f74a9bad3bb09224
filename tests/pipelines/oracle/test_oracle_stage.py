"""Events of a dialogue: who asked, who shares, what was asked again, what failed, and what is said in the end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.chat.protocol import ChatReply
from data_schemas.config import OracleConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.records import Dialogue, OracleRow
from pipelines.asking import run_alone
from pipelines.oracle.events import TOO_MANY_FAILED
from pipelines.oracle.prompts import load_prompts
from pipelines.stage import StageResult
from tests.support.oracle_dialogues import (
    DOUBLE,
    QUESTION,
    USABLE,
    Scripted,
    batch_of,
    follow_up,
    opened,
    oracle_stage,
    plain,
    refused_request,
)

pytestmark = pytest.mark.full


def run(model: Scripted, *dialogues: Dialogue, **oracle: Any) -> StageResult[OracleRow]:
    stage = oracle_stage(OracleConfig.model_validate(oracle))
    return run_alone(stage, batch_of(dialogues), opened(model))


def one_row(model: Scripted, dialogue: Dialogue, **oracle: Any) -> OracleRow:
    (row,) = run(model, dialogue, **oracle).outputs
    return row


def test_requests_are_asked_dialogue_by_dialogue_in_the_order_of_their_turns() -> None:
    model = Scripted()
    run(model, plain(), follow_up())
    n_first = len(run(Scripted(), plain()).outputs[0].events) - 1
    assert not any("Assistant:" in prompt for prompt in model.prompts[:n_first])
    asked = ["Assistant:" in prompt for prompt in model.prompts]
    assert asked == sorted(asked)


SHORTER = ("It may be four.", "It may be four or a little more.", "It may well be four.")
"""Answers to the three asks that can stand and have fewer words than are wanted."""
WANTED = [10] * 5
LONG = f"{QUESTION[:-1]} and on each of the three days after those?"
"""A question of so many words that some stand at level 4."""


def test_where_a_hint_is_told_the_first_answer_stands_unless_more_is_wanted() -> None:
    model = Scripted(lambda _, attempt: (SHORTER[0], USABLE)[min(attempt, 1)])
    by_level = {event.level: event.attempt for event in one_row(model, plain(LONG), interval_s=0.1).events}
    assert by_level == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0, 5: None}


def test_of_answers_that_stay_short_the_longest_is_kept_also_where_the_second_ask_is_lost() -> None:
    model = Scripted(lambda _, attempt: SHORTER[attempt])
    answered = [event for event in one_row(model, plain(), wanted_words=WANTED).events if event.status != "truth"]
    assert {(event.text, event.attempt, event.error) for event in answered} == {(SHORTER[1], 1, None)}
    assert max(attempt for _, attempt in model.asked) == 2
    model = Scripted(lambda _, attempt: refused_request() if attempt else SHORTER[0])
    result = run(model, plain(), wanted_words=WANTED)
    assert {event.text for event in result.outputs[0].events if event.status != "truth"} == {SHORTER[0]}
    assert result.n_to_retry == len([attempt for _, attempt in model.asked if attempt == 0])


@pytest.mark.parametrize("then", ["", "I'm sorry, I cannot."])
def test_a_short_answer_outlives_worse_ones_after_it(then: str) -> None:
    model = Scripted(lambda _, attempt: then if attempt else SHORTER[0])
    answered = [event for event in one_row(model, plain(), wanted_words=WANTED).events if event.status != "truth"]
    assert {(event.text, event.attempt, event.error) for event in answered} == {(SHORTER[0], 0, None)}


def test_nothing_longer_is_asked_for_than_the_configuration_wants_or_a_hint_at_level_4_has() -> None:
    model = Scripted(lambda *_: SHORTER[0])
    run(model, plain(), wanted_words=[4] * 5)
    assert {attempt for _, attempt in model.asked} == {0}
    shown = Scripted(lambda *_: SHORTER[0])
    row = one_row(shown, plain(LONG, "It is four."), interval_s=0.1, wanted_words=WANTED)
    assert {event.level for event in row.events if event.attempt == 0} == {0, 1, 2, 3, 4}
    asked_again = {payload["messages"][-1]["content"] for payload, attempt in shown.asked if attempt}
    assert asked_again
    assert not any("Repeat the hidden answer" in prompt for prompt in asked_again)


class Cut(Scripted):
    """A model that may write no more after its first words, unless it is asked again."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        reply = await super().ask(payload, attempt)
        return replace(reply, finish_reason="stop" if attempt else "length")


@pytest.mark.parametrize(
    ("written", "said", "attempt"),
    [(f"{USABLE} And then she takes", USABLE, 0), (USABLE, USABLE, 0), (USABLE.rstrip("."), USABLE.rstrip("."), 1)],
)
def test_half_a_sentence_is_left_out_or_asked_for_again(written: str, said: str, attempt: int) -> None:
    row = one_row(Cut(lambda *_: written), plain())
    answered = {(event.text, event.raw_text, event.attempt) for event in row.events if event.status != "truth"}
    assert answered == {(said, written, attempt)}


def test_what_never_stands_is_a_failed_event_with_its_raw_text_and_the_reason() -> None:
    model = Scripted(lambda payload, attempt: "" if "none" in payload["messages"][-1]["content"] else USABLE)
    result = run(model, plain(), max_asks=4)
    failed = [event for event in result.outputs[0].events if event.status == "failed"]
    assert {event.level for event in failed} == {0}
    assert {(event.text, event.raw_text) for event in failed} == {(None, "")}
    assert all(event.error == "asked 4 times; empty: nothing was written" for event in failed)
    assert max(attempt for _, attempt in model.asked) == 3
    assert result.n_to_retry == 0


def test_a_request_that_is_lost_leaves_failed_events_with_the_answer_before_and_a_retry() -> None:
    model = Scripted(lambda *_: refused_request() if len(model.asked) == 2 else USABLE)
    result = run(model, plain())
    failed = [event for event in result.outputs[0].events if event.status == "failed"]
    assert {(event.text, event.raw_text, event.request_id) for event in failed} == {(None, None, None)}
    assert {event.error for event in failed} == {"request: Request 1 was refused."}
    assert result.n_to_retry == 1
    model = Scripted(lambda _, attempt: "I cannot help with that." if attempt == 0 else refused_request())
    result = run(model, plain(), max_failed_share=1.0)
    failed = [event for event in result.outputs[0].events if event.status == "failed"]
    assert {(event.text, event.raw_text, event.attempt) for event in failed} == {(None, "I cannot help with that.", 0)}
    assert all(event.request_id and "was refused" in (event.error or "") for event in failed)
    assert result.n_to_retry == len(model.asked) // 2 > 0


def test_a_dialogue_of_which_too_much_failed_is_refused_and_the_others_are_not() -> None:
    model = Scripted(lambda payload, _: "" if "Anna" in payload["messages"][-1]["content"] else USABLE)
    other = plain("Which of all the many planets is the one with the big rings?", item_id="mine-2")
    result = run(model, plain(), other)
    assert [row.dialogue_id for row in result.outputs] == [other.dialogue_id]
    (reject,) = result.rejects
    assert (reject.item_id, reject.stage, reject.reason) == ("mine-1", "oracle", TOO_MANY_FAILED)
    assert "empty: nothing was written" in reject.detail


def test_a_prompt_set_without_texts_for_the_user_is_refused_in_both_directions(tmp_path: Path) -> None:
    raw = {name: value for name, value in load_prompts("v2").model_dump().items() if name != "of_user"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(ConfigError, match="no texts for the user's words"):
        oracle_stage(OracleConfig(prompt=str(tmp_path / "mine.yaml"), both_directions=True))


def test_what_identifies_the_stages_work() -> None:
    def get_fields(oracle: OracleConfig, model: str = "double", seed: int = 0) -> object:
        return oracle_stage(oracle, seed, replace(DOUBLE, model=model)).get_fingerprint_fields()

    same = get_fields(OracleConfig())
    assert get_fields(OracleConfig(prompt="v2")) == same
    others: dict[str, Any] = {"max_words": 29, "max_asks": 2, "min_words": 2, "wanted_words": [2] * 5, "share_to": 0.5}
    for name, value in (others | {"both_directions": True}).items():
        assert get_fields(OracleConfig.model_validate({name: value})) != same, name
    assert get_fields(OracleConfig(), model="other") != same
    assert get_fields(OracleConfig(), seed=1) != same


THOUGHT = "<think>\nThey ask for apples.\n</think>\n\n"


class Thinking(Scripted):
    """A model that thinks before it answers; the client parts the two."""

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        return replace(await super().ask(payload, attempt), thought=THOUGHT)


def test_an_event_says_which_model_answered_and_what_it_thought() -> None:
    row = run(Thinking(), plain()).outputs[0]
    answered = {(event.text, event.raw_text) for event in row.events if event.status == "answered"}
    assert answered == {(USABLE, THOUGHT + USABLE)}
    cut = run(Thinking(lambda *_: ""), plain(), max_failed_share=1.0).outputs[0]
    failed = [event for event in cut.events if event.status == "failed"]
    assert {event.raw_text for event in failed} == {THOUGHT}
    assert all("only_thought" in (event.error or "") for event in failed)
    model = Scripted()
    model.who = ("model-2025-04-14", "fp_1")
    events = one_row(model, plain()).events
    told = {(event.status == "truth", event.answered_by, event.system_fingerprint) for event in events}
    assert told == {(False, "model-2025-04-14", "fp_1"), (True, None, None)}


def many() -> list[Dialogue]:
    return [plain(item_id=f"mine-{number}") for number in range(20)]


def test_a_run_is_stopped_where_nearly_no_answer_can_be_used_unless_those_are_second_ones() -> None:
    model = Scripted(lambda *_: "I'm sorry, I cannot help with that.")
    told = r"(?s)38 of the last 38 answers of 'double'.*38 are refusal.*sorry.*chat\.extra"
    with pytest.raises(BackendError, match=told):
        run(model, *many())
    n_first = sum(attempt == 0 for _, attempt in model.asked)
    n_in_all = sum(len(run(Scripted(), each).outputs[0].events) for each in many())
    assert 38 <= n_first < n_in_all
    model = Scripted()
    model.answer = lambda _, attempt: "" if attempt or len(model.asked) % 8 else USABLE
    assert run(model, *many(), max_failed_share=1.0).outputs
    assert run(Scripted(lambda _, attempt: "" if attempt else SHORTER[0]), *many()).outputs
