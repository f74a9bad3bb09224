"""What a dialogue's page shows: parts, cuts, pauses and overlaps on the clock, lanes, and texts beside each other."""

from dataclasses import replace
from typing import Any

from dashboard.timeline import DiffPiece, Timeline, compare_words, lay_out
from data_schemas.records import AudioDialogue, Turn, WrittenSpan
from tests.support.builders import make_turn, make_utterance
from tests.support.dashboards import heard
from tests.support.small_datasets import noisy_dialogue
from tests.support.token_rows import audio_dialogue, said_turn, timed

ASKED = said_turn(0, "B", "So how many?", ("so", 0.0, 0.5), ("how", 1.5, 1.8), ("many", 1.9, 2.3))


def answer(**fields: Any) -> Turn:
    said = (("well", 2.0, 2.4), ("it's", 3.0, 3.2), ("ten", 3.3, 3.6), ("right", 3.7, 4.0))
    parts = {"lead": "Well,", "body": "it's ten.", "tail": "Right?", "answer_word_index": 2}
    return said_turn(1, "A", "Well, it's ten. Right?", *said, **parts | fields)


def event(t_s: float, level: int, text: str | None, turn_index: int = 0) -> dict[str, Any]:
    return {"t_s": t_s, "level": level, "text": text, "turn_index": turn_index, "error": None}


def laid(*turns: Turn, events: list[dict[str, Any]] | None = None) -> Timeline:
    row: AudioDialogue = audio_dialogue(*turns, duration_s=5.0)
    return lay_out(row, events or [])


def test_an_answer_has_lead_body_and_tail() -> None:
    shown = laid(ASKED, answer())
    assert [(word.text, word.part) for word in shown.words["A"]] == [
        ("well", "lead"),
        ("it's", "body"),
        ("ten", "body"),
        ("right", "tail"),
    ]
    assert [(each.kind, each.start_s, each.end_s) for each in shown.spans["A"]] == [
        ("lead", 2.0, 2.4),
        ("body", 3.0, 3.6),
        ("tail", 3.7, 4.0),
    ]
    assert [word.text for word in shown.words["A"] if word.bears_answer] == ["ten"]
    assert {word.part for word in shown.words["B"]} == {""}


def test_a_backchannel_is_none_of_the_turns_parts() -> None:
    spoken = answer()
    nod = make_utterance("yeah", timed(("yeah", 1.0, 1.2)), kind="backchannel")
    shown = laid(ASKED, replace(spoken, utterances=(nod, *spoken.utterances)))
    assert [word.part for word in shown.words["A"]] == ["backchannel", "lead", "body", "body", "tail"]
    assert [word.text for word in shown.words["A"] if word.bears_answer] == ["ten"]


def test_pauses_overlaps_and_cuts_are_marked() -> None:
    marks = [(each.kind, each.start_s, each.end_s) for each in laid(ASKED, answer(cut_s=4.1)).marks]
    assert marks == [("cut", 4.1, 4.1), ("overlap", 2.0, 2.3), ("pause", 0.5, 1.5), ("pause", 2.4, 3.0)]


def test_events_that_repeat_a_text_are_one_whisper_until_the_next() -> None:
    events = [
        event(0.5, 0, "five"),
        event(1.0, 0, "five"),
        event(1.5, 2, "ten"),
        event(2.0, 0, "six"),
        event(2.3, 5, None),
    ]
    lanes = laid(ASKED, events=events).lanes
    assert list(lanes) == [0, 2, 5]
    first, second = lanes[0]
    assert (first.start_s, first.end_s, first.label_end_s, first.times_s) == (0.5, 1.5, 2.0, [0.5, 1.0])
    assert (second.start_s, second.end_s, second.label_end_s) == (2.0, 2.3, 5.0)
    assert (lanes[5][0].end_s, lanes[5][0].event["text"]) == (5.0, None)
    of_two_turns = [event(0.5, 5, "ten"), event(1.0, 5, "ten", turn_index=2)]
    assert len(laid(ASKED, events=of_two_turns).lanes[5]) == 2


def test_what_is_said_otherwise_than_written_is_marked() -> None:
    spans = (WrittenSpan(start_char=0, end_char=2), *(WrittenSpan(start_char=3, end_char=6),) * 2)
    utterance = replace(make_utterance("So fifty percent.", timed(("so", 0, 1))), written_spans=spans)
    (shown,) = laid(make_turn(0, "B", [utterance], written_text="So 50%.")).turns
    assert shown.written == [DiffPiece("So ", False), DiffPiece("50%", True), DiffPiece(".", False)]
    assert shown.heard is None


def test_what_was_heard_is_compared_with_what_was_spoken() -> None:
    shown = lay_out(heard(noisy_dialogue(0), "Well, EIGHTEEN legs.", 3, 1), []).turns[1]
    assert shown.spoken == [DiffPiece("Well, eighteen", False), DiffPiece("eggs.", True)]
    assert shown.heard == [DiffPiece("Well, EIGHTEEN", False), DiffPiece("legs.", True)]
    assert (shown.n_words, shown.n_word_errors) == (3, 1)


def test_words_that_are_missing_or_added_differ() -> None:
    assert compare_words(["a", "b", "c"], ["b", "c", "d"]) == (
        [DiffPiece("a", True), DiffPiece("b c", False)],
        [DiffPiece("b c", False), DiffPiece("d", True)],
    )
    assert compare_words([], []) == ([], [])
