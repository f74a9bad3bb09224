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
    found = [splits.choose_split(group, config) for group in groups]
    assert found == ["validation", "train", "train", "train", "train", "test", "test", "train"]
    assert found != [splits.choose_split(group, config.model_copy(update={"seed": 1})) for group in groups]


@given(words=WORDS, marks=st.text(alphabet=" .,;:!?\"'()\t\n", min_size=1, max_size=3))
def test_case_marks_and_space_make_no_other_question(words: list[str], marks: str) -> None:
    plain = " ".join(words)
    dressed = f"  {marks.join(word.upper() for word in words)}?  " if marks.strip() == "" else f"{plain.title()}{marks}"
    assert splits.make_group_id(dressed) == splits.make_group_id(plain)


def test_another_number_sign_or_word_makes_another_question() -> None:
    sums = "What is 3 + 4?", "What is 3 - 4?", "What is 3 + 5?"
    others = "Who was first?", "Who was fast?", "Is x < 3?", "Is x > 3?"
    assert len({splits.make_group_id(each) for each in (*sums, *others)}) == len(sums + others)


@pytest.mark.parametrize(
    ("one", "other"), [("Café?", "Cafe\u0301?"), ("ﬁnd it", "find it"), ("Straße", "STRASSE"), ("x²", "x2")]
)
def test_forms_of_one_writing_are_one_question(one: str, other: str) -> None:
    assert splits.make_group_id(one) == splits.make_group_id(other)


def test_shares_are_those_asked_for_and_a_greater_one_of_test_only_adds_to_test() -> None:
    config = SplitConfig(validation_share=0.1, test_share=0.05, seed=3)
    counts = Counter(splits.choose_split(splits.make_group_id(f"Question {n}?"), config) for n in range(20_000))
    assert counts["test"] / 20_000 == pytest.approx(0.05, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert counts["train"] / 20_000 == pytest.approx(0.85, abs=0.01)
    few, many = SplitConfig(test_share=0.05), SplitConfig(test_share=0.2)
    groups = [splits.make_group_id(f"Question {n}?") for n in range(2_000)]
    tested = {group for group in groups if splits.choose_split(group, few) == "test"}
    assert tested < {group for group in groups if splits.choose_split(group, many) == "test"}
