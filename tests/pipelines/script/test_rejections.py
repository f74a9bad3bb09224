"""What is refused because it would be garbled, or ask for what nobody can know; and what looks like it and is said."""

from typing import Any

import pytest

from data_schemas.config import ScriptConfig
from pipelines.script.exchange import Exchange, make_exchange
from pipelines.script.rejections import NotAskable
from spoken.reader import Unspeakable, speak
from spoken.spoken_text import split_words
from tests.support.builders import make_item


def said(question: str, answer: str = "a pike", options: tuple[str, ...] = (), **fields: Any) -> Exchange:
    index = options.index(answer) if options else None
    return make_exchange(make_item(question, answer, options=options, answer_index=index, **fields), ScriptConfig(), 0)


def reason_of(question: str, answer: str = "a pike", options: tuple[str, ...] = (), **fields: Any) -> str | None:
    """Why it is refused; None where it is said."""
    try:
        said(question, answer, options, **fields)
    except (NotAskable, Unspeakable) as refused:
        return refused.reason
    return None


@pytest.mark.parametrize(
    "text",
    [
        "Find thevoltagev_C(t) across it", "the time tAand the rate", "find the frequencyf of it",
        "the mixture of xyleneand water", "solve it whereihas two values", "raise thephasor to a power",
        "the coefficient of therotameteras given", "the head lossin the pipe", "heat of vapof oxygen",
        "the resistance is four ohmsx", "the psychrometerreads warm", "an amount of pfor each",
    ],
)  # fmt: skip
def test_letters_that_ran_into_a_word_are_refused(text: str) -> None:
    assert reason_of(f"How do you {text}?") == "broken_text"
    assert reason_of("What is it?", text) == "broken_text"


@pytest.mark.parametrize(
    "text",
    [
        "Relaxin, insulin and chitin are found therein", "The theorisation of thermistors and theobromine",
        "wherever it was childproof, whereof and hereof it is told", "An iPhone and an eBay account",
        "Holland and Legoland are lands", "the summand and the operand", "metaphor and therefore", "osmosis in hypoxia",
        "They've said that they're late, they'll see what's there and where'd it go",
        "Don't, doesn't, couldn't, weren't, that'll, which'd, who've",
    ],
)  # fmt: skip
def test_rare_words_and_names_are_no_words_run_together(text: str) -> None:
    assert speak(text) == text
    assert reason_of(f"Why is this so: {text}?") is None


TRADE = (
    "redox codec mutex theremin subband theanine theaflavin formin printf subcommand signin checkin fromage linkin "
    "codon operon allele hadron boson lepton webhook"
)


@pytest.mark.parametrize("word", TRADE.split())
def test_words_of_a_trade_are_said_in_questions_and_in_live_answers(word: str) -> None:
    assert reason_of(f"What is a {word}?") is None
    assert word in speak(f"It packs them as a {word} does.").lower()


@pytest.mark.parametrize(
    "question",
    [
        "Which ratio CANNOT be that of two sides of a right triangle?",
        "What do divers NOT need to know to rise?",
        "Which lake fish cannot swim?",
        "Which of the lake fish does not swim?",
        "What eats all fish EXCEPT one?",
        "Men beat women in all tasks with what? Which task is won by all with the exception of one?",
        "Which proposition below is the weakest?",
    ],
)
def test_a_question_for_what_is_not_so_is_asked_with_its_options_or_not_at_all(question: str) -> None:
    options = ("a pike", "a carp", "an eel")
    assert "a pike" in said(question, "a pike", options).question.text
    long = tuple(f"{fish} that swims {'on and ' * 50}on" for fish in options)
    assert reason_of(question, long[0], long) in {"needs_options", "question_too_long"}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        # a negation that leaves one answer
        ("What percentage of the pikes did not swim?", "20"),
        ("What percentage of mornings does he NOT swim?", "90"),
        ("What power was granted to kings but not to lords?", "coining money"),
        ("What happens if you do not eat?", "hunger"),
        ("How many children who cannot swim are there?", "4"),
        ("In which months does it not snow there? Name the first.", "May"),
        # an answer that fits its question
        ("Is this possible?", "No, it is too heavy"),
        ("Do traits change with age?", "They change a little"),
        ("Should treaties have a form?", "Treaties do not have to assume a particular form"),
        ("Is the image real or virtual?", "Virtual"),
        ("Can you find the height of the tree?", "4 m"),
        ("Is it warm? How warm is it?", "20 °C"),
        ("How many students can these four schools teach?", "1480"),
        # tables and texts that need not be seen
        ("Using the periodic table, what is the symbol of gold?", "a pike"),
        ("Ann takes 3 pens from the table and 4 from the shelf. How many pens does she have?", "a pike"),
        ("What does an excerpt from a graph database hold?", "a pike"),
        ("A cook using two tables has 4 legs on each. How many legs is that?", "8"),
    ],
)
def test_what_only_looks_like_something_refused_is_asked(question: str, answer: str) -> None:
    assert reason_of(question, answer) is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the idea behind it?", "The cartoon mocks this king"),
        ("What follows from the information?", "It falls"),
        ("How much did the lender earn in May?", "nothing"),
        ("What does the poem express?", "Sorrow"),
        ("Which of the three job offers pays best?", "Nursing"),
        ("What can be told of the picture in general?", "The data are too few"),
    ],
)
def test_a_noun_for_what_only_the_picture_shows_is_refused(question: str, answer: str) -> None:
    assert reason_of(question, answer, ("a king", answer), picture="p.png") == "needs_picture"


@pytest.mark.parametrize(
    "question",
    [
        "A lender gives 300 dollars to a farmer. What does the lender do?",
        "What did Rome build in Germany?",
        "When coffee gets dear and people drink tea in its place, what are the two goods called?",
        "What happens when a government spends more than it earns?",
    ],
)
def test_what_is_named_before_or_known_to_all_needs_no_picture(question: str) -> None:
    assert reason_of(question, "It trades", ("It trades", "It sleeps"), picture="p.png") is None


def test_a_question_of_over_44_seconds_is_refused() -> None:
    assert reason_of(f"Why do fish {'swim and ' * 53}swim?") is None
    assert reason_of(f"Why do fish {'swim and ' * 54}swim?") == "question_too_long"
    item = make_item(f"Why do fish {'swim and ' * 20}swim?")
    assert make_exchange(item, ScriptConfig(max_question_s=20.0), 0).question.n_words == 44
    with pytest.raises(NotAskable, match="question_too_long"):
        make_exchange(item, ScriptConfig(max_question_s=17.0), 0)


def test_options_are_read_out_only_where_they_leave_the_question_short_enough() -> None:
    fishes = ("pike", "carp", "eel", "cod")
    options = tuple(f"the {fish} that lives in lakes and rivers of the north" for fish in fishes)
    question = f"Which of the following fish {'swims and ' * 30}swims?"
    made = said(question, options[0], options)
    assert made.question.n_words <= 110
    assert "pike" in made.question.text
    assert 2 <= sum(fish in split_words(made.question.text) for fish in fishes) < 4
    too_long = f"Which of the following fish {'swims and ' * 45}swims?"
    assert reason_of(too_long, options[0], options) == "question_too_long"


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        # a letter that is a variable and a unit, scripts that are formulas, misprints
        ("A pike of mass g = 3 swims. What is its load?", "1.08 g", "formula"),
        ("The current is A = 2 there. What is its load?", "0.01 A", "formula"),
        ("What is x^(1/2) of a pike?", "4 hens", "formula"),
        ("What is 2^(3^4) of a pike?", "4 hens", "formula"),
        ("What is the salt NaCI for a pike?", "a mineral", "broken_text"),
        ("A pike swims in a lake. which is deep. What is it?", "a fish", "broken_text"),
        # signs called by their name, chains, formulas of many letters
        ("What is (x + 1)(x - 2) to a pike?", "a product", "needs_writing"),
        ("What holds where 0 < u < 1 for a pike?", "a bound", "formula"),
        ("What is p + q - r + s - t + u - v + w for a pike?", "a sum", "needs_writing"),
        # a negated question of an open item, a text or a table that is not said
        ("Which ratio CANNOT be that of two sides?", "two to one", "needs_options"),
        ("According to the passage, why did Rome fall?", "a pike", "needs_picture"),
        ("In the table, which year had the most rain?", "a pike", "needs_picture"),
        ("Based on the graph, what is the slope?", "a pike", "needs_picture"),
        ("Referring to the excerpt, who is speaking?", "a pike", "needs_picture"),
        ("The passage above reflects what?", "a pike", "needs_picture"),
        ("Using the steam tables, find the speed of the jet.", "3 m/s", "needs_picture"),
        # a question for yes or no with another answer
        ("A lever of 2 m lifts 9 kg. Is this possible?", "4.5%", "answer_of_other_kind"),
        ("Does the pike swim faster than the carp?", "a carp", "answer_of_other_kind"),
        ("If it rains, will the lake be full by May?", "30 liters", "answer_of_other_kind"),
        ("Did he pay for it?", "$12", "answer_of_other_kind"),
        # several values, a missing number, an essay
        ("What are the mass and the age of the pike?", "mass: 3 g, age: 4 years", "needs_writing"),
        ("What are the load and the depth?", "3 kg, 4 m, 5 s", "needs_writing"),
        ("What did it pay, and what was the rest?", "9 percent; 13 percent", "needs_writing"),
        ("What has it?", "ABC (a big carp), DEF (a deep eel), and hens", "needs_writing"),
        ("A pike is four feet longer than a carp. How long is the carp?", "5", "answer_of_other_kind"),
        ("A pike's length is N(80, 14). How long is it?", "4 m", "broken_text"),
        ("How many pikes swim here?", "the grey pike", "answer_of_other_kind"),
        ("Name a pike and discuss how it lives.", "They are long.", "answer_of_other_kind"),
        ("Define a pike. Describe how it lives.", "It is a fish.", "answer_of_other_kind"),
    ],
)
def test_what_nobody_can_follow_by_ear_is_refused(question: str, answer: str, reason: str) -> None:
    assert reason_of(question, answer) == reason
