"""The answer of an item that explains itself: its number with what it counts, its last step, its first word."""

import pytest

from data_schemas.config import ScriptConfig
from pipelines.script.answers import find_conclusion, to_asked_form
from pipelines.script.exchange import Exchange, make_exchange
from spoken.spoken_text import split_words
from tests.support.builders import make_item


def exchange(question: str, answer: str, last_line: str) -> Exchange:
    return make_exchange(make_item(question, answer, explanation=f"First one thinks.\n{last_line}"), ScriptConfig(), 0)


@pytest.mark.parametrize(
    ("question", "answer", "last_line", "full"),
    [
        ("How much does he earn?", "45", "He earns 9*5= 45 dollars over 5 days", "45 dollars"),
        ("How much money has he?", "30", "He has 40-10=30$ left", "$30"),
        ("How much does it cost?", "12", "Both cost $7 + $5 = $12.00", "$12"),
        ("How many dogs are there?", "8", "There are 5+3=8 dogs now", "8 dogs"),
        ("How many dogs and cats are there?", "8", "There are 5+3=8 dogs and cats", "8"),
        ("How many dogs and cats are there?", "8", "There are 5+3=8 dogs", "8"),
        ("How many green pens has she?", "7", "She has 4+3=7 green pens", "7"),
        ("How fast is the train?", "30", "It runs at 20+10=30 miles per hour.", "30 miles per hour"),
        ("How much room is there?", "36", "The floor has 6 * 6 = 36 sq ft", "36 sq ft"),
        ("How much room is there?", "36", "The floor has 36 square feet.", "36 square feet"),
        ("How much flows out?", "5", "That makes 10/2 = 5 liters/min", "5 liters/min"),
        ("How long does it take?", "24", "It takes 120 / 5 liters/min = 24 min", "24 min"),
        ("How much gold is that an hour?", "25", "That is 200/8=25 coins an hour", "25 coins"),
        ("How long does it take?", "1", "It takes 2/2 = 1 hour", "1 hour"),
        ("How old is Ann?", "18", "Ann is 13 + 5 = 18 years old", "18"),
        ("In how many years?", "18", "It takes 13 + 5 = 18 years", "18 years"),
        ("How much change is there?", "4", "There is $4 left because 10 - 6 = 4", "$4"),
        ("How many apples are left?", "5", "At $5 an apple she buys 25/5 = 5", "5"),
        ("How many per box?", "5", "There are 25/5 = 5 per box", "5"),
        ("What percentage is red?", "16", "The share is 8/50*100% = 16%", "16%"),
        ("She drank 40 ounces of 3 cups. How much water did she drink?", "15", "It is 40 - 25 = 15", "15"),
        ("She drank 40 ounces. How much water did she drink?", "15", "It is 40 - 25 = 15", "15 ounces"),
        ("It has 9 euros. How much does Mr. Lee pay?", "15", "It is 40 - 25 = 15", "15 euros"),
        ("A rope costs $2. What is the least that he can pay?", "4", "That makes 2 * 2 = 4", "$4"),
        ("How many are red?", "16", "There are 20 of them", None),
    ],
)
def test_a_number_comes_with_what_it_counts(question: str, answer: str, last_line: str, full: str | None) -> None:
    assert find_conclusion(answer, last_line, question) == full


def first_words(made: Exchange, n_words: int) -> list[str]:
    return split_words(made.answer.text)[made.answer_word_index :][:n_words]


def stated(question: str, answer: str, last_line: str) -> Exchange:
    """The first of some seeds whose answer is in the words of the solution, and not the number alone."""
    item = make_item(question, answer, explanation=last_line)
    made = [make_exchange(item, ScriptConfig(), seed) for seed in range(12)]
    return next(each for each in made if each.answer != each.short_answer)


def test_an_answer_stated_before_its_reason_is_said_without_it() -> None:
    made = stated("How many pens has she in all?", "17", "She has 17 red pens in all because 5 + 12 = 17")
    assert made.answer.text == "She has seventeen red pens in all."
    assert (made.answer_word_index, first_words(made, 1)) == (2, ["seventeen"])


@pytest.mark.parametrize(
    ("question", "last_line", "is_stated"),
    [
        ("How many pens does she have?", "She had 5 + 7 = 12 pens", False),
        ("How many pens did she have?", "She had 5 + 7 = 12 pens", True),
        ("How much did the pens cost?", "They will cost $5 + $7 = $12", False),
        ("How many pens are in the box?", "There were 5 + 7 = 12 pens in the box", False),
        ("How many pens are in the box?", "There are 5 + 7 = 12 pens in the box", True),
        ("How many pens did she break?", "She had 5 + 7 = 12 pens", False),
        ("How many pens does she sell?", "She sells 5 + 7 = 12 pens", True),
        ("If she had 5, how many will she have?", "She will have 5 + 7 = 12 pens", True),
    ],
)
def test_a_solution_is_said_only_where_it_fits_the_question(question: str, last_line: str, is_stated: bool) -> None:
    made = [make_exchange(make_item(question, "12", explanation=last_line), ScriptConfig(), seed) for seed in range(12)]
    assert any(each.answer != each.short_answer for each in made) is is_stated


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("What is the time (in µs)?", "4.3", "4.3 μs"),
        ("How long, in years, does it take?", "4", "4 years"),
        ("What is it, in years?", "4", "4 years"),
        ("What is the flow, in gallons per hour?", "4", "4 gallons per hour"),
        ("What is it, in gallons?", "1", "1"),
        ("How old, in years, is she?", "4", "4"),
        ("What is it in full?", "4", "4"),
    ],
)
def test_a_number_has_the_unit_that_is_asked_for(question: str, answer: str, said: str) -> None:
    assert to_asked_form(answer, question) == said


def test_a_percentage_is_said_as_one() -> None:
    for seed in range(9):
        item = make_item("What percentage is red?", "13", explanation="The share of red ones is 39 / 3 = 13")
        assert make_exchange(item, ScriptConfig(), seed).answer.text.endswith("thirteen percent.")


def test_a_solution_that_comes_out_at_another_number_or_has_no_step_is_not_said() -> None:
    made = exchange("How many holes are there?", "16", "So 16 nails / 4 nails per hole = 4 holes")
    assert made.step is None
    assert "four" not in split_words(made.answer.text)
    said = {exchange(f"How many pens are in box {k}?", "16", "He counts them.").answer.text for k in range(2, 12)}
    assert said <= {"That would be sixteen.", "The answer is sixteen.", "It's sixteen.", "That's sixteen."}
