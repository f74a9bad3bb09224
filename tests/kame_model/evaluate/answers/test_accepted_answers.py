"""Answers are compared as they are said: words in a row, numbers by their value."""

import pytest

from kame_model.evaluate.answers.scoring import Rule, find_answer_time, list_accepted_forms, normalise, score_response


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("$18", "eighteen dollars"),
        ("1,914", "one thousand nine hundred and fourteen"),
        ("1914", "nineteen fourteen"),
        ("18.0", "eighteen"),
        ("$18.50", "eighteen dollars and fifty cents"),
        ("2.5", "two and a half"),
        ("-5", "minus five"),
        ("Beyoncé", "beyonce"),
        ("The Lord of the Rings!", "lord of rings"),
        ("Two hundred fourty eight", "248"),
        ("twenty-four", "24"),
        ("Shakespeare's", "shakespeare"),
    ],
)
def test_two_ways_to_write_the_same_are_the_same(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"), [("6", "36"), ("5", "minus five"), ("18", "18.5"), ("Paris", "Pari"), ("first", "one")]
)
def test_what_differs_stays_different(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    ("response", "accepted", "rule", "is_right"),
    [
        ("Let me see, it is Paris, of course.", ["Paris"], "said", True),
        ("It is comparison.", ["Paris"], "said", False),
        ("It is not Paris.", ["Paris"], "said", False),
        ("It isn't the Seine, it is the Rhine.", ["Seine"], "said", False),
        ("It is not Rome, it is Paris.", ["Paris"], "said", True),
        ("Paris is wrong.", ["Paris"], "said", False),
        ("It cannot be Paris.", ["Paris"], "said", False),
        ("No, it isn't. Paris.", ["Paris"], "said", True),
        ("Not one, but sixty.", ["sixty"], "said", True),
        ("There are seven of them, all of them large.", ["7"], "said", True),
        ("There are thirty seven.", ["7"], "said", False),
        ("He was George Washington.", ["Washington", "George Washington"], "said", True),
        ("Nine times two, so eighteen dollars.", ["18"], "last_number", True),
        ("Eighteen, or is it nineteen?", ["18"], "last_number", False),
        ("It is eighteen. Do you want another one?", ["18"], "last_number", True),
        ("There is only one.", ["1"], "last_number", True),
        ("", ["18"], "last_number", False),
        ("No number at all.", ["18"], "last_number", False),
        ("It costs $1,200.", ["1200"], "last_number", True),
        ("It is not two.", ["2"], "last_number", False),
        ("Two. No, it is one.", ["2"], "last_number", False),
        ("Two. This is the right one.", ["2"], "last_number", True),
        ("Two dozen.", ["2"], "last_number", False),
        ("Two dozen eggs.", ["24"], "last_number", True),
        ("five five five five five", ["5"], "said", False),
    ],
)
def test_a_response_is_read_by_the_rule_of_its_set(
    response: str, accepted: list[str], rule: str, is_right: bool
) -> None:
    assert score_response(response, accepted, rule).is_right is is_right  # type: ignore[arg-type]


def test_empty_exact_and_degenerate_answers_are_told_apart() -> None:
    assert score_response(" ... ", ["five"], "said").is_empty
    assert score_response("The five.", ["5"], "said").is_exact
    assert not score_response("It is five.", ["5"], "said").is_exact
    for loop_of_numbers in ("the first one is the first one. " * 5, "2021-2021-2021-2021-2021-202", "no, no, no, no!"):
        assert score_response(loop_of_numbers, ["first one"], "said").is_degenerate
    loop = score_response("it is five cents it is five cents it is five cents it is five cents", ["five cents"], "said")
    assert loop.is_degenerate
    assert not loop.is_right
    assert not score_response("five cents, five cents, five cents", ["five cents"], "said").is_degenerate


def test_brackets_in_a_published_answer_need_not_be_said() -> None:
    assert list_accepted_forms("Many (polytheistic)") == ("Many (polytheistic)", "Many")
    assert list_accepted_forms("Paris") == ("Paris",)


PIECES = [(1.0, " Good"), (1.08, " ques"), (1.16, "tion,"), (2.0, " six"), (2.08, "ty"), (3.0, " six"), (3.5, " eggs")]


def test_the_answer_is_found_where_it_begins() -> None:
    assert find_answer_time(PIECES, ["66 eggs"], "said") == 2.0
    assert find_answer_time(PIECES, ["question"], "said") == 1.08
    assert find_answer_time(PIECES, ["6"], "said") is None
    assert find_answer_time([*PIECES, (4.0, " and"), (4.1, " six"), (4.2, ".")], ["6"], "said") == 4.1


def timed(text: str) -> list[tuple[float, str]]:
    """A word a second, from 0."""
    return [(float(at), f" {word}") for at, word in enumerate(text.split())]


@pytest.mark.parametrize(
    ("text", "accepted", "rule", "at_s"),
    [
        ("it was Mary or rather Queen Mary Tudor", ["Mary Tudor", "Mary"], "said", 2.0),
        ("it was Mary or rather Queen Mary Tudor", ["Mary", "Mary Tudor"], "said", 2.0),
        ("eighteen less nine and nine more is eighteen dollars", ["18"], "last_number", 7.0),
        ("so ninety and nineteen hundred fourteen", ["1914"], "last_number", 3.0),
        ("It is a question. The answer is C, surely: Rome.", ["Rome", "option C"], "option", 7.0),
        ("Rome, that is option C.", ["option C", "Rome"], "option", 0.0),
    ],
)
def test_the_time_is_that_of_the_form_said_first_and_of_the_number_that_is_scored(
    text: str, accepted: list[str], rule: Rule, at_s: float
) -> None:
    assert find_answer_time(timed(text), accepted, rule, ["Paris", "London", "Rome"]) == at_s


@pytest.mark.parametrize(
    ("response", "is_right"),
    [
        ("The answer is C.", True),
        ("C.", True),
        ("c", True),
        ("It's C, because Rome is older.", True),
        ("The answer is **(C)** Rome.", True),
        ("Option C, Rome.", True),
        ("It is not A, it is C.", True),
        ("C. No, A.", False),
        ("Rome is not right.", False),
        ("Rome, sorry, Paris.", False),
        ("It is not option A; option C it is.", True),
        ("It is Rome, of course.", True),
        ("It is not Paris, it is Rome.", True),
        ("It is a city: Rome.", True),
        ("The Roman Empire is what I think of.", False),
        ("The answer is A.", False),
        ("A.", False),
        ("The answer is see.", False),
        ("A, B or C.", False),
        ("It is option A or C.", False),
        ("A: Paris. B: London. C: Rome. D: The Roman Empire.", False),
        ("Paris or London or Rome", False),
        ("Is it Paris, or is it Rome?", False),
        ("It is the Roman Empire.", False),
        ("", False),
    ],
)
def test_of_options_exactly_the_right_one_is_to_be_given(response: str, is_right: bool) -> None:
    options = ["Paris", "London", "Rome", "Rome of the Roman Empire", "The Roman Empire"]
    assert score_response(response, ["Rome", "option C"], "option", options).is_right is is_right


def test_an_option_is_not_given_by_a_longer_one_that_holds_it() -> None:
    options = ["Gravity", "Gravity and friction"]
    assert score_response(
        "It is gravity and friction.", ["Gravity and friction", "option B"], "option", options
    ).is_right
    assert not score_response("It is gravity and friction.", ["Gravity", "option A"], "option", options).is_right
    assert not score_response("A.", ["Gravity and friction", "option B"], "option", options).is_empty
    assert score_response("A.", ["Gravity", "option A"], "option", options).is_exact
    assert score_response("Not known.", ["Not known", "option B"], "option", ["Known", "Not known"]).is_right
    assert score_response("B.", ["Four", "option A"], "option", ["Four", "four", "five"]).is_right, "both are the same"


@pytest.mark.parametrize(
    ("response", "right", "is_right"),
    [
        ("It is B lymphocytes.", "C", True),
        ("It is B lymphocytes.", "B", False),
        ("The answer is C, B lymphocytes.", "C", True),
        ("The right option is B lymphocytes.", "C", True),
        ("The answer is B.", "B", True),
        ("B, not B lymphocytes.", "B", True),
        ("It is E. coli.", "D", True),
        ("It is E. coli.", "E", False),
        ("E.", "E", True),
        ("It is A. fumigatus.", "F", True),
        ("It is C fourteen.", "G", True),
        ("It is D dimer.", "H", True),
    ],
)
def test_a_letter_that_is_part_of_an_options_text_gives_no_option(response: str, right: str, is_right: bool) -> None:
    options = ["T lymphocytes", "Neutrophils", "B lymphocytes", "E. coli", "Mast cells", "A. fumigatus", "C-14"]
    options += ["The D dimer"]
    accepted = [options["ABCDEFGH".index(right)], f"option {right}"]
    assert score_response(response, accepted, "option", options).is_right is is_right


def test_the_time_of_an_answer_is_not_that_of_a_letter_in_another_options_text() -> None:
    options = ["B lymphocytes", "Neutrophils"]
    pieces = timed("It is B lymphocytes, no, it is neutrophils")
    assert find_answer_time(pieces, ["Neutrophils", "option B"], "option", options) == 7.0
