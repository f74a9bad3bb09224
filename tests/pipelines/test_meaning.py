"""Names are told from words that stand with a capital for another reason; negations are one list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.meaning import find_names, is_common, is_negation


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Weng earns twelve dollars. Natalia sold clips, and Bob's did too.", {"Weng", "Natalia", "Bob's"}),
        ("Then Natalia met Siobhan in Kyoto. Trees grew, and I saw DNA.", {"Natalia", "Siobhan", "Kyoto"}),
        ("Is it: first, Fever, or; second, Shivering, or: Be laid off?", set()),
        ("They met in the Great Hall.", {"Great", "Hall"}),
        ("I'm here, and I'll stay. I've said it.", set()),
        ("What's that? It'll rain. Don't go. Let's see. Seventeen men.", set()),
        ("Older workers are there: Boston, Weng, and Kyoto.", {"Boston", "Weng", "Kyoto"}),
        ("D N A and U S farms. P equals four.", set()),
        ("McDonald and O'Brien's sister saw DNAs on YouTube.", {"McDonald", "O'Brien's", "YouTube"}),
    ],
)
def test_names_are_capitals_that_no_small_word_explains(text: str, names: set[str]) -> None:
    assert find_names(text) == names


@pytest.mark.parametrize("word", ["fever", "shivering", "be", "older", "earned", "increases", "whoever", "fifteenth"])
def test_common_words_are_known_in_their_forms(word: str) -> None:
    assert is_common(word)


@pytest.mark.parametrize("word", ["weng", "natalia", "paris", "john", "nietzsche", "kant", "french", "monday"])
def test_names_are_no_common_words_though_pronouncing_dictionaries_have_them(word: str) -> None:
    assert not is_common(word)


@pytest.mark.parametrize(
    "word", ["not", "Nobody", "nothing", "isn't", "cannot", "Without", "never", "except", "minus", "didn't"]
)
def test_negations(word: str) -> None:
    assert is_negation(word)


@pytest.mark.parametrize("word", ["anybody", "means", "were", "want", "ant"])
def test_other_words_are_no_negations(word: str) -> None:
    assert not is_negation(word)


@given(words=st.lists(st.sampled_from(["Weng", "fever", "Fever", "I", "DNA", "the"]), min_size=1))
def test_every_name_is_a_word_of_the_text(words: list[str]) -> None:
    assert find_names(" ".join(words)) <= {"Weng", "Fever"}
