"""Leads need no knowledge and fit the question; their length is as configured."""

import random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.config import FormsConfig, ScriptConfig
from pipelines.script.exchange import Exchange, make_exchange
from pipelines.script.leads import (
    FUNCTION_WORDS,
    WORDS_PER_S,
    draw_lead,
    format_lead,
    list_leads,
    list_long_leads,
    list_tails,
)
from pipelines.script.question_kinds import classify_question, find_echo
from spoken.reader import SPOKEN, speak
from spoken.spoken_text import split_words
from tests.support.builders import make_item

QUESTIONS = {
    "sum": "Ann has 3 apples. How many apples does she need?",
    "number": "How many moons does the planet have?",
    "what": "What is the capital of France?",
    "which": "Which gas do plants breathe in?",
    "who": "Who wrote the play about the Danish prince?",
    "why": "Why does ice float on water?",
    "when": "When did the first people land on the moon?",
    "where": "Where do penguins live?",
    "how": "How does a plane stay in the air?",
    "verdict": "Is the sky blue at noon?",
    "task": "Find the area of a square with sides of 3 meters.",
}


def exchange(question: str, answer: str = "no idea") -> Exchange:
    return make_exchange(make_item(question, answer), ScriptConfig(), 0)


@pytest.mark.parametrize(("kind", "question"), QUESTIONS.items())
def test_questions_are_told_apart_and_have_many_leads(kind: str, question: str) -> None:
    asked = exchange(question)
    assert classify_question(asked.question.text) == kind
    said = sorted({format_lead(lead) for lead in list_leads(asked)})
    assert len(said) >= 60
    assert len(set(list_tails(asked))) >= 12
    assert all(SPOKEN.fullmatch(text) for text in said)
    assert all(speak(text) == text for text in [*said[::40], *list_tails(asked)])
    assert all(len(format_lead(lead).split()) >= 9 for lead in list_long_leads(asked))
    assert list_long_leads(asked)


def test_questions_in_a_frame_are_told_apart() -> None:
    framed = {
        "Is it gold, iron, or zinc?": "choice",
        "Which metal is it? The choices are: gold, iron, or zinc.": "choice",
        "Fill in the blank: water boils at what degrees.": "finish",
        "True or false: water boils at noon.": "verdict",
        "When Bob was ten, how old was Ann?": "sum",
        "What is the total cost of the set?": "number",
        "When he slept, what did she do?": "what",
        "Of the five, what percentage is red?": "sum",
        "As of last year, which country had the most lakes?": "which",
        "When metal gets warm, its size?": "task",
    }
    assert {text: classify_question(text) for text in framed} == framed


@pytest.mark.parametrize(
    ("question", "repeated"),
    [
        ("Bob has five. How many red apples does he need?", "how many red apples"),
        ("Which gas do plants breathe in?", "which gas"),
        ("Who is the king of France?", "the king of France"),
        ("What is the capital of France?", "the capital of France"),
        ("What happens when it is cold?", None),
        ("Which is heavier? Is it gold, or iron?", None),
        ("Why is the sky blue?", None),
    ],
)
def test_what_is_asked_for_is_repeated_in_its_own_words(question: str, repeated: str | None) -> None:
    assert find_echo(question) == repeated


SOME_WORDS = ["right", "moment", "careful", "numbers", "think", "sure", "help", "good", "six", "step", "deserves"]


@given(
    question=st.sampled_from([each for kind, each in QUESTIONS.items() if kind not in {"verdict", "number", "sum"}]),
    answer=st.lists(st.sampled_from(SOME_WORDS), min_size=1, max_size=4, unique=True),
)
@pytest.mark.full
def test_no_lead_has_a_word_of_the_answer_that_the_question_lacks(question: str, answer: list[str]) -> None:
    said = exchange(question, " ".join(answer))
    hint = set(answer) - FUNCTION_WORDS - set(split_words(said.question.text.lower()))
    for lead in list_leads(said):
        assert not hint & set(split_words(format_lead(lead).lower()))


def test_lengths_are_even_between_the_bounds() -> None:
    said, config = exchange(QUESTIONS["sum"]), FormsConfig(share_without_lead=0.25, lead_min_s=0.5, lead_max_s=3.0)
    drawn = [draw_lead(said, config, random.Random(seed)) for seed in range(400)]
    lengths_s = [lead.n_words / WORDS_PER_S for lead in drawn if lead is not None]
    assert 0.2 < 1 - len(lengths_s) / len(drawn) < 0.3
    assert min(lengths_s) < 0.8
    assert min(lengths_s) >= 0.3
    assert 2.7 < max(lengths_s) < 3.2
    assert 1.6 < mean(lengths_s) < 1.9
    assert len({lead.text for lead in drawn if lead is not None}) > 100


def test_an_echo_follows_no_comma_and_help_is_offered_once() -> None:
    said = {format_lead(lead).lower() for lead in list_leads(exchange(QUESTIONS["sum"]))}
    assert "how many apples. just a moment." in said
    assert not any(", how many apples" in text for text in said)
    assert not any(text.count("help") > 1 for text in said)
