"""How items are asked and answered, and which are refused."""

from dataclasses import replace
from typing import Any

import pytest

from data_schemas.config import ScriptConfig
from data_schemas.records import Item
from pipelines.script.phrasing import phrase
from pipelines.script.refusals import REASONS, NotAskable, refers_to_options
from pipelines.script.speakable import spoken_words
from tests.builders import make_item

TEN_FISH = ("a pike", "a perch", "a carp", "an eel", "a trout", "a salmon", "a cod", "a herring", "a tuna", "a roach")


def item(question: str, answer: str, options: tuple[str, ...] = (), **fields: Any) -> Item:
    index = options.index(answer) if answer in options else None
    return make_item(question, answer, options=options, answer_index=index, **fields)


def asked(question: str, options: tuple[str, ...] = TEN_FISH, seed: int = 0) -> str:
    return phrase(item(question, options[0], options), ScriptConfig(), seed).question


def test_a_few_short_options_are_read_out() -> None:
    said = asked("What do plants do by day?", ("photosynthesis", "respiration", "osmosis"))
    assert said == "What do plants do by day? Is it photosynthesis, respiration, or osmosis?"


def test_long_options_are_announced_as_choices() -> None:
    options = ("it rises quickly in the first two weeks", "it falls")
    assert asked("What happens to the price?", options) == (
        "What happens to the price? The choices are: it rises quickly in the first two weeks, or it falls."
    )


def test_which_of_the_following_points_at_options_read_out() -> None:
    assert asked("Which of the following is a fish?", ("a pike", "an owl")) == (
        "Which of these is a fish: a pike, or an owl?"
    )


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("What is a predator of small fish?", "What is a predator of small fish?"),
        ("Which of the following is an example of a predator?", "What is an example of a predator?"),
        ("Which of the following large fishes lives in lakes?", "Which large fish lives in lakes?"),
        ("Which of the following companies was first?", "Which company was first?"),
        ("Which of the following best explains waves?", "What best explains waves?"),
        ("To grow, they must eat which of the following?", "To grow, they must eat what?"),
        ("What is the name of this fish.", "What is the name of this fish?"),
        ("Find the biggest fish", "Find the biggest fish."),
    ],
)
def test_questions_are_opened_up_to_stand_without_options(written: str, spoken: str) -> None:
    assert asked(written) == spoken


def test_an_unfinished_sentence_asks_for_its_end_after_its_context() -> None:
    said = {asked("Lakes freeze from above. The fish that then rests is called", seed=seed) for seed in range(12)}
    assert len(said) == 3
    assert all(text.startswith("Lakes freeze from above. ") and text.endswith(" is called what?") for text in said)


def test_a_blank_is_to_be_filled_in() -> None:
    said = asked("The fish that eats all others is _____ .")
    assert "ill in the blank" in said
    assert said.endswith("eats all others is blank.")


def test_true_or_false() -> None:
    made = phrase(item("Fish can swim.", "True", ("True", "False")), ScriptConfig(), 0)
    assert (made.question, made.answer) == ("True or false: Fish can swim.", "That's true.")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Which of the following is NOT a fish?", "needs_options"),
        ("All of the following are fish except", "needs_options"),
        ("Which of the following statements holds?", "needs_options"),
        ("Which statement is true?", "needs_options"),
        ("A fish is cold. It swims.", "not_a_question"),
        ("Refer to Table 5-1. How many fish are there?", "needs_picture"),
        ("How many fish are in the shaded area?", "needs_picture"),
        ("What does the cartoon below say?", "needs_picture"),
        ("What does the following program print?", "needs_writing"),
        ("Pikes are _____, and carps are ____.", "many_blanks"),
        ("_____, ___ and\n____ are fish", "many_blanks"),
        ("Why? " + "word " * 150, "question_too_long"),
    ],
)
def test_questions_that_cannot_be_followed_by_ear_are_refused(question: str, reason: str) -> None:
    with pytest.raises(NotAskable) as refused:
        asked(question)
    assert refused.value.reason == reason


def test_an_item_with_a_picture_may_not_speak_of_anything_seen() -> None:
    tables = item("How many legs have these tables?", "4")
    assert phrase(tables, ScriptConfig(), 0).question == "How many legs have these tables?"
    with pytest.raises(NotAskable, match="needs_picture"):
        phrase(replace(tables, picture="p.png"), ScriptConfig(), 0)


@pytest.mark.parametrize(
    "question",
    [
        "Which curve never crosses the supply curve?",
        "Which figure of speech is in it?",
        "Who observed that fish swim?",
    ],
)
def test_words_for_pictures_that_mean_something_else_may_stand_beside_one(question: str) -> None:
    said = phrase(item(question, "a fish", picture="p.png"), ScriptConfig(), 0)
    assert said.question == question


@pytest.mark.parametrize(
    "question",
    [
        "What is the central figure holding?",
        "Which point of curve D is best?",
        "Prices represent wages and QD represents workers. How many work?",
        "Observe the fish. What is it?",
    ],
)
def test_words_for_pictures_beside_one_are_refused(question: str) -> None:
    with pytest.raises(NotAskable, match="needs_picture"):
        phrase(item(question, "a fish", picture="p.png"), ScriptConfig(), 0)


@pytest.mark.parametrize(
    "option", ["all of the above", "Both A and C", "II only", "A and B", "None of these", "(i), (ii)"]
)
def test_answers_that_name_other_options_are_refused(option: str) -> None:
    with pytest.raises(NotAskable, match="answer_refers_to_options"):
        asked("What is it?", (option, *TEN_FISH))


@pytest.mark.parametrize(
    "option", ["vitamin A and sunlight", "It is above sea level", "both parents", "I and my brother"]
)
def test_answers_that_only_look_so_are_not(option: str) -> None:
    assert not refers_to_options(option)


@pytest.mark.parametrize(
    ("option", "spoken"),
    [
        ("They move by sound.", "They move by sound."),
        ("by waving their fins", "By waving their fins."),
        ("Yes, because they swim", "Yes, because they swim."),
        ("the fish that is found in the deepest and darkest part of the lake", None),
    ],
)
def test_sentences_and_phrases_are_said_as_they_are(option: str, spoken: str | None) -> None:
    answer = phrase(item("How do fish find food?", option, (option, *TEN_FISH)), ScriptConfig(), 0).answer
    assert answer == (spoken or f"{option[0].upper()}{option[1:]}.")


def test_the_answer_is_found_inside_its_frame() -> None:
    for seed in range(6):
        made = phrase(item("What is it?", "a pike", TEN_FISH), ScriptConfig(), seed)
        assert made.answer_word_index is not None
        assert spoken_words(made.answer)[made.answer_word_index :] == ["a", "pike"]


EXPLAINED = "First she had 40 eggs.\nShe now has 24 - 20 = {sign}4 {left}."


@pytest.mark.parametrize(
    ("question", "sign", "left", "said"),
    [
        ("How many are left?", "", "left", "four"),
        ("How many eggs are left?", "", "eggs left", "four eggs"),
        ("How much money is left?", "$", "left", "four dollars"),
        ("It costs £3. How much is left?", "$", "left", "four"),
    ],
)
def test_the_final_number_is_said_with_what_it_counts(question: str, sign: str, left: str, said: str) -> None:
    explained = item(question, "4", explanation=EXPLAINED.format(sign=sign, left=left))
    made = phrase(explained, ScriptConfig(), 0)
    assert made.answer.endswith(f" {said}.")
    assert made.answer_word_index is not None
    words = spoken_words(made.answer)
    assert words[made.answer_word_index :][: len(said.split())] == said.split()
    assert words[made.answer_word_index - 1] not in {"twenty", "forty"}


def test_a_last_step_that_cannot_be_said_is_left_out() -> None:
    made = phrase(item("How many?", "4", explanation="So (2 + 2) * 1 = 4"), ScriptConfig(), 0)
    assert made.answer in {"The answer is four.", "So the answer is four.", "So that makes four."}


def test_a_year_that_is_asked_for_is_said_as_one() -> None:
    made = phrase(item("In what year did it sink?", "1912", ("1912", *TEN_FISH)), ScriptConfig(), 0)
    assert made.answer.endswith("nineteen twelve.")


def test_too_long_an_answer_is_refused() -> None:
    with pytest.raises(NotAskable) as refused:
        phrase(item("What is it?", "fish " * 61, TEN_FISH), ScriptConfig(), 0)
    assert refused.value.reason == "answer_too_long"


def test_an_unknown_reason_is_a_fault_of_ours() -> None:
    assert "needs_options" in REASONS
    with pytest.raises(ValueError, match="no reason"):
        NotAskable("whatever", "x")
