"""Names that must never change, because datasets that are already made carry them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas import ids

NAMES = st.text(min_size=1, max_size=40)


def test_ids_and_digests_are_what_they_were_when_the_first_dataset_was_made() -> None:
    assert ids.digest("a", 1, None, [1.5]) == "d98de18cfa0c5b85"
    assert ids.make_item_id("gsm8k", None, "How many?") == "gsm8k-8002e3f4d41a4fd6"
    assert ids.make_item_id("mmlu_pro", "70", "Which gas?") == "mmlu_pro-70"
    assert ids.make_item_id("mine", "a b/c", "Which gas?") == "mine-a_b_c-1ad62081"
    assert ids.make_dialogue_id("mmlu_pro-70", 0) == "mmlu_pro-70-v0"
    assert ids.derive_seed(0, "mmlu_pro-70-v0", "gaps") == 2_184_881_402_783_050_457
    assert ids.digest({"a": 1, "b": 2}) == ids.digest({"b": 2, "a": 1})
    assert ids.digest(["a", "b"]) != ids.digest(["b", "a"])
    assert ids.digest("ab") != ids.digest("a", "b")


@given(name=NAMES)
def test_an_item_id_is_safe_as_a_file_name(name: str) -> None:
    assert re.fullmatch(r"mine-[A-Za-z0-9._-]+", ids.make_item_id("mine", name, "Which?"))


@given(one=NAMES, other=NAMES)
def test_items_of_two_native_ids_are_two(one: str, other: str) -> None:
    same = ids.make_item_id("mine", one, "Which?") == ids.make_item_id("mine", other, "Which?")
    assert same == (one == other)


@given(parts=st.lists(st.one_of(st.integers(), st.text(), st.booleans(), st.none())))
def test_seeds_fit_63_bits(parts: list[object]) -> None:
    assert 0 <= ids.derive_seed(*parts) < 2**63


def test_a_file_is_known_by_its_content_wherever_it_lies(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"abc")
    second.write_bytes(b"abd")
    fips_180_2_b_1 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert ids.compute_sha256(first) == fips_180_2_b_1
    assert ids.compute_sha256(first) != ids.compute_sha256(second)
    with pytest.raises(FileNotFoundError):
        ids.compute_sha256(tmp_path / "third")
