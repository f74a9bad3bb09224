"""Where in a text the question stands, and what is done with what stands around it."""

import pytest

from data_schemas.config import ScriptConfig
from pipelines.script.exchange import Exchange, make_exchange
from pipelines.script.rejections import refers_to_options
from tests.support.builders import make_item

ALONE = ScriptConfig(offer_share=0, max_spoken_options=0)


def made(question: str, answer: str = "7 g") -> Exchange:
    return make_exchange(make_item(question, answer, options=(answer, "12 g"), answer_index=0), ALONE, 0)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "A hen eats. What does it weigh at 0.5 m? (Assume the hen is grey.)",
            "A hen eats. Assume the hen is grey. What does it weigh at zero point five meters?",
        ),
        ("A hen runs. What does it weigh? [m = 7 g]", "A hen runs. What does it weigh, where m equals seven grams?"),
        ("What does it weigh? return the answer in grams", "What does it weigh? Return the answer in grams."),
        ("Find the weight. Assume that it weighs 3 g", "Find the weight. Assume that it weighs three grams."),
        (
            "A hen that swims may suffer from cold, and this may result in this illness:",
            "A hen that swims may suffer from cold, and this may result in which illness?",
        ),
        ("How long does a pike swim?A pike eats 3 g.", "How long does a pike swim? A pike eats three grams."),
    ],
)
def test_a_question_inside_a_text_is_asked_as_it_stands(question: str, asked: str) -> None:
    assert made(question).question.text == asked


@pytest.mark.parametrize(
    ("question", "stem"),
    [
        ("Complete this by logic: All pikes swim. They are called", "They are called"),
        ("Name the pike. What eats it? This law is a case of", "This law is a case of"),
        ("A hen owns a lake. In a suit about who may fish, title is in", "In a suit about who may fish, title is in"),
    ],
)
def test_a_sentence_that_breaks_off_is_to_be_finished(question: str, stem: str) -> None:
    exchange = made(question, "hens do")
    assert exchange.question.text.lower().endswith(f"{stem.lower()} what?")
    assert exchange.answer.text in {"Hens do.", f"{stem} hens do."}


def test_an_answer_may_name_what_it_has_told_of() -> None:
    assert not refers_to_options("It needs several lakes, where only one of these lakes is deep.")
    assert refers_to_options("It needs several lakes, where only one of these pikes swims.")


def test_dots_are_a_blank_and_what_somebody_is_quoted_with_is_not_what_is_asked() -> None:
    exchange = made("The pike is known for its ... teeth.", "sharp")
    assert "known for its blank teeth" in exchange.question.text
    exchange = made('The man said, "What is it?" The pike is called', "eaten")
    assert exchange.question.text.endswith("he pike is called what?")


def test_an_answer_of_several_things_and_a_short_sentence_need_no_frame() -> None:
    answer = "feed in the lake, cold clean water, warm days in May"
    said = {make_exchange(make_item("What do pikes need?", answer), ALONE, seed).answer.text for seed in range(9)}
    assert said == {f"F{answer[1:]}."}
    assert made("What do we see in pikes and hens?", "the weights are equal").answer.text == "The weights are equal."
    assert made("What swims here?", "the grey pike").answer.text.endswith(" the grey pike.")
