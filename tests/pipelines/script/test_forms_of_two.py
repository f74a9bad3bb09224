"""Forms in which one breaks in, asks on or nods: who may do so where, and what the other then says."""

import pytest

from data_schemas.records import Item
from spoken.spoken_text import split_words
from tests.support.builders import make_item
from tests.support.forms import METALS, SUM, metals, sums, written

pytestmark = pytest.mark.full


def test_an_interruption_falls_inside_the_answer_and_is_answered_briefly() -> None:
    for dialogue in written([*sums(30)], "interruption"):
        _, told, cut_in, brief = dialogue.turns
        placement = cut_in.utterances[0].placement
        assert placement.rule == "interrupt"
        assert placement.seconds is not None
        assert placement.word_index is not None
        assert 0.12 <= placement.seconds <= 0.3
        assert 2 <= placement.word_index <= len(split_words(told.spoken_text)) - 4
        assert told.tail is None
        assert len(split_words(brief.body)) <= len(split_words(told.body))


def test_a_short_answer_gets_a_lead_that_can_be_interrupted() -> None:
    for dialogue in written(metals(10), "interruption", share_without_lead=1.0):
        assert len(split_words(dialogue.turns[1].lead or "")) >= 9


def test_it_is_asked_again_only_after_the_answer_was_said() -> None:
    for dialogue in written(sums(60), "interruption"):
        _, told, cut_in, _ = dialogue.turns
        at = cut_in.utterances[0].placement.word_index
        if {"again", "repeat", "missed"} & set(split_words(cut_in.spoken_text)):
            assert at is not None
            assert told.answer_word_index is not None
            assert at >= told.answer_word_index


def test_follow_ups_lean_on_the_answer() -> None:
    second = [dialogue.turns[3].body.lower() for dialogue in written(sums(40), "follow_up")]
    assert any("twelve minus two" in body for body in second)
    assert any("twelve minus two" not in body for body in second)
    asked = {dialogue.turns[2].written_text: dialogue.turns[3] for dialogue in written(metals(40), "follow_up")}
    wrong = {metal: turn for text, turn in asked.items() for metal in METALS[1:] if metal in text}
    assert len(wrong) >= 2
    assert all("gold" in turn.body.lower() and metal not in turn.body for metal, turn in wrong.items())


def test_a_step_is_asked_for_only_where_it_shows_how() -> None:
    told = [
        make_item(SUM, "10", explanation="She has 10 apples left.", item_id=f"mine-{k}", options=()) for k in range(30)
    ]
    asked = {dialogue.turns[2].written_text for dialogue in written(told, "follow_up")}
    assert len(asked) >= 4
    assert not any({"step", "work", "there", "how", "get"} & set(split_words(text.lower())) for text in asked)


def test_the_answer_is_asked_for_well_before_it_is_said_or_after() -> None:
    for dialogue in [*written(sums(60), "interruption"), *written(metals(20), "interruption")]:
        told, at = dialogue.turns[1], dialogue.turns[2].utterances[0].placement.word_index
        assert at is not None
        assert told.answer_word_index is not None
        assert at >= told.answer_word_index or at <= told.answer_word_index - 3


def test_an_answer_is_asked_for_again_once_all_of_it_was_said() -> None:
    question, step = (
        "A shop sells 40 pens on 3 days and 25 on 1. How many pens is that?",
        "It sells 120 + 25 = 145 pens in all these days of its week",
    )
    items = [make_item(question, "145", explanation=step, item_id=f"mine-{k}") for k in range(60)]
    n_again = 0
    for dialogue in written(items, "interruption"):
        told, at = dialogue.turns[1], dialogue.turns[2].utterances[0].placement.word_index
        assert at is not None
        assert told.answer_word_index is not None
        if at >= told.answer_word_index:
            n_again += 1
            assert at >= told.answer_word_index + len(split_words("one hundred forty five pens")) - 1
    assert n_again >= 5


LONG = "a very old rule of the guild that each of its members had to swear by before he took up the trade of his father"


def test_nobody_asks_for_a_short_answer_where_there_is_none() -> None:
    items = [make_item("Which rule did the guild keep for years?", LONG, item_id=f"mine-{k}") for k in range(60)]
    said = [each for dialogue in written(items, "interruption", "follow_up") for each in dialogue.turns[2:3]]
    assert len({turn.spoken_text for turn in said}) > 8
    assert not any({"short", "few"} & set(split_words(turn.spoken_text)) for turn in said)


def test_the_lead_of_a_brief_answer_has_no_word_of_it() -> None:
    asked = [make_item("Is the old bridge still open at night?", "No problem", item_id=f"mine-{k}") for k in range(40)]
    leads = {dialogue.turns[3].lead for dialogue in written(asked, "follow_up", share_without_lead=0.0)}
    assert len(leads) >= 4
    assert "No problem." not in leads


def test_a_backchannel_waits_for_a_clause_to_end() -> None:
    number = "It is seven hundred ninety three point four two five eight one newtons per square meter of the floor"
    question = "So, how heavy is the roof of the hall, and how much of it rests on the four old walls?"
    items = [make_item(question, number, item_id=f"mine-{k}") for k in range(20)]
    over = [
        (each.placement.turn_index, each.placement.word_index)
        for dialogue in written(items, "backchannel")
        for turn in dialogue.turns
        for each in turn.utterances
        if each.kind == "backchannel"
    ]
    assert set(over) == {(0, question.split().index("hall,"))}


def told_at_length(n: int) -> list[Item]:
    """Items whose answer is long enough to be listened to."""
    question = "Ann has 5 apples in a basket, and Bob gives her 7 more of them. Why does she smile at him in the end?"
    answer = "He has given her more apples than she had, and they will eat the whole lot in the evening"
    options = (answer, "He has eaten them")
    return [make_item(question, answer, options=options, answer_index=0, item_id=f"mine-{k}") for k in range(n)]


def test_the_user_agrees_to_the_answer_and_not_to_its_lead() -> None:
    over = [
        (dialogue, each)
        for dialogue in written(told_at_length(40), "backchannel", share_without_lead=0.0)
        for each in dialogue.turns[0].utterances[1:]
    ]
    assert over
    for dialogue, each in over:
        assert each.placement.word_index is not None
        assert each.placement.word_index >= len(split_words(dialogue.turns[1].lead or "")) + 4


def test_backchannels_lie_over_the_other_and_leave_the_words_alone() -> None:
    over: dict[str, int] = {"A": 0, "B": 0}
    for dialogue in written(told_at_length(60), "backchannel"):
        for turn in dialogue.turns:
            for each in turn.utterances:
                if each.kind != "backchannel":
                    continue
                over[turn.speaker] += 1
                place = each.placement
                other = dialogue.turns[1 - turn.turn_index]
                assert (place.rule, place.turn_index) == ("over", other.turn_index)
                assert place.word_index is not None
                assert 4 <= place.word_index < len(split_words(other.spoken_text)) - 5
                assert all(span.start_char is None for span in each.written_spans)
    assert min(over.values()) >= 10
