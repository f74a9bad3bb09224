"""Which turns get events, what each one knows, and that level 0 knows nothing of what has not been said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue
from pipelines.oracle.plan import Plan, plan_dialogue
from pipelines.oracle.prompts import load_prompts, payload_of
from pipelines.quality.knowledge_rules import blotted_out
from pipelines.script.spoken import spoken_words
from tests.builders import make_dialogue, make_turn
from tests.oracle_dialogues import (
    ANSWER,
    FORMS,
    NEXT_ANSWER,
    answer_turn,
    backchannel,
    early_start,
    ends_s,
    follow_up,
    greeting,
    interruption,
    plain,
    said,
)

CONFIG = OracleConfig()
BOTH = OracleConfig(both_directions=True)


def planned(dialogue: Dialogue, config: OracleConfig = CONFIG) -> Plan:
    return plan_dialogue(dialogue.turns, config)


def turns_asked(plan: Plan) -> list[tuple[int, str]]:
    return sorted({(event.turn_index, event.speaker) for event in plan.events})


@pytest.mark.parametrize(
    ("dialogue", "user", "assistant"),
    [
        (plain(), [0], []),
        (greeting(), [0, 2], [1]),
        (follow_up(), [0, 2], [1]),
        (interruption(), [0, 2], [1]),
        (early_start(), [0], []),
        (backchannel(), [0], []),
    ],
    ids=lambda value: getattr(value, "form", ""),
)
def test_every_turn_that_the_other_answers_gets_events(
    dialogue: Dialogue, user: list[int], assistant: list[int]
) -> None:
    assert turns_asked(planned(dialogue)) == [(turn, "A") for turn in user]
    both = [*((turn, "A") for turn in user), *((turn, "B") for turn in assistant)]
    assert turns_asked(planned(dialogue, BOTH)) == sorted(both)


@pytest.mark.parametrize("make", FORMS)
def test_each_turn_ends_with_the_others_planned_body(make: Any) -> None:
    dialogue = make()
    for turn, speaker in turns_asked(planned(dialogue, BOTH)):
        events = [event for event in planned(dialogue, BOTH).events if event.turn_index == turn]
        assert [event.tick.r == 1 for event in events] == [False] * (len(events) - 1) + [True]
        assert events[-1].request is None
        assert {event.truth for event in events} == {dialogue.turns[turn + 1].body}
        assert dialogue.turns[turn + 1].speaker == speaker


def test_an_answer_that_was_cut_off_later_is_the_hint_as_planned() -> None:
    plan = planned(interruption())
    assert {event.truth for event in plan.events} == {ANSWER, NEXT_ANSWER}
    assert {request.hint for request in plan.requests if not request.history} == {ANSWER}


def test_history_is_what_was_said_before_with_what_was_cut_off_cut_off() -> None:
    dialogue = interruption()
    cut = dialogue.turns[1]
    later = [request for request in planned(dialogue).requests if request.history]
    expected = (f"User: {dialogue.turns[0].spoken_text}", f"Assistant: {cut.spoken_text} ...")
    assert later[-1].history == expected
    assert len(spoken_words(cut.spoken_text)) < len(spoken_words(cut.written_text))


def test_a_turn_that_still_runs_is_told_as_far_as_it_has_come() -> None:
    dialogue = follow_up()
    question, answer, asked, last = dialogue.turns
    begins_s = answer.utterances[0].words[3].end_s
    overlapping = make_turn(2, "B", [said(asked.spoken_text, begins_s)])
    dialogue = make_dialogue(question, answer, overlapping, last)
    requests = [request for request in planned(dialogue).requests if request.history]
    told = [request.history[1].removeprefix("Assistant: ") for request in requests]
    assert told[0].endswith(" ...")
    assert told[-1] == answer.spoken_text
    lengths = [len(spoken_words(text)) for text in told]
    assert lengths == sorted(lengths)


def test_the_assistants_early_words_are_no_history_of_the_turn_they_answer() -> None:
    assert {request.history for request in planned(early_start()).requests} == {()}


def test_backchannels_are_in_no_history() -> None:
    dialogue = backchannel()
    asked = said("And what about Ben then, how many does he have?", ends_s(dialogue.turns[1].utterances[-1]) + 1)
    longer = make_dialogue(*dialogue.turns, make_turn(2, "B", [asked]), answer_turn(3, "Ten.", ends_s(asked) + 1))
    assert not any("okay" in line for request in planned(longer).requests for line in request.history)


def level_0_payloads(dialogue: Dialogue, config: OracleConfig) -> dict[float, str]:
    """The bytes of each level-0 request, by the time at which it is asked."""
    plan, prompts = planned(dialogue, config), load_prompts(config.prompt)
    times_s: dict[int, float] = {}
    for event in plan.events:
        if event.request is not None and event.tick.level == 0:
            times_s.setdefault(event.request, event.tick.t_s)
    return {t_s: json.dumps(payload_of(prompts, plan.requests[place], config, 0, 0)) for place, t_s in times_s.items()}


SOME_WORDS = ["the", "cat", "has", "four", "red", "hats", "and", "one", "blue"]
WORDS = st.lists(st.sampled_from(SOME_WORDS), min_size=4, max_size=40)


@given(
    make=st.sampled_from(FORMS),
    question=WORDS,
    answer=WORDS,
    both=st.booleans(),
    interval_s=st.sampled_from([0.2, 0.5, 1.1]),
)
def test_level_0_knows_nothing_that_was_not_said(
    make: Any, question: list[str], answer: list[str], both: bool, interval_s: float
) -> None:
    own = {"asks": f"{' '.join(question)}?", "answers": " ".join(answer)} if make is plain else {}
    dialogue = make(**own)
    config = OracleConfig(both_directions=both, interval_s=interval_s)
    for t_s, payload in level_0_payloads(dialogue, config).items():
        blind = make_dialogue(*blotted_out(dialogue.turns, t_s), answer="unknown")
        assert level_0_payloads(blind, config)[t_s] == payload


def test_blotting_out_takes_the_answer_away() -> None:
    blind = blotted_out(interruption().turns, t_s=3.0)
    text = str([(turn.body, turn.lead, turn.spoken_text, turn.written_text) for turn in blind if turn.speaker == "A"])
    assert "forty" not in text
    assert [len(turn.utterances[0].words) for turn in blind] == [
        len(turn.utterances[0].words) for turn in interruption().turns
    ]
