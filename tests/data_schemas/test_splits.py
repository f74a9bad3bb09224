"""The splits of questions, which must never change, because datasets that are already made carry them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas import splits
from data_schemas.config import SplitConfig

WORDS = st.lists(st.from_regex(r"[A-Za-zÀÉÖßñ0-9]+", fullmatch=True), min_size=1, max_size=12)


def test_splits_are_what_they_were_when_the_first_dataset_was_made() -> None:
    assert splits.make_group_id("How many pens has Tom?") == "q-060cfc793c4a5d5c"
    config = SplitConfig(validation_share=0.2, test_share=0.2)
    groups = [splits.make_group_id(f"Question {n}?") for n in range(8)]
    assert [splits.choose_split(group, config) for group in groups] == [
        "validation",
        "train",
        "train",
        "train",
        "train",
        "test",
        "test",
        "train",
    ]


@given(words=WORDS, marks=st.text(alphabet=" .,;:!?\"'()\t\n", min_size=1, max_size=3))
def test_case_marks_and_space_make_no_other_question(words: list[str], marks: str) -> None:
    plain = " ".join(words)
    dressed = f"  {marks.join(word.upper() for word in words)}?  " if marks.strip() == "" else f"{plain.title()}{marks}"
    assert splits.make_group_id(dressed) == splits.make_group_id(plain)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 3 + 4?", "What is 3 - 4?"),
        ("What is 3 + 4?", "What is 3 + 5?"),
        ("Who was first?", "Who was fast?"),
        ("Is x < 3?", "Is x > 3?"),
    ],
)
def test_another_number_sign_or_word_makes_another_question(one: str, other: str) -> None:
    assert splits.make_group_id(one) != splits.make_group_id(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Café?", "Cafe\u0301?"), ("ﬁnd it", "find it"), ("Straße", "STRASSE"), ("x²", "x2")]
)
def test_forms_of_one_writing_are_one_question(one: str, other: str) -> None:
    assert splits.make_group_id(one) == splits.make_group_id(other)


def test_shares_of_the_splits_are_those_asked_for() -> None:
    config = SplitConfig(validation_share=0.1, test_share=0.05, seed=3)
    counts = Counter(splits.choose_split(splits.make_group_id(f"Question {n}?"), config) for n in range(20_000))
    assert counts["test"] / 20_000 == pytest.approx(0.05, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert counts["train"] / 20_000 == pytest.approx(0.85, abs=0.01)


def test_a_greater_share_of_test_only_adds_to_test() -> None:
    few, many = SplitConfig(test_share=0.05), SplitConfig(test_share=0.2)
    groups = [splits.make_group_id(f"Question {n}?") for n in range(2_000)]
    tested = {group for group in groups if splits.choose_split(group, few) == "test"}
    assert tested < {group for group in groups if splits.choose_split(group, many) == "test"}


@given(share=st.floats(0, 0.5), seed=st.integers(0, 2**31), question=st.text())
def test_the_split_is_a_function_of_group_shares_and_seed(share: float, seed: int, question: str) -> None:
    config = SplitConfig(validation_share=share, test_share=share, seed=seed)
    group = splits.make_group_id(question)
    assert splits.choose_split(group, config) == splits.choose_split(group, config.model_copy())
    assert splits.choose_split(group, config) in {"train", "validation", "test"}


def test_another_seed_splits_otherwise() -> None:
    groups = [splits.make_group_id(f"Question {n}?") for n in range(500)]
    one, other = ([splits.choose_split(group, SplitConfig(seed=seed)) for group in groups] for seed in (0, 1))
    assert one != other
