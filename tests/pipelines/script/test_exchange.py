"""How items are asked and answered, and which are refused."""

from typing import Any

import pytest

from data_schemas.config import ScriptConfig
from data_schemas.records import Item
from pipelines.script.choices import lower_start
from pipelines.script.exchange import make_exchange
from pipelines.script.rejections import REASONS, NotAskable, refers_to_options
from spoken.spoken_text import split_words
from tests.support.builders import make_item

TEN_FISH = ("a pike", "a perch", "a carp", "an eel", "a trout", "a salmon", "a cod", "a herring", "a tuna", "a roach")
ALONE = ScriptConfig(offer_share=0, max_spoken_options=0)
OFFERED = ScriptConfig(offer_share=1)


def item(question: str, answer: str, options: tuple[str, ...] = (), **fields: Any) -> Item:
    index = options.index(answer) if answer in options else None
    return make_item(question, answer, options=options, answer_index=index, **fields)


def asked(question: str, options: tuple[str, ...] = TEN_FISH, seed: int = 0, config: ScriptConfig | None = None) -> str:
    return make_exchange(item(question, options[0], options), config or ScriptConfig(), seed).question.text


def test_a_few_short_options_are_read_out_and_of_many_the_right_one_and_three_others() -> None:
    said = {asked("What do plants do by day?", ("photosynthesis", "osmosis"), seed, OFFERED) for seed in range(40)}
    assert "What do plants do by day? Is it photosynthesis or osmosis?" in said
    assert "What do plants do by day? The choices are osmosis or photosynthesis." in said
    assert all("photosynthesis" in text and "osmosis" in text for text in said)
    for seed in range(12):
        text = asked("Which of the following is a lake fish?", seed=seed)
        assert text.startswith("Which of these is a lake fish: ")
        assert sum(fish in text for fish in TEN_FISH) == 4
        assert "a pike" in text


def test_options_that_are_long_or_said_with_a_pause_are_numbered() -> None:
    options = ("it rises quickly, in the first two weeks", "it falls")
    said = asked("Which of the following statements about the price is true?", options)
    start, rises = "Which of these statements about the price is true: ", "it rises quickly, in the first two weeks"
    assert said in {f"{start}first, {rises}; or second, it falls?", f"{start}first, it falls; or second, {rises}?"}
    said = asked("Which of the following karyotypes is the mildest?", ("47,XXX", "47,XY,+18"))
    assert "first, forty seven, X" in said
    assert "; or second, forty seven, X" in said


def test_options_begin_with_small_letters_but_for_names() -> None:
    options = ("Be laid off", "Resistant to change, and slow", "Great Lakes workers", "French, or so they say")
    said = asked("Which of the following are older workers?", options)
    for start in ("be laid off", "resistant to change", "Great Lakes workers", "French, or"):
        assert f", {start}" in said


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("Fever", "fever"), ("Shivering and sweats", "shivering and sweats"),
        ("Self-serving bias", "self-serving bias"), ("Increase the GDP", "increase the GDP"),
        ("The Great Depression", "the Great Depression"), ("Great Depression", "Great Depression"),
        ("Declaration of Independence", "Declaration of Independence"), ("Paris", "Paris"),
        ("Newton's laws", "Newton's laws"), ("DNA strands", "DNA strands"), ("I think so", "I think so"),
        ("X-ray light", "X-ray light"), ("Algorithm I", "Algorithm I"), ("May 1", "May 1"),
        ("May it rain", "may it rain"), ("", ""),
    ],
)  # fmt: skip
def test_the_start_of_an_option_inside_a_sentence(text: str, small: str) -> None:
    assert lower_start(text) == small


def test_options_have_room_only_up_to_their_bounds() -> None:
    options = tuple(f"the {word} " + "very " * 18 + "old fish" for word in ("grey", "red", "blue", "green"))
    said = asked("Which of the following is a pike?", options)
    assert said.count("old fish") == 2
    with pytest.raises(NotAskable, match="needs_options"):
        asked("Which of the following is a pike?", options, config=ScriptConfig(max_option_words=20))


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("What is a predator of small fish?", "What is a predator of small fish?"),
        ("Which of the following is the largest predator?", "What is the largest predator?"),
        ("Which of the following large fishes lives longest?", "Which large fish lives longest?"),
        ("Which of the following laws provide the best shelter?", "Which laws provide the best shelter?"),
        ("Which of the following companies was first?", "Which company was first?"),
        ("Which of the following noble gases is the lightest?", "Which noble gas is the lightest?"),
        ("Which of the following hypotheses was first?", "Which hypothesis was first?"),
        ("Which of the following best explains waves?", "What best explains waves?"),
        ("The main cost of a lake is", "What is the main cost of a lake?"),
        ("A frozen lake is called an", "A frozen lake is called what?"),
        ("The role of a lake is to", "The role of a lake is to do what?"),
        ("What is the name of this fish.", "What is the name of this fish?"),
        ("Find the biggest fish", "Find the biggest fish."),
        ("How many fish are left? Assume none was eaten.", "How many fish are left? Assume none was eaten."),
    ],
)
def test_questions_are_opened_up_to_stand_without_options(written: str, spoken: str) -> None:
    assert asked(written, config=ALONE) == spoken


def test_an_unfinished_sentence_asks_for_its_end_and_is_at_times_answered_as_a_whole() -> None:
    question = "Lakes freeze from above. The fish that then rests is called"
    assert asked(question, config=ALONE) == f"{question} what?"
    assert "is called: a pike, " in "".join(asked(question, seed=seed, config=OFFERED) for seed in range(12))
    unfinished = item("Lakes freeze from above. The fish that then rests is called a", "eel", ("eel", "cod"))
    made = [make_exchange(unfinished, ALONE, seed) for seed in range(20)]
    assert {each.answer.text for each in made} == {"An eel.", "The fish that then rests is called an eel."}
    assert all(split_words(each.answer.text)[each.answer_word_index].lower() == "an" for each in made)


def test_a_blank_is_to_be_filled_in() -> None:
    said = {asked("The fish that eats all others is _____ .", seed=seed, config=ALONE) for seed in range(9)}
    assert "Fill in the blank: The fish that eats all others is blank." in said
    assert all(text.endswith("eats all others is blank.") for text in said)
    with pytest.raises(NotAskable, match="needs_writing"):
        asked("Pikes are _____, and carps are ____.")


def test_true_or_false() -> None:
    made = make_exchange(item("Fish can swim.", "True", ("True", "False")), ScriptConfig(), 0)
    assert (made.question.text, made.answer.text) == ("True or false: fish can swim.", "That's true.")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Which of the following is NOT a fish?", "needs_options"),
        ("All of the following are fish except", "needs_options"),
        ("Which of the following statements holds?", "needs_options"),
        ("Which of the following species is the largest?", "needs_options"),
        ("Which of the following is a fish?", "needs_options"),
        ("Which statement is true?", "needs_options"),
        ("A fish is cold. It swims.", "not_a_question"),
        ("When it freezes,", "needs_options"),
        ("In the lake,", "needs_options"),
        ("How do pikes swim? Discuss the lives of fish.", "answer_of_other_kind"),
        ("Find (a) the mass and (b) the age of a fish.", "needs_writing"),
        ("Is this the fish in the example above?", "needs_picture"),
        ("The following data show the mass of fish. What is it?", "needs_picture"),
        ("Refer to Table 5-1. How many fish are there?", "needs_picture"),
        ("How many fish are in the shaded area?", "needs_picture"),
        ("What does the cartoon below say?", "needs_picture"),
        ("What does the following program print?", "needs_writing"),
        ("Year fish 1990 10 12 1991 14 15 1992 18 20 What was the mean?", "needs_writing"),
        ("Which changes, Price   Demand   Supply?", "needs_writing"),
        ("What is (((((x + 1) + 2) + 3) + 4) + 5) + 6?", "needs_writing"),
        ("Why? " + "word " * 301, "question_too_long"),
    ],
)
def test_questions_that_cannot_be_followed_by_ear_are_refused(question: str, reason: str) -> None:
    with pytest.raises(NotAskable) as refused:
        asked(question, config=ALONE)
    assert refused.value.reason == reason


@pytest.mark.parametrize("option", ["Both A and C", "II only", "A and B", "Options B and C"])
def test_answers_that_name_other_options_are_refused(option: str) -> None:
    with pytest.raises(NotAskable, match="answer_refers_to_options"):
        asked("What is it?", (option, *TEN_FISH))


@pytest.mark.parametrize(
    "option", ["HI", "vitamin A and sunlight", "It is above sea level", "both parents", "I and my brother"]
)
def test_answers_that_only_look_so_are_not(option: str) -> None:
    assert not refers_to_options(option)


@pytest.mark.parametrize(
    ("option", "spoken"),
    [
        ("They move by sound.", "They move by sound."),
        ("by waving their fins", "By waving their fins."),
        ("Yes, because they swim", "Yes, because they swim."),
        (
            "the fish that is found in the deepest part of the lake",
            "The fish that is found in the deepest part of the lake.",
        ),
    ],
)
def test_sentences_and_phrases_are_said_as_they_are(option: str, spoken: str) -> None:
    answer = make_exchange(item("How do fish find food?", option, (option, *TEN_FISH)), ScriptConfig(), 0).answer.text
    assert answer == spoken


EXPLAINED = "First she had 40 eggs.\nShe now has 24 - 20 = {sign}4 {left}."


@pytest.mark.parametrize(
    ("question", "sign", "left", "said"),
    [
        ("How many are left?", "", "left", "four"),
        ("How many eggs are left?", "", "eggs left", "four eggs"),
        ("How much money is left?", "$", "left", "four dollars"),
        ("It costs £3. How much is left?", "$", "left", "four"),
        ("How long is it?", "", "hours longer", "four hours"),
        ("What percentage is left?", "", "of them", "four percent"),
    ],
)
def test_the_final_number_is_said_with_what_it_counts(question: str, sign: str, left: str, said: str) -> None:
    explained = item(question, "4", explanation=EXPLAINED.format(sign=sign, left=left))
    for seed in range(8):
        made = make_exchange(explained, ScriptConfig(), seed)
        assert made.short_answer.text.endswith(f" {said}.")
        words = split_words(made.answer.text)
        assert words[made.answer_word_index :][: len(said.split())] in (said.split(), ["four", *left.split()][:2])


def test_a_year_that_is_asked_for_is_said_as_one_and_a_number_below_zero_with_its_sign() -> None:
    made = make_exchange(item("In what year did it sink?", "1912", ("1912", *TEN_FISH)), ALONE, 0)
    assert made.answer.text.endswith("nineteen twelve.")
    options = ("- 17.5 dollars", "3 dollars")
    losses = item("What is the loss of the shop in a year, in dollars?", options[0], options)
    assert all("minus seventeen" in make_exchange(losses, ALONE, seed).answer.text for seed in range(6))


def test_too_long_an_answer_is_refused() -> None:
    with pytest.raises(NotAskable) as refused:
        make_exchange(item("What is it?", "a very " + "very " * 80 + "grey fish", TEN_FISH), ScriptConfig(), 0)
    assert refused.value.reason == "answer_too_long"


def test_the_short_answer_has_the_answer_alone_and_the_step_the_calculation_if_it_can_be_said() -> None:
    explained = item("How many are left?", "4", explanation=EXPLAINED.format(sign="", left="left"))
    made = make_exchange(explained, ScriptConfig(), 0)
    assert made.step is not None
    assert made.step.text == "Twenty four minus twenty equals four."
    assert split_words(made.short_answer.text)[made.short_answer_word_index :] == ["four"]
    made = make_exchange(item("How many?", "4", explanation="So (2 + 2) * 1 = 4"), ScriptConfig(), 0)
    assert made.step is None
    assert made.answer.text in {"The answer is four.", "That would be four.", "It's four.", "That's four."}


def test_a_distractor_is_a_wrong_option_of_a_few_words() -> None:
    options = ("a pike", "all of the above", "they swim in lakes and rivers at night", "a carp", "Because of it")
    said = {make_exchange(item("What is it?", "a pike", options), ScriptConfig(), seed).distractor for seed in range(9)}
    assert {each.text for each in said if each is not None} == {"a carp"}
    assert None not in said
    assert make_exchange(item("How many?", "4"), ScriptConfig(), 0).distractor is None


def test_seeds_differ_in_wording_and_agree_with_themselves() -> None:
    lake = item("Which of the following lives in lakes?", "a pike", TEN_FISH)
    made = [make_exchange(lake, ScriptConfig(), seed) for seed in range(20)]
    assert len({each.question.text for each in made}) > 15
    assert made == [make_exchange(lake, ScriptConfig(), seed) for seed in range(20)]


def test_an_unknown_reason_is_a_fault_of_ours() -> None:
    assert "needs_options" in REASONS
    with pytest.raises(ValueError, match="not a reason"):
        NotAskable("whatever", "x")


def test_none_of_these_is_no_end_of_a_sentence() -> None:
    unfinished = item("Lakes freeze from", "none of the above", ("the east", "the west", "none of the above"))
    assert {make_exchange(unfinished, OFFERED, seed).answer.text for seed in range(20)} == {"None of them."}


def test_a_question_that_lost_its_mark_is_not_finished_with_what() -> None:
    question = "At what depth will the boat float. The lake is 9 m deep and the boat weighs 2 tons"
    said = asked(question, options=("1 m", "2 m"), config=ALONE)
    assert said.startswith("At what depth will the boat float.")
    assert "what" not in said.removeprefix("At what")
