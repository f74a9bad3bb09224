"""What training refuses or shortens is not whispered live either, of one table through both."""

import random

import pytest

from data_schemas.config import OracleConfig
from data_schemas.errors import RequestError
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.text.tokenizer import Tokenizer
from pipelines.oracle.validate import AnswerContext, Unusable, check_answer
from tests.support.answers import pieces_of

UNFIT = "<unfit>"


def in_training(answer: str) -> str:
    try:
        return check_answer(answer, False, AnswerContext(0, "", "", ""), OracleConfig(min_words=1))
    except Unusable as refused:
        return refused.reason


def live(answer: str, tokenizer: Tokenizer, draw: random.Random) -> str:
    """The words that go into the queue, and `UNFIT` where the answer is refused after them."""
    writer = OracleWriter(OracleQueue(tokenizer.text_card), tokenizer, OracleConfig().max_words)
    words = []
    try:
        for piece in pieces_of(answer, draw):
            words.append(writer.write(piece))
            if writer.is_whole:
                break
        words.append(writer.finish())
    except RequestError:
        words.append(UNFIT)
    return " ".join(filter(None, words))


ALIKE = [
    ("Sure, here is my guess:\nIt is the big one.", "It is the big one."),
    ("Here's what the assistant would say:\n\n\nIt is Saturn.", "It is Saturn."),
    ("**Answer:** 😊\nIt is *Rome* 😊.", "It is Rome."),
    ("My best guess:\nIt is Rome.\nOr so", "It is Rome."),
    ('\n\n"It is Rome, I think."\nMore', "It is Rome, I think."),
    ("The answer is about thirty sheep.", "The answer is about thirty sheep."),
    ("I don't know yet, but I would say forty.", "I don't know yet, but I would say forty."),
    ("I can't say that for sure. It may be Saturn, I think.", "I can't say that for sure. It may be Saturn, I think."),
    ("It is not possible to divide by zero.", "It is not possible to divide by zero."),
    ("It is Rome. See https://example.com/a?b. Or Paris.", "It is Rome. Or Paris."),
    ("[0, 1] is closed. It has two ends.", "It has two ends."),
    ("It is Rome, i.e. in Italy. Let 0 < x < 1.", "It is Rome, that is in Italy."),
    (
        "**1.** Go to St. Paul by 5 p.m. It is 3 mi. away.",
        "one, Go to Saint Paul by five in the evening. It is three miles away.",
    ),
]
REFUSED = [
    ("I do not know the answer to that.", "refusal", UNFIT),
    ("Well, I don't know the exact number.", "refusal", UNFIT),
    ("It is not possible to answer the question. Nobody can.", "refusal", f"It is {UNFIT}"),
    ("I can't say what it might be, I think.", "refusal", UNFIT),
    ("I am not able to tell how many there are.", "refusal", UNFIT),
    ("It is four. user: and then what is it", "role_label", "It is four."),
    ("It is four.User: and then what is it", "role_label", "It is four."),
    ("Answer: It is four of them.", "quotes_instructions", "It is four of them."),
    ("AI: It is four of them.", "role_label", "It is four of them."),
    ("**Assistant:** It is four of them.", "role_label", "It is four of them."),
    ("Sure, here is my guess:", "empty", UNFIT),
    ("[0, 1] is it. So is {1, 2}.", "not_speakable_formula", UNFIT),
    ("**Answer:**\n\n", "empty", UNFIT),
]


@pytest.mark.parametrize(("answer", "trained", "said"), [*((answer, said, said) for answer, said in ALIKE), *REFUSED])
def test_what_training_keeps_is_whispered_so_and_of_what_it_refuses_only_the_answer_itself(
    answer: str, trained: str, said: str, tokenizer: Tokenizer
) -> None:
    assert in_training(answer) == trained
    for seed in range(5):
        assert live(answer, tokenizer, random.Random(seed)) == said


def test_of_a_first_sentence_that_cannot_be_said_to_its_end_what_has_left_stands(tokenizer: Tokenizer) -> None:
    answer = "I would say that it is [0, 1]. It has two ends."
    assert in_training(answer) == "It has two ends."
    assert live(answer, tokenizer, random.Random(1)) == "I would say that It has two ends."


def test_an_announcement_in_words_that_nobody_foresaw_is_said_with_what_it_announces(tokenizer: Tokenizer) -> None:
    answer = "Let me think about this one:\n\nIt is Rome.\nOr so"
    assert live(answer, tokenizer, random.Random(1)) == "Let me think about this one: It is Rome."
