"""Answers that speak of statements, parts or other options, put in words."""

from typing import Any

import pytest

from data_schemas.config import ScriptConfig
from pipelines.script.exchange import Exchange, make_exchange
from pipelines.script.rejections import NotAskable
from spoken.spoken_text import Unspeakable
from tests.support.builders import make_item

ROMAN = "Which of the following are true?\nI. Pikes swim.\nII. Pikes fly\nIII. Pikes eat"


def made(question: str, options: tuple[str, ...], answer_index: int, **limits: Any) -> Exchange:
    item = make_item(question, options[answer_index], options=options, answer_index=answer_index)
    return make_exchange(item, ScriptConfig(**limits), 0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("I and III only", "Only statements one and three."),
        ("II only", "Only statement two."),
        ("I, II, and III", "Statements one, two and three."),
        ("(i) and (ii)", "Statements one and two."),
        ("None of the above", "None of them."),
    ],
)
def test_numbered_statements_are_read_out_and_named_by_number(answer: str, said: str) -> None:
    exchange = made(ROMAN, ("I only", answer, "II and III only"), 1)
    assert exchange.answer.text == said
    assert exchange.question.text == (
        "Which of the following are true? Statement one: Pikes swim. Statement two: Pikes fly. "
        "Statement three: Pikes eat."
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [("True, False", "The first is true, and the second is false."), ("False, False", "Both are false.")],
)
def test_two_statements_are_judged_one_by_one(answer: str, said: str) -> None:
    exchange = made("Statement 1 | Pikes swim. Statement 2 | Pikes fly.", (answer, "True, True"), 0)
    assert exchange.answer.text == said
    assert exchange.question.text == (
        "Statement one: Pikes swim. Statement two: Pikes fly. Is each of them true or false?"
    )


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which statements hold?", "I and II only"),  # nothing is numbered
        ("Which hold? 1. Pikes swim. 2. Pikes fly. 3. Pikes eat.", "True, False"),  # three, not two
        ("Which hold? I. Pikes swim.", "II only"),  # one only
        ("Which hold? (a) Pikes swim. (b) Pikes fly.", "a and b"),  # parts are told by number
    ],
)
def test_names_of_statements_that_are_not_there_are_refused(question: str, answer: str) -> None:
    with pytest.raises(NotAskable, match=r"answer_refers_to_options|needs_writing"):
        made(question, (answer, "a pike"), 0)


def test_none_of_the_above_is_asked_with_what_stands_above() -> None:
    exchange = made("What flies?", ("a pike", "a carp", "None of the above"), 2)
    assert exchange.question.text.rstrip("?.").endswith("or none of these")
    assert exchange.answer.text == "None of them."
    with pytest.raises(NotAskable, match="needs_options"):
        made("What flies?", ("a pike", "None of the above"), 1, max_spoken_options=0)


def test_all_of_the_above_is_asked_with_all_of_them_where_it_is_sure_what_stands_above() -> None:
    exchange = made("What swims?", ("a pike", "a carp", "an eel", "All of the above"), 3)
    assert all(fish in exchange.question.text for fish in ("a pike", "a carp", "an eel", "or all of these"))
    assert exchange.answer.text == "All of them."
    with pytest.raises(NotAskable, match="needs_options"):
        made("What swims?", (*"pqrs", "All of the above"), 4)
    for options, index in ((("a pike", "All of the above", "a hen"), 1), ((*"pqrstu", "All of the above"), 6)):
        with pytest.raises(NotAskable, match="answer_refers_to_options"):
            made("What swims?", options, index)


def test_an_options_own_letter_is_not_said_and_a_date_stays_what_it_is() -> None:
    assert made("What swims?", ("(A) a pike", "(B) a hen"), 0).answer.text.endswith(" a pike.")
    assert made("On what day do pikes swim?", ("10-Sep", "77"), 0, offer_share=0).answer.text.count("tenths") == 0


@pytest.mark.parametrize(
    ("question", "option", "said"),
    [
        ("What is the ratio of hens to pikes?", "1:04", "one to four"),
        ("What share of the hens swims?", "10-Sep", "nine tenths"),
        ("What share of the hens swims?", "Mar-64", "three over sixty four"),
        ("Find the next two numbers and return them as a list.", "[3, -5]", "three and minus five"),
        ("Is five prime? Return 1 for yes and 0 for no.", "1.0", "one"),
        ("We add two pikes. Is their number even?", "0.0", "No"),
    ],
)
def test_an_option_takes_the_form_that_is_asked_for(question: str, option: str, said: str) -> None:
    assert made(question, (option, "77"), 0, offer_share=0).answer.text.rstrip(".").endswith(said)


@pytest.mark.parametrize(
    ("question", "answer", "asked", "said"),
    [
        (
            "A pike eats. Calculate (a) its mass and (b) its age.", "(a) 3 kg, (b) 4 years",
            "A pike eats. Calculate its mass and its age.", "three kilograms and four years",
        ),
        (
            "Find the load (a) for a pike, (b) for a carp.", "3 kg, 4 kg",
            "Find the load for a pike, and for a carp.", "three kilograms and four kilograms",
        ),
        (
            "A pike eats. (a) What is its mass? (b) what is its width?", "3 kg, 4 in",
            "A pike eats. What is its mass? What is its width?", "three kilograms and four in",
        ),
        (
            "What are the load and the depth?", "3 kg, 4 m",
            "What are the load and the depth?", "three kilograms and four",
        ),
    ],
)  # fmt: skip
def test_two_parts_lose_their_labels_and_have_two_values(question: str, answer: str, asked: str, said: str) -> None:
    exchange = made(question, (answer, "5 kg, 6 m"), 0, offer_share=0)
    assert exchange.question.text == asked
    assert said in exchange.answer.text


def test_a_unit_noted_after_a_question_is_said_with_its_answer_and_a_lone_label_left_out() -> None:
    exchange = made("Find the load. (Unit: 10 ^ 5 Pa)", ("1.18", "2.36"), 0, offer_share=0)
    assert exchange.question.text == "Find the load."
    assert exchange.answer.text.endswith("one point one eight times ten to the power of five pascals.")
    exchange = made("A pike has mass 3.\n(a) Find its length.", ("4", "5"), 0, offer_share=0)
    assert exchange.question.text == "A pike has mass three. Find its length."


@pytest.mark.parametrize(
    ("stem", "options", "listed"),
    [
        ("Carps are eaten by the", ("pike", "hen"), ("the pike", "the hen")),
        ("Such a fish is called a:", ("eel", "pike"), ("an eel", "a pike")),
        ("Pikes are known for their", ("teeth", "eyes"), ("their teeth", "their eyes")),
    ],
)
def test_a_word_left_open_goes_to_its_options(stem: str, options: tuple[str, str], listed: tuple[str, str]) -> None:
    exchange = made(stem, options, 0, offer_share=1)
    assert all(each in exchange.question.text for each in listed)
    assert listed[0] in exchange.answer.text.lower()


def test_large_numbers_and_quoted_options_to_choose_from_do_not_run_into_one() -> None:
    asked = made("How much is it to the king?", ("the 1,600", "the 120,000"), 0, offer_share=1).question.text
    assert "six hundred, or the one hundred" in asked or "thousand, or the one" in asked
    exchange = made("Which of the following is said?", ('"A pike swims."', '"A hen swims."'), 0, offer_share=1)
    assert "; or second, a" in exchange.question.text.lower() or " or " in exchange.question.text
    assert "swims. " not in exchange.question.text


def test_a_statement_is_no_question_for_its_mark() -> None:
    exchange = made("Statement 1 | Pikes must swim? Statement 2 | Hens fly.", ("True, False", "False, True"), 0)
    assert exchange.question.text == (
        "Statement one: Pikes must swim. Statement two: Hens fly. Is each of them true or false?"
    )


def test_an_answer_of_columns_of_money_or_whose_end_is_there_twice_is_refused() -> None:
    with pytest.raises(NotAskable, match="needs_writing"):
        made("What do they pay? North South West", ("$0 $250 $0", "$1 $2 $3"), 0)
    with pytest.raises(Unspeakable, match="broken_text"):
        made("May he be tried?", ("No, each state may enforce its laws. may enforce its laws.", "No."), 0)
    answer = "No, it may not. It may, though, fine him."
    assert make_exchange(make_item("May he be tried?", answer), ScriptConfig(), 0).answer.text == answer
