"""The user's turns in the realtime protocol's events, and its errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.serve.web.realtime_events import MAX_ITEMS, Items, RealtimeError, UserTurns, make_item
from tests.support.realtime_protocol import checked, types

DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"


def deltas(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == DELTA)


def test_a_turn_is_told_as_the_protocol_has_it() -> None:
    turns = UserTurns(Items())
    told = turns.start(1.0)
    told += turns.hear("how many", False, 1.5)
    told += turns.hear("how many litres", False, 2.0)
    told += turns.stop(3.0)
    told += turns.hear("how many litres are there", True, 3.2)
    assert types(checked(told)) == [
        "input_audio_buffer.speech_started",
        DELTA,
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        DELTA,
        COMPLETED,
    ]
    assert len({event["item_id"] for event in told if "item_id" in event}) == 1
    assert (told[0]["audio_start_ms"], told[2]["audio_end_ms"]) == (1000, 3000)
    assert told[-1]["transcript"] == deltas(told) == "how many litres are there"
    assert told[-1]["usage"] == {"type": "duration", "seconds": 2.0}


def test_words_that_the_recogniser_takes_back_are_not_told_before_they_are_sure() -> None:
    turns = UserTurns(Items())
    turns.start(0)
    told = turns.hear("I scream", False, 1) + turns.hear("ice cream is", False, 2)
    assert told == []
    told = turns.hear("ice cream is cold", True, 3)
    assert deltas(told) == "ice cream is cold"


def test_a_final_text_that_differs_from_what_was_told_is_told_whole_at_the_end() -> None:
    turns = UserTurns(Items())
    turns.start(0)
    told = turns.hear("two pears", False, 1) + turns.hear("two pears and", False, 2)
    assert deltas(told) == "two pears"
    told = turns.hear("to pears and", True, 3)
    assert types(told)[-1] == COMPLETED
    assert told[-1]["transcript"] == "to pears and"
    assert DELTA not in types(told)


def test_words_that_come_late_belong_to_their_own_turn() -> None:
    turns = UserTurns(Items())
    first = turns.start(0) + turns.stop(1)
    second = turns.start(2)
    late = turns.hear("first", True, 2.1)
    assert late[-1]["item_id"] == first[0]["item_id"] != second[0]["item_id"]
    assert turns.is_speaking
    assert turns.hear("second", True, 3)[-1]["item_id"] == second[0]["item_id"]


def test_words_before_the_detector_has_found_speech_begin_the_turn() -> None:
    turns = UserTurns(Items())
    assert turns.hear("", False, 0) == []
    turns.hear("hey", False, 0.5)
    told = turns.hear("hey you", False, 0.7)
    assert turns.start(0.8)[0]["item_id"] == told[0]["item_id"]


def test_transcripts_can_be_left_out_and_a_reset_forgets() -> None:
    items = Items()
    turns = UserTurns(items)
    turns.wants_transcripts = False
    turns.start(0)
    told = turns.stop(1) + turns.hear("secret words", True, 2)
    assert COMPLETED not in types(told)
    turns.wants_transcripts = True
    turns.start(3)
    turns.hear("old words", False, 4)
    turns.reset()
    assert turns.stop(5) == []
    assert "old" not in str(turns.start(6) + turns.hear("new", False, 7) + turns.hear("new", True, 8))


@given(st.lists(st.sampled_from(["start", "stop", "hear", "final"]), max_size=40))
def test_any_order_of_events_is_told_in_the_protocol(order: list[str]) -> None:
    turns, told = UserTurns(Items()), []
    for number, what in enumerate(order):
        text = "one two three four"[: number % 19]
        match what:
            case "start":
                told += turns.start(number)
            case "stop":
                told += turns.stop(number)
            case _:
                told += turns.hear(text, what == "final", number)
    checked(told)
    added = [event["item"]["id"] for event in told if event["type"] == "conversation.item.added"]
    assert len(set(added)) == len(added)
    completed = [event["item_id"] for event in told if event["type"] == COMPLETED]
    assert set(completed) <= set(added)
    assert len(set(completed)) == len(completed)


def test_old_items_are_forgotten() -> None:
    items = Items()
    made = [make_item("user", "completed", []) for _ in range(MAX_ITEMS + 5)]
    for item in made:
        items.add(item)
    assert items.find(made[5]["id"]) == made[5]
    with pytest.raises(RealtimeError, match="too old"):
        items.find(made[4]["id"])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("session_ended", "server_error"),
        ("input_audio_dropped", "server_error"),
        ("busy", "server_error"),
        ("rate_limit_exceeded", "rate_limit_error"),
        ("too_many_changes", "rate_limit_error"),
        ("input_audio_buffer_full", "rate_limit_error"),
        ("invalid_json", "invalid_request_error"),
    ],
)
def test_an_error_says_whose_fault_it_is(code: str, kind: str) -> None:
    (told,) = checked([RealtimeError(code, "It is so.").to_event()])
    assert told["error"]["type"] == kind
