"""Which turns get events, what each one knows, and that level 0 knows nothing of what has not been said."""

from typing import Any

import pytest

from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue
from pipelines.oracle.plan import OraclePlan, plan_dialogue
from spoken.spoken_text import split_words
from tests.support.builders import make_dialogue, make_turn
from tests.support.oracle_dialogues import (
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


def planned(dialogue: Dialogue, config: OracleConfig = CONFIG) -> OraclePlan:
    return plan_dialogue(dialogue.turns, config)


def turns_asked(plan: OraclePlan) -> list[tuple[int, str]]:
    return sorted({(event.turn_index, event.speaker) for event in plan.events})


@pytest.mark.parametrize(
    ("dialogue", "user", "assistant"),
    [
        (plain(), [0], []), (greeting(), [0, 2], [1]), (follow_up(), [0, 2], [1]), (interruption(), [0, 2], [1]),
        (early_start(), [0], []), (backchannel(), [0], []),
    ],
    ids=lambda value: getattr(value, "form", ""),
)  # fmt: skip
def test_every_turn_that_is_answered_gets_events(dialogue: Dialogue, user: list[int], assistant: list[int]) -> None:
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


def test_of_a_turn_that_was_cut_off_history_has_what_was_said_and_the_hint_what_was_planned() -> None:
    dialogue = interruption()
    cut = dialogue.turns[1]
    later = [request for request in planned(dialogue).requests if request.history]
    expected = (f"User: {dialogue.turns[0].spoken_text}", f"Assistant: {cut.spoken_text} ...")
    assert later[-1].history == expected
    assert len(split_words(cut.spoken_text)) < len(split_words(cut.written_text))
    plan = planned(interruption())
    assert {event.truth for event in plan.events} == {ANSWER, NEXT_ANSWER}
    assert {request.hint for request in plan.requests if not request.history} == {ANSWER}


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
    lengths = [len(split_words(text)) for text in told]
    assert lengths == sorted(lengths)


def test_early_words_of_the_answer_and_backchannels_are_in_no_history() -> None:
    assert {request.history for request in planned(early_start()).requests} == {()}
    dialogue = backchannel()
    asked = said("And what about Ben then, how many does he have?", ends_s(dialogue.turns[1].utterances[-1]) + 1)
    longer = make_dialogue(*dialogue.turns, make_turn(2, "B", [asked]), answer_turn(3, "Ten.", ends_s(asked) + 1))
    assert not any("okay" in line for request in planned(longer).requests for line in request.history)
