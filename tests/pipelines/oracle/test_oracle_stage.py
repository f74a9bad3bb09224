"""Events of a dialogue: who asked, who shares, what was asked again, what failed, and what is said in the end."""

from dataclasses import replace
from typing import Any

import pytest

from backends.chat.protocol import ChatReply
from data_schemas.config import OracleConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.records import Dialogue, OracleRow
from pipelines.asking import run_alone
from pipelines.oracle.events import TOO_MANY_FAILED
from pipelines.stage import StageResult
from spoken.spoken_text import split_words
from tests.support.oracle_dialogues import (
    ANSWER,
    DOUBLE,
    FORMS,
    QUESTION,
    USABLE,
    Scripted,
    batch_of,
    follow_up,
    interruption,
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


@pytest.mark.parametrize("make", FORMS)
def test_each_dialogue_has_a_row_with_what_wrote_it(make: Any) -> None:
    row = one_row(Scripted(), make())
    assert (row.model, row.endpoint, row.simulator, row.prompt_version) == ("double", "double", "llm", "v2")
    assert [event.event_id for event in row.events] == [f"{row.dialogue_id}-e{n}" for n in range(len(row.events))]
    assert {event.status for event in row.events} <= {"answered", "shared", "truth"}
    assert {event.speaker for event in row.events} == {"A"}


def test_the_last_event_of_a_turn_is_the_body_and_asks_nobody() -> None:
    model = Scripted()
    row = one_row(model, plain())
    last = row.events[-1]
    assert (last.status, last.text, last.level, last.raw_text, last.request_id) == ("truth", ANSWER, 5, None, None)
    assert not any("Anything else" in prompt or "Let me think" in prompt for prompt in model.prompts)


def test_events_that_share_follow_the_one_that_asked() -> None:
    row = one_row(Scripted(), interruption(), interval_s=0.1)
    first: dict[str | None, int] = {}
    for event in row.events:
        if event.status == "answered":
            assert event.request_id not in first
            first[event.request_id] = event.level
        elif event.status == "shared":
            assert first[event.request_id] == event.level
    assert {event.status for event in row.events} == {"answered", "shared", "truth"}


def test_requests_are_asked_dialogue_by_dialogue_in_the_order_of_their_turns() -> None:
    model = Scripted()
    run(model, plain(), follow_up())
    n_first = len(run(Scripted(), plain()).outputs[0].events) - 1
    assert not any("Assistant:" in prompt for prompt in model.prompts[:n_first])
    asked = ["Assistant:" in prompt for prompt in model.prompts]
    assert asked == sorted(asked)


def test_the_answer_is_told_to_no_request_of_level_0() -> None:
    model = Scripted()
    row = one_row(model, plain())
    levels = [event.level for event in row.events if event.status == "answered"]
    shown = {level: ANSWER in prompt for level, prompt in zip(levels, model.prompts, strict=True)}
    assert shown == {level: level == 4 for level in levels}
    assert not any("forty" in prompt for level, prompt in zip(levels, model.prompts, strict=True) if level == 0)


def test_an_answer_that_cannot_stand_is_asked_for_again_otherwise() -> None:
    model = Scripted(lambda payload, attempt: "I'm sorry, I cannot." if attempt == 0 else USABLE)
    row = one_row(model, plain())
    assert {event.text for event in row.events if event.status != "truth"} == {USABLE}
    by_attempt = {attempt: payload for payload, attempt in model.asked}
    assert sorted(by_attempt) == [0, 1]
    assert by_attempt[0]["temperature"] == 0
    assert by_attempt[1]["temperature"] > 0
    assert by_attempt[0]["seed"] != by_attempt[1]["seed"]


SHORTER = ("It may be four.", "It may be four or a little more.", "It may well be four.")
"""Answers to the three asks that can stand and have fewer words than are wanted."""
WANTED = [10] * 5
LONG = f"{QUESTION[:-1]} and on each of the three days after those?"
"""A question of so many words that some stand at level 4."""


def test_an_answer_shorter_than_wanted_is_asked_for_again() -> None:
    model = Scripted(lambda _, attempt: (SHORTER[0], USABLE)[min(attempt, 1)])
    row = one_row(model, plain(), wanted_words=WANTED)
    answered = [event for event in row.events if event.status != "truth"]
    assert {(event.text, event.attempt) for event in answered} == {(USABLE, 1)}
    assert {attempt for _, attempt in model.asked} == {0, 1}


def test_where_a_hint_is_told_the_first_answer_stands_unless_more_is_wanted() -> None:
    model = Scripted(lambda _, attempt: (SHORTER[0], USABLE)[min(attempt, 1)])
    by_level = {event.level: event.attempt for event in one_row(model, plain(LONG), interval_s=0.1).events}
    assert by_level == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0, 5: None}


def test_of_answers_that_stay_short_the_longest_is_kept_and_none_fails() -> None:
    model = Scripted(lambda _, attempt: SHORTER[attempt])
    answered = [event for event in one_row(model, plain(), wanted_words=WANTED).events if event.status != "truth"]
    assert {(event.text, event.attempt, event.status) for event in answered if event.status == "answered"} == {
        (SHORTER[1], 1, "answered")
    }
    assert max(attempt for _, attempt in model.asked) == 2


@pytest.mark.parametrize("then", ["", "I'm sorry, I cannot."])
def test_a_short_answer_outlives_worse_ones_after_it(then: str) -> None:
    model = Scripted(lambda _, attempt: then if attempt else SHORTER[0])
    answered = [event for event in one_row(model, plain(), wanted_words=WANTED).events if event.status != "truth"]
    assert {(event.text, event.attempt, event.error) for event in answered} == {(SHORTER[0], 0, None)}


def test_a_short_answer_whose_second_ask_is_lost_is_kept_and_asked_for_by_a_later_run() -> None:
    model = Scripted(lambda _, attempt: refused_request() if attempt else SHORTER[0])
    result = run(model, plain(), wanted_words=WANTED)
    assert {event.text for event in result.outputs[0].events if event.status != "truth"} == {SHORTER[0]}
    assert result.n_to_retry == len([attempt for _, attempt in model.asked if attempt == 0])


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


def test_a_share_of_the_dialogues_is_asked_for() -> None:
    dialogues = [plain(dialogue_id=f"mine-{number}-v0") for number in range(40)]
    low, high = (
        {row.dialogue_id for row in run(Scripted(), *dialogues, **bounds).outputs}
        for bounds in ({"share_to": 0.3}, {"share_from": 0.3})
    )
    assert low | high == {dialogue.dialogue_id for dialogue in dialogues}
    assert not low & high
    assert 4 <= len(low) <= 20
    assert {row.share_to for row in run(Scripted(), *dialogues, share_to=0.3).outputs} == {0.3}


def test_what_never_stands_is_a_failed_event_with_its_raw_text_and_the_reason() -> None:
    model = Scripted(lambda payload, attempt: "" if "none" in payload["messages"][-1]["content"] else USABLE)
    result = run(model, plain(), max_asks=4)
    failed = [event for event in result.outputs[0].events if event.status == "failed"]
    assert {event.level for event in failed} == {0}
    assert {(event.text, event.raw_text) for event in failed} == {(None, "")}
    assert all(event.error == "asked 4 times; empty: nothing was written" for event in failed)
    assert max(attempt for _, attempt in model.asked) == 3
    assert result.n_to_retry == 0


def test_a_request_that_is_lost_leaves_failed_events_and_a_part_to_retry() -> None:
    model = Scripted(lambda *_: refused_request() if len(model.asked) == 2 else USABLE)
    result = run(model, plain())
    failed = [event for event in result.outputs[0].events if event.status == "failed"]
    assert {(event.text, event.raw_text, event.request_id) for event in failed} == {(None, None, None)}
    assert {event.error for event in failed} == {"request: Request 1 was refused."}
    assert result.n_to_retry == 1


def test_a_request_that_fails_after_an_answer_that_could_not_stand_keeps_that_answer() -> None:
    model = Scripted(lambda _, attempt: "I cannot help with that." if attempt == 0 else refused_request())
    result = run(model, plain(), max_failed_share=1.0)
    failed = [event for event in result.outputs[0].events if event.status == "failed"]
    assert {(event.text, event.raw_text, event.attempt) for event in failed} == {(None, "I cannot help with that.", 0)}
    assert all(event.request_id and "was refused" in (event.error or "") for event in failed)
    assert result.n_to_retry == len(model.asked) // 2 > 0


def test_an_event_says_which_model_answered() -> None:
    model = Scripted()
    model.who = ("model-2025-04-14", "fp_1")
    events = one_row(model, plain()).events
    told = {(event.status == "truth", event.answered_by, event.system_fingerprint) for event in events}
    assert told == {(False, "model-2025-04-14", "fp_1"), (True, None, None)}


def test_a_dialogue_of_which_too_much_failed_is_refused_and_the_others_are_not() -> None:
    model = Scripted(lambda payload, _: "" if "Anna" in payload["messages"][-1]["content"] else USABLE)
    other = plain("Which of all the many planets is the one with the big rings?", item_id="mine-2")
    result = run(model, plain(), other)
    assert [row.dialogue_id for row in result.outputs] == [other.dialogue_id]
    (reject,) = result.rejects
    assert (reject.item_id, reject.stage, reject.reason) == ("mine-1", "oracle", TOO_MANY_FAILED)
    assert "empty: nothing was written" in reject.detail


def test_a_dialogue_may_be_kept_however_much_failed() -> None:
    result = run(Scripted(lambda *_: ""), plain(), max_failed_share=1.0)
    assert {event.status for event in result.outputs[0].events} == {"failed", "truth"}
    assert result.rejects == []


def test_a_back_end_that_is_gone_stops_the_stage() -> None:
    with pytest.raises(BackendError, match="gone"):
        run(Scripted(lambda *_: BackendError("It is gone.")), plain(), follow_up())


def test_in_both_directions_the_assistants_turns_predict_the_users_words() -> None:
    dialogue = follow_up()
    model = Scripted()
    row = one_row(model, dialogue, both_directions=True)
    own = [event for event in row.events if event.turn_index == 1]
    assert {event.speaker for event in own} == {"B"}
    assert own[-1].text == dialogue.turns[2].body
    assert any("Assistant (unfinished)" in prompt for prompt in model.prompts)
    assert row.both_directions


def test_a_prompt_set_without_texts_for_the_user_is_refused_in_both_directions(tmp_path: Any) -> None:
    import yaml

    from pipelines.oracle.prompts import load_prompts

    raw = {name: value for name, value in load_prompts("v2").model_dump().items() if name != "of_user"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(ConfigError, match="no texts for the user's words"):
        oracle_stage(OracleConfig(prompt=str(tmp_path / "mine.yaml"), both_directions=True))


def test_raw_text_is_kept_beside_what_is_said() -> None:
    row = one_row(Scripted(lambda *_: '"It may be 40 or so."\nUser: really?'), plain())
    event = row.events[0]
    assert (event.text, event.raw_text) == ("It may be forty or so.", '"It may be 40 or so."\nUser: really?')
    assert event.text is not None
    assert split_words(event.text)


def test_what_identifies_the_stages_work() -> None:
    def matters(oracle: OracleConfig, model: str = "double", seed: int = 0) -> object:
        return oracle_stage(oracle, seed, replace(DOUBLE, model=model)).matters()

    same = matters(OracleConfig())
    assert matters(OracleConfig(prompt="v2")) == same
    assert matters(OracleConfig(max_words=29)) != same
    assert matters(OracleConfig(max_asks=2)) != same
    assert matters(OracleConfig(min_words=2)) != same
    assert matters(OracleConfig(wanted_words=[2] * 5)) != same
    assert matters(OracleConfig(share_to=0.5)) != same
    assert matters(OracleConfig(both_directions=True)) != same
    assert matters(OracleConfig(), model="other") != same
    assert matters(OracleConfig(), seed=1) != same
