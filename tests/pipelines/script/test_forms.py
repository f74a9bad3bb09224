"""Each form: who says what and where, and that what is said stays the item's question and its true answer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from data_schemas.config import FormsConfig
from pipelines.script.forms.clauses import find_breath_breaks, find_pause_breaks
from pipelines.script.forms.table import FORMS
from pipelines.script.forms.turns import insert_words, make_spoken
from spoken.reader import SPOKEN, speak
from spoken.spoken_text import split_words
from tests.support.builders import make_item
from tests.support.forms import SUM, all_of, said, sums, written

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", FORMS)
def test_of_every_form_turns_alternate_and_say_what_their_utterances_do(name: str) -> None:
    for dialogue in written(sums(20), name):
        assert dialogue.form == name
        assert [turn.turn_index for turn in dialogue.turns] == list(range(len(dialogue.turns)))
        assert all(left.speaker == "B" and right.speaker == "A" for left, right in pairwise(dialogue.turns[:2]))
        assert all(left.speaker != right.speaker for left, right in pairwise(dialogue.turns))
        for turn in dialogue.turns:
            assert turn.spoken_text == said(turn) == all_of(turn.lead, turn.body, turn.tail)
            assert all(SPOKEN.fullmatch(each.spoken_text) for each in turn.utterances)


@pytest.mark.parametrize("name", FORMS)
def test_of_every_form_each_word_has_its_place_in_what_is_written(name: str) -> None:
    for dialogue in written(sums(10), name):
        for turn in dialogue.turns:
            for utterance in turn.utterances:
                assert len(utterance.written_spans) == len(split_words(utterance.spoken_text))
            spans = [span for each in turn.utterances for span in each.written_spans if span.start_char is not None]
            places = [(span.start_char or 0, span.end_char or 0) for span in spans]
            assert places == sorted(places)
            assert all(0 <= start < end <= len(turn.written_text) for start, end in places)


@pytest.mark.parametrize("name", FORMS)
def test_of_every_form_the_answer_is_where_the_turn_says(name: str) -> None:
    bearing = [
        (turn, turn.answer_word_index)
        for dialogue in written(sums(20), name)
        for turn in dialogue.turns
        if turn.answer_word_index is not None
    ]
    assert len(bearing) >= 20
    for turn, at in bearing:
        assert turn.speaker == "A"
        assert split_words(turn.spoken_text)[at] == "ten"
        assert at >= len(split_words(turn.lead or ""))
        assert "ten" in split_words(turn.body)


def test_plain_is_question_and_answer() -> None:
    (dialogue,) = written(sums(1), "plain", share_without_lead=1.0, tail_share=0.0)
    asked, told = dialogue.turns
    assert asked.written_text == SUM
    assert (told.lead, told.tail, told.body) == (None, None, told.spoken_text)
    assert [len(turn.utterances) for turn in dialogue.turns] == [1, 1]


def test_greetings_come_first_and_bear_no_answer() -> None:
    dialogues = written(sums(40), "greeting")
    assert all(len(each.turns) == 4 and each.turns[2].written_text == SUM for each in dialogues)
    assert all(each.turns[1].answer_word_index is None for each in dialogues)
    assert len({each.turns[0].spoken_text for each in dialogues}) > 5


def test_two_breaths_part_the_question_at_a_clause() -> None:
    for dialogue in written(sums(20), "two_breaths"):
        first, second = dialogue.turns[0].utterances
        assert first.spoken_text[-1] in ",.?!"
        assert second.placement.rule == "after"
        assert second.placement.seconds is not None
        assert 0.3 <= second.placement.seconds <= 0.9
        assert f"{first.spoken_text} {second.spoken_text}" == dialogue.turns[0].spoken_text


def test_a_long_clause_is_parted_before_a_phrase() -> None:
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


def test_our_own_words_are_read_aloud_as_they_stand() -> None:
    dialogues = written(sums(40), "greeting", "interruption", "follow_up", "backchannel")
    ours = {
        each.spoken_text
        for dialogue in dialogues
        for turn in dialogue.turns
        for each in turn.utterances
        if each.kind == "backchannel" or (turn.answer_word_index is None and "apples" not in each.spoken_text)
    }
    assert len(ours) > 20
    assert {text for text in ours if speak(text) != text} == set()


def test_a_text_of_ours_that_is_not_spoken_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not written as it is said"):
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


@pytest.mark.parametrize("name", FORMS)
def test_the_same_draws_give_the_same_turns(name: str) -> None:
    assert written(sums(5), name) == written(sums(5), name)
    assert FormsConfig().shares.model_dump().keys() == FORMS.keys()
