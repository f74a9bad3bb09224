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


ALIKE = [START, 10, 11, 12, START, 10, 15, 16]


@pytest.mark.parametrize(
    ("said", "fed", "expected"),
    [
        ([IDLE, IDLE, 10, IDLE, IDLE], [START, 10, 11, START, 20], [IDLE, 10, 11, 11, 20]),
        ([IDLE, IDLE, 10, IDLE, IDLE, 11, IDLE, 12], [START, 10, 11, 12] * 2, [IDLE, 10, 11, 11, 11, 12, 12, IDLE]),
        ([IDLE, IDLE, 10, 11, IDLE, IDLE, 10], [START, 10, 11, IDLE, START, 10, 11],
         [IDLE, 10, 11, IDLE, IDLE, 10, 11]),
        ([IDLE, IDLE, 10, IDLE, IDLE, IDLE, IDLE, 15], ALIKE, [IDLE, 10, 11, 11, 11, 11, 15, 16]),
        ([IDLE, IDLE, 10, 11, IDLE, IDLE, IDLE, IDLE], ALIKE, [IDLE, 10, 11, 12, 12, 12, 10, 10]),
        ([IDLE, IDLE, 10, IDLE], [START, 10, IDLE, 11], [IDLE, 10, IDLE, 11]),
        ([IDLE, 5, 6], [IDLE, IDLE, IDLE], [IDLE, IDLE, IDLE]),
    ],
    ids=["another one", "the same while it is said", "the same when it was said", "one that begins alike",
         "one that begins alike after another word: all of it", "not fed yet", "never fed"],
)  # fmt: skip
def test_a_newer_oracle_takes_the_place_of_the_one_before(said: list[int], fed: list[int], expected: list[int]) -> None:
    assert compute_cues(said, fed, START) == expected
