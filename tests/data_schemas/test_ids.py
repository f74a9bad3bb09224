"""Names that must never change, because datasets that are already made carry them."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas import ids
from data_schemas.config import SplitConfig

WORDS = st.lists(st.from_regex(r"[A-Za-zÀÉÖßñ0-9]+", fullmatch=True), min_size=1, max_size=12)
NAMES = st.text(min_size=1, max_size=40)


def test_ids_are_what_they_were_when_the_first_dataset_was_made() -> None:
    assert ids.digest("a", 1, None, [1.5]) == "d98de18cfa0c5b85"
    assert ids.make_item_id("gsm8k", None, "How many?") == "gsm8k-8002e3f4d41a4fd6"
    assert ids.make_item_id("mmlu_pro", "70", "Which gas?") == "mmlu_pro-70"
    assert ids.make_item_id("mine", "a b/c", "Which gas?") == "mine-a_b_c-1ad62081"
    assert ids.make_dialogue_id("mmlu_pro-70", 0) == "mmlu_pro-70-v0"
    assert ids.make_group_id("How many pens has Tom?") == "q-060cfc793c4a5d5c"
    assert ids.derive_seed(0, "mmlu_pro-70-v0", "gaps") == 2_184_881_402_783_050_457


def test_splits_are_what_they_were_when_the_first_dataset_was_made() -> None:
    config = SplitConfig(validation_share=0.2, test_share=0.2)
    groups = [ids.make_group_id(f"Question {n}?") for n in range(8)]
    assert [ids.choose_split(group, config) for group in groups] == [
        "validation",
        "train",
        "train",
        "train",
        "train",
        "test",
        "test",
        "train",
    ]


@given(name=NAMES)
def test_an_item_id_is_safe_as_a_file_name(name: str) -> None:
    assert re.fullmatch(r"mine-[A-Za-z0-9._-]+", ids.make_item_id("mine", name, "Which?"))


@given(one=NAMES, other=NAMES)
def test_items_of_two_native_ids_are_two(one: str, other: str) -> None:
    same = ids.make_item_id("mine", one, "Which?") == ids.make_item_id("mine", other, "Which?")
    assert same == (one == other)


def test_items_without_native_id_are_told_apart_by_their_question() -> None:
    assert ids.make_item_id("gsm8k", None, "a") != ids.make_item_id("gsm8k", None, "b")


@given(words=WORDS, marks=st.text(alphabet=" .,;:!?\"'()\t\n", min_size=1, max_size=3))
def test_case_marks_and_space_make_no_other_question(words: list[str], marks: str) -> None:
    plain = " ".join(words)
    dressed = f"  {marks.join(word.upper() for word in words)}?  " if marks.strip() == "" else f"{plain.title()}{marks}"
    assert ids.make_group_id(dressed) == ids.make_group_id(plain)


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
    assert ids.make_group_id(one) != ids.make_group_id(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Café?", "Cafe\u0301?"), ("ﬁnd it", "find it"), ("Straße", "STRASSE"), ("x²", "x2")]
)
def test_forms_of_one_writing_are_one_question(one: str, other: str) -> None:
    assert ids.make_group_id(one) == ids.make_group_id(other)


def test_shares_of_the_splits_are_those_asked_for() -> None:
    config = SplitConfig(validation_share=0.1, test_share=0.05, seed=3)
    counts = Counter(ids.choose_split(ids.make_group_id(f"Question {n}?"), config) for n in range(20_000))
    assert counts["test"] / 20_000 == pytest.approx(0.05, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert counts["train"] / 20_000 == pytest.approx(0.85, abs=0.01)


def test_a_greater_share_of_test_only_adds_to_test() -> None:
    few, many = SplitConfig(test_share=0.05), SplitConfig(test_share=0.2)
    groups = [ids.make_group_id(f"Question {n}?") for n in range(2_000)]
    tested = {group for group in groups if ids.choose_split(group, few) == "test"}
    assert tested < {group for group in groups if ids.choose_split(group, many) == "test"}


@given(share=st.floats(0, 0.5), seed=st.integers(0, 2**31), question=st.text())
def test_the_split_is_a_function_of_group_shares_and_seed(share: float, seed: int, question: str) -> None:
    config = SplitConfig(validation_share=share, test_share=share, seed=seed)
    group = ids.make_group_id(question)
    assert ids.choose_split(group, config) == ids.choose_split(group, config.model_copy())
    assert ids.choose_split(group, config) in {"train", "validation", "test"}


def test_another_seed_splits_otherwise() -> None:
    groups = [ids.make_group_id(f"Question {n}?") for n in range(500)]
    one, other = ([ids.choose_split(group, SplitConfig(seed=seed)) for group in groups] for seed in (0, 1))
    assert one != other


@given(parts=st.lists(st.one_of(st.integers(), st.text(), st.booleans(), st.none())))
def test_seeds_fit_63_bits(parts: list[object]) -> None:
    assert 0 <= ids.derive_seed(*parts) < 2**63


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert ids.digest({"a": 1, "b": 2}) == ids.digest({"b": 2, "a": 1})
    assert ids.digest(["a", "b"]) != ids.digest(["b", "a"])
    assert ids.digest("ab") != ids.digest("a", "b")


def test_a_file_is_known_by_its_content_wherever_it_lies(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"abc")
    second.write_bytes(b"abc")
    assert ids.compute_sha256(first) == ids.compute_sha256(second)
    assert (
        ids.compute_sha256(first) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )  # FIPS 180-2, B.1
    second.write_bytes(b"abd")
    assert ids.compute_sha256(first) != ids.compute_sha256(second)
    with pytest.raises(FileNotFoundError):
        ids.compute_sha256(tmp_path / "third")
