"""What must survive another wording: names, negations, directions; each pair is a way in which a model went astray."""

import pytest

from pipelines.wording.faithful import NotFaithful, check_wording


@pytest.mark.parametrize(
    ("said", "raw", "why"),
    [
        (
            "Weng earns ten dollars. How much did she earn?",
            "Bob makes ten dollars. How much did he make?",
            "without weng",
        ),
        ("She earns ten dollars. How much is it?", "Natalia makes ten dollars. How much is it?", "natalia is new"),
        ("Nobody under ten may ride. Who may ride it?", "Anybody under ten may. Who may ride it?", "0 negations for 1"),
        (
            "It increases by nothing but habit. Why is that?",
            "It increases by habit. Why is that so?",
            "0 negations for 1",
        ),
        ("Why is it that the demand increases?", "Why is it that the demand decreases then?", "decreases"),
        ("Why do oil prices rise when supply falls?", "Why do oil prices rise if supply grows?", "grows"),
        ("Is the warmer one of them above the line?", "Is the warmer one of them below that line?", "below"),
        ("How many does she buy for ten dollars?", "How many of them does she sell for ten dollars?", "sell"),
        ("Is this a stable state of the atom?", "Is this an unstable state of the atom?", "unstable"),
        ("Does it mean more supply and less demand?", "Would it mean less supply and less demand?", "less"),
        (
            "Is a stable atom beside an unstable atom still stable?",
            "Is an unstable atom beside a stable atom still unstable?",
            "unstable",
        ),
        ("Is DNA found in the heads of all of these cells?", "Is RNA found in the heads of all of those cells?", "dna"),
    ],
)
def test_a_wording_that_says_something_else_is_refused(said: str, raw: str, why: str) -> None:
    with pytest.raises(NotFaithful, match=why):
        check_wording(raw, said, "some answer", must_answer=False)


@pytest.mark.parametrize(
    "raw",
    [
        "It is wrong to say ten dollars now.",
        "It would be false to say ten dollars.",
        "An incorrect answer is ten dollars here.",
        "It is hardly going to be ten dollars.",
    ],
)
def test_an_answer_that_is_taken_back_is_refused(raw: str) -> None:
    with pytest.raises(NotFaithful, match="negations"):
        check_wording(raw, "So the answer is ten dollars.", "ten dollars", must_answer=True)


@pytest.mark.parametrize(
    ("said", "raw"),
    [
        (
            "Weng earns twelve dollars an hour. How much did she earn in two hours?",
            "If Weng makes twelve dollars an hour, how much did she make in two hours?",
        ),
        (
            "Why does the price of oil increase when supply falls?",
            "When there is a fall in supply, why does the oil price rise?",
        ),
        ("Which of the claims is not true of Kant's ethics?", "Of Kant, which claim about ethics isn't true?"),
        (
            "It is between one hundred and two hundred people. How many?",
            "From one hundred to two hundred people, how many is it?",
        ),
        ("Older workers are those who stay. Why do they?", "Those who stay are older workers. Why would they?"),
    ],
)
def test_the_same_in_other_words_is_taken(said: str, raw: str) -> None:
    assert check_wording(raw, said, "some answer", must_answer=False).text == raw
