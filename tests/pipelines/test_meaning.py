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


def test_common_words_are_known_in_their_forms_and_names_are_none_though_pronouncing_dictionaries_have_them() -> None:
    common = ["fever", "shivering", "be", "older", "earned", "increases", "whoever", "fifteenth"]
    names = ["weng", "natalia", "paris", "john", "nietzsche", "kant", "french", "monday"]
    assert [word for word in common + names if is_common(word)] == common


def test_negations_are_told_from_other_words() -> None:
    negations = ["not", "Nobody", "nothing", "isn't", "cannot", "Without", "never", "except", "minus", "didn't"]
    assert [word for word in (*negations, "anybody", "means", "were", "want", "ant") if is_negation(word)] == negations


@given(words=st.lists(st.sampled_from(["Weng", "fever", "Fever", "I", "DNA", "the"]), min_size=1))
def test_every_name_is_a_word_of_the_text(words: list[str]) -> None:
    assert find_names(" ".join(words)) <= {"Weng", "Fever"}
