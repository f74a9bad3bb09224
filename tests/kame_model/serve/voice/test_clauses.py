"""Where the clauses of an inner monologue end."""

from collections.abc import Mapping

import pytest

from kame_model.serve.voice.clauses import FEWEST_WORDS, MOST_WORDS, PAUSE_N_FRAMES, ClauseSplitter
from tests.support.writing_front_end import words_from

pytestmark = pytest.mark.quick

LONG = "so let me think about how many of the old eggs are still left there"


def parted(script: Mapping[int, str], *, is_dry: bool = False, clauses: ClauseSplitter | None = None) -> dict[int, str]:
    """The clauses of a monologue by the frame on which they were whole."""
    clauses = clauses or ClauseSplitter()
    found = {frame: clauses.feed(script.get(frame, ""), is_dry) for frame in range(max(script) + 20)}
    return {frame: clause for frame, clause in found.items() if clause}


def test_a_pause_ends_a_clause() -> None:
    script = words_from(2, "all right") | words_from(15, "it is nine")
    assert parted(script) == {5 + PAUSE_N_FRAMES: "all right", 21 + PAUSE_N_FRAMES: "it is nine"}
    slow = words_from(0, "seventeen elephants", every=PAUSE_N_FRAMES)
    assert list(parted(slow).values()) == ["seventeen elephants"], "words that take long are no pause"


def test_a_mark_ends_a_clause_with_the_next_frame_that_does_not_go_on_with_its_word() -> None:
    assert parted({0: " yes", 1: ",", 2: " it", 3: " is", 4: "."}) == {2: "yes,", 5: "it is."}
    assert parted({0: " .", 9: " ,"}) == {}, "marks alone are not said"
    assert parted({0: " at", 1: " five", 2: " p", 3: ".", 4: "m", 5: "."}) == {6: "at five p.m."}


def test_the_longest_clause_ends_before_a_word() -> None:
    words = LONG.split()
    ends = parted(words_from(0, LONG))
    assert list(ends.values()) == [" ".join(words[:MOST_WORDS]), " ".join(words[MOST_WORDS:])]
    assert next(iter(ends)) == 3 * MOST_WORDS  # on which the next word begins


def test_a_short_one_does_where_nothing_is_left_to_be_said_and_never_within_a_word() -> None:
    script = {0: " it", 2: " is", 4: " in", 5: "side", 7: " eggs"}
    assert parted(script, is_dry=True) == {7: "it is inside", 7 + PAUSE_N_FRAMES: "eggs"}
    assert FEWEST_WORDS == 3


def test_a_number_is_not_cut() -> None:
    said = "that's two hundred fifty miles and minus zero point five degrees"
    assert list(parted(words_from(0, said), is_dry=True).values()) == [
        "that's two hundred fifty miles",
        "and minus zero point five degrees",
    ]
    endless = parted(words_from(0, "seven " * 60))
    assert [len(each.split()) for each in endless.values()] == [2 * MOST_WORDS, 2 * MOST_WORDS, 60 - 4 * MOST_WORDS]


def test_what_is_abandoned_counts_again_after_a_pause_or_as_soon_as_is_said() -> None:
    clauses = ClauseSplitter()
    for piece in (" so", " the"):
        assert clauses.feed(piece, False) == ""
    clauses.abandon()
    rest_and_more = words_from(0, "rest of it") | words_from(15, "all right")
    assert list(parted(rest_and_more, clauses=clauses).values()) == ["all right"]
    clauses.feed(" so", False)
    clauses.abandon()
    clauses.resume()
    assert list(parted(words_from(0, "well then"), clauses=clauses).values()) == ["well then"]
    clauses = ClauseSplitter()
    clauses.abandon()
    assert list(parted(words_from(0, "all right"), clauses=clauses).values()) == ["all right"], "after a pause"
