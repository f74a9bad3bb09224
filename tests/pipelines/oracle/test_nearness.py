"""Nearness of an oracle to the true answer, and what a mean of such figures is worth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.oracle.nearness import NOTHING, compute_word_f1, estimate_mean, estimate_spearman, is_found

WORDS = st.lists(st.sampled_from(["it", "is", "the", "red", "hat", "of", "a", "cat"]), max_size=12).map(" ".join)


@given(one=WORDS, other=WORDS)
def test_word_f1_is_a_share_and_the_same_both_ways(one: str, other: str) -> None:
    assert 0 <= compute_word_f1(one, other) <= 1
    assert compute_word_f1(one, other) == compute_word_f1(other, one)
    assert compute_word_f1(one, one) == (1 if one else 0)


@pytest.mark.parametrize(
    ("text", "truth", "f1"),
    [("the cat", "a dog", 0), ("The cat.", "the cat", 1), ("the the cat", "the cat sat down", 4 / 7), ("", "", 0)],
)
def test_word_f1_counts_words_in_common(text: str, truth: str, f1: float) -> None:
    assert compute_word_f1(text, truth) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("answer", "text", "found"),
    [
        ("forty two", "It is forty two, I think.", True),
        ("forty two", "Forty or two.", False),
        ("", "Forty two.", False),
        ("two", "It is forty two.", False),
        ("forty two", "It is forty two hundred.", False),
        ("six", "It is six and a half.", False),
        ("two hundred", "It is one thousand, two hundred.", False),
        ("six", "It is minus six.", False),
        ("two bags", "It is forty two bags.", False),
        ("two", "Two, three or four.", True),
        ("forty eight", "Four times twelve. Forty eight, I think.", True),
        ("one thousand two hundred", "It is one thousand, two hundred.", True),
        ("two, three and four", "I would say two, three and four.", True),
        ("six", "She has six and Ben has two.", True),
    ],
)
def test_an_answer_is_found_in_a_row_of_words_and_no_number_in_part(answer: str, text: str, found: bool) -> None:
    assert is_found(answer, text) == found


def test_a_mean_weighs_items_alike_and_lies_in_its_interval_where_there_are_enough() -> None:
    estimate = estimate_mean([[0.0] * 99, [1.0], []] * 8, seed=0)
    assert estimate.value == 0.5
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 < estimate.low < 0.5 < estimate.high < 1
    sure = estimate_mean([[0.25, 0.75]] * 20, seed=0)
    assert (sure.value, sure.low, sure.high) == (0.5, 0.5, 0.5)
    assert estimate_mean([], seed=0) == NOTHING
    few = estimate_mean([[0.25, 0.75], *[[0.5]] * 8], seed=0)
    assert (few.value, few.low, few.high) == (0.5, None, None)
    assert (few.n_items, few.n_events) == (9, 10)
    enough = estimate_mean([[0.25, 0.75], *[[0.5]] * 9], seed=0)
    assert (enough.low, enough.n_items) == (0.5, 10)
    ranked = estimate_spearman([[(level, float(level)) for level in range(5)]] * 2, 0)
    assert (ranked.low, ranked.n_items, ranked.n_events) == (None, 2, 10)


def test_spearman_is_that_of_ranks_with_ties_shared() -> None:
    rising = [[(level, 2.0**level) for level in range(5)]] * 3
    assert estimate_spearman(rising, 0).value == pytest.approx(1)
    falling = [[(level, -level) for level in range(5)]] * 3
    assert estimate_spearman(falling, 0).value == pytest.approx(-1)
    tied = [[(1, 1.0), (2, 2.0), (3, 2.0), (4, 3.0)]]  # ranks 1 2.5 2.5 4 against 1 2 3 4
    assert estimate_spearman(tied, 0).value == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert estimate_spearman([[(0, 1.0), (1, 1.0)]], 0) == NOTHING
