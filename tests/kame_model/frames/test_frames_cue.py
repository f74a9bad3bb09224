"""Which token of an oracle is to be said next, whatever was said."""

import pytest

from kame_model.frames.cue import compute_cues
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID

START, IDLE = 100, PADDING_ID
TOLD = [START, 10, 11, 10, 12]


def cues(said: list[int], fed: list[int] | None = None) -> list[int]:
    """Cues where what was said comes after all of an oracle was fed; padding before and after it."""
    fed = TOLD if fed is None else fed
    text = [IDLE] * len(fed) + said
    return compute_cues(text, fed + [IDLE] * len(said), START)[len(fed) - 1 :]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([10, 11, 10, 12], [10, 11, 10, 12, IDLE]),
        ([10, END_OF_PADDING_ID, IDLE, 11], [10, 11, 11, 11, 10]),
        ([10, 11, 10, 12, 10, 11], [10, 11, 10, 12, IDLE, IDLE, IDLE]),
        ([10, 11, 11, 10], [10, 11, 10, 10, 12]),
        ([10, 10, 11], [10, 11, 11, 10]),
        ([10, 77, 11], [10, 11, 11, 10]),
        ([11, 10, 11], [10, 10, 11, 10]),
    ],
    ids=["all", "with-pauses", "twice", "a-token-doubled", "one-left-out", "another-one", "begun-in-its-midst"],
)
def test_the_cue_is_the_first_token_not_said(said: list[int], expected: list[int]) -> None:
    assert cues(said) == expected


def test_a_newer_oracle_takes_the_place_of_the_one_before() -> None:
    assert compute_cues([IDLE, IDLE, 10, IDLE, IDLE], [START, 10, 11, START, 20], START) == [IDLE, 10, 11, 11, 20]


def test_an_oracle_that_comes_again_while_it_is_said_goes_on_where_it_was() -> None:
    fed = [START, 10, 11, 12, START, 10, 11, 12]
    assert compute_cues([IDLE, IDLE, 10, IDLE, IDLE, 11, IDLE, 12], fed, START) == [IDLE, 10, 11, 11, 11, 12, 12, IDLE]


def test_an_oracle_that_comes_again_when_it_is_said_is_said_again() -> None:
    fed = [START, 10, 11, IDLE, START, 10, 11]
    assert compute_cues([IDLE, IDLE, 10, 11, IDLE, IDLE, 10], fed, START) == [IDLE, 10, 11, IDLE, IDLE, 10, 11]


def test_an_oracle_that_begins_alike_counts_from_where_it_differs() -> None:
    fed = [START, 10, 11, 12, START, 10, 15, 16]
    nothing_else_said = compute_cues([IDLE, IDLE, 10, IDLE, IDLE, IDLE, IDLE, 15], fed, START)
    assert nothing_else_said == [IDLE, 10, 11, 11, 11, 11, 15, 16]
    another_word_said = compute_cues([IDLE, IDLE, 10, 11, IDLE, IDLE, IDLE, IDLE], fed, START)
    assert another_word_said == [IDLE, 10, 11, 12, 12, 12, 10, 10]  # a correction: the whole of it


def test_what_is_not_fed_yet_is_no_cue() -> None:
    assert compute_cues([IDLE, IDLE, 10, IDLE], [START, 10, IDLE, 11], START) == [IDLE, 10, IDLE, 11]
    assert compute_cues([IDLE, 5, 6], [IDLE, IDLE, IDLE], START) == [IDLE, IDLE, IDLE]
