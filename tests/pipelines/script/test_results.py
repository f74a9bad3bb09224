"""What is said where an item explains itself: the result once, in one sentence that leans on nothing before it."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.config import ScriptConfig
from pipelines.script.answers import find_calculation, find_sentence
from pipelines.script.exchange import Exchange, make_exchange
from pipelines.script.rejections import NotAskable
from pipelines.sources import gsm8k
from spoken.reader import Unspeakable, speak
from spoken.rules.numerals import spell_cardinal
from spoken.spoken_text import find_words, make_word_set, split_words
from tests.support.builders import make_item

DANGLING = make_word_set("so thus therefore hence then finally now and but since because if this which meaning")


def exchange(question: str, answer: str, last_line: str, seed: int = 0) -> Exchange:
    explained = make_item(question, answer, explanation=f"First one thinks.\n{last_line}")
    return make_exchange(explained, ScriptConfig(), seed)


def n_times_said(answer: str, text: str) -> int:
    return len(find_words(split_words(answer), split_words(text)))


@pytest.mark.parametrize(
    ("last_line", "number", "sentence"),
    [
        ("So he earns 3*4 = 12 dollars in all.", "12", "He earns 12 dollars in all"),
        ("Thus, Ann has 16 - 4 = 12 more pens than Ben.", "12", "Ann has 12 more pens than Ben"),
        ("Then, there are 220 – 22 = 198 liters left", "198", "There are 198 liters left"),
        ("Therefore, it cost $8 x 2 = $16.00", "16", "It cost $16.00"),
        ("This means that she needs 20 + 10 = 30 cans.", "30", "She needs 30 cans"),
        ("Since each can covers 2 meters, Lucy needs 30 meters / 2 = 15 cans.", "15", "Lucy needs 15 cans"),
        ("A box has 39 pods and he needs 156, so he will need 156/39 = 4 boxes", "4", "He will need 4 boxes"),
        ("There is $4 left because 10 - 6 = 4", "4", "There is $4 left"),
        ("So far she has 3 + 4 = 7 pens", "7", "So far she has 7 pens"),
        ("So 12+8 = 20 pens are left", "20", "20 pens are left"),
        ("Jeff ran a total of 180 + 40 + 70 = 290 minutes.", "290", "Jeff ran a total of 290 minutes"),
        ("She has $1,200 + $300 = $1,500 in the bank", "1,500", "She has $1,500 in the bank"),
    ],
)
def test_the_last_line_is_said_without_calculation_and_connective(last_line: str, number: str, sentence: str) -> None:
    assert find_sentence(last_line, number) == sentence


@pytest.mark.parametrize(
    ("last_line", "number"),
    [
        ("Total: 13+26+52 = 91 questions", "91"),
        ("If they work and are doing it at once, and are doing it they need 3 + 4 = 7 seconds", "7"),
        ("So, will have enough horseshoes for 12 * 3 = 36 horses", "36"),
        ("The total number of roses in her vase is 12 + 10 = 22 roses", "22"),
        ("So x = 15", "15"),
        ("Dividing both sides by 8, we get d = 6", "6"),
        ("Then subtract the 13 ounces from the milk: 384 oz - 13 oz = 371 oz", "371"),
        ("The number of miles she will have walked by Friday 22 + 88 = 110 miles", "110"),
        ("The total amount spent 20 + 25 = $45", "45"),
        ("She needs 2 + 1 1/2 + 3 1/2 = 7 feet of paper.", "7"),
        ("Rex is left with 600/(3+1=4) = 150 cards", "150"),
        ("r=4 dollars for each ring", "4"),
        ("So 48 + 24 = 72", "72"),
        ("She gave 5 to each of her 5 friends", "5"),
        ("He counts them.", "16"),
        ("That would mean that one costs 9 - 4 = $5", "5"),
        ("Over 4 weeks she walks 4*10 = 40 miles", "40"),
        ("She asked for 5 more, leaving it at 5 + 30 = $35", "35"),
        ("", "16"),
    ],
)
def test_a_line_that_is_no_plain_sentence_with_the_number_once_makes_none(last_line: str, number: str) -> None:
    assert find_sentence(last_line, number) is None


@pytest.mark.parametrize(
    ("last_line", "number", "calculation"),
    [
        ("She has 24 - 20 = 4 left.", "4", "24 - 20"),
        ("The milk is 384 oz - 13 oz = 371 oz", "371", "384 oz - 13 oz"),
        ("That is 2*3 = 6*2 = 12", "12", "6*2"),
        ("That is 2*3 = 6 and then some", "12", None),
        ("So x = 15", "15", None),
    ],
)
def test_the_calculation_is_the_one_with_the_number(last_line: str, number: str, calculation: str | None) -> None:
    assert find_calculation(last_line, number) == calculation


def test_what_has_no_plain_sentence_is_the_number_with_its_unit_and_its_result_is_no_step() -> None:
    made = [exchange("How long is it?", "371", f"Subtract 13 from it: {k} - 13 = 371 oz", k) for k in range(9)]
    said = {each.answer.text for each in made}
    frames = ("That would be", "The answer is", "That's")
    assert said <= {f"{frame} three hundred seventy one ounces." for frame in frames}
    assert exchange("How many are left?", "2", "There are 4 - 2 = 2 left").step is None


_LINES = st.sampled_from(
    [
        "So she has {left} {sign} {right} = {result} pens",
        "Thus, the total number of pens is {left}{sign}{right}={result}.",
        "Then add them: {left} {sign} {right} = {result}",
        "Therefore {left} {sign} {right} = {result} pens are left",
        "Since he had {left}, he has {left} {sign} {right} = {result} pens because {left} {sign} {right} = {result}",
        "{result}",
        "x = {left} {sign} {right} = {result}",
    ]
)


@settings(max_examples=60, deadline=None)
@given(_LINES, st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 99))
def test_any_answer_says_its_value_once_and_opens_on_no_connective(line: str, left: int, right: int, seed: int) -> None:
    result = left + right
    last_line = line.format(left=left, right=right, sign="+", result=result)
    made = exchange("How many pens has she?", str(result), last_line, seed)
    value = spell_cardinal(result)
    for said in (made.answer, made.short_answer):
        assert n_times_said(value, said.text) == 1
        assert split_words(said.text)[0].lower() not in DANGLING
        assert said.text.count(".") == 1
    at = made.answer_word_index
    assert split_words(made.answer.text)[at : at + len(value.split())] in (value.split(), value.capitalize().split())


@pytest.mark.full
def test_answers_of_real_items_say_their_value_once(shared_data: Path) -> None:
    with gzip.open(shared_data / "gsm8k_train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][::40]
    n_said = 0
    for row in rows:
        draft = gsm8k.make_draft(row)
        try:
            item = make_item(draft.question, draft.answer, explanation=draft.explanation)
            made = make_exchange(item, ScriptConfig(), 0)
        except (NotAskable, Unspeakable):
            continue
        n_said += 1
        shown = split_words(made.short_answer.text)[made.short_answer_word_index :]
        n_times = [n_times_said(value, made.answer.text) for value in (speak(draft.answer), " ".join(shown))]
        assert max(n_times) == 1, made.answer.text
        assert split_words(made.answer.text)[0].lower() not in DANGLING
    assert n_said >= 0.97 * len(rows)
