"""Either side of a conversation in the realtime protocol's events, and its errors."""

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.units import FRAME_N_SAMPLES
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.web.realtime_events import (
    MAX_ITEMS,
    SILENT_N_FRAMES,
    WAIT_N_FRAMES,
    FrameState,
    Items,
    RealtimeError,
    Responses,
    UserTurns,
    decode_pcm16,
    encode_pcm16,
    make_item,
)
from tests.support.realtime_protocol import checked, types

AUDIO, TEXT = "response.output_audio.delta", "response.output_audio_transcript.delta"
BEGUN = ["response.created", "response.output_item.added", "conversation.item.added", "response.content_part.added"]
DONE = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]

DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"
QUIET = FrameState()


def frame(number: int = 0, loudness: float = 0.0, text: str = "") -> SaidFrame:
    return SaidFrame(number, np.full(FRAME_N_SAMPLES, loudness, np.float32), text)


def responses() -> Responses:
    return Responses(Items())


def silence(speaker: Responses, n_frames: int, course: FrameState = QUIET) -> list[dict[str, Any]]:
    return [event for _ in range(n_frames) for event in speaker.add_frame(frame(), course)]


def test_speech_between_two_silences_is_a_response() -> None:
    speaker = responses()
    assert silence(speaker, 100) == []
    told = speaker.add_frame(frame(100, text=" Six"), QUIET)
    told += speaker.add_frame(frame(101, loudness=0.1), QUIET)
    told += silence(speaker, SILENT_N_FRAMES - 1)
    told += speaker.add_frame(frame(120, loudness=0.1, text="teen"), QUIET)
    told += silence(speaker, SILENT_N_FRAMES)
    n_frames = 3 + 2 * SILENT_N_FRAMES - 1
    seen = types(checked(told))
    assert [each for each in seen if each not in (AUDIO, TEXT)] == BEGUN + DONE
    assert seen.count(AUDIO) == n_frames  # pauses in it are in it
    done = told[-1]["response"]
    assert done["status"] == "completed"
    assert done["output"][0]["content"][0]["transcript"] == " Sixteen"
    assert "".join(each["delta"] for each in told if each["type"] == TEXT) == " Sixteen"
    assert silence(speaker, 100) == []


def test_sound_is_sent_as_it_was_said_but_clipped_and_not_wrapped_beyond_full_scale() -> None:
    said = SaidFrame(7, np.sin(np.arange(FRAME_N_SAMPLES, dtype=np.float32) / 9), "")
    (delta,) = [event for event in responses().add_frame(said, QUIET) if event["type"] == AUDIO]
    assert delta["kame_frame"] == 7
    np.testing.assert_allclose(decode_pcm16(base64.b64decode(delta["delta"])), said.samples, atol=1e-4)
    loud = np.array([2.0, -2.0, 1.0, -1.0, 0.0], np.float32)
    assert np.frombuffer(encode_pcm16(loud), "<i2").tolist() == [32767, -32767, 32767, -32767, 0]


def test_a_response_that_was_asked_for_waits_for_the_model() -> None:
    speaker = responses()
    told = speaker.create({"topic": "tank"})
    assert types(checked(told)) == BEGUN
    assert told[0]["response"]["metadata"] == {"topic": "tank"}
    with pytest.raises(RealtimeError, match="in progress"):
        speaker.create()
    assert set(types(silence(speaker, WAIT_N_FRAMES - 1))) == {AUDIO}
    speaker.add_frame(frame(text="Hello"), QUIET)
    told = silence(speaker, SILENT_N_FRAMES)
    assert types(told)[-1] == "response.done"


LONG = 10 * WAIT_N_FRAMES
BUSY = [FrameState(is_behind=True), FrameState(is_spoken_to=True), FrameState(is_asking=True)]


@pytest.mark.parametrize("course", BUSY)
def test_a_response_that_was_asked_for_waits_for_what_must_come_before_the_answer(course: FrameState) -> None:
    speaker = responses()
    speaker.create()
    assert set(types(silence(speaker, LONG, course))) == (set() if course.is_behind else {AUDIO})
    assert set(types(silence(speaker, WAIT_N_FRAMES - 1))) == {AUDIO}
    assert types(checked(silence(speaker, 1)))[-1] == "response.done", "it is given up"


def test_what_the_model_says_while_a_file_is_heard_is_not_taken_for_the_answer() -> None:
    speaker = responses()
    speaker.create()
    behind = FrameState(is_behind=True)
    speaker.add_frame(frame(text="Hm"), behind)
    assert set(types(silence(speaker, LONG, behind))) == {AUDIO}
    assert "response.done" not in types(silence(speaker, WAIT_N_FRAMES - 1))
    speaker.add_frame(frame(text="Six"), QUIET)
    assert types(silence(speaker, SILENT_N_FRAMES))[-1] == "response.done"


@pytest.mark.parametrize("course", BUSY)
def test_a_response_of_the_models_own_ends_with_a_silence_whatever_goes_on(course: FrameState) -> None:
    speaker = responses()
    speaker.add_frame(frame(text="Hm"), course)
    assert types(silence(speaker, SILENT_N_FRAMES, course))[-1] == "response.done"


def test_speech_into_a_response_that_waits_does_not_end_it() -> None:
    speaker = responses()
    speaker.create()
    assert speaker.interrupt() == []
    speaker.add_frame(frame(text="Six"), QUIET)
    assert types(speaker.interrupt())[-1] == "response.done"


def test_a_cancelled_response_is_sent_no_more_and_the_next_one_is() -> None:
    speaker = responses()
    speaker.add_frame(frame(loudness=0.1), QUIET)
    with pytest.raises(RealtimeError):
        speaker.cancel("resp_of_somebody")
    told = checked(speaker.cancel())
    assert told[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert told[-1]["response"]["output"][0]["status"] == "incomplete"
    assert [event for _ in range(50) for event in speaker.add_frame(frame(loudness=0.1, text="blah"), QUIET)] == []
    with pytest.raises(RealtimeError, match="in progress"):
        speaker.cancel()
    assert silence(speaker, SILENT_N_FRAMES) == []
    assert types(speaker.add_frame(frame(loudness=0.1), QUIET))[0] == "response.created"


@given(st.lists(st.sampled_from(["say", "quiet", "create", "cancel", "end"]), max_size=80))
def test_every_response_begins_once_and_ends_once(order: list[str]) -> None:
    speaker, told = responses(), []
    for number, what in enumerate(order):
        try:
            match what:
                case "say":
                    told += speaker.add_frame(frame(number, 0.1, "word "), QUIET)
                case "quiet":
                    told += silence(speaker, 7)
                case "create":
                    told += speaker.create()
                case "cancel":
                    told += speaker.cancel()
                case _:
                    told += speaker.finish("cancelled")
        except RealtimeError as fault:
            checked([fault.to_event({"event_id": "e1"})])
    told += speaker.finish("cancelled")
    opened: str | None = None
    for event in checked(told):
        if event["type"] == "response.created":
            assert opened is None
            opened = event["response"]["id"]
        elif event["type"] == "response.done":
            assert event["response"]["id"] == opened
            opened = None
        elif event["type"] == AUDIO:
            assert event["response_id"] == opened
    assert opened is None


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


def test_an_error_says_whose_fault_it_is() -> None:
    for kind, codes in {
        "server_error": ["session_ended", "input_audio_dropped", "busy"],
        "rate_limit_error": ["rate_limit_exceeded", "too_many_changes", "input_audio_buffer_full"],
        "invalid_request_error": ["invalid_json"],
    }.items():
        told = checked([RealtimeError(code, "It is so.").to_event() for code in codes])
        assert [each["error"]["type"] for each in told] == [kind] * len(codes)
