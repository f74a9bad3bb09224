"""The user's turns in the realtime protocol's events, and its errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.serve.web.realtime_events import MAX_ITEMS, Fault, Items, user_item
from kame_model.serve.web.realtime_turns import UserTurns
from tests.support.realtime_protocol import checked, types

DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"


def deltas(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == DELTA)


def test_a_turn_is_told_as_the_protocol_has_it() -> None:
    turns = UserTurns(Items())
    told = turns.started(1.0)
    told += turns.heard("how many", False, 1.5)
    told += turns.heard("how many litres", False, 2.0)
    told += turns.stopped(3.0)
    told += turns.heard("how many litres are there", True, 3.2)
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
    turns.started(0)
    told = turns.heard("I scream", False, 1) + turns.heard("ice cream is", False, 2)
    assert told == []
    told = turns.heard("ice cream is cold", True, 3)
    assert deltas(told) == "ice cream is cold"


def test_a_final_text_that_differs_from_what_was_told_is_told_whole_at_the_end() -> None:
    turns = UserTurns(Items())
    turns.started(0)
    told = turns.heard("two pears", False, 1) + turns.heard("two pears and", False, 2)
    assert deltas(told) == "two pears"
    told = turns.heard("to pears and", True, 3)
    assert types(told)[-1] == COMPLETED
    assert told[-1]["transcript"] == "to pears and"
    assert DELTA not in types(told)


def test_words_that_come_late_belong_to_their_own_turn() -> None:
    turns = UserTurns(Items())
    first = turns.started(0) + turns.stopped(1)
    second = turns.started(2)
    late = turns.heard("first", True, 2.1)
    assert late[-1]["item_id"] == first[0]["item_id"] != second[0]["item_id"]
    assert turns.is_speaking
    assert turns.heard("second", True, 3)[-1]["item_id"] == second[0]["item_id"]


def test_words_before_the_detector_has_found_speech_begin_the_turn() -> None:
    turns = UserTurns(Items())
    assert turns.heard("", False, 0) == []
    turns.heard("hey", False, 0.5)
    told = turns.heard("hey you", False, 0.7)
    assert turns.started(0.8)[0]["item_id"] == told[0]["item_id"]


def test_transcripts_can_be_left_out_and_a_reset_forgets() -> None:
    items = Items()
    turns = UserTurns(items)
    turns.wants_transcripts = False
    turns.started(0)
    told = turns.stopped(1) + turns.heard("secret words", True, 2)
    assert COMPLETED not in types(told)
    turns.wants_transcripts = True
    turns.started(3)
    turns.heard("old words", False, 4)
    turns.reset()
    assert turns.stopped(5) == []
    assert "old" not in str(turns.started(6) + turns.heard("new", False, 7) + turns.heard("new", True, 8))


@given(st.lists(st.sampled_from(["start", "stop", "hear", "final"]), max_size=40))
def test_any_order_of_events_is_told_in_the_protocol(order: list[str]) -> None:
    turns, told = UserTurns(Items()), []
    for number, what in enumerate(order):
        text = "one two three four"[: number % 19]
        match what:
            case "start":
                told += turns.started(number)
            case "stop":
                told += turns.stopped(number)
            case _:
                told += turns.heard(text, what == "final", number)
    checked(told)
    added = [event["item"]["id"] for event in told if event["type"] == "conversation.item.added"]
    assert len(set(added)) == len(added)
    completed = [event["item_id"] for event in told if event["type"] == COMPLETED]
    assert set(completed) <= set(added)
    assert len(set(completed)) == len(completed)


def test_old_items_are_forgotten() -> None:
    items = Items()
    for number in range(MAX_ITEMS + 5):
        items.add(user_item(f"item_{number}"))
    assert items.find("item_5")["id"] == "item_5"
    assert items.last_id == f"item_{MAX_ITEMS + 4}"
    with pytest.raises(Fault, match="too old"):
        items.find("item_4")


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
    (told,) = checked([Fault(code, "It is so.").event()])
    assert told["error"]["type"] == kind
