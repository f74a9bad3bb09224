"""What is refused because it would be garbled; and what looks like it and is said."""

import pytest

from pipelines.script.speakable import Unspeakable, speak


@pytest.mark.parametrize(
    "text",
    [
        "Find thevoltagev_C(t) across it",
        "the time tAand the rate",
        "find the frequencyf of it",
        "the mixture of xyleneand water",
        "solve it whereihas two values",
        "raise thephasor to a power",
        "the head lossin the pipe",
        "heat of vapof oxygen",
        "the resistance is four ohmsx",
        "the psychrometerreads warm",
        "an amount of pfor each",
    ],
)
def test_letters_that_ran_into_a_word_are_refused(text: str) -> None:
    with pytest.raises(Unspeakable, match="broken_text"):
        speak(text)


@pytest.mark.parametrize(
    "text",
    [
        "Relaxin, insulin and chitin are found therein",
        "The theorisation of thermistors and theobromine",
        "wherever it was childproof, whereof and hereof it is told",
        "An iPhone and an eBay account",
        "Holland and Legoland are lands",
        "the summand and the operand",
        "metaphor and therefore",
        "osmosis in hypoxia",
    ],
)
def test_rare_words_and_names_are_no_words_run_together(text: str) -> None:
    assert speak(text) == text


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("at t=10s it stops", "at t equals ten seconds it stops"),
        ("t = 20s later", "t equals twenty seconds later"),
        ("in the 90s", "in the nineties"),
        ("five 20s", "five twenties"),
    ],
)
def test_a_time_after_an_equals_sign_is_no_decade(written: str, spoken: str) -> None:
    assert speak(written) == spoken
