"""Each form: who says what and where, and that what is said stays the item's question and its true answer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from data_schemas.config import FormsConfig
from data_schemas.records import Item
from pipelines.script.forms.clauses import find_breath_breaks, find_pause_breaks
from pipelines.script.forms.table import FORMS
from pipelines.script.forms.turns import insert_words, make_spoken
from spoken.reader import SPOKEN, speak
from spoken.spoken_text import split_words
from tests.support.builders import make_item
from tests.support.forms import METALS, SUM, all_of, metals, said, sums, written

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", FORMS)
def test_of_every_form_turns_alternate_and_each_word_and_the_answer_have_their_places(name: str) -> None:
    n_bearing = 0
    for dialogue in written(sums(20), name):
        assert dialogue.form == name
        assert [turn.turn_index for turn in dialogue.turns] == list(range(len(dialogue.turns)))
        assert all(left.speaker == "B" and right.speaker == "A" for left, right in pairwise(dialogue.turns[:2]))
        assert all(left.speaker != right.speaker for left, right in pairwise(dialogue.turns))
        for turn in dialogue.turns:
            assert turn.spoken_text == said(turn) == all_of(turn.lead, turn.body, turn.tail)
            for utterance in turn.utterances:
                assert SPOKEN.fullmatch(utterance.spoken_text)
                assert len(utterance.written_spans) == len(split_words(utterance.spoken_text))
            spans = [span for each in turn.utterances for span in each.written_spans if span.start_char is not None]
            places = [(span.start_char or 0, span.end_char or 0) for span in spans]
            assert places == sorted(places)
            assert all(0 <= start < end <= len(turn.written_text) for start, end in places)
            if turn.answer_word_index is not None:
                n_bearing += 1
                assert turn.speaker == "A"
                assert split_words(turn.spoken_text)[turn.answer_word_index] == "ten"
                assert turn.answer_word_index >= len(split_words(turn.lead or ""))
                assert "ten" in split_words(turn.body)
    assert n_bearing >= 20


def test_greetings_come_first_and_bear_no_answer() -> None:
    dialogues = written(sums(40), "greeting")
    assert all(len(each.turns) == 4 and each.turns[2].written_text == SUM for each in dialogues)
    assert all(each.turns[1].answer_word_index is None for each in dialogues)
    assert len({each.turns[0].spoken_text for each in dialogues}) > 5


def test_two_breaths_part_the_question_at_a_clause_or_a_long_one_before_a_phrase() -> None:
    for dialogue in written(sums(20), "two_breaths"):
        first, second = dialogue.turns[0].utterances
        assert first.spoken_text[-1] in ",.?!"
        assert second.placement.rule == "after"
        assert second.placement.seconds is not None
        assert 0.3 <= second.placement.seconds <= 0.9
        assert f"{first.spoken_text} {second.spoken_text}" == dialogue.turns[0].spoken_text
    question = "What is the name of the largest river on the island to the north of ours?"
    (dialogue,) = written([make_item(question, "Alba")], "two_breaths")
    second = dialogue.turns[0].utterances[1]
    assert split_words(second.spoken_text)[0] in {"of", "on", "to"}


def test_a_pause_to_think_stands_inside_the_question() -> None:
    dialogues = written(sums(30), "thinking_pause")
    for dialogue in dialogues:
        asked = dialogue.turns[0]
        first, second = asked.utterances
        assert second.placement.seconds is not None
        assert 1.0 <= second.placement.seconds <= 2.5
        assert min(len(split_words(each.spoken_text)) for each in (first, second)) >= 2
        assert asked.written_text == SUM
    n_plain = len(split_words(written(sums(1), "plain")[0].turns[0].spoken_text))
    n_held = sum(len(split_words(each.turns[0].spoken_text)) > n_plain for each in dialogues)
    assert 10 <= n_held < 30


def test_a_correction_leaves_what_is_meant() -> None:
    plain = split_words(written(sums(1), "plain")[0].turns[0].spoken_text.lower())
    for dialogue in written(sums(40), "self_correction"):
        asked = dialogue.turns[0]
        (utterance,) = asked.utterances
        words = split_words(utterance.spoken_text.lower())
        meant = [word for word, span in zip(words, utterance.written_spans, strict=True) if span.start_char is not None]
        assert asked.written_text == SUM
        assert {"sorry", "wait", "mean", "meant", "no"} & set(words)
        assert len(words) > len(plain)
        assert meant == plain
        assert "ten" not in words


def test_a_number_inside_a_longer_one_is_not_misspoken() -> None:
    question = "A shop sells 42 red pens on Monday and 105 of them on Friday. How many pens is that in all?"
    for dialogue in written([make_item(question, "147", item_id=f"mine-{k}") for k in range(30)], "self_correction"):
        text = dialogue.turns[0].spoken_text
        assert "forty two red pens" in text
        assert "one hundred five of them" in text


def test_an_early_start_has_a_lead_that_outlasts_the_question() -> None:
    for dialogue in written(sums(20), "early_start"):
        placement = dialogue.turns[1].utterances[0].placement
        assert placement.rule == "early"
        assert placement.seconds is not None
        assert 0 < placement.seconds <= 0.8
        n_lead = len(split_words(dialogue.turns[1].lead or ""))
        assert n_lead / 3.2 - placement.seconds >= 1.0  # even at the fastest speed
        assert "apples" not in (dialogue.turns[1].lead or "")


@given(text=st.lists(st.sampled_from(["so", "um,", "Right.", "five", "it's"]), min_size=1, max_size=6), at=st.data())
def test_what_is_inserted_takes_no_word_from_its_place(text: list[str], at: st.DataObject) -> None:
    said = make_spoken("Ann has five dollars. What now?")
    index = at.draw(st.integers(0, said.n_words))
    longer = insert_words(said, index, " ".join(text))
    assert longer.written == said.written
    words = split_words(longer.text)
    assert [words[k] for k, span in enumerate(longer.spans) if span] == split_words(said.text)
    assert all(said.written[span[0] : span[1]] == words[k] for k, span in enumerate(longer.spans) if span)


def test_our_own_words_are_read_aloud_as_they_stand_or_a_mistake() -> None:
    dialogues = written(sums(40), "greeting", "interruption", "follow_up", "backchannel")
    utterances = [(turn, each) for dialogue in dialogues for turn in dialogue.turns for each in turn.utterances]
    ours = {
        each.spoken_text
        for turn, each in utterances
        if each.kind == "backchannel" or (turn.answer_word_index is None and "apples" not in each.spoken_text)
    }
    assert len(ours) > 20
    assert {text for text in ours if speak(text) != text} == set()
    with pytest.raises(ValueError, match="not in spoken form"):
        make_spoken("Wait: 5?")


@given(words=st.lists(st.sampled_from(["so", "um,", "Right.", "five", "of", "if", "that,"]), min_size=1, max_size=30))
def test_a_question_is_never_parted_at_its_edge(words: list[str]) -> None:
    text = " ".join(words)
    assert all(4 <= at <= len(words) - 4 for at in find_breath_breaks(text))
    assert all(4 <= at <= len(words) - 2 for at in find_pause_breaks(text))


def test_a_number_is_not_parted() -> None:
    text = "A charge of four times ten to the power of five units of the field sits there"
    words = text.split()
    for at in [*find_breath_breaks(text), *find_pause_breaks(text)]:
        assert at not in range(words.index("four"), words.index("units"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"shares": {"duet": 1.0}},
        {"shares": dict.fromkeys(FORMS, 0.0)},
        {"shares": {"plain": -1.0}},
        {"lead_min_s": 2.0, "lead_max_s": 1.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FormsConfig.model_validate(wrong)
    assert FormsConfig().shares.model_dump().keys() == FORMS.keys()


def test_an_interruption_falls_well_before_the_answer_or_after_it_and_is_answered_briefly() -> None:
    for dialogue in [*written(sums(60), "interruption"), *written(metals(20), "interruption")]:
        _, told, cut_in, brief = dialogue.turns
        placement = cut_in.utterances[0].placement
        assert placement.rule == "interrupt"
        assert placement.seconds is not None
        assert placement.word_index is not None
        assert 0.12 <= placement.seconds <= 0.3
        assert 2 <= placement.word_index <= len(split_words(told.spoken_text)) - 4
        assert told.tail is None
        assert len(split_words(brief.body)) <= len(split_words(told.body))
        assert told.answer_word_index is not None
        was_said = placement.word_index >= told.answer_word_index
        assert was_said or placement.word_index <= told.answer_word_index - 3
        assert was_said or not {"again", "repeat", "missed"} & set(split_words(cut_in.spoken_text))


def test_a_short_answer_gets_a_lead_that_can_be_interrupted() -> None:
    for dialogue in written(metals(10), "interruption", share_without_lead=1.0):
        assert len(split_words(dialogue.turns[1].lead or "")) >= 9


def test_follow_ups_lean_on_the_answer() -> None:
    second = [dialogue.turns[3].body.lower() for dialogue in written(sums(40), "follow_up")]
    assert any("twelve minus two" in body for body in second)
    assert any("twelve minus two" not in body for body in second)
    asked = {dialogue.turns[2].written_text: dialogue.turns[3] for dialogue in written(metals(40), "follow_up")}
    wrong = {metal: turn for text, turn in asked.items() for metal in METALS[1:] if metal in text}
    assert len(wrong) >= 2
    assert all("gold" in turn.body.lower() and metal not in turn.body for metal, turn in wrong.items())


def test_a_step_is_asked_for_only_where_it_shows_how() -> None:
    step = "She has 10 apples left."
    told = [make_item(SUM, "10", explanation=step, item_id=f"mine-{k}", options=()) for k in range(30)]
    asked = {dialogue.turns[2].written_text for dialogue in written(told, "follow_up")}
    assert len(asked) >= 4
    assert not any({"step", "work", "there", "how", "get"} & set(split_words(text.lower())) for text in asked)


def test_an_answer_is_asked_for_again_once_all_of_it_was_said() -> None:
    question = "A shop sells 40 pens on 3 days and 25 on 1. How many pens is that?"
    step = "It sells 120 + 25 = 145 pens in all these days of its week"
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
    utterances = [
        each for dialogue in written(items, "backchannel") for turn in dialogue.turns for each in turn.utterances
    ]
    over = [each.placement for each in utterances if each.kind == "backchannel"]
    assert {(each.turn_index, each.word_index) for each in over} == {(0, question.split().index("hall,"))}


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
