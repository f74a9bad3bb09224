"""Nearness of an oracle to the true answer, and what a mean of such figures is worth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.oracle.nearness import NOTHING, Estimate, is_found, mean_over_items, spearman_over_items, word_f1

WORDS = st.lists(st.sampled_from(["it", "is", "the", "red", "hat", "of", "a", "cat"]), max_size=12).map(" ".join)


@given(one=WORDS, other=WORDS)
def test_word_f1_is_a_share_and_the_same_both_ways(one: str, other: str) -> None:
    assert 0 <= word_f1(one, other) <= 1
    assert word_f1(one, other) == word_f1(other, one)
    assert word_f1(one, one) == (1 if one else 0)


@pytest.mark.parametrize(
    ("text", "truth", "f1"),
    [("the cat", "a dog", 0), ("The cat.", "the cat", 1), ("the the cat", "the cat sat down", 4 / 7), ("", "", 0)],
)
def test_word_f1_counts_words_in_common(text: str, truth: str, f1: float) -> None:
    assert word_f1(text, truth) == pytest.approx(f1)


def test_an_answer_is_found_where_its_words_stand_in_a_row() -> None:
    assert is_found("forty two", "It is forty two, I think.")
    assert not is_found("forty two", "Forty or two.")
    assert not is_found("", "Forty two.")


def test_a_mean_weighs_items_alike_and_lies_in_its_interval() -> None:
    estimate = mean_over_items([[0.0] * 99, [1.0], []], seed=0)
    assert estimate.value == 0.5
    assert (estimate.low, estimate.high) == (0.0, 1.0)
    sure = mean_over_items([[0.25, 0.75]] * 20, seed=0)
    assert (sure.value, sure.low, sure.high) == (0.5, 0.5, 0.5)
    assert mean_over_items([], seed=0) == NOTHING
    assert mean_over_items([[0.25, 0.75]], seed=0) == Estimate(0.5, None, None), "one item tells nothing of a spread"


def test_spearman_is_that_of_ranks_with_ties_shared() -> None:
    rising = [[(level, 2.0**level) for level in range(5)]] * 3
    assert spearman_over_items(rising, 0).value == pytest.approx(1)
    falling = [[(level, -level) for level in range(5)]] * 3
    assert spearman_over_items(falling, 0).value == pytest.approx(-1)
    tied = [[(1, 1.0), (2, 2.0), (3, 2.0), (4, 3.0)]]  # ranks 1 2.5 2.5 4 against 1 2 3 4
    assert spearman_over_items(tied, 0).value == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert spearman_over_items([[(0, 1.0), (1, 1.0)]], 0) == NOTHING
